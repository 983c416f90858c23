// SPDX-License-Identifier: MIT
/*
 * `kvswapctl plan`: settings for a model, a budget and a storage. Tries each G with as many selected tokens
 * as keep the coverage, has the library plan the memory, and takes what the cost model says is fastest.
 */
#include "plan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "kvswap/interrupt.h"
#include "kvswap/outfile.h"
#include "kvswap/report.h"
#include "kvswap/session.h"
#include "memory.h"

#define SELECT_DEFAULT 400u
#define RECENT 32u
#define GROUP_MOST 256u
#define RECORD_MOST (256u << 10)
#define DEPTH_SHARE .9 /* of the most requests a second, where more depth brings nothing */

static const uint32_t aheads[] = { 100, 150, 200 };

struct values {
	const char *model, *device, *predictor, *output;
	uint32_t context, batch, group, select, threads;
	struct cli_budget budget;
	bool json, force, progress;
};

#define AT(field) offsetof(struct values, field)

static const struct cli_option options[] = {
	{ "model", 'm', CLI_TEXT, AT(model), 0, 0, "FILE", "a GGUF model" },
	{ "context", 'c', CLI_UINT, AT(context), 1, 16777216, "N",
	  "tokens of a sequence (the model's)" },
	{ "budget", 0, CLI_BUDGET, AT(budget), 0, 0, "SIZE",
	  "memory for KV, or a fraction of all KV (1/13)" },
	{ "device", 0, CLI_TEXT, AT(device), 0, 0, "FILE|PATH",
	  "the JSON of a probe, or a path to probe now (where stores go by default)" },
	{ "batch", 0, CLI_UINT, AT(batch), 1, KVS_MAX_SEQS, "N", "sequences at once (1)" },
	{ "group", 0, CLI_UINT, AT(group), 1, GROUP_MOST, "G", "this G, instead of the best" },
	{ "select", 0, CLI_UINT, AT(select), 1, 1048576, "N",
	  "tokens selected at G = 4 (400); more with larger G" },
	{ "predictor", 0, CLI_TEXT, AT(predictor), 0, 0, "NAME",
	  "groupmean (default), lowrank, exact, window" },
	{ "threads", 't', CLI_UINT, AT(threads), 1, 512, "N", "threads (all processors)" },
	{ "output", 'o', CLI_TEXT, AT(output), 0, 0, "FILE",
	  "write the plan there too, as a profile for kvswap run" },
	{ "force", 0, CLI_FLAG, AT(force), 0, 0, NULL,
	  "take a probe that was made on another machine" },
	{ "json", 0, CLI_FLAG, AT(json), 0, 0, NULL, "one JSON object instead of the table" },
	{ "progress", 0, CLI_FLAG, AT(progress), 0, 0, NULL,
	  "show progress even when stderr is no terminal" },
};

static uint32_t count_disk(const struct kvs_shape *shape)
{
	uint32_t n = 0;

	for (uint32_t l = 0; l < shape->n_layers; l++)
		n += !shape->window || !shape->window[l];
	return n;
}

static void set_settings(const struct plan *p, const struct values *v, uint32_t group,
			 struct kvs_settings *set)
{
	uint32_t select = cost_select_for(v->select, group);

	*set = (struct kvs_settings){
		.size = sizeof(*set),
		.group = group,
		.select = select >= p->model.shape.n_ctx ? KVS_ALL : select,
		.predictor = v->predictor,
		.write_back = p->device.slow ? KVS_WRITE_SYNC : KVS_WRITE_ASYNC,
	};
}

static int plan_memory(const struct plan *p, struct plan_choice *c, char *message)
{
	struct kvs_config cfg = { .size = sizeof(cfg),
				  .shape = p->model.shape,
				  .settings = c->settings,
				  .budget = p->budget };

	cfg.shape.n_seqs = p->n_seqs;
	cfg.n_threads = (int)p->n_threads;
	cfg.store = p->device.path[0] && !access(p->device.path, F_OK) ? p->device.path : NULL;
	memset(&c->plan, 0, sizeof(c->plan));
	c->plan.size = sizeof(c->plan);
	return kvs_plan(&cfg, &c->plan, message);
}

static void set_input(const struct plan *p, struct plan_choice *c)
{
	uint32_t all = (p->model.shape.n_ctx + c->plan.group - 1) / c->plan.group;
	uint32_t selected = c->plan.select == KVS_ALL
				    ? all
				    : (c->plan.select + c->plan.group - 1) / c->plan.group;

	c->in = (struct cost_input){
		.reads = &p->device.reads,
		.writes = &p->device.writes,
		.cpu_us = p->device.cpu_us,
		.n_disk = p->n_disk,
		.n_seqs = p->n_seqs,
		.compute_ms = p->step.compute_ms,
		.estimate_ms = p->step.estimate_ms,
		.append_us = c->layer.append_us,
		.score_us = c->layer.score_us,
		.attend_us = c->layer.attend_us,
		.record_bytes = c->plan.record_bytes,
		.group = c->plan.group,
		.groups_selected = selected < all ? selected : all,
		.groups_all = all,
		.slots = c->plan.reuse / p->n_seqs,
		.write_sync = p->device.slow,
	};
	c->in.depth = cells_depth(&p->device.reads, c->plan.record_bytes, DEPTH_SHARE);
	c->settings.depth = c->in.depth < 16 ? 16 : c->in.depth;
}

