// SPDX-License-Identifier: MIT
/*
 * `kvswapctl plan`: settings for a model, a budget and a storage, what to expect of them, and whether kvswap
 * is the right tool at all.
 */
#include "plan.h"

#include <stdlib.h>
#include <unistd.h>

#include "commands.h"
#include "kvswap/interrupt.h"
#include "kvswap/outfile.h"
#include "kvswap/report.h"
#include "kvswap/session.h"

#define SELECT_DEFAULT 400u
#define RECENT 32u
#define GROUP_MOST 64u

struct values {
	struct plan_want want;
	const char *output;
	bool json, progress;
};

#define AT(field) offsetof(struct values, field)

static const struct cli_option options[] = {
	{ "model", 'm', CLI_TEXT, AT(want.model), 0, 0, "FILE", "a GGUF model" },
	{ "context", 'c', CLI_UINT, AT(want.context), 1, 16777216, "N",
	  "tokens of a sequence (the model's)" },
	{ "budget", 0, CLI_BUDGET, AT(want.budget), 0, 0, "SIZE",
	  "memory for KV, or a fraction of all KV (1/13)" },
	{ "device", 0, CLI_TEXT, AT(want.device), 0, 0, "FILE|PATH",
	  "the JSON of a probe, or a path to probe now (where stores go by default)" },
	{ "batch", 0, CLI_UINT, AT(want.batch), 1, KVS_MAX_SEQS, "N", "sequences at once (1)" },
	{ "group", 0, CLI_UINT, AT(want.group), 1, 256, "G", "this G, instead of the best" },
	{ "select", 0, CLI_UINT, AT(want.select), 1, 1048576, "N",
	  "tokens selected at G = 4 (400); more with larger G" },
	{ "predictor", 0, CLI_TEXT, AT(want.predictor), 0, 0, "NAME",
	  "groupmean (default), lowrank, exact, window" },
	{ "threads", 't', CLI_UINT, AT(want.threads), 1, 512, "N", "threads (all processors)" },
	{ "output", 'o', CLI_TEXT, AT(output), 0, 0, "FILE",
	  "write the plan there too, as a profile for kvswap run" },
	{ "force", 0, CLI_FLAG, AT(want.force), 0, 0, NULL,
	  "take a probe that was made on another machine" },
	{ "json", 0, CLI_FLAG, AT(json), 0, 0, NULL, "one JSON object instead of the table" },
	{ "progress", 0, CLI_FLAG, AT(progress), 0, 0, NULL,
	  "show progress even when stderr is no terminal" },
};

static int measure_dense(struct plan *p)
{
	const struct kvs_settings none = { .size = sizeof(none) };
	struct layer_cost layer;
	int rc = engine_layer(&p->model.shape, KVS_DENSE, &none, &layer);
	double ms = p->step.compute_ms +
		    p->n_disk * p->n_seqs * (layer.append_us + layer.attend_us) / 1e3;

	if (!rc && ms > 0)
		p->dense_tokens_per_s = 1e3 * p->n_seqs / ms;
	return rc;
}

static void advise_memory(struct plan *p)
{
	uint64_t need = p->full_bytes + p->model.weight_bytes;
	char kv[32], weights[32], free_[32];

	if (need > p->available / 10 * 9)
		return;
	session_size(p->full_bytes, kv);
	session_size(p->model.weight_bytes, weights);
	session_size(p->available, free_);
	if (p->dense_tokens_per_s >= p->best.cost.tokens_per_s)
		warn(&p->advice,
		     "kvswap is the wrong tool: %s of KV and %s of weights fit the %s that are free, where full attention makes %.1f tokens/s and kvswap %.1f",
		     kv, weights, free_, p->dense_tokens_per_s, p->best.cost.tokens_per_s);
	else
		warn(&p->advice,
		     "%s of KV and %s of weights fit the %s that are free: no storage is needed (--kv memory); full attention makes %.1f tokens/s",
		     kv, weights, free_, p->dense_tokens_per_s);
}

