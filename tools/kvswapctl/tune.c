// SPDX-License-Identifier: MIT
/*
 * `kvswapctl tune`: the same as plan, by measuring. The defaults first, then what the cost model ranks best, each
 * a real run on the real storage; what loses coverage is passed over; the best is measured against the defaults once more.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "kvswap/clock.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "plan.h"
#include "trial.h"
#include "trials.h"

#define SELECT_DEFAULT 400u
#define GROUP_MOST 256u
#define BYTES_PER_TOKEN 3u /* of text, on the safe side */
#define TOKENS 48u
#define MORE_SELECTED 1.25 /* of a candidate that loses coverage, tried once */
#define NOISE 1.03	   /* what beats the defaults by less does not beat them */
#define FINAL_RUNS 3u

struct values {
	struct plan_want want;
	const char *text, *store, *output;
	double seconds, loss;
	bool progress;
};

#define AT(field) offsetof(struct values, field)

static const struct cli_option options[] = {
	{ "model", 'm', CLI_TEXT, AT(want.model), 0, 0, "FILE", "a GGUF model" },
	{ "file", 'f', CLI_TEXT, AT(text), 0, 0, "TEXT", "a text like those that will be read" },
	{ "output", 'o', CLI_TEXT, AT(output), 0, 0, "PROFILE",
	  "where the profile goes; PROFILE.trials beside it" },
	{ "context", 'c', CLI_UINT, AT(want.context), 256, 16777216, "N",
	  "tokens of a prompt, about (4096)" },
	{ "budget", 0, CLI_BUDGET, AT(want.budget), 0, 0, "SIZE",
	  "memory for KV, or a fraction of all KV (1/13)" },
	{ "store", 0, CLI_TEXT, AT(store), 0, 0, "PATH", "where the store goes, as in kvswap run" },
	{ "device", 0, CLI_TEXT, AT(want.device), 0, 0, "FILE|PATH",
	  "the JSON of a probe (the store is probed)" },
	{ "seconds", 's', CLI_REAL, AT(seconds), 1, 1e6, "S", "time for trials, about (600)" },
	{ "loss", 0, CLI_REAL, AT(loss), 0, 1, "SHARE", "coverage that may be lost (0.01)" },
	{ "threads", 't', CLI_UINT, AT(want.threads), 1, 512, "N", "threads (all processors)" },
	{ "force", 0, CLI_FLAG, AT(want.force), 0, 0, NULL,
	  "take a probe that was made on another machine" },
	{ "progress", 0, CLI_FLAG, AT(progress), 0, 0, NULL,
	  "show progress even when stderr is no terminal" },
};

struct tune {
	const struct values *v;
	struct plan plan;
	struct trial_run run;
	struct trials trials; /* trials.trial[0]: the defaults */
	char text[64];	      /* the beginning of the text, as long as the context wants it */
	uint64_t deadline_ns;
};

static int cut_text(struct tune *t)
{
	size_t bytes = (size_t)t->plan.model.shape.n_ctx * BYTES_PER_TOKEN, n;
	FILE *from = fopen(t->v->text, "re");
	char *text = malloc(bytes);
	int rc = DONE, fd;

	if (!from || !text) {
		rc = report_fail("%s: %s", t->v->text, from ? "out of memory" : strerror(errno));
		goto out;
	}
	n = fread(text, 1, bytes, from);
	if (n < bytes)
		rc = report_fail("%s has %zu bytes, a context of %u wants %zu: lower -c",
				 t->v->text, n, t->plan.model.shape.n_ctx, bytes);
	if (rc)
		goto out;
	snprintf(t->text, sizeof(t->text), "/tmp/kvswap-text-XXXXXX");
	fd = mkstemp(t->text);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n)
		rc = report_fail("%s: %s", t->text, strerror(errno));
	if (fd >= 0)
		close(fd);
out:
	free(text);
	if (from)
		fclose(from);
	return rc;
}

static bool time_left(const struct tune *t)
{
	return clock_ns() < t->deadline_ns;
}

/* One measured already, in a run before this one, is not measured again. */
static int measure(struct tune *t, struct trial *trial, uint32_t runs)
{
	int rc = DONE;

	while (!rc && trial->runs < runs) {
		if (!t->v->want.quiet)
			report_progress("trial %d: G %u, select %u, ahead %u %%",
					(int)(trial - t->trials.trial) + 1, trial->group,
					trial->select, trial->ahead);
		rc = trial_measure(&t->run, trial);
		report_progress_end();
		if (!rc)
			rc = trials_save(&t->trials);
	}
	return rc;
}

static int measure_new(struct tune *t, const struct trial *like)
{
	struct trial *at = trials_find(&t->trials, like);

	if (!at)
		at = trials_add(&t->trials, like);
	return at ? measure(t, at, 1) : DONE;
}

static double least_coverage(const struct tune *t)
{
	return t->trials.trial[0].coverage - t->v->loss;
}

static int try_choice(struct tune *t, const struct plan_choice *c, uint32_t ahead)
{
	struct trial like = { .group = c->plan.group,
			      .select = c->plan.select,
			      .ahead = ahead,
			      .predicted = c->cost.tokens_per_s };
	const struct trial *made;
	int rc = measure_new(t, &like);

	made = trials_find(&t->trials, &like);
	if (rc || !made || made->coverage >= least_coverage(t) || !time_left(t))
		return rc;
	like.select = (uint32_t)(like.select * MORE_SELECTED) / like.group * like.group;
	like.predicted = 0;
	return measure_new(t, &like);
}

static int compare(const void *a, const void *b)
{
	double x = ((const struct plan_choice *)a)->cost.total_ms,
	       y = ((const struct plan_choice *)b)->cost.total_ms;

	return x < y ? -1 : x > y;
}

