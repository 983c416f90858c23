// SPDX-License-Identifier: MIT
/*
 * `kvswap-bench decode`: the speed of decode after a long prompt. Our runner with its KV cache
 * on disk, the same in memory, dense in memory; on disk at depth 0; libllama at both depths.
 * Every side decodes the same text in bursts, in turns, so that what else the machine does
 * meets all of them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "results.h"
#include "sides.h"

struct decode_bench {
	struct bench bench;
	struct subject subject;
	struct sides sides;
	struct sides prompts; /* of the filling: the same processes */
	struct engine_info info;
	int state; /* a file without a name: libllama's KV cache, from one process to the next */
};

static int open_state(struct decode_bench *d)
{
	const char *dir = getenv("TMPDIR");

	d->state = -1;
	if (d->bench.run.n_threads == 1)
		return DONE;
	d->state = open(dir ? dir : "/var/tmp", O_TMPFILE | O_RDWR, 0600);
	return d->state < 0 ? report_fail("cannot create a file in %s: set TMPDIR",
					  dir ? dir : "/var/tmp")
			    : DONE;
}

/* The same selection in memory as on disk: what follows the storage there is said here. */
static int start_memory(struct decode_bench *d)
{
	char group[16], rank[16];
	char *more[] = { (char *)"--group", group, (char *)"--rank", rank, NULL };
	int rc = sides_info(&d->sides, ENGINE_DISK, &d->info);

	if (rc)
		return rc;
	snprintf(group, sizeof(group), "%u", d->info.group);
	snprintf(rank, sizeof(rank), "%u", d->info.rank);
	if (!d->info.rank)
		more[2] = NULL;
	return sides_start(&d->sides, ENGINE_MEMORY, more);
}

static int fill(struct decode_bench *d, struct worker *w, enum engine_kind kind)
{
	struct sides *p = &d->prompts;
	struct side *side = &p->side[p->n];

	sides_add(p, kind, WORKER_FILL);
	side->worker = w;
	return side_measure(p, side, d->bench.depth);
}

static int share_state(struct decode_bench *d)
{
	struct worker_request request = { .op = WORKER_SAVE, .fd = d->state };
	struct worker_reply reply;
	int rc = d->sides.n_llama > 1 ? worker_call(&d->sides.llama[0], &request, &reply) : DONE;

	request.op = WORKER_LOAD;
	for (uint32_t i = 1; !rc && i < d->sides.n_llama; i++)
		rc = worker_call(&d->sides.llama[i], &request, &reply);
	return rc;
}

static int fill_all(struct decode_bench *d)
{
	struct worker *ours = d->sides.ours;
	int rc = sides_start_disk(&d->sides, WORKER_ZERO, d->bench.steps);

	if (!rc)
		rc = fill(d, &ours[ENGINE_DISK], ENGINE_DISK);
	if (!rc)
		rc = start_memory(d);
	if (!rc)
		rc = fill(d, &ours[ENGINE_MEMORY], ENGINE_MEMORY);
	if (!rc)
		rc = sides_start(&d->sides, ENGINE_DENSE, NULL);
	if (!rc)
		rc = fill(d, &ours[ENGINE_DENSE], ENGINE_DENSE);
	if (!rc)
		rc = sides_start_llama(&d->sides);
	if (!rc && d->sides.n_llama)
		rc = fill(d, &d->sides.llama[0], ENGINE_LLAMA);
	return rc ? rc : share_state(d);
}

static int measure(struct decode_bench *d)
{
	struct sides *s = &d->sides;
	int rc = DONE;

	sides_add(s, ENGINE_DISK, WORKER_DEEP);
	sides_add(s, ENGINE_DISK, WORKER_ZERO);
	sides_add(s, ENGINE_MEMORY, WORKER_DEEP);
	sides_add(s, ENGINE_DENSE, WORKER_DEEP);
	sides_add_llama(s, WORKER_DEEP);
	sides_add_llama(s, WORKER_ZERO);
	for (uint32_t i = 0; !rc && i < d->bench.repeat; i++)
		rc = sides_measure(s, i, d->bench.steps);
	return rc ? rc : sides_info(s, ENGINE_DISK, &d->info);
}