/* The best of the settings that cost nothing to try. */
static void try_aheads(const struct plan *p, struct plan_choice *c)
{
	struct cost cost;

	set_input(p, c);
	for (size_t i = 0; i < CLI_N(aheads); i++) {
		c->in.ahead_percent = aheads[i];
		cost_work_out(&c->in, &cost);
		if (i == 0 || cost.total_ms < c->cost.total_ms) {
			c->cost = cost;
			c->settings.ahead_percent = aheads[i];
		}
	}
	c->in.ahead_percent = c->settings.ahead_percent;
}

static int try_group(struct plan *p, const struct values *v, uint32_t group, uint64_t *smallest)
{
	struct plan_choice c = { 0 };
	char message[KVS_MESSAGE_BYTES] = "";
	int err, rc;

	set_settings(p, v, group, &c.settings);
	err = plan_memory(p, &c, message);
	if (err && c.plan.smallest_bytes && c.plan.smallest_bytes > p->budget) {
		*smallest = *smallest && *smallest < c.plan.smallest_bytes ? *smallest
									   : c.plan.smallest_bytes;
		return DONE;
	}
	if (err)
		return report_fail("%s", message);
	rc = engine_layer(&p->model.shape, KVS_MEMORY, &c.settings, &c.layer);
	if (rc)
		return rc;
	try_aheads(p, &c);
	if (!p->best.cost.total_ms || c.cost.total_ms < p->best.cost.total_ms)
		p->best = c;
	return DONE;
}

static int no_choice(const struct plan *p, uint64_t smallest)
{
	char asked[32], least[32];

	return report_fail(
		"a budget of %s is too small: the smallest for this context is %s (--budget %" PRIu64
		")",
		session_size(p->budget, asked), session_size(smallest, least), smallest);
}

static int choose(struct plan *p, const struct values *v)
{
	uint32_t token_bytes = 4 * p->model.shape.n_kv_heads * p->model.shape.head_dim,
		 first = v->group ? v->group : 4;
	uint64_t smallest = 0;

	if (first & (first - 1))
		return report_usage("--group is %u, must be a power of two", first);
	for (uint32_t g = first; g <= (v->group ? v->group : 64); g *= 2) {
		int rc;

		if (g > first && g * token_bytes > RECORD_MOST)
			break;
		rc = try_group(p, v, g, &smallest);
		if (rc)
			return rc;
	}
	return p->best.cost.total_ms ? DONE : no_choice(p, smallest);
}

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

static int measure(struct plan *p, const struct values *v)
{
	struct compute compute;
	int rc = compute_open(&compute, (int)p->n_threads);

	if (rc)
		return rc;
	if (v->progress)
		report_progress("measuring the model");
	rc = engine_step(&p->model.model, &compute, p->n_seqs, &p->step);
	compute_close(&compute);
	if (!rc && v->progress)
		report_progress("measuring attention");
	if (!rc)
		rc = choose(p, v);
	if (!rc)
		rc = measure_dense(p);
	report_progress_end();
	return rc;
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
	const struct shape_options shape = { .model = v->model };
	uint64_t total;
	int rc = shape_open(&p->model, &shape, v->context);

	if (rc)
		return rc;
	p->n_disk = count_disk(&p->model.shape);
	p->full_bytes = p->n_seqs * kvs_full_bytes(&p->model.shape, p->model.shape.n_ctx);
	p->budget = v->budget.bytes
			    ? v->budget.bytes
			    : (uint64_t)((double)p->full_bytes * v->budget.part / v->budget.whole);
	memory_look(&p->available, &total);
	rc = plan_device_open(&p->device, v->device, v->force, !v->progress);
	if (!rc)
		rc = measure(p, v);
	if (!rc)
		advise(p);
	if (!rc && v->output)
		rc = write_profile(p, v->output);
	if (!rc)
		rc = v->json ? plan_write_json(p, stdout) : plan_write_table(p);
	shape_close(&p->model);
	return rc;
}

static int plan_main(int argc, char **argv)
{
	struct values v = { .device = "",
			    .select = SELECT_DEFAULT,
			    .batch = 1,
			    .predictor = "groupmean",
			    .budget = { .part = 1, .whole = 13 } };
	struct cli_list operands;
	enum cli_result parsed = cli_parse(&command_plan, &v, argc, argv, &operands);
	cpu_set_t cpus;
	struct plan *p;
	int rc;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_plan, &operands))
		return WRONG_USAGE;
	if (!v.model)
		return report_usage("no model: give -m MODEL.gguf");
	p = calloc(1, sizeof(*p));
	if (!p)
		return report_fail("out of memory");
	interrupt_catch();
	v.progress |= isatty(STDERR_FILENO) != 0;
	p->n_seqs = v.batch;
	p->n_threads = v.threads				   ? v.threads
		       : sched_getaffinity(0, sizeof(cpus), &cpus) ? 1
								   : (uint32_t)CPU_COUNT(&cpus);
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
