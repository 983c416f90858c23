// SPDX-License-Identifier: MIT
/*
 * The yardstick: all of K in memory, as it is in the records; logits are those that attention
 * computes.
 *
 * Block: the K half of each record, f16 [groups][n_kv_heads][G][head_dim].
 */
#include <errno.h>
#include <string.h>

#include "predict.h"

#define SPANS 64u

static int init(struct kvs_predictor *p, uint32_t rank)
{
	if (rank)
		return -EINVAL;
	p->rank = 0;
	p->items_per_group = p->geom.group;
	return 0;
}

static size_t group_bytes(const struct kvs_predictor *p)
{
	return (size_t)p->geom.n_kv_heads * p->geom.group * p->geom.head_dim * sizeof(uint16_t);
}

static size_t block_bytes(const struct kvs_predictor *p)
{
	return p->groups_per_chunk * group_bytes(p);
}

static size_t basis_bytes(const struct kvs_predictor *p)
{
	(void)p;
	return 0;
}

static void basis_pack(const struct kvs_predictor *p, const float *basis, void *packed)
{
	(void)p;
	(void)basis;
	(void)packed;
}

static int build(const struct kvs_predictor *p, const void *packed_basis, const void *record,
		 uint32_t index, void *block, uint32_t *bad)
{
	(void)packed_basis;
	if (!kvs_record_finite(&p->geom, record, bad))
		return -EDOM;
	memcpy((char *)block + index * group_bytes(p), record, group_bytes(p));
	return 0;
}

static size_t query_floats(const struct kvs_predictor *p)
{
	return (size_t)p->geom.n_heads * p->geom.head_dim;
}

static void query(const struct kvs_predictor *p, const void *packed_basis, const float *q,
		  float *projected)
{
	(void)packed_basis;
	memcpy(projected, q, query_floats(p) * sizeof(*q));
}

static void score(const struct kvs_predictor *p, const float *projected, const void *block,
		  uint32_t n, float *out, uint32_t ld)
{
	const struct kvs_geom *g = &p->geom;
	uint32_t rows = g->n_heads / g->n_kv_heads, take;
	struct kvs_span spans[SPANS];

	for (uint32_t i = 0; i < n; i += take) {
		take = n - i < SPANS ? n - i : SPANS;
		for (uint32_t j = 0; j < take; j++)
			spans[j] =
				(struct kvs_span){ (const char *)block + (i + j) * group_bytes(p),
						   0, (uint16_t)g->group, (i + j) * g->group };
		for (uint32_t h = 0; h < g->n_kv_heads; h++)
			p->kernels->logits(g, h, projected + (size_t)h * rows * g->head_dim, spans,
					   take, out + (size_t)h * rows * ld + (size_t)i * g->group,
					   ld);
	}
}

const struct kvs_predictor_ops kvs_predict_exact = {
	.name = "exact",
	.needs_basis = 0,
	.init = init,
	.block_bytes = block_bytes,
	.basis_bytes = basis_bytes,
	.basis_pack = basis_pack,
	.build = build,
	.query_floats = query_floats,
	.query = query,
	.score = score,
};
