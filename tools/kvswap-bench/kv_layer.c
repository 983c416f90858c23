// SPDX-License-Identifier: MIT
/* See kv_layer.h. */
#include "kv_layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvswap/report.h"

/* -1 to 1, the same for the same numbers. */
static float number(uint32_t token, uint32_t head, uint32_t dim)
{
	uint64_t x = ((uint64_t)token << 32 | head << 16 | dim) * 0x9e3779b97f4a7c15u;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (float)(x >> 40) / (float)(1 << 23) - 1;
}

size_t kv_layer_record_bytes(const struct kvs_geom *g)
{
	return (size_t)2 * g->group * g->n_kv_heads * g->head_dim * sizeof(uint16_t);
}

const void *kv_layer_record(const struct kv_layer *l, uint32_t group)
{
	return (const uint8_t *)l->records + group * kv_layer_record_bytes(&l->geom);
}

static size_t row_at(const struct kvs_geom *g, uint32_t token, uint32_t head, bool v)
{
	size_t heads =
		(size_t)(token / g->group) * 2 * g->n_kv_heads + (v ? g->n_kv_heads : 0) + head;

	return (heads * g->group + token % g->group) * g->head_dim;
}

const uint16_t *kv_layer_row(const struct kv_layer *l, uint32_t token, uint32_t head, bool v)
{
	return l->records + row_at(&l->geom, token, head, v);
}

static void fill(struct kv_layer *l)
{
	const struct kvs_geom *g = &l->geom;
	float row[KVS_MOST_DIM];

	for (uint32_t t = 0; t < l->n_tokens; t++)
		for (uint32_t h = 0; h < 2 * g->n_kv_heads; h++) {
			bool v = h >= g->n_kv_heads;

			for (uint32_t d = 0; d < g->head_dim; d++)
				row[d] = number(t, h, d);
			l->kernels->to_f16(row, l->records + row_at(g, t, h % g->n_kv_heads, v),
					   g->head_dim);
		}
	for (uint32_t h = 0; h < g->n_heads; h++)
		for (uint32_t d = 0; d < g->head_dim; d++)
			l->q[h * g->head_dim + d] =
				6 * number(l->n_tokens, h, d) / sqrtf((float)g->head_dim);
}

static int allocate(struct kv_layer *l)
{
	const struct kvs_geom *g = &l->geom;
	uint32_t n_groups = l->n_tokens / g->group;

	l->records =
		aligned_alloc(4096, (n_groups * kv_layer_record_bytes(g) + 4095) / 4096 * 4096);
	l->q = aligned_alloc(64, (size_t)g->n_heads * g->head_dim * sizeof(float));
	l->out = aligned_alloc(64, (size_t)g->n_heads * g->head_dim * sizeof(float));
	l->spans = calloc(n_groups, sizeof(*l->spans));
	l->m = calloc(g->n_heads, sizeof(*l->m));
	l->l = calloc(g->n_heads, sizeof(*l->l));
	if (l->records && l->q && l->out && l->spans && l->m && l->l)
		return DONE;
	return report_fail("out of memory for %u tokens", l->n_tokens);
}

static int check(const struct kv_shape *s, uint32_t group)
{
	if (!s->n_kv_heads || s->n_heads % s->n_kv_heads)
		return report_usage("--heads is %u, must be a multiple of --kv-heads, %u",
				    s->n_heads, s->n_kv_heads);
	if (s->head_dim % 16 || s->head_dim > KVS_MOST_DIM)
		return report_usage("--head-dim is %u, must be a multiple of 16, at most %u",
				    s->head_dim, KVS_MOST_DIM);
	if (s->n_tokens % group)
		return report_usage("--tokens is %u, must be a multiple of %u", s->n_tokens, group);
	return DONE;
}

int kv_layer_open(struct kv_layer *l, const struct kv_shape *shape, uint32_t group,
		  struct compute *compute)
{
	int rc = check(shape, group);

	memset(l, 0, sizeof(*l));
	if (rc)
		return rc;
	l->kernels = kvs_kernels_get();
	if (!l->kernels)
		return report_fail("KVSWAP_KERNELS asks for kernels that there are not here");
	l->compute = compute;
	l->geom = (struct kvs_geom){ group, shape->n_heads, shape->n_kv_heads, shape->head_dim };
	l->n_tokens = shape->n_tokens;
	rc = allocate(l);
	if (rc)
		kv_layer_close(l);
	else
		fill(l);
	return rc;
}

void kv_layer_close(struct kv_layer *l)
{
	free(l->records);
	free(l->q);
	free(l->out);
	free(l->spans);
	free(l->m);
	free(l->l);
	memset(l, 0, sizeof(*l));
}

struct attention {
	struct kv_layer *layer;
	uint32_t n_spans;
};

static void attend_head(void *arg, int h, int n)
{
	struct attention *a = arg;
	struct kv_layer *l = a->layer;
	const struct kvs_geom *g = &l->geom;
	uint32_t rows = g->n_heads / g->n_kv_heads, head = (uint32_t)h * rows;
	float *out = l->out + (size_t)head * g->head_dim;
	struct kvs_softmax state = { l->m + head, l->l + head, out };

	(void)n;
	for (uint32_t r = 0; r < rows; r++) {
		state.m[r] = -INFINITY;
		state.l[r] = 0;
	}
	memset(out, 0, (size_t)rows * g->head_dim * sizeof(*out));
	l->kernels->attend(g, (uint32_t)h, l->q + (size_t)head * g->head_dim, l->spans, a->n_spans,
			   &state);
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t d = 0; d < g->head_dim; d++)
			out[(size_t)r * g->head_dim + d] /= state.l[r];
}

void kv_layer_attend(struct kv_layer *l, const uint32_t *groups, uint32_t n)
{
	struct attention a = { l, n };
	int heads = (int)l->geom.n_kv_heads;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t group = groups ? groups[i] : i;

		l->spans[i] = (struct kvs_span){ kv_layer_record(l, group), 0,
						 (uint16_t)l->geom.group, group * l->geom.group };
	}
	if (l->compute)
		compute_parallel(l->compute, attend_head, &a, heads);
	else
		for (int h = 0; h < heads; h++)
			attend_head(&a, h, heads);
}

/*
 * One of each of n equal parts: spread as far as those of a real model are, and never the same.
 */
void kv_layer_pick(const struct kv_layer *l, uint64_t *state, uint32_t n, uint32_t *groups)
{
	uint64_t n_groups = l->n_tokens / l->geom.group;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t from = n_groups * i / n, to = n_groups * (i + 1) / n;

		*state = *state * 6364136223846793005u + 1442695040888963407u;
		groups[i] = (uint32_t)(from + (*state >> 33) % (to > from ? to - from : 1));
	}
}
