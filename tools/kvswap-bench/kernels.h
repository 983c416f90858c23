/* SPDX-License-Identifier: MIT */
/* What `attend` and `score` share: the options of a layer's shape, the timing of a call. */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include "flash.h"
#include "kv_layer.h"
#include "results.h"
#include "stats.h"

#define DENSE_GROUP 256u /* tokens whose K of a head lie together, as in --kv dense */

struct kernels_options {
	int argc;
	char **argv;
	struct kv_shape shape;
	uint32_t repeat, rank;
	bool json, help;
};

/* help: the command's text. DONE, WRONG_USAGE, or DONE with o->help after it was printed. */
int kernels_parse(struct kernels_options *o, int argc, char **argv, const char *help);

/*
 * Times n calls of fn; a figure of the series is calls per second. fn: DONE or a code, said
 * why.
 */
int kernels_time(struct series *s, int (*fn)(void *arg), void *arg, uint32_t n);

/* Largest difference of two outputs, as a share of the largest number of b. */
double kernels_difference(const float *a, const float *b, uint32_t n);

void kernels_json(struct json *j, const struct kernels_options *o, const char *kernels);

#endif
