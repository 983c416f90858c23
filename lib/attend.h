/* SPDX-License-Identifier: MIT */
/*
 * Attention over records, and what else has a SIMD form. Kernels are chosen once, at kvs_open().
 *
 * A record holds G tokens of one layer: K [n_kv_heads][G][head_dim], then V [n_kv_heads][G][head_dim], f16, so that
 * one KV head's block is contiguous. A span is a run of tokens inside one record.
 *
 * Reduction is in token order with an online softmax per span (decode) or per block of KVS_BLOCK tokens aligned to
 * the token number (prefill): the result depends on the spans given, never on how calls split them.
 */
#ifndef KVS_ATTEND_H
#define KVS_ATTEND_H

#include <stdint.h>

#define KVS_BLOCK 64u		/* tokens per step of the online softmax in prefill */

struct kvs_span {
	const void *record;
	uint16_t first, n;	/* tokens [first, first + n) of the record */
	uint32_t token;		/* number in the sequence of token `first` */
};

struct kvs_geom {		/* of a record in memory */
	uint32_t group;		/* G */
	uint32_t n_heads, n_kv_heads, head_dim;
};

/*
 * Running softmax of `rows` query rows of one KV head: m [rows] maxima (start -INFINITY), l [rows] sums (start 0),
 * acc [rows][head_dim] (start 0). out = acc / l.
 */
struct kvs_softmax {
	float *m, *l, *acc;
};

struct kvs_kernels {
	const char *name;
	/* Decode: `rows` = n_heads / n_kv_heads queries q [rows][head_dim], already scaled, of KV head h. */
	void (*attend)(const struct kvs_geom *g, uint32_t h, const float *q, const struct kvs_span *spans,
		       uint32_t n_spans, struct kvs_softmax *state);
	/*
	 * Logits of every token of the spans in order: out [rows][ld], ld >= tokens. q as above. Used for the exact
	 * logits of the rolling buffer and by the exact predictor.
	 */
	void (*logits)(const struct kvs_geom *g, uint32_t h, const float *q, const struct kvs_span *spans,
		       uint32_t n_spans, float *out, uint32_t ld);
	/*
	 * Prefill: n_rows tokens' queries of KV head h; q points at token 0's first query head of h, token stride q_stride
	 * floats (n_heads * head_dim as a rule), the heads of h follow one another; not scaled: `scale` is applied. Row r
	 * is token pos + r and sees tokens t with t <= pos + r and (window == 0 or t > pos + r - window). Spans are
	 * consecutive tokens from spans[0].token on, which is a multiple of KVS_BLOCK. state is indexed
	 * [row * rows_per_token + head]; acc has token stride acc_stride. scratch: kvs_prefill_scratch() bytes.
	 * Rows' results must not depend on n_rows or on the split of the spans at multiples of KVS_BLOCK.
	 */
	void (*prefill)(const struct kvs_geom *g, uint32_t h, const float *q, uint32_t q_stride, uint32_t n_rows,
			uint32_t pos, uint32_t window, float scale, const struct kvs_span *spans, uint32_t n_spans,
			struct kvs_softmax *state, uint32_t acc_stride, void *scratch);
	/* f32 -> f16 (round to nearest even), and back. */
	void (*to_f16)(const float *in, uint16_t *out, uint32_t n);
	void (*from_f16)(const uint16_t *in, float *out, uint32_t n);
	/*
	 * Scores of group-mean metadata. z: packed int4 block of up to 32 groups as predict_groupmean.c lays it out;
	 * see kernels.h for the exact form. Optional helpers of the predictors live in kernels.h.
	 */
	/* x[i] = exp(x[i] - m); returns the sum (f32, fixed order for a given n). */
	float (*exp_sum)(float *x, uint32_t n, float m);
	/* largest of x[0..n), n > 0 */
	float (*max)(const float *x, uint32_t n);
	float (*dot)(const float *a, const float *b, uint32_t n);
	/* c [m][ldc] = a [m][k] (ld a: lda) * b^T, b [n][k]: small dense products (scores, projections). */
	void (*matmul_nt)(const float *a, uint32_t lda, const float *b, uint32_t ldb, float *c, uint32_t ldc,
			  uint32_t m, uint32_t n, uint32_t k);
};

size_t kvs_prefill_scratch(const struct kvs_geom *g, uint32_t n_rows);

/* The best set that this CPU runs; the environment variable KVSWAP_KERNELS=generic|avx2|avx512|neon forces one. */
const struct kvs_kernels *kvs_kernels_get(void);

#endif
