// SPDX-License-Identifier: MIT
/*
 * `kvswap-bench attend`: attention of one token in one layer. Our kernel over a selection, the
 * same kernel over all tokens in memory, and ggml's flash attention in libllama's layout and in
 * ours.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "kernels.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"

#define SPARSE_CALLS 32	     /* of one measurement: a call is short */
#define MOST_DIFFERENCE 1e-4 /* of ours among themselves */
#define MOST_FLASH 0.1	     /* of ggml's, which adds up V in f16 */

static const char help[] =
	"usage: kvswap-bench attend [--tokens N] [--select N] [options]\n"
	"\n"
	"Attention of one token in one layer, in memory: our kernel over a selection, the same kernel over\n"
	"all tokens, and ggml's flash attention over all tokens. K and V are made up.\n"
	"\n"
	"  kvswap-bench attend --tokens 32768 --select 400\n"
	"\n"
	"      --heads N, --kv-heads N, --head-dim N\n"
	"                          shape of the layer (16, 8, 128)\n"
	"      --tokens N          in the context (32768)\n"
	"      --select N          tokens that are selected (400)\n"
	"      --group G           tokens of a group (4)\n"
	"  -t, --threads N         (1)\n"
	"      --repeat N          measurements of each side (9)\n"
	"      --json              one JSON object instead of the table\n"
	"  -h, --help\n";

enum { SPARSE, DENSE, FLASH_TOKEN, FLASH_HEAD, N_SIDES };

struct attend_bench {
	struct kernels_options options;
	struct compute compute;
	struct kv_layer sparse, dense;
	struct flash flash[2]; /* token-major, head-major */
	uint32_t *groups, n_groups;
	uint64_t random;
	struct series series[N_SIDES];
};

static int attend_sparse(void *arg)
{
	struct attend_bench *b = arg;

	kv_layer_pick(&b->sparse, &b->random, b->n_groups, b->groups);
	kv_layer_attend(&b->sparse, b->groups, b->n_groups);
	return DONE;
}

static int attend_dense(void *arg)
{
	struct attend_bench *b = arg;

	kv_layer_attend(&b->dense, NULL, b->dense.n_tokens / b->dense.geom.group);
	return DONE;
}

static int attend_flash_token(void *arg)
{
	return flash_attend(&((struct attend_bench *)arg)->flash[0]);
}

static int attend_flash_head(void *arg)
{
	return flash_attend(&((struct attend_bench *)arg)->flash[1]);
}

static const struct {
	const char *name;
	int (*fn)(void *arg);
	uint32_t n;
} sides[N_SIDES] = {
	[SPARSE] = { "kvswap, selection", attend_sparse, SPARSE_CALLS },
	[DENSE] = { "kvswap, all tokens", attend_dense, 1 },
	[FLASH_TOKEN] = { "ggml, token-major as libllama", attend_flash_token, 1 },
	[FLASH_HEAD] = { "ggml, head-major", attend_flash_head, 1 },
};

static int open_all(struct attend_bench *b)
{
	const struct kv_shape *shape = &b->options.shape;
	struct compute *compute = shape->threads > 1 ? &b->compute : NULL;
	int rc = compute_open(&b->compute, (int)shape->threads);

	if (!rc)
		rc = kv_layer_open(&b->sparse, shape, shape->group, compute);
	if (!rc)
		rc = kv_layer_open(&b->dense, shape, DENSE_GROUP, compute);
	if (!rc)
		rc = flash_open(&b->flash[0], &b->dense, true, &b->compute);
	if (!rc)
		rc = flash_open(&b->flash[1], &b->dense, false, &b->compute);
	b->n_groups = (shape->select + shape->group - 1) / shape->group;
	b->groups = calloc(b->n_groups, sizeof(*b->groups));
	return rc || b->groups ? rc : report_fail("out of memory");
}

static void close_all(struct attend_bench *b)
{
	flash_close(&b->flash[0]);
	flash_close(&b->flash[1]);
	kv_layer_close(&b->dense);
	kv_layer_close(&b->sparse);
	compute_close(&b->compute);
	free(b->groups);
}

static int agree(const char *who, double difference, double most)
{
	if (difference <= most)
		return DONE;
	return report_fail("%s: the output differs from ours by %.3g of the largest, at most %g",
			   who, difference, most);
}

/* A kernel that is fast and wrong is no side. Also the first, cold call of each. */
static int verify(struct attend_bench *b)
{
	uint32_t n = b->dense.geom.n_heads * b->dense.geom.head_dim;
	const float *out = b->dense.out;
	int rc;

	attend_dense(b);
	kv_layer_attend(&b->sparse, NULL, b->sparse.n_tokens / b->sparse.geom.group);
	rc = agree(sides[SPARSE].name, kernels_difference(b->sparse.out, out, n), MOST_DIFFERENCE);
	for (int i = 0; !rc && i < 2; i++) {
		rc = flash_attend(&b->flash[i]);
		if (!rc)
			rc = agree(sides[FLASH_TOKEN + i].name,
				   kernels_difference(b->flash[i].out, out, n), MOST_FLASH);
	}
	return rc;
}

static int measure(struct attend_bench *b)
{
	int rc = verify(b);

	for (uint32_t r = 0; !rc && r < b->options.repeat; r++)
		for (uint32_t k = 0; !rc && k < N_SIDES; k++) {
			uint32_t i = (r + k) % N_SIDES;

			rc = kernels_time(&b->series[i], sides[i].fn, b, sides[i].n);
		}
	return rc;
}

static void json_more(struct json *j, const void *arg)
{
	const struct attend_bench *b = arg;

	kernels_json(j, &b->options, b->dense.kernels->name);
}

static int show(struct attend_bench *b)
{
	const struct series *series[N_SIDES];
	const struct kv_shape *s = &b->options.shape;
	char title[256];
	struct results r = {
		.argc = b->options.argc,
		.argv = b->options.argv,
		.json = b->options.json,
		.title = title,
		.series = series,
		.more = json_more,
		.arg = b,
	};

	for (int i = 0; i < N_SIDES; i++)
		series[r.n_series++] = &b->series[i];
	results_add(&r, ratio_of("attend_over_dense", series[SPARSE], series[DENSE]));
	results_add(&r, ratio_of("attend_over_ggml", series[SPARSE], series[FLASH_TOKEN]));
	results_add(&r, ratio_of("dense_over_ggml", series[DENSE], series[FLASH_TOKEN]));
	results_add(&r, ratio_of("dense_over_ggml_head_major", series[DENSE], series[FLASH_HEAD]));
	snprintf(
		title, sizeof(title),
		"one layer, %u tokens, %u heads, %u KV heads x %u, f16; %u selected in groups of %u; "
		"%u thread%s, kernels %s",
		s->n_tokens, s->n_heads, s->n_kv_heads, s->head_dim, s->select, s->group,
		s->threads, s->threads > 1 ? "s" : "", b->dense.kernels->name);
	return results_write(&r);
}

int attend_main(int argc, char **argv)
{
	struct attend_bench *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return report_fail("out of memory");
	rc = kernels_parse(&b->options, argc, argv, help);
	if (rc || b->options.help) {
		free(b);
		return rc;
	}
	interrupt_catch();
	for (int i = 0; i < N_SIDES; i++) {
		snprintf(b->series[i].name, sizeof(b->series[i].name), "%s", sides[i].name);
		b->series[i].unit = "layers/s";
	}
	results_start();
	rc = open_all(b);
	if (!rc)
		rc = measure(b);
	if (!rc)
		rc = show(b);
	close_all(b);
	free(b);
	return rc;
}
