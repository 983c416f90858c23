/* SPDX-License-Identifier: MIT */
/*
 * K and V of one layer in memory and a query, all made up: for the speed of kernels, which does
 * not depend on what they say. The numbers are a function of token, head and dimension, so that
 * layers of different groups hold the same.
 */
#ifndef BENCH_KV_LAYER_H
#define BENCH_KV_LAYER_H

#include <stdbool.h>

#include "attend.h"
#include "kvswap/compute.h"

struct kv_shape {
	uint32_t n_heads, n_kv_heads, head_dim;
	uint32_t n_tokens; /* a multiple of group and of the groups that are compared */
	uint32_t group, select, threads;
};

struct kv_layer {
	const struct kvs_kernels *kernels;
	struct compute *compute; /* threads, or NULL */
	struct kvs_geom geom;
	uint32_t n_tokens;
	uint16_t *records;	/* [n_tokens / group] records */
	float *q;		/* [n_heads][head_dim], scaled */
	struct kvs_span *spans; /* [n_tokens / group] */
	float *m, *l, *out;	/* of attention: out [n_heads][head_dim] */
};

/* Results are exit codes, said why. compute NULL: the caller's thread does it all. */
int kv_layer_open(struct kv_layer *l, const struct kv_shape *shape, uint32_t group,
		  struct compute *compute);
void kv_layer_close(struct kv_layer *l);

size_t kv_layer_record_bytes(const struct kvs_geom *g);
const void *kv_layer_record(const struct kv_layer *l, uint32_t group);
/* K (v: V) of one token and head, [head_dim] f16. */
const uint16_t *kv_layer_row(const struct kv_layer *l, uint32_t token, uint32_t head, bool v);

/* Attention over groups (ascending), or all with groups NULL; the result in l->out. */
void kv_layer_attend(struct kv_layer *l, const uint32_t *groups, uint32_t n);

/* n groups of the layer, ascending, other ones for each state. */
void kv_layer_pick(const struct kv_layer *l, uint64_t *state, uint32_t n, uint32_t *groups);

#endif
