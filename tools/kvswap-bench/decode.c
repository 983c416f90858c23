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

#define TRIAL_DEPTH 2048 /* where flash attention on or off is tried */
#define TRIALS 3

struct decode_bench {
	struct bench bench;
	struct subject subject;
	struct sides sides;
	struct sides prompts,
		trial; /* the same processes: of the filling, of flash attention on or off */
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

static int fill(struct decode_bench *d, struct worker *w)
{
	struct sides *p = &d->prompts;
	int rc;

	sides_add(p, w, WORKER_FILL, d->bench.run.n_threads);
	rc = side_measure(p, &p->side[p->n - 1], d->bench.depth);
	w->filled = !rc;
	return rc;
}

static int fill_ours(struct decode_bench *d)
{
	struct worker *ours = d->sides.ours;
	int rc = sides_start_disk(&d->sides, WORKER_ZERO, d->bench.steps);

	if (!rc)
		rc = fill(d, &ours[ENGINE_DISK]);
	if (!rc)
		rc = start_memory(d);
	if (!rc)
		rc = fill(d, &ours[ENGINE_MEMORY]);
	if (!rc)
		rc = sides_start(&d->sides, ENGINE_DENSE, NULL);
	return rc ? rc : fill(d, &ours[ENGINE_DENSE]);
}

/*
 * Of the first two processes of libllama, which differ in flash attention, the faster comes
 * first.
 */
static int choose_flash(struct decode_bench *d)
{
	uint32_t n = d->bench.depth < TRIAL_DEPTH ? d->bench.depth : TRIAL_DEPTH;
	struct worker *llama = d->sides.llama, swap;
	struct sides *t = &d->trial;
	int rc = DONE;

	for (int i = 0; !rc && i < 2; i++) {
		sides_add(t, &llama[i], WORKER_FILL, d->bench.run.n_threads);
		rc = side_measure(t, &t->side[0], n);
		t->n = 0;
	}
	for (int i = 0; i < 2; i++)
		sides_add(t, &llama[i], WORKER_DEEP, d->bench.run.n_threads);
	for (uint32_t i = 0; !rc && i < TRIALS; i++)
		rc = sides_measure(t, i, d->bench.steps);
	if (rc || sides_best_llama(t, WORKER_DEEP)->worker == &llama[0])
		return rc;
	swap = llama[0];
	llama[0] = llama[1];
	llama[1] = swap;
	return DONE;
}

/*
 * One process reads the prompt; those that differ from it only in how they wait get its KV
 * cache.
 */
static int share_state(struct decode_bench *d)
{
	struct worker_request request = { .op = WORKER_SAVE, .fd = d->state };
	struct worker_reply reply;
	struct sides *s = &d->sides;
	int rc = s->n_llama > 2 ? worker_call(&s->llama[0], &request, &reply) : DONE;

	request.op = WORKER_LOAD;
	for (uint32_t i = 2; !rc && i < s->n_llama; i++) {
		rc = worker_call(&s->llama[i], &request, &reply);
		s->llama[i].filled = !rc;
	}
	return rc;
}

static int fill_llama(struct decode_bench *d)
{
	struct sides *s = &d->sides;
	int rc = sides_start_llama(s, ENGINE_FLASH, 0, 1);

	if (!rc)
		rc = sides_start_llama(s, ENGINE_PLAIN, 0, 1);
	if (!rc)
		rc = choose_flash(d);
	if (!rc)
		rc = sides_start_llama(s, s->llama[0].kind, 1, sides_policies(s));
	if (!rc)
		rc = fill(d, &s->llama[0]);
	return rc ? rc : share_state(d);
}

static int measure(struct decode_bench *d)
{
	struct sides *s = &d->sides;
	uint32_t threads = d->bench.run.n_threads;
	int rc = DONE;

	sides_add(s, &s->ours[ENGINE_DISK], WORKER_DEEP, threads);
	sides_add(s, &s->ours[ENGINE_DISK], WORKER_ZERO, threads);
	sides_add(s, &s->ours[ENGINE_MEMORY], WORKER_DEEP, threads);
	sides_add(s, &s->ours[ENGINE_DENSE], WORKER_DEEP, threads);
	sides_add_llama(s, WORKER_DEEP);
	sides_add_llama(s, WORKER_ZERO);
	for (uint32_t i = 0; !rc && i < d->bench.repeat; i++)
		rc = sides_measure(s, i, d->bench.steps);
	return rc ? rc : sides_info(s, ENGINE_DISK, &d->info);
}

static void add_ratio(struct results *r, const char *name, const struct side *a,
		      const struct side *b)
{
	if (a && b)
		results_add(r, ratio_of(name, &a->series, &b->series));
}

static void add_ratios(struct decode_bench *d, struct results *r)
{
	struct sides *s = &d->sides;
	const struct side *disk = sides_best(s, ENGINE_DISK, WORKER_DEEP);
	const struct side *zero = sides_best(s, ENGINE_DISK, WORKER_ZERO);

	results_add(r, ratio_plain("kv_full_over_resident", "bytes", (double)d->info.full_bytes,
				   (double)d->info.resident_peak));
	add_ratio(r, "decode_over_depth0", disk, zero);
	add_ratio(r, "decode_over_llamacpp", disk, sides_best_llama(s, WORKER_DEEP));
	add_ratio(r, "depth0_over_llamacpp", zero, sides_best_llama(s, WORKER_ZERO));
	add_ratio(r, "disk_over_memory", disk, sides_best(s, ENGINE_MEMORY, WORKER_DEEP));
	add_ratio(r, "decode_over_dense", disk, sides_best(s, ENGINE_DENSE, WORKER_DEEP));
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
		rc = fill_ours(d);
	if (!rc && !d->bench.no_llama)
		rc = fill_llama(d);
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
	d->sides.bench = d->prompts.bench = d->trial.bench = &d->bench;
	d->sides.progress = d->prompts.progress = d->trial.progress =
		d->bench.run.progress || isatty(STDERR_FILENO);
	rc = run(d);
	free(d);
	return rc;
}
