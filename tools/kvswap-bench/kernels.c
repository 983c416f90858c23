// SPDX-License-Identifier: MIT
/* See kernels.h. */
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "args.h"
#include "kvswap/clock.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"

int kernels_parse(struct kernels_options *o, int argc, char **argv, const char *help)
{
	const struct arg args[] = {
		{ .name = "--heads", .number = &o->shape.n_heads, .min = 1, .max = 1024 },
		{ .name = "--kv-heads", .number = &o->shape.n_kv_heads, .min = 1, .max = 1024 },
		{ .name = "--head-dim",
		  .number = &o->shape.head_dim,
		  .min = 16,
		  .max = KVS_MOST_DIM },
		{ .name = "--tokens", .number = &o->shape.n_tokens, .min = 1024, .max = 1u << 24 },
		{ .name = "--group", .number = &o->shape.group, .min = 1, .max = DENSE_GROUP },
		{ .name = "--select", .number = &o->shape.select, .min = 1, .max = 1u << 24 },
		{ .name = "--rank", .number = &o->rank, .min = 0, .max = 4096 },
		{ .name = "--threads", .number = &o->shape.threads, .min = 1, .max = 512 },
		{ .name = "-t", .number = &o->shape.threads, .min = 1, .max = 512 },
		{ .name = "--repeat", .number = &o->repeat, .min = 1, .max = MOST_REPEATS },
		{ .name = "--json", .flag = &o->json },
		{ .name = "--help", .flag = &o->help },
		{ .name = "-h", .flag = &o->help },
	};
	char **copy = calloc((size_t)argc + 1, sizeof(*copy));
	int n = argc, rc;

	if (!copy)
		return report_fail("out of memory");
	memcpy(copy, argv, (size_t)argc * sizeof(*copy));
	*o = (struct kernels_options){
		.argc = argc,
		.argv = argv,
		.shape = { 16, 8, 128, 32768, 4, 400, 1 },
		.repeat = 9,
	};
	rc = args_take(args, sizeof(args) / sizeof(args[0]), &n, copy);
	if (!rc)
		rc = args_end(n, copy);
	free(copy);
	if (!rc && o->help)
		fputs(help, stdout);
	if (!rc && o->shape.group & (o->shape.group - 1))
		rc = report_usage("--group is %u, must be a power of two", o->shape.group);
	if (!rc && o->shape.select > o->shape.n_tokens)
		rc = report_usage("--select is %u, more than --tokens", o->shape.select);
	return rc;
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int kernels_time(struct series *s, int (*fn)(void *arg), void *arg, uint32_t n)
{
	double cpu = cpu_ms();
	uint64_t start = clock_ns();
	int rc = interrupt_check();

	for (uint32_t i = 0; !rc && i < n; i++)
		rc = fn(arg);
	if (!rc)
		series_add(s, n / ((double)(clock_ns() - start) / 1e9), (cpu_ms() - cpu) / n);
	return rc;
}

double kernels_difference(const float *a, const float *b, uint32_t n)
{
	double most = 0, largest = 0;

	for (uint32_t i = 0; i < n; i++) {
		double d = fabs((double)a[i] - (double)b[i]);

		if (!(d <= most))
			most = d;
		largest = fmax(largest, fabs((double)b[i]));
	}
	return largest > 0 ? most / largest : INFINITY;
}

void kernels_json(struct json *j, const struct kernels_options *o, const char *kernels)
{
	const struct kv_shape *s = &o->shape;

	json_open(j, "shape", '{');
	json_uint(j, "heads", s->n_heads);
	json_uint(j, "kv_heads", s->n_kv_heads);
	json_uint(j, "head_dim", s->head_dim);
	json_uint(j, "tokens", s->n_tokens);
	json_uint(j, "group", s->group);
	json_uint(j, "select", s->select);
	json_uint(j, "threads", s->threads);
	json_close(j, '}');
	json_text(j, "kernels", kernels);
}