static void advise_storage(struct plan *p)
{
	const struct cost *c = &p->best.cost;
	double storage = c->ms[COST_LATE] + c->ms[COST_AHEAD] + c->ms[COST_WRITE];

	if (storage > 3 * (c->total_ms - storage))
		warn(&p->advice,
		     "the storage is too slow for this model: %.0f of %.0f ms a token are spent waiting for it",
		     storage / p->n_seqs, c->total_ms / p->n_seqs);
	if (p->best.in.slots < p->best.in.groups_selected &&
	    p->best.in.slots < p->best.in.groups_all)
		warn(&p->advice,
		     "the budget leaves %u slots a layer for %u selected groups: a larger one would save reads",
		     p->best.in.slots, p->best.in.groups_selected);
	if (!p->device.direct)
		warn(&p->advice,
		     "I/O is not direct on %s: the page cache takes memory beside the budget",
		     p->device.path);
}

static void advise(struct plan *p)
{
	uint32_t select = p->best.plan.select, n_ctx = p->model.shape.n_ctx;

	advise_memory(p);
	if (select == KVS_ALL || (uint64_t)select + RECENT >= n_ctx / 2)
		warn(&p->advice,
		     "kvswap is the wrong tool: a context of %u tokens is hardly longer than the %u that are attended to in any case",
		     n_ctx, select == KVS_ALL ? n_ctx : select + RECENT);
	advise_storage(p);
}

/* A temporary name, synced, renamed: what was there before stays until the new one is whole. */
static int write_profile(const struct plan *p, const char *path)
{
	struct outfile out = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	int rc = f ? plan_write_json(p, f) : report_fail("out of memory");

	if (f && fclose(f) && !rc)
		rc = report_fail("out of memory");
	if (!rc)
		rc = outfile_open(&out, path);
	if (!rc)
		rc = outfile_write(&out, text, bytes);
	if (!rc)
		rc = outfile_commit(&out);
	outfile_abandon(&out);
	free(text);
	return rc;
}

static int run(struct plan *p, const struct values *v)
{
	int rc = plan_prepare(p, &v->want);

	if (!rc)
		rc = plan_choose(p, &v->want);
	if (!rc)
		rc = measure_dense(p);
	if (!rc)
		advise(p);
	if (!rc && v->output)
		rc = write_profile(p, v->output);
	if (!rc)
		rc = v->json ? plan_write_json(p, stdout) : plan_write_table(p);
	plan_close(p);
	return rc;
}

static int plan_main(int argc, char **argv)
{
	struct values v = { .want = { .device = "",
				      .select = SELECT_DEFAULT,
				      .batch = 1,
				      .group_most = GROUP_MOST,
				      .predictor = "groupmean",
				      .budget = { .part = 1, .whole = 13 } } };
	struct cli_list operands;
	enum cli_result parsed = cli_parse(&command_plan, &v, argc, argv, &operands);
	struct plan *p;
	int rc;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_plan, &operands))
		return WRONG_USAGE;
	p = calloc(1, sizeof(*p));
	if (!p)
		return report_fail("out of memory");
	interrupt_catch();
	v.want.quiet = !v.progress && !isatty(STDERR_FILENO);
	rc = run(p, &v);
	if (rc > WRONG_USAGE)
		report_note("interrupted");
	free(p);
	return rc;
}

const struct command command_plan = {
	.name = "plan",
	.summary = "settings for a model, a budget and a storage, and the speed to expect",
	.usage = "-m MODEL.gguf [-c CONTEXT] [--budget B] [--device FILE|PATH] [options]",
	.about =
		"Chooses G, the selection, slots and reading ahead, and tells the speed to expect from a cost model: the\n"
		"times of the model's own graphs and of attention, measured here in seconds, and the probe of the storage.\n"
		"Says what binds, and when kvswap is the wrong tool.",
	.examples =
		"  kvswapctl plan -m model.gguf -c 32768 --budget 1/13\n"
		"  kvswapctl plan -m model.gguf -c 32768 --budget 512M --device nvme.json -o nvme.profile",
	.options = options,
	.n_options = CLI_N(options),
	.main = plan_main,
};
