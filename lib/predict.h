/* SPDX-License-Identifier: MIT */
/*
 * A predictor keeps metadata of K in memory and estimates, for a query, the logits of groups of
 * tokens. One file an implementation, one const table each. The session owns memory and order; a
 * predictor is pure computation on blocks that it is handed.
 *
 * A block is the metadata of one layer of one chunk: groups_per_chunk groups in a form of the
 * predictor's choice (block_bytes, zeroed before the first build, 64-byte aligned). Groups are
 * built in order or again after a truncation.
 */
#ifndef KVS_PREDICT_H
#define KVS_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attend.h"
#include "kvswap.h"

#define KVS_MOST_HEADS 4096u

struct kvs_predictor {
	const struct kvs_predictor_ops *ops;
	const struct kvs_kernels *kernels;
	struct kvs_geom geom;
	uint32_t rank;
	uint32_t groups_per_chunk;
	/* Tokens to a vector of metadata, a divisor of G; 0 before init: the predictor's choice. */
	uint32_t mean_tokens;
	uint32_t items_per_group; /* estimates per group: 1, or G */
};

struct kvs_predictor_ops {
	const char *name;
	uint32_t needs_basis;
	/* Default rank for the geometry (0 if it has none); checks a given rank: -EINVAL. */
	int (*init)(struct kvs_predictor *p, uint32_t rank);
	size_t (*block_bytes)(const struct kvs_predictor *p);
	/* Bytes of a layer's basis in the form that `score` wants; 0 if none. */
	size_t (*basis_bytes)(const struct kvs_predictor *p);
	/* basis: float [kv_dim][rank], orthonormal columns -> own form. */
	void (*basis_pack)(const struct kvs_predictor *p, const float *basis, void *packed);
	/*
	 * Metadata of group `index` of a block from its full record (f16, as on disk).
	 * -EDOM: K is not finite; *bad is the token within the group.
	 */
	int (*build)(const struct kvs_predictor *p, const void *packed_basis, const void *record,
		     uint32_t index, void *block, uint32_t *bad);
	/* Floats of scratch that `query` writes: the queries in the predictor's own space. */
	size_t (*query_floats)(const struct kvs_predictor *p);
	/* q [n_heads][head_dim], scaled. */
	void (*query)(const struct kvs_predictor *p, const void *packed_basis, const float *q,
		      float *projected);
	/*
	 * Estimated logits of groups [0, n) of the block for every query head: out[h * ld + g *
	 * items_per_group + i].
	 */
	void (*score)(const struct kvs_predictor *p, const float *projected, const void *block,
		      uint32_t n, float *out, uint32_t ld);
};

extern const struct kvs_predictor_ops kvs_predict_groupmean, kvs_predict_lowrank, kvs_predict_exact,
	kvs_predict_window;

/*
 * Stride of a head's estimates of n_groups: an odd number of cache lines, so that the heads' rows
 * do not fall on the same few sets of the cache (30K tokens, 14 heads: scored in 28 us instead of
 * 50).
 */
static inline uint32_t kvs_predict_ld(const struct kvs_predictor *p, uint32_t n_groups)
{
	return (n_groups * p->items_per_group + 15) / 16 * 16 | 16;
}

const struct kvs_predictor_ops *kvs_predictor_find(const char *name);

/* Whether K of a full record is; *bad: the first token of the group that is not. */
bool kvs_record_finite(const struct kvs_geom *g, const void *record, uint32_t *bad);

/*
 * From estimated logits to scores of groups (predict.c).
 * est: [n_heads][ld] estimates of n_groups * items_per_group items, overwritten.
 * rolling: [n_heads][n_rolling] exact logits of the rolling tokens.
 * items_per_group estimates stand for the G tokens of a group, each for as many.
 * SUM: score[g] = sum over heads of the group's share of the softmax whose denominator is estimates
 * + rolling.
 * MEAN: score[g] = max over items of the mean over heads of the logit.
 */
void kvs_predict_reduce(const struct kvs_predictor *p, int mean, float *est, uint32_t ld,
			uint32_t n_groups, const float *rolling, uint32_t n_rolling, float *score);

/*
 * The m groups of the highest score among n, ties to the lower number, ascending in out; groups
 * below `forced` always in (they count). Returns how many (min(m, n)). NaN scores count as lowest.
 * scratch: n uint32_t.
 */
uint32_t kvs_predict_top(const struct kvs_kernels *kernels, const float *score, uint32_t n,
			 uint32_t m, uint32_t forced, uint32_t *out, uint32_t *scratch);

/*
 * lowrank.c: basis from the second moment of K (LAPACK). kvs_lowrank_gram() adds rows
 * [n_rows][kv_dim] to the lower triangle (column-major) of gram, which is all that
 * kvs_lowrank_basis() looks at. gram: double [kvs_lowrank_doubles(kv_dim)], the first kv_dim *
 * kv_dim the symmetric matrix, the rest workspace, all overwritten; basis: float [kv_dim][rank],
 * orthonormal columns in order of captured energy; energy: NULL or double [kv_dim], the share that
 * the first i + 1 columns capture. -EDOM not finite. Deterministic for one build and thread count;
 * allocates nothing.
 */
size_t kvs_lowrank_doubles(uint32_t kv_dim);
void kvs_lowrank_gram(double *gram, uint32_t kv_dim, const double *rows, uint32_t n_rows);
int kvs_lowrank_basis(double *gram, uint32_t kv_dim, uint32_t rank, float *basis, double *energy);

/*
 * To the second moment that K would have, had each of its tokens stood at its own position and the
 * `tokens` - 1 that follow, as often at each: RoPE carries K out of a basis that was made from
 * other positions. Measured (Qwen2.5-Coder-0.5B, 8K, 400 tokens selected; coverage of the last
 * tokens' attention, rank 32): basis from the first 2,048 tokens .754, from the first 512 spread
 * over 8,192 .813, from all 8,192 .820.
 */
void kvs_lowrank_spread(double *gram, const struct kvs_geom *g, const struct kvs_rope *rope,
			uint32_t tokens);

#endif
