// SPDX-License-Identifier: MIT
/*
 * Metadata of a group: means of K over a few tokens each (mean_tokens), projected onto a joint low-
 * rank basis of all KV heads, int4 with one f16 scale a mean, less what the means of a block have
 * in common: K of a layer lies around a point that RoPE moves slowly, and the steps are to be spent
 * on the distance from it. The estimate of a group is the largest of its means'.
 *
 * Block: digits and scales of struct kvs_q4, then f16 [rank], the point. Packed basis: f16
 * [kv_dim][rank].
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "predict.h"

#define MOST_RANK 1024u

static uint32_t kv_dim(const struct kvs_predictor *p)
{
	return p->geom.n_kv_heads * p->geom.head_dim;
}

static uint32_t width(const struct kvs_predictor *p)
{
	return p->groups_per_chunk < KVS_TILE ? p->groups_per_chunk : KVS_TILE;
}

static uint32_t items(const struct kvs_predictor *p)
{
	return p->geom.group / p->mean_tokens;
}

static uint32_t steps(const struct kvs_predictor *p)
{
	uint32_t beside = KVS_TILE / width(p);

	return (items(p) + beside - 1) / beside;
}

/* Lanes of a block, those that hold nothing included. */
static size_t lanes(const struct kvs_predictor *p)
{
	return (size_t)(p->groups_per_chunk + width(p) - 1) / width(p) * steps(p) * KVS_TILE;
}

/*
 * A quarter of kv_dim, an eighth for means of fewer than 4 tokens, so that metadata stays near
 * 1/100 of KV; never so much that scoring costs more than scoring group means in full.
 */
static uint32_t default_rank(const struct kvs_predictor *p)
{
	bool few = p->mean_tokens && p->mean_tokens < 4;
	uint32_t rank = kv_dim(p) / (few ? 8 : 4);

	rank = rank < p->geom.head_dim ? rank : p->geom.head_dim;
	rank = (rank + (few ? 0 : 8)) / 16 * 16;
	return rank < 16 ? 16 : rank > MOST_RANK ? MOST_RANK : rank;
}

static int init(struct kvs_predictor *p, uint32_t rank)
{
	if (!rank)
		rank = default_rank(p);
	if (rank % 16 || rank > kv_dim(p) || rank > MOST_RANK)
		return -EINVAL;
	if (!p->mean_tokens)
		p->mean_tokens = p->geom.group;
	if (p->mean_tokens > p->geom.group || p->geom.group % p->mean_tokens)
		return -EINVAL;
	p->rank = rank;
	p->items_per_group = 1;
	return 0;
}

static size_t block_bytes(const struct kvs_predictor *p)
{
	return lanes(p) * (p->rank / 2 + sizeof(uint16_t)) + p->rank * sizeof(uint16_t);
}

static size_t basis_bytes(const struct kvs_predictor *p)
{
	return (size_t)kv_dim(p) * p->rank * sizeof(uint16_t);
}

static void basis_pack(const struct kvs_predictor *p, const float *basis, void *packed)
{
	p->kernels->to_f16(basis, packed, kv_dim(p) * p->rank);
}

static uint16_t *scales_of(const struct kvs_predictor *p, const void *block)
{
	return (uint16_t *)((char *)block + lanes(p) * p->rank / 2);
}

static uint16_t *point_of(const struct kvs_predictor *p, const void *block)
{
	return scales_of(p, block) + lanes(p);
}

static void mean_of(const struct kvs_predictor *p, const uint16_t *k, uint32_t n, float *mean)
{
	uint32_t dim = p->geom.head_dim;
	float token[KVS_MOST_DIM];

	memset(mean, 0, dim * sizeof(*mean));
	for (uint32_t t = 0; t < n; t++) {
		p->kernels->from_f16(k + (size_t)t * dim, token, dim);
		for (uint32_t d = 0; d < dim; d++)
			mean[d] += token[d];
	}
	for (uint32_t d = 0; d < dim; d++)
		mean[d] /= (float)n;
}

