/* SPDX-License-Identifier: MIT */
/*
 * Runs ggml graphs on one set of threads, with one work buffer and one buffer for what graphs hold
 * between their nodes. One graph at a time.
 */
#ifndef KVSWAP_COMPUTE_H
#define KVSWAP_COMPUTE_H

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"

struct compute {
	int n_threads;
	struct ggml_threadpool *threads;
	ggml_gallocr_t allocator;
	void *work;
	size_t work_bytes;

	/* compute_parallel(): a graph of one node that calls fn. */
	struct ggml_context *parallel_ctx;
	struct ggml_cgraph *parallel_graph;
	struct ggml_cplan parallel_plan;
	void (*fn)(void *arg, int i, int n);
	void *arg;
	int n;
};

int compute_open(struct compute *c, int n_threads);
void compute_close(struct compute *c);

/*
 * Of several graphs that are kept: first compute_reserve() for each, then compute_prepare() for
 * each; a buffer that grows later would leave the earlier ones dangling.
 */
int compute_reserve(struct compute *c, struct ggml_cgraph *graph);
int compute_prepare(struct compute *c, struct ggml_cgraph *graph, struct ggml_cplan *plan);
int compute_run(struct compute *c, struct ggml_cgraph *graph, struct ggml_cplan *plan);

/*
 * Forgets the buffers, so that a smaller set of graphs holds less. No prepared graph may run
 * afterwards.
 */
int compute_shrink(struct compute *c);
size_t compute_bytes(const struct compute *c);

/* A kvs_parallel_fn; pool is the struct compute. */
void compute_parallel(void *pool, void (*fn)(void *arg, int i, int n), void *arg, int n);

#endif
