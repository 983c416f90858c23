// SPDX-License-Identifier: MIT
/*
 * Metadata per token, as published (KVSwap, arXiv 2511.11907, section 3.1): K after RoPE, projected
 * onto a joint low-rank
 * basis of all KV heads, f16.
 *
 * Block: f16 [tokens / KVS_TILE][rank][KVS_TILE], tokens rounded up to whole tiles. Packed basis:
 * f16 [kv_dim][width], width the rank rounded up to 16, zero beyond the rank.
 */
#include <errno.h>
#include <string.h>

#include "predict.h"

#define MOST_RANK 1024u
#define MOST_ROWS 4u

static uint32_t kv_dim(const struct kvs_predictor *p)
{
	return p->geom.n_kv_heads * p->geom.head_dim;
}

static uint32_t width(const struct kvs_predictor *p)
{
	return (p->rank + 15) / 16 * 16;
}

static int init(struct kvs_predictor *p, uint32_t rank)
{
	if (!rank)
		rank = kv_dim(p) / 8 < MOST_RANK ? kv_dim(p) / 8 : MOST_RANK;
	if (rank > kv_dim(p) || rank > MOST_RANK)
		return -EINVAL;
	p->rank = rank;
	p->mean_tokens = 1;
	p->items_per_group = p->geom.group;
	return 0;
}

static size_t block_bytes(const struct kvs_predictor *p)
{
	size_t tokens = (size_t)p->groups_per_chunk * p->geom.group;

	return (tokens + KVS_TILE - 1) / KVS_TILE * KVS_TILE * p->rank * sizeof(uint16_t);
}

static size_t basis_bytes(const struct kvs_predictor *p)
{
	return (size_t)kv_dim(p) * width(p) * sizeof(uint16_t);
}

static void basis_pack(const struct kvs_predictor *p, const float *basis, void *packed)
{
	uint16_t *out = packed;

	memset(out, 0, basis_bytes(p));
	for (uint32_t i = 0; i < kv_dim(p); i++)
		p->kernels->to_f16(basis + (size_t)i * p->rank, out + (size_t)i * width(p),
				   p->rank);
}

/* n <= MOST_ROWS tokens from `first` on to z [n][width]. */
static void project_tokens(const struct kvs_predictor *p, const uint16_t *basis, const uint16_t *k,
			   uint32_t first, uint32_t n, float *z)
{
	uint32_t dim = p->geom.head_dim, w = width(p);
	float x[MOST_ROWS * KVS_MOST_DIM], part[MOST_ROWS * MOST_RANK];

	memset(z, 0, (size_t)n * w * sizeof(*z));
	for (uint32_t h = 0; h < p->geom.n_kv_heads; h++) {
		p->kernels->from_f16(k + ((size_t)h * p->geom.group + first) * dim, x, n * dim);
		p->kernels->project(x, dim, basis + (size_t)h * dim * w, w, part, w, n, w, dim);
		for (uint32_t i = 0; i < n * w; i++)
			z[i] += part[i];
	}
}

static int build(const struct kvs_predictor *p, const void *packed_basis, const void *record,
		 uint32_t index, void *block, uint32_t *bad)
{
	uint32_t group = p->geom.group, rank = p->rank, n;
	float z[MOST_ROWS * MOST_RANK];
	uint16_t half[MOST_RANK];

	if (!kvs_record_finite(&p->geom, record, bad))
		return -EDOM;
	for (uint32_t t = 0; t < group; t += n) {
		n = group - t < MOST_ROWS ? group - t : MOST_ROWS;
		project_tokens(p, packed_basis, record, t, n, z);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t item = index * group + t + i;
			uint16_t *at = (uint16_t *)block +
				       (size_t)(item / KVS_TILE) * rank * KVS_TILE +
				       item % KVS_TILE;

			p->kernels->to_f16(z + (size_t)i * width(p), half, rank);
			for (uint32_t r = 0; r < rank; r++)
				at[(size_t)r * KVS_TILE] = half[r];
		}
	}
	return 0;
}

static size_t query_floats(const struct kvs_predictor *p)
{
	return (size_t)p->geom.n_heads * p->rank;
}

static void query(const struct kvs_predictor *p, const void *packed_basis, const float *q,
		  float *projected)
{
	uint32_t rows = p->geom.n_heads / p->geom.n_kv_heads, dim = p->geom.head_dim, w = width(p),
		 take;
	float z[MOST_ROWS * MOST_RANK];

	for (uint32_t h = 0; h < p->geom.n_heads; h += take) {
		const uint16_t *basis =
			(const uint16_t *)packed_basis + (size_t)(h / rows) * dim * w;
		uint32_t left = rows - h % rows;

		take = left < MOST_ROWS ? left : MOST_ROWS;
		p->kernels->project(q + (size_t)h * dim, dim, basis, w, z, w, take, w, dim);
		for (uint32_t i = 0; i < take; i++)
			memcpy(projected + (size_t)(h + i) * p->rank, z + (size_t)i * w,
			       p->rank * sizeof(*z));
	}
}

static void score(const struct kvs_predictor *p, const float *projected, const void *block,
		  uint32_t n, float *out, uint32_t ld)
{
	p->kernels->score_f16(block, n * p->geom.group, p->rank, projected, p->geom.n_heads, out,
			      ld);
}

const struct kvs_predictor_ops kvs_predict_lowrank = {
	.name = "lowrank",
	.needs_basis = 1,
	.init = init,
	.block_bytes = block_bytes,
	.basis_bytes = basis_bytes,
	.basis_pack = basis_pack,
	.build = build,
	.query_floats = query_floats,
	.query = query,
	.score = score,
};
