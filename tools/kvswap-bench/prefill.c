// SPDX-License-Identifier: MIT
/*
 * `kvswap-bench prefill`: the speed of reading a prompt. Our runner with its KV cache on disk
 * and dense in memory, and libllama in the way (threads, waiting) that was fastest on the
 * beginning of the prompt, with flash attention on or off as was faster on all of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "results.h"
#include "sides.h"

#define TRIAL_TOKENS 512
#define TRIALS 3

struct prefill_bench {
	struct bench bench;
	struct subject subject;
	struct sides sides;
	struct side dropped; /* the slower of libllama's ways */
	struct engine_info info;
};

static uint32_t trial_tokens(const struct prefill_bench *p)
{
	return p->bench.depth < TRIAL_TOKENS ? p->bench.depth : TRIAL_TOKENS;
}

static int start(struct prefill_bench *p)
{
	int rc = sides_start_disk(&p->sides, WORKER_FILL, trial_tokens(p));

	if (!rc)
		rc = sides_start(&p->sides, ENGINE_DENSE, NULL);
	if (rc || p->bench.no_llama)
		return rc;
	rc = sides_start_llama(&p->sides, ENGINE_FLASH, 0, sides_policies(&p->sides));
	if (!rc)
		rc = sides_start_llama(&p->sides, ENGINE_PLAIN, 0, sides_policies(&p->sides));
	return rc;
}

/*
 * Leaves the fastest way to run libllama with flash attention and without, with nothing
 * measured.
 */
static int try_llama(struct prefill_bench *p)
{
	struct sides *s = &p->sides;
	struct side best[2];
	int rc = DONE;

	if (!s->n_llama)
		return DONE;
	sides_add_llama(s, WORKER_FILL);
	for (uint32_t i = 0; !rc && i < (s->n > 2 ? TRIALS : 1); i++)
		rc = sides_measure(s, i, trial_tokens(p));
	if (rc)
		return rc;
	best[0] = *sides_best(s, ENGINE_FLASH, WORKER_FILL);
	best[1] = *sides_best(s, ENGINE_PLAIN, WORKER_FILL);
	for (int i = 0; i < 2; i++) {
		s->side[i] = best[i];
		s->side[i].series.n = 0;
	}
	s->n = 2;
	return DONE;
}

/* After the first repetition, and the shallow trial before it, only the better way goes on. */
static void drop_llama(struct prefill_bench *p)
{
	struct sides *s = &p->sides;
	struct side *best = sides_best_llama(s, WORKER_FILL);

	if (!best)
		return;
	p->dropped = best == &s->side[0] ? s->side[1] : s->side[0];
	if (best != &s->side[0])
		s->side[0] = *best;
	s->side[1] = s->side[--s->n];
}

static int measure(struct prefill_bench *p)
{
	struct sides *s = &p->sides;
	uint32_t threads = p->bench.run.n_threads;
	int rc = try_llama(p);

	sides_add(s, &s->ours[ENGINE_DISK], WORKER_FILL, threads);
	sides_add(s, &s->ours[ENGINE_DENSE], WORKER_FILL, threads);
	for (uint32_t i = 0; !rc && i < p->bench.repeat; i++) {
		rc = sides_measure(s, i, p->bench.depth);
		if (i == 0)
			drop_llama(p);
	}
	return rc ? rc : sides_info(s, ENGINE_DISK, &p->info);
}

static void json_more(struct json *j, const void *arg)
{
	const struct prefill_bench *p = arg;

	sides_json(j, &p->info, &p->bench, &p->subject.model);
}

static int show(struct prefill_bench *p)
{
	const struct series *series[MOST_SIDES + 1];
	const struct series *disk = &sides_best(&p->sides, ENGINE_DISK, WORKER_FILL)->series;
	const struct side *llama;
	char title[256];
	struct results r = {
		.argc = p->bench.argc,
		.argv = p->bench.argv,
		.json = p->bench.run.json,
		.title = title,
		.series = series,
		.more = json_more,
		.arg = p,
	};

	for (uint32_t n = 0; n < p->sides.n; n++)
		series[r.n_series++] = &p->sides.side[n].series;
	if (p->dropped.series.n)
		series[r.n_series++] = &p->dropped.series;
	llama = sides_best_llama(&p->sides, WORKER_FILL);
	if (llama)
		results_add(&r, ratio_of("prefill_over_llamacpp", disk, &llama->series));
	results_add(&r, ratio_of("prefill_disk_over_dense", disk,
				 &sides_best(&p->sides, ENGINE_DENSE, WORKER_FILL)->series));
	snprintf(title, sizeof(title), "%s, %u layers; KV cache by %s, %s; kernels %s",
		 p->subject.model.arch_name, p->subject.model.n_layers, p->info.backend,
		 p->info.direct_io ? "direct I/O" : "no direct I/O", p->info.kernels);
	return results_write(&r);
}

static int run(struct prefill_bench *p)
{
	int rc = subject_open(&p->subject, &p->bench);

	if (rc)
		return rc;
	results_start();
	rc = start(p);
	if (!rc)
		rc = measure(p);
	if (!rc)
		rc = show(p);
	sides_end(&p->sides);
	subject_close(&p->subject);
	return rc;
}

int prefill_main(int argc, char **argv)
{
	struct prefill_bench *p = calloc(1, sizeof(*p));
	enum parsed parsed;
	int rc;

	if (!p)
		return report_fail("out of memory");
	parsed = bench_parse(&p->bench, argc, argv);
	if (parsed != PARSED) {
		free(p);
		return parsed == PARSED_HELP ? DONE : WRONG_USAGE;
	}
	interrupt_catch();
	p->sides.bench = &p->bench;
	p->sides.progress = p->bench.run.progress || isatty(STDERR_FILENO);
	rc = run(p);
	free(p);
	return rc;
}
