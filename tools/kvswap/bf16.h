/* SPDX-License-Identifier: MIT */
/*
 * Weights of a layer as bfloat16, for prefill: ggml multiplies many rows by some quantised types
 * far slower than by bfloat16 on a CPU that has AVX512_BF16, and turning a layer costs little
 * beside a chunk.
 */
#ifndef KVSWAP_BF16_H
#define KVSWAP_BF16_H

#include "compute.h"
#include "model.h"

#define BF16_MIN_ROWS 256 /* below this, turning the weights costs more than it brings */

struct bf16 {
	struct compute *compute;
	struct ggml_context *ctx;
	char *data; /* NULL: nothing is turned */
	size_t bytes, used;
	float *rows; /* [n_threads][widest row] */
	int64_t widest;
};

/* What it would like to hold, for the weights between two attentions; 0 where it brings nothing. */
size_t bf16_wanted(const struct model *m);
/* bytes: at most so much; weights that do not fit stay as they are. */
int bf16_open(struct bf16 *b, const struct model *m, struct compute *compute, size_t bytes);
void bf16_close(struct bf16 *b);
size_t bf16_bytes(const struct bf16 *b);

/*
 * Copies of the layers around a boundary, with the weights used there turned. They last until the
 * next call. prev and next as of graph_boundary(), either may be NULL.
 */
void bf16_boundary(struct bf16 *b, const struct layer *prev, const struct layer *next,
		   struct layer *prev_out, struct layer *next_out);

#endif
