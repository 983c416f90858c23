/* SPDX-License-Identifier: MIT */
/*
 * Attention over records, and what else has a SIMD form. Kernels are chosen once, at kvs_open().
 *
 * A record holds G tokens of one layer: K [n_kv_heads][G][head_dim], then V
 * [n_kv_heads][G][head_dim], f16, so that one KV head's block is contiguous. A span is a run of
 * tokens inside one record.
 *
 * Reduction is in token order with an online softmax per span (decode) or per block of KVS_BLOCK
 * tokens aligned to the token number (prefill): the result depends on the spans given, never on how
 * calls split them.
 */
#ifndef KVS_ATTEND_H
#define KVS_ATTEND_H

#include <stddef.h>
#include <stdint.h>

#define KVS_BLOCK 64u	  /* tokens per step of the online softmax in prefill */
#define KVS_MOST_DIM 512u /* largest head_dim */
#define KVS_TILE 16u	  /* items of metadata that lie side by side */

struct kvs_span {
	const void *record;
	uint16_t first, n; /* tokens [first, first + n) of the record */
	uint32_t token;	   /* number in the sequence of token `first` */
};

struct kvs_geom {	/* of a record in memory */
	uint32_t group; /* G */
	uint32_t n_heads, n_kv_heads, head_dim;
};

/*
 * Running softmax of `rows` query rows of one KV head: m [rows] maxima (start -INFINITY), l [rows]
 * sums (start 0), acc [rows][head_dim] (start 0). out = acc / l.
 */
struct kvs_softmax {
	float *m, *l, *acc;
};

/*
 * int4 metadata of groups, `items` vectors each, in tiles of KVS_TILE lanes. A tile holds `width`
 * groups and beside each other KVS_TILE / width of their items; the rest follow in steps. So item i
 * of group g lies in tile g / width, step i / (KVS_TILE / width), lane i % (KVS_TILE / width) *
 * width + g % width.
 */
struct kvs_q4 {
	uint32_t width, items, rank; /* rank: a multiple of 16, at most 4096 */
	/*
	 * [tiles][steps][rank / 8][KVS_TILE][4] bytes: of byte c of a lane the low four bits are
	 * component 8 r + c plus 8, the high ones component 8 r + 4 + c plus 8.
	 */
	const uint8_t *digits;
	const uint16_t
		*scales; /* [tiles][steps][KVS_TILE], f16: what a component is multiplied by */
};

/*
 * Queries in the space of a basis, int8: component r of head h is q[r / 16 * stride + 16 h + r %
 * 16].
 */
struct kvs_q8 {
	uint32_t n_heads;
	uint32_t stride;    /* 16 times the heads that q was made for */
	const int8_t *q;    /* -127 to 127 */
	const float *scale; /* [n_heads] */
	const int32_t *sum; /* [n_heads] sums of q */
};

struct kvs_kernels {
	const char *name;
	/*
	 * Decode: `rows` = n_heads / n_kv_heads queries q [rows][head_dim], already scaled, of KV
	 * head h.
	 */
	void (*attend)(const struct kvs_geom *g, uint32_t h, const float *q,
		       const struct kvs_span *spans, uint32_t n_spans, struct kvs_softmax *state);
	/*
	 * Logits of every token of the spans in order: out [rows][ld], ld >= tokens. q as above.
	 * Used for the exact logits of the rolling buffer and by the exact predictor.
	 */
	void (*logits)(const struct kvs_geom *g, uint32_t h, const float *q,
		       const struct kvs_span *spans, uint32_t n_spans, float *out, uint32_t ld);
	/*
	 * Prefill: n_rows tokens' queries of KV head h; q points at token 0's first query head of
	 * h, token stride q_stride floats (n_heads * head_dim as a rule), the heads of h follow one
	 * another; not scaled: `scale` is applied. Row r is token pos + r and sees tokens t with t
	 * <= pos + r and (window == 0 or t > pos + r - window). Spans are consecutive tokens from
	 * spans[0].token on, which is a multiple of KVS_BLOCK. state is indexed [row *
	 * rows_per_token + head]; acc has token stride acc_stride. scratch: kvs_prefill_scratch()
	 * bytes. Rows' results must not depend on n_rows or on the split of the spans at multiples
	 * of KVS_BLOCK.
	 */
	void (*prefill)(const struct kvs_geom *g, uint32_t h, const float *q, uint32_t q_stride,
			uint32_t n_rows, uint32_t pos, uint32_t window, float scale,
			const struct kvs_span *spans, uint32_t n_spans, struct kvs_softmax *state,
			uint32_t acc_stride, void *scratch);
	/* f32 -> f16 (round to nearest even), and back. */
	void (*to_f16)(const float *in, uint16_t *out, uint32_t n);
	void (*from_f16)(const uint16_t *in, float *out, uint32_t n);
	/* x[i] = exp(x[i] - m), m not below any x; returns the sum (fixed order for a given n). */
	float (*exp_sum)(float *x, uint32_t n, float m);
	/* largest of x[0..n), n > 0 */
	float (*max)(const float *x, uint32_t n);
	/* Numbers of the x[i] >= limit, ascending; returns how many. */
	uint32_t (*reaching)(const float *x, uint32_t n, float limit, uint32_t *out);
	/* c [m][ldc] = a [m][k] * b, b f16 [k][ldb]; n, a multiple of 16, columns of it. */
	void (*project)(const float *a, uint32_t lda, const uint16_t *b, uint32_t ldb, float *c,
			uint32_t ldc, uint32_t m, uint32_t n, uint32_t k);
	/*
	 * n, a multiple of 16, floats to int8: x[r] is about q[r / 16 * stride + r % 16] * scale;
	 * *sum: the sum of q. The scale is 0 or not finite where x is; q is 0 then.
	 */
	void (*to_q8)(const float *x, uint32_t n, int8_t *q, uint32_t stride, float *scale,
		      int32_t *sum);
	/* out [n] = w [m] * x [m][ldx]; out may be a row of x. */
	void (*combine)(const float *w, const float *x, uint32_t ldx, uint32_t m, float *out,
			uint32_t n);
	/*
	 * out [n_heads, rounded up to 16] = q [n_heads][rank] * x, f16 [rank]; rank a multiple of
	 * 16.
	 */
	void (*dot_f16)(const float *q, uint32_t n_heads, uint32_t rank, const uint16_t *x,
			float *out);
	/*
	 * Scores of n items (groups) of metadata for n_heads queries: out[h * ld + i]; nothing else
	 * of out is written. score_f16: tiles f16 [n / KVS_TILE, rounded up][rank][KVS_TILE], q
	 * [n_heads][rank].
	 * score_q4: the largest of a group's items, plus base [n_heads]. Equal in all sets for
	 * equal input.
	 */
	void (*score_f16)(const uint16_t *tiles, uint32_t n, uint32_t rank, const float *q,
			  uint32_t n_heads, float *out, uint32_t ld);
	void (*score_q4)(const struct kvs_q4 *z, uint32_t n, const struct kvs_q8 *q,
			 const float *base, float *out, uint32_t ld);
};

size_t kvs_prefill_scratch(const struct kvs_geom *g, uint32_t n_rows);

/*
 * The best set that this processor runs. The environment variable KVSWAP_KERNELS asks for one:
 * generic, avx2, avx512, avx512vnni, avx512bf16, neon. NULL: it asks for one that is not built in
 * or does not run here.
 */
const struct kvs_kernels *kvs_kernels_get(void);

#endif
