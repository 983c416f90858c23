// SPDX-License-Identifier: MIT
/* See doc.h. */
#include "doc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvswap/report.h"

#ifdef HAVE_JSON_C
#include <json.h>

#define BYTES_MAX (64 << 20)

static int parse(const char *path, int fd, doc_value **root)
{
	struct stat st;

	if (fstat(fd, &st))
		return report_fail("%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size > BYTES_MAX)
		return report_fail("%s: not a file that kvswap has written", path);
	*root = json_object_from_fd(fd);
	if (!json_object_is_type(*root, json_type_object)) {
		doc_close(*root);
		*root = NULL;
		return report_fail("%s: not a whole JSON object: was it cut short?", path);
	}
	return DONE;
}

int doc_open(const char *path, doc_value **root)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
	double format;

	*root = NULL;
	if (fd < 0)
		return report_fail("%s: %s", path, strerror(errno));
	rc = parse(path, fd, root);
	close(fd);
	if (rc)
		return rc;
	format = doc_number(doc_get(*root, "format"), DOC_FORMAT);
	if (format > DOC_FORMAT) {
		doc_close(*root);
		*root = NULL;
		return report_fail(
			"%s: of a newer version (format %g, this program reads up to %d)", path,
			format, DOC_FORMAT);
	}
	return DONE;
}

void doc_close(doc_value *root)
{
	json_object_put(root);
}

doc_value *doc_get(doc_value *v, const char *path)
{
	char key[64];

	while (v && *path) {
		size_t n = strcspn(path, ".");
		doc_value *next = NULL;

		snprintf(key, sizeof(key), "%.*s", (int)n, path);
		if (!json_object_is_type(v, json_type_object) ||
		    !json_object_object_get_ex(v, key, &next))
			return NULL;
		v = next;
		path += n + (path[n] == '.');
	}
	return v;
}

size_t doc_length(doc_value *v)
{
	return json_object_is_type(v, json_type_array) ? json_object_array_length(v) : 0;
}

doc_value *doc_at(doc_value *v, size_t i)
{
	return i < doc_length(v) ? json_object_array_get_idx(v, i) : NULL;
}

double doc_number(doc_value *v, double absent)
{
	if (!json_object_is_type(v, json_type_int) && !json_object_is_type(v, json_type_double))
		return absent;
	return json_object_get_double(v);
}

const char *doc_text(doc_value *v, const char *absent)
{
	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : absent;
}

bool doc_bool(doc_value *v, bool absent)
{
	return json_object_is_type(v, json_type_boolean) ? json_object_get_boolean(v) : absent;
}

const char *doc_member(doc_value *v, size_t i, doc_value **value)
{
	if (!json_object_is_type(v, json_type_object))
		return NULL;
	json_object_object_foreach(v, key, val)
	{
		if (i-- > 0)
			continue;
		*value = val;
		return key;
	}
	return NULL;
}
#else
int doc_open(const char *path, doc_value **root)
{
	*root = NULL;
	return report_fail("%s: built without json-c: install libjson-c-dev and build again", path);
}

void doc_close(doc_value *root)
{
	(void)root;
}

doc_value *doc_get(doc_value *v, const char *path)
{
	(void)path;
	return v;
}

size_t doc_length(doc_value *v)
{
	(void)v;
	return 0;
}

doc_value *doc_at(doc_value *v, size_t i)
{
	(void)i;
	return v;
}

double doc_number(doc_value *v, double absent)
{
	(void)v;
	return absent;
}

const char *doc_text(doc_value *v, const char *absent)
{
	(void)v;
	return absent;
}

bool doc_bool(doc_value *v, bool absent)
{
	(void)v;
	return absent;
}

const char *doc_member(doc_value *v, size_t i, doc_value **value)
{
	(void)v;
	(void)i;
	*value = NULL;
	return NULL;
}
#endif
