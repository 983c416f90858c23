// SPDX-License-Identifier: MIT
/*
 * Keys of a GGUF header. Its getters abort on a value of another type, so the type is asked first;
 * integers of every width, and arrays whose elements are all equal, count as one number.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "report.h"

static int64_t find(const struct model *m, const char *name, char *key, size_t bytes)
{
	snprintf(key, bytes, "%s.%s", m->arch_name, name);
	return gguf_find_key(m->gguf, key);
}

static bool is_integer(enum gguf_type type)
{
	return type != GGUF_TYPE_STRING && type != GGUF_TYPE_ARRAY && type != GGUF_TYPE_FLOAT32 &&
	       type != GGUF_TYPE_FLOAT64;
}

/* Element i; a negative one reads as a number that is never allowed. */
static uint64_t integer_at(enum gguf_type type, const void *data, size_t i)
{
	switch (type) {
	case GGUF_TYPE_INT8:
		return (uint64_t)(int64_t)((const int8_t *)data)[i];
	case GGUF_TYPE_UINT16:
		return ((const uint16_t *)data)[i];
	case GGUF_TYPE_INT16:
		return (uint64_t)(int64_t)((const int16_t *)data)[i];
	case GGUF_TYPE_UINT32:
		return ((const uint32_t *)data)[i];
	case GGUF_TYPE_INT32:
		return (uint64_t)(int64_t)((const int32_t *)data)[i];
	case GGUF_TYPE_UINT64:
	case GGUF_TYPE_INT64:
		return ((const uint64_t *)data)[i];
	default:
		return ((const uint8_t *)data)[i];
	}
}

static bool array_uniform(const struct gguf_context *gguf, int64_t id, uint64_t *value)
{
	enum gguf_type type = gguf_get_arr_type(gguf, id);
	size_t n = gguf_get_arr_n(gguf, id);

	if (!is_integer(type) || n == 0)
		return false;
	*value = integer_at(type, gguf_get_arr_data(gguf, id), 0);
	for (size_t i = 1; i < n; i++)
		if (integer_at(type, gguf_get_arr_data(gguf, id), i) != *value)
			return false;
	return true;
}

static bool integer(const struct gguf_context *gguf, int64_t id, uint64_t *value)
{
	enum gguf_type type = gguf_get_kv_type(gguf, id);

	if (type == GGUF_TYPE_ARRAY)
		return array_uniform(gguf, id, value);
	if (!is_integer(type))
		return false;
	*value = integer_at(type, gguf_get_val_data(gguf, id), 0);
	return true;
}

static int read_uint(const struct model *m, const struct key_uint *k)
{
	char key[128];
	int64_t id = find(m, k->name, key, sizeof(key));
	uint64_t value;

	if (id < 0)
		return k->required ? report_fail("%s: key %s is missing", m->path, key) : DONE;
	if (!integer(m->gguf, id, &value))
		return report_fail("%s: %s is not one whole number", m->path, key);
	if (value < k->min || value > k->max)
		return report_fail("%s: %s is %" PRId64 ", must be %" PRIu64 " to %" PRIu64,
				   m->path, key, (int64_t)value, k->min, k->max);
	*k->value = (uint32_t)value;
	return DONE;
}

int key_uints(const struct model *m, const struct key_uint *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int rc = read_uint(m, &keys[i]);

		if (rc)
			return rc;
	}
	return DONE;
}

static int read_float(const struct model *m, const struct key_float *k)
{
	char key[128];
	int64_t id = find(m, k->name, key, sizeof(key));
	double value;

	if (id < 0)
		return k->required ? report_fail("%s: key %s is missing", m->path, key) : DONE;
	if (gguf_get_kv_type(m->gguf, id) == GGUF_TYPE_FLOAT32)
		value = gguf_get_val_f32(m->gguf, id);
	else if (gguf_get_kv_type(m->gguf, id) == GGUF_TYPE_FLOAT64)
		value = gguf_get_val_f64(m->gguf, id);
	else
		return report_fail("%s: %s is not a floating-point number", m->path, key);
	if (!(value >= k->min && value <= k->max))
		return report_fail("%s: %s is %g, must be %g to %g", m->path, key, value, k->min,
				   k->max);
	*k->value = (float)value;
	return DONE;
}

int key_floats(const struct model *m, const struct key_float *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int rc = read_float(m, &keys[i]);

		if (rc)
			return rc;
	}
	return DONE;
}

const char *key_text(const struct model *m, const char *name)
{
	int64_t id = gguf_find_key(m->gguf, name);

	if (id < 0)
		return "";
	if (gguf_get_kv_type(m->gguf, id) == GGUF_TYPE_STRING)
		return gguf_get_val_str(m->gguf, id);
	report_fail("%s: %s is not text", m->path, name);
	return NULL;
}

int key_flags(const struct model *m, const char *name, bool *flags, bool *found)
{
	char key[128];
	int64_t id = find(m, name, key, sizeof(key));
	enum gguf_type type;

	*found = id >= 0 && gguf_get_kv_type(m->gguf, id) == GGUF_TYPE_ARRAY;
	if (!*found)
		return DONE;
	type = gguf_get_arr_type(m->gguf, id);
	if (!is_integer(type))
		return report_fail("%s: %s is not an array of flags", m->path, key);
	if (gguf_get_arr_n(m->gguf, id) != m->n_layers)
		return report_fail("%s: %s has %zu entries for %u layers", m->path, key,
				   gguf_get_arr_n(m->gguf, id), m->n_layers);
	for (uint32_t l = 0; l < m->n_layers; l++)
		flags[l] = integer_at(type, gguf_get_arr_data(m->gguf, id), l) != 0;
	return DONE;
}