/* NULL: not measured. */
static const struct series *best(struct decode_bench *d, enum engine_kind kind, enum worker_op op)
{
	struct side *side = sides_best(&d->sides, kind, op);

	return side ? &side->series : NULL;
}

static void add_ratio(struct results *r, const char *name, const struct series *a,
		      const struct series *b)
{
	if (a && b)
		results_add(r, ratio_of(name, a, b));
}

static void add_ratios(struct decode_bench *d, struct results *r)
{
	const struct series *disk = best(d, ENGINE_DISK, WORKER_DEEP);
	const struct series *zero = best(d, ENGINE_DISK, WORKER_ZERO);

	results_add(r, ratio_plain("kv_full_over_resident", "bytes", (double)d->info.full_bytes,
				   (double)d->info.resident_peak));
	add_ratio(r, "decode_over_depth0", disk, zero);
	add_ratio(r, "decode_over_llamacpp", disk, best(d, ENGINE_LLAMA, WORKER_DEEP));
	add_ratio(r, "depth0_over_llamacpp", zero, best(d, ENGINE_LLAMA, WORKER_ZERO));
	add_ratio(r, "disk_over_memory", disk, best(d, ENGINE_MEMORY, WORKER_DEEP));
	add_ratio(r, "decode_over_dense", disk, best(d, ENGINE_DENSE, WORKER_DEEP));
}

static void json_more(struct json *j, const void *arg)
{
	const struct decode_bench *d = arg;

	sides_json(j, &d->info, &d->bench, &d->subject.model);
}

static int show(struct decode_bench *d)
{
	const struct series *series[2 * MOST_SIDES];
	const struct engine_info *i = &d->info;
	char title[512];
	struct results r = {
		.argc = d->bench.argc,
		.argv = d->bench.argv,
		.json = d->bench.run.json,
		.title = title,
		.series = series,
		.more = json_more,
		.arg = d,
	};

	for (uint32_t n = 0; n < d->sides.n; n++)
		series[r.n_series++] = &d->sides.side[n].series;
	for (uint32_t n = 0; n < d->prompts.n; n++)
		series[r.n_series++] = &d->prompts.side[n].series;
	add_ratios(d, &r);
	snprintf(
		title, sizeof(title),
		"%s, %u layers; KV cache by %s, %s; groups of %u, %u selected, %s of rank %u, %u slots a layer\n"
		"hit rate %.2f, foreseen %.2f, coverage %.2f, %.0f KiB read a token; ms a token: weights %.2f, estimate %.2f, score %.2f, attention %.2f, waiting %.2f",
		d->subject.model.arch_name, d->subject.model.n_layers, i->backend,
		i->direct_io ? "direct I/O" : "no direct I/O", i->group, i->select, i->predictor,
		i->rank, i->reuse, i->hit_rate, i->foreseen, i->coverage, i->read_per_token / 1024,
		i->stages.weights, i->stages.estimate, i->stages.score, i->stages.attend,
		i->stages.wait);
	return results_write(&r);
}

static int run(struct decode_bench *d)
{
	int rc = subject_open(&d->subject, &d->bench);

	if (rc)
		return rc;
	rc = open_state(d);
	results_start();
	if (!rc)
		rc = fill_all(d);
	if (!rc)
		rc = measure(d);
	if (!rc)
		rc = show(d);
	sides_end(&d->sides);
	if (d->state >= 0)
		close(d->state);
	subject_close(&d->subject);
	return rc;
}

int decode_main(int argc, char **argv)
{
	struct decode_bench *d = calloc(1, sizeof(*d));
	enum parsed parsed;
	int rc;

	if (!d)
		return report_fail("out of memory");
	parsed = bench_parse(&d->bench, argc, argv);
	if (parsed != PARSED) {
		free(d);
		return parsed == PARSED_HELP ? DONE : WRONG_USAGE;
	}
	interrupt_catch();
	d->sides.bench = d->prompts.bench = &d->bench;
	d->sides.progress = d->prompts.progress = d->bench.run.progress || isatty(STDERR_FILENO);
	rc = run(d);
	free(d);
	return rc;
}