/* Those that the cost model likes best come first: time may end early. */
static int search(struct tune *t)
{
	static const uint32_t aheads[] = { 100, 150 };
	struct plan *p = &t->plan;
	int rc = measure(t, &t->trials.trial[0], 1);

	qsort(p->choices, (size_t)p->n_choices, sizeof(p->choices[0]), compare);
	for (size_t a = 0; a < CLI_N(aheads); a++)
		for (int i = 0; !rc && i < p->n_choices && time_left(t); i++)
			if (p->choices[i].plan.select != KVS_ALL)
				rc = try_choice(t, &p->choices[i], aheads[a]);
	return rc;
}

/* The fastest that keeps the coverage, against the defaults in as many runs. */
static int settle(struct tune *t, const struct trial **winner)
{
	struct trial *defaults = &t->trials.trial[0], *best = defaults;
	int rc = DONE;

	for (int i = 1; i < t->trials.n; i++) {
		struct trial *at = &t->trials.trial[i];

		if (at->runs && at->coverage >= least_coverage(t) &&
		    at->tokens_per_s > best->tokens_per_s)
			best = at;
	}
	*winner = defaults;
	if (best == defaults)
		return DONE;
	for (uint32_t runs = 2; !rc && runs <= FINAL_RUNS; runs++) {
		rc = measure(t, defaults, runs);
		if (!rc)
			rc = measure(t, best, runs);
	}
	if (!rc && best->tokens_per_s > NOISE * defaults->tokens_per_s)
		*winner = best;
	return rc;
}

static int write_profile(struct tune *t, const struct trial *w)
{
	struct plan *p = &t->plan;
	const struct trial *d = &t->trials.trial[0];

	p->best = p->choices[0];
	for (int i = 0; i < p->n_choices; i++)
		if (p->choices[i].plan.group == w->group)
			p->best = p->choices[i];
	p->best.plan.group = w->group;
	p->best.plan.select = w->select;
	p->best.plan.reuse = w->reuse;
	p->best.plan.record_bytes = w->record_bytes;
	p->best.settings.ahead_percent = w->ahead ? w->ahead : 100;
	printf("G %u, select %u, read ahead %u %%: %.1f tokens/s, coverage %.3f; defaults %.1f, coverage %.3f (%.2f times)\n",
	       w->group, w->select, p->best.settings.ahead_percent, w->tokens_per_s, w->coverage,
	       d->tokens_per_s, d->coverage, w->tokens_per_s / d->tokens_per_s);
	return trials_write_profile(&t->trials, p, w, t->v->output);
}

static int prepare(struct tune *t)
{
	const struct values *v = t->v;
	int rc = plan_prepare(&t->plan, &v->want);

	if (!rc)
		rc = plan_choose(&t->plan, &v->want);
	if (!rc)
		rc = cut_text(t);
	if (rc)
		return rc;
	trial_program(t->run.program);
	t->run.model = v->want.model;
	t->run.text = t->text;
	t->run.store = v->store;
	t->run.budget = t->plan.budget;
	t->run.tokens = TOKENS;
	t->run.threads = v->want.threads;
	t->deadline_ns = clock_ns() + (uint64_t)(v->seconds * 1e9);
	return trials_open(&t->trials, v->output, &t->run, v->text, t->plan.model.shape.n_ctx);
}

static int run(struct tune *t)
{
	const struct trial *winner;
	int rc = prepare(t);

	if (!rc)
		rc = search(t);
	if (!rc)
		rc = settle(t, &winner);
	if (!rc)
		rc = write_profile(t, winner);
	if (rc > WRONG_USAGE)
		report_note("interrupted; the same command goes on from here (%s)", t->trials.path);
	if (t->text[0])
		unlink(t->text);
	plan_close(&t->plan);
	return rc;
}

static int check(const struct values *v)
{
	if (!v->want.model || !v->text || !v->output)
		return report_usage("tune wants -m MODEL.gguf, -f TEXT and -o PROFILE");
	return DONE;
}

static int tune_main(int argc, char **argv)
{
	struct values v = { .seconds = 600,
			    .loss = .01,
			    .want = { .context = 4096,
				      .select = SELECT_DEFAULT,
				      .batch = 1,
				      .group_most = GROUP_MOST,
				      .predictor = "groupmean",
				      .budget = { .part = 1, .whole = 13 } } };
	struct cli_list operands;
	enum cli_result parsed = cli_parse(&command_tune, &v, argc, argv, &operands);
	struct tune *t;
	int rc;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_tune, &operands) || check(&v))
		return WRONG_USAGE;
	if (!v.want.device)
		v.want.device = v.store ? v.store : "";
	t = calloc(1, sizeof(*t));
	if (!t)
		return report_fail("out of memory");
	interrupt_catch();
	v.want.quiet = !v.progress && !isatty(STDERR_FILENO);
	t->v = &v;
	rc = run(t);
	free(t);
	return rc;
}

const struct command command_tune = {
	.name = "tune",
	.summary = "the best settings by measuring, as a profile",
	.usage = "-m MODEL.gguf -f TEXT -o PROFILE [options]",
	.about =
		"Runs kvswap on the text with the settings that the cost model ranks first, within the time given, keeps\n"
		"those that lose no coverage, and writes the fastest as a profile with all trials in it. Where the\n"
		"defaults are as good, they win. After Ctrl-C the same command goes on where it was.",
	.examples =
		"  kvswapctl tune -m model.gguf -f book.txt -c 8192 --budget 1/13 --store /mnt/sd -o sd.profile",
	.options = options,
	.n_options = CLI_N(options),
	.main = tune_main,
};
