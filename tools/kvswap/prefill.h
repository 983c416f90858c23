/* SPDX-License-Identifier: MIT */
/*
 * Prompts, layer-major: all tokens of a chunk through one layer before the next, in blocks of rows.
 * What this holds besides KV is held under a cap by the size of the chunks.
 */
#ifndef KVSWAP_PREFILL_H
#define KVSWAP_PREFILL_H

#include "bf16.h"
#include "graph.h"
#include "kvswap.h"

/* Rows of one graph; blocks begin at multiples of it from the prompt's start. */
#define PREFILL_BLOCK 512
#define PREFILL_CAP ((size_t)128 << 20) /* bytes of activations */

struct prefill_config {
	uint32_t n_tokens; /* of the longest prompt */
	size_t cap;	   /* bytes of activations; 0: PREFILL_CAP */
	bool no_bf16;	   /* multiply by the weights as they are */
	/* Rows of every position, in order, as they come; NULL: only of the last one. */
	int (*on_logits)(void *arg, const float *logits, uint32_t n_rows);
	/* Tokens of this prompt that are through, as a fraction too. Often; NULL allowed. */
	void (*on_progress)(void *arg, double tokens);
	void *arg;
};

struct prefill {
	struct prefill_config config;
	const struct model *model;
	struct compute *compute;
	struct kvs *kvs;
	struct bf16 bf16;
	struct ggml_context *ctx;
	uint32_t chunk, block, head_rows;
	struct rows
		rows; /* x, attn, q, tokens, pos of a chunk; k, v of a block; logits of head_rows */
	uint64_t compute_ns; /* in ggml, since prefill_open() */
};

int prefill_open(struct prefill *p, const struct model *m, struct compute *compute, struct kvs *kvs,
		 const struct prefill_config *config);
void prefill_close(struct prefill *p);
size_t prefill_bytes(const struct prefill *p);

/*
 * Appends n tokens to seq. *last: the logits of the last position, [n_vocab], valid until the next
 * call. DONE, FAILED and said why, or the code of interrupt_check().
 */
int prefill_run(struct prefill *p, uint32_t seq, const int32_t *tokens, uint32_t n, float **last);

#endif
