// SPDX-License-Identifier: MIT
/*
 * No metadata, no estimates: nothing is worth selecting, so that attention sees the sinks and the
 * rolling buffer alone.
 */
#include <errno.h>
#include <math.h>

#include "predict.h"

static int init(struct kvs_predictor *p, uint32_t rank)
{
	if (rank)
		return -EINVAL;
	p->rank = 0;
	p->items_per_group = 1;
	return 0;
}

static size_t no_bytes(const struct kvs_predictor *p)
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
	(void)index;
	(void)block;
	return kvs_record_finite(&p->geom, record, bad) ? 0 : -EDOM;
}

static void query(const struct kvs_predictor *p, const void *packed_basis, const float *q,
		  float *projected)
{
	(void)p;
	(void)packed_basis;
	(void)q;
	(void)projected;
}

static void score(const struct kvs_predictor *p, const float *projected, const void *block,
		  uint32_t n, float *out, uint32_t ld)
{
	(void)projected;
	(void)block;
	for (uint32_t h = 0; h < p->geom.n_heads; h++)
		for (uint32_t i = 0; i < n; i++)
			out[(size_t)h * ld + i] = -INFINITY;
}

const struct kvs_predictor_ops kvs_predict_window = {
	.name = "window",
	.needs_basis = 0,
	.init = init,
	.block_bytes = no_bytes,
	.basis_bytes = no_bytes,
	.basis_pack = basis_pack,
	.build = build,
	.query_floats = no_bytes,
	.query = query,
	.score = score,
};
