/* SPDX-License-Identifier: MIT */
/* One token of each of n sequences through all layers, by graphs that are built once. */
#ifndef KVSWAP_DECODE_H
#define KVSWAP_DECODE_H

#include "compute.h"
#include "graph.h"
#include "kvswap.h"

struct decode_graph {
	struct ggml_cgraph *graph;
	struct ggml_cplan plan;
};

struct decode {
	const struct model *model;
	struct compute *compute;
	struct kvs *kvs;
	struct ggml_context *ctx;
	struct decode_graph *boundary; /* [n_layers + 1] */
	struct decode_graph *estimate; /* [n_layers] */
	struct rows rows;
	char *memory; /* of rows */
	size_t memory_bytes;
	/*
	 * Tokens a sequence has when the query of the next layer begins to be estimated: with
	 * fewer, nothing could be read ahead. UINT32_MAX: never.
	 */
	uint32_t estimate_from;
	uint64_t compute_ns, estimate_ns; /* in ggml, since decode_open() */
};

int decode_open(struct decode *d, const struct model *m, struct compute *compute, struct kvs *kvs,
		uint32_t n_seqs);
void decode_close(struct decode *d);
size_t decode_bytes(const struct decode *d);

/*
 * tokens[i] is the next token of seqs[i], [n_seqs]. *logits: [n_seqs][n_vocab], valid until the
 * next call. DONE, FAILED and said why, or the code of interrupt_check().
 */
int decode_step(struct decode *d, const uint32_t *seqs, const int32_t *tokens, float **logits);

#endif
