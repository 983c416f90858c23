/* SPDX-License-Identifier: MIT */
/*
 * ggml graphs of everything but attention, cut where attention is: a boundary graph is what lies
 * between the attention of one layer and that of the next. Rows are tokens: of one prompt, or one
 * of each sequence.
 */
#ifndef KVSWAP_GRAPH_H
#define KVSWAP_GRAPH_H

#include "model.h"

#define GRAPH_NODES 64 /* most nodes of one graph */

/*
 * Where the rows of a graph enter and leave. The caller's memory; the graph reads and writes it in
 * place.
 */
struct rows {
	int64_t n;
	int32_t *tokens; /* [n] */
	int32_t *pos;	 /* [n] */
	float *x;	 /* [n][n_embd], the residual stream */
	float *attn;	 /* [n][n_heads][head_dim], output of attention */
	float *q;	 /* [n][n_heads][head_dim], after RoPE */
	float *k, *v;	 /* [n][n_kv_heads][head_dim], K after RoPE */
	float *q_hat;	 /* [n][n_heads][head_dim], of a coming layer */
	float *logits;	 /* [n][n_vocab] */
};

/* Bytes of a ggml context that holds n graphs. */
size_t graph_context_bytes(size_t n);

/*
 * From the attention of prev to that of next. prev NULL: from the tokens; next NULL: to the logits.
 * The layers may be copies with other weights of the same shape.
 */
struct ggml_cgraph *graph_boundary(struct ggml_context *ctx, const struct model *m,
				   const struct layer *prev, const struct layer *next,
				   const struct rows *r);

/* q_hat: the query that layer l would have if its input were x. */
struct ggml_cgraph *graph_estimate(struct ggml_context *ctx, const struct model *m,
				   const struct layer *l, const struct rows *r);

#endif
