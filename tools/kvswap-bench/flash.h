/* SPDX-License-Identifier: MIT */
/* ggml's flash attention over the same K, V and query as a layer, in one of two layouts. */
#ifndef BENCH_FLASH_H
#define BENCH_FLASH_H

#include "kv_layer.h"

struct flash {
	struct compute *compute;
	struct ggml_context *ctx;
	struct ggml_cgraph *graph;
	struct ggml_cplan plan;
	void *k, *v, *mask;
	float *q, *out; /* out [n_heads][head_dim] */
};

/* token_major: as libllama lays its cache out; else a head's tokens follow one another. */
int flash_open(struct flash *f, const struct kv_layer *l, bool token_major,
	       struct compute *compute);
void flash_close(struct flash *f);
int flash_attend(struct flash *f);

#endif
