// SPDX-License-Identifier: MIT
/*
 * Metadata per group: the mean of its K, projected onto a joint low-rank basis of all KV heads,
 * int4 with one f16 scale.
 *
 * Block: tiles [groups / KVS_TILE][rank / 8][KVS_TILE][4] bytes (attend.h, score_q4), then f16
 * scales [groups], groups rounded up to whole tiles. Packed basis: f16 [kv_dim][rank].
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "predict.h"

#define MOST_RANK 1024u
#define MOST_ROWS 4u

static uint32_t kv_dim(const struct kvs_predictor *p)
{
	return p->geom.n_kv_heads * p->geom.head_dim;
}

static uint32_t padded_groups(const struct kvs_predictor *p)
{
	return (p->groups_per_chunk + KVS_TILE - 1) / KVS_TILE * KVS_TILE;
}

/*
 * A quarter of kv_dim, but never so much that scoring costs more than scoring group means in full.
 */
static uint32_t default_rank(const struct kvs_predictor *p)
{
	uint32_t rank = kv_dim(p) / 4 < p->geom.head_dim ? kv_dim(p) / 4 : p->geom.head_dim;

	rank = (rank + 8) / 16 * 16;
	return rank < 16 ? 16 : rank > MOST_RANK ? MOST_RANK : rank;
}

static int init(struct kvs_predictor *p, uint32_t rank)
{
	if (!rank)
		rank = default_rank(p);
	if (rank % 16 || rank > kv_dim(p) || rank > MOST_RANK)
		return -EINVAL;
	p->rank = rank;
	p->items_per_group = 1;
	return 0;
}

static size_t block_bytes(const struct kvs_predictor *p)
{
	return (size_t)padded_groups(p) * (p->rank / 2 + sizeof(uint16_t));
}

static size_t basis_bytes(const struct kvs_predictor *p)
{
	return (size_t)kv_dim(p) * p->rank * sizeof(uint16_t);
}

static void basis_pack(const struct kvs_predictor *p, const float *basis, void *packed)
{
	p->kernels->to_f16(basis, packed, kv_dim(p) * p->rank);
}

static void group_mean(const struct kvs_predictor *p, const uint16_t *k, float *mean)
{
	uint32_t dim = p->geom.head_dim;
	float token[KVS_MOST_DIM];

	memset(mean, 0, dim * sizeof(*mean));
	for (uint32_t t = 0; t < p->geom.group; t++) {
		p->kernels->from_f16(k + (size_t)t * dim, token, dim);
		for (uint32_t d = 0; d < dim; d++)
			mean[d] += token[d];
	}
	for (uint32_t d = 0; d < dim; d++)
		mean[d] /= (float)p->geom.group;
}

/* The component of the largest magnitude becomes -8 steps, so that all 16 levels are in use. */
static float step_of(const struct kvs_predictor *p, const float *z, uint16_t *half)
{
	float most = 0, step;

	for (uint32_t i = 0; i < p->rank; i++)
		most = fabsf(z[i]) > fabsf(most) ? z[i] : most;
	step = fminf(fmaxf(most / -8.0f, -65504.0f), 65504.0f);
	p->kernels->to_f16(&step, half, 1);
	p->kernels->from_f16(half, &step, 1);
	return step;
}

static uint8_t level(float z, float inverse)
{
	float x = rintf(z * inverse) + 8.0f;

	return (uint8_t)(x < 0 ? 0 : x > 15 ? 15 : x);
}

static void put(const struct kvs_predictor *p, const float *z, uint32_t index, void *block)
{
	uint8_t *tile = (uint8_t *)block + (size_t)(index / KVS_TILE) * KVS_TILE * p->rank / 2;
	uint16_t *scales = (uint16_t *)((uint8_t *)block + (size_t)padded_groups(p) * p->rank / 2);
	float step = step_of(p, z, &scales[index]);
	float inverse = step != 0 ? 1.0f / step : 0.0f;

	for (uint32_t r = 0; r < p->rank; r += 8) {
		uint8_t *at = tile + ((size_t)r / 8 * KVS_TILE + index % KVS_TILE) * 4;

		for (uint32_t c = 0; c < 4; c++)
			at[c] = (uint8_t)(level(z[r + c], inverse) | level(z[r + 4 + c], inverse)
									     << 4);
	}
}

static int build(const struct kvs_predictor *p, const void *packed_basis, const void *record,
		 uint32_t index, void *block, uint32_t *bad)
{
	const uint16_t *basis = packed_basis, *k = record;
	uint32_t dim = p->geom.head_dim;
	float mean[KVS_MOST_DIM], part[MOST_RANK], z[MOST_RANK] = { 0 };

	if (!kvs_record_finite(&p->geom, record, bad))
		return -EDOM;
	for (uint32_t h = 0; h < p->geom.n_kv_heads; h++) {
		group_mean(p, k + (size_t)h * p->geom.group * dim, mean);
		p->kernels->project(mean, dim, basis + (size_t)h * dim * p->rank, p->rank, part,
				    p->rank, 1, p->rank, dim);
		for (uint32_t i = 0; i < p->rank; i++)
			z[i] += part[i];
	}
	put(p, z, index, block);
	return 0;
}

/* projected: scales, sums, then int8 queries, each for all heads. */
static size_t query_floats(const struct kvs_predictor *p)
{
	return p->geom.n_heads * (2 + (size_t)p->rank / 4);
}

static void query(const struct kvs_predictor *p, const void *packed_basis, const float *q,
		  float *projected)
{
	uint32_t heads = p->geom.n_heads, rows = heads / p->geom.n_kv_heads, dim = p->geom.head_dim,
		 rank = p->rank, take;
	int32_t *sums = (int32_t *)(projected + heads);
	int8_t *q8 = (int8_t *)(projected + 2 * heads);
	float z[MOST_ROWS * MOST_RANK];

	for (uint32_t h = 0; h < heads; h += take) {
		const uint16_t *basis =
			(const uint16_t *)packed_basis + (size_t)(h / rows) * dim * rank;
		uint32_t left = rows - h % rows;

		take = left < MOST_ROWS ? left : MOST_ROWS;
		p->kernels->project(q + (size_t)h * dim, dim, basis, rank, z, rank, take, rank,
				    dim);
		for (uint32_t i = 0; i < take; i++)
			p->kernels->to_q8(z + (size_t)i * rank, rank, q8 + (size_t)(h + i) * rank,
					  &projected[h + i], &sums[h + i]);
	}
}

static void score(const struct kvs_predictor *p, const float *projected, const void *block,
		  uint32_t n, float *out, uint32_t ld)
{
	uint32_t heads = p->geom.n_heads;
	const uint8_t *tiles = block;
	struct kvs_q8 q = { heads, p->rank, (const int8_t *)(projected + 2 * heads), projected,
			    (const int32_t *)(projected + heads) };

	p->kernels->score_q4(tiles,
			     (const uint16_t *)(tiles + (size_t)padded_groups(p) * p->rank / 2), n,
			     &q, out, ld);
}

const struct kvs_predictor_ops kvs_predict_groupmean = {
	.name = "groupmean",
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