/* The mean of n tokens of a record from `first` on, in the space of the basis. */
static void project(const struct kvs_predictor *p, const uint16_t *basis, const uint16_t *k,
		    uint32_t first, uint32_t n, float *z)
{
	uint32_t dim = p->geom.head_dim, rank = p->rank;
	float mean[KVS_MOST_DIM], part[MOST_RANK];

	memset(z, 0, rank * sizeof(*z));
	for (uint32_t h = 0; h < p->geom.n_kv_heads; h++) {
		mean_of(p, k + ((size_t)h * p->geom.group + first) * dim, n, mean);
		p->kernels->project(mean, dim, basis + (size_t)h * dim * rank, rank, part, rank, 1,
				    rank, dim);
		for (uint32_t i = 0; i < rank; i++)
			z[i] += part[i];
	}
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

static void put(const struct kvs_predictor *p, const float *z, uint32_t group, uint32_t item,
		void *block)
{
	uint32_t beside = KVS_TILE / width(p), lane = item % beside * width(p) + group % width(p);
	size_t tile = (size_t)(group / width(p)) * steps(p) + item / beside;
	uint8_t *at = (uint8_t *)block + (tile * p->rank / 8 * KVS_TILE + lane) * 4;
	float step = step_of(p, z, &scales_of(p, block)[tile * KVS_TILE + lane]);
	float inverse = step != 0 ? 1.0f / step : 0.0f;

	for (uint32_t r = 0; r < p->rank; r += 8, at += 4 * KVS_TILE)
		for (uint32_t c = 0; c < 4; c++)
			at[c] = (uint8_t)(level(z[r + c], inverse) | level(z[r + 4 + c], inverse)
									     << 4);
}

/*
 * The point is the second half of the block's first group: of the whole sequence's first group, the
 * token that draws attention to itself whatever it says is in the first half.
 */
static void set_point(const struct kvs_predictor *p, const uint16_t *basis, const uint16_t *k,
		      void *block)
{
	uint32_t first = p->geom.group / 2;
	float z[MOST_RANK];

	project(p, basis, k, first, p->geom.group - first, z);
	for (uint32_t i = 0; i < p->rank; i++)
		z[i] = fminf(fmaxf(z[i], -65504.0f), 65504.0f);
	p->kernels->to_f16(z, point_of(p, block), p->rank);
}

static int build(const struct kvs_predictor *p, const void *packed_basis, const void *record,
		 uint32_t index, void *block, uint32_t *bad)
{
	float z[MOST_RANK], point[MOST_RANK];

	if (!kvs_record_finite(&p->geom, record, bad))
		return -EDOM;
	if (!index)
		set_point(p, packed_basis, record, block);
	p->kernels->from_f16(point_of(p, block), point, p->rank);
	for (uint32_t i = 0; i < items(p); i++) {
		project(p, packed_basis, record, i * p->mean_tokens, p->mean_tokens, z);
		for (uint32_t r = 0; r < p->rank; r++)
			z[r] -= point[r];
		put(p, z, index, i, block);
	}
	return 0;
}

/* projected: f32 queries, then scales, sums and bytes of the int8 ones, each for all heads. */
static size_t query_floats(const struct kvs_predictor *p)
{
	return p->geom.n_heads * ((size_t)p->rank + 2 + p->rank / 4);
}

struct queries {
	float *exact, *scale;
	int32_t *sum;
	int8_t *q;
};

static struct queries queries_of(const struct kvs_predictor *p, const float *projected)
{
	uint32_t heads = p->geom.n_heads;
	float *scale = (float *)projected + (size_t)heads * p->rank;

	return (struct queries){ (float *)projected, scale, (int32_t *)(scale + heads),
				 (int8_t *)(scale + 2 * heads) };
}

static void query(const struct kvs_predictor *p, const void *packed_basis, const float *q,
		  float *projected)
{
	uint32_t rows = p->geom.n_heads / p->geom.n_kv_heads, dim = p->geom.head_dim,
		 rank = p->rank;
	struct queries to = queries_of(p, projected);

	for (uint32_t kv = 0; kv < p->geom.n_kv_heads; kv++)
		p->kernels->project(q + (size_t)kv * rows * dim, dim,
				    (const uint16_t *)packed_basis + (size_t)kv * dim * rank, rank,
				    to.exact + (size_t)kv * rows * rank, rank, rows, rank, dim);
	for (uint32_t h = 0; h < p->geom.n_heads; h++)
		p->kernels->to_q8(to.exact + (size_t)h * rank, rank, to.q + 16 * (size_t)h,
				  16 * p->geom.n_heads, &to.scale[h], &to.sum[h]);
}

static void score(const struct kvs_predictor *p, const float *projected, const void *block,
		  uint32_t n, float *out, uint32_t ld)
{
	struct queries from = queries_of(p, projected);
	struct kvs_q8 q = { p->geom.n_heads, 16 * p->geom.n_heads, from.q, from.scale, from.sum };
	struct kvs_q4 z = { width(p), items(p), p->rank, block, scales_of(p, block) };
	float base[KVS_MOST_HEADS]; /* a multiple of 16 */

	p->kernels->dot_f16(from.exact, q.n_heads, p->rank, point_of(p, block), base);
	p->kernels->score_q4(&z, n, &q, base, out, ld);
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
