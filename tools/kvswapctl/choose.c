// SPDX-License-Identifier: MIT
/*
 * The choice of a plan: each G with as many selected tokens as keep the coverage, the memory as the library
 * divides it, the speed as the cost model has it. See plan.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "kvswap/report.h"
#include "kvswap/session.h"
#include "memory.h"
#include "plan.h"

#define GROUP_LEAST 4u
#define RECORD_MOST (256u << 10)
#define DEPTH_SHARE .9 /* of the most requests a second, where more depth brings nothing */
#define DEPTH_LEAST 16u

static const uint32_t aheads[] = { 100, 150, 200 };

static uint32_t count_disk(const struct kvs_shape *shape)
{
	uint32_t n = 0;

	for (uint32_t l = 0; l < shape->n_layers; l++)
		n += !shape->window || !shape->window[l];
	return n;
}

static void set_settings(const struct plan *p, const struct plan_want *w, uint32_t group,
			 struct kvs_settings *set)
{
	uint32_t select = cost_select_for(w->select, group);

	*set = (struct kvs_settings){
		.size = sizeof(*set),
		.group = group,
		.select = select >= p->model.shape.n_ctx ? KVS_ALL : select,
		.predictor = w->predictor,
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
	c->settings.depth = c->in.depth < DEPTH_LEAST ? DEPTH_LEAST : c->in.depth;
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

/* A G whose memory does not fit the budget is passed over; *smallest is then the least that would do. */
static int try_group(struct plan *p, const struct plan_want *w, uint32_t group, uint64_t *smallest)
{
	struct plan_choice *c = &p->choices[p->n_choices];
	char message[KVS_MESSAGE_BYTES] = "";
	int err, rc;

	memset(c, 0, sizeof(*c));
	set_settings(p, w, group, &c->settings);
	err = plan_memory(p, c, message);
	if (err && c->plan.smallest_bytes > p->budget) {
		if (!*smallest || c->plan.smallest_bytes < *smallest)
			*smallest = c->plan.smallest_bytes;
		return DONE;
	}
	if (err)
		return report_fail("%s", message);
	rc = engine_layer(&p->model.shape, KVS_MEMORY, &c->settings, &c->layer);
	if (rc)
		return rc;
	try_aheads(p, c);
	p->n_choices++;
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

int plan_choose(struct plan *p, const struct plan_want *w)
{
	uint32_t token_bytes = 4 * p->model.shape.n_kv_heads * p->model.shape.head_dim;
	uint32_t first = w->group ? w->group : GROUP_LEAST,
		 last = w->group ? w->group : w->group_most;
	uint64_t smallest = 0;

	for (uint32_t g = first; g <= last && p->n_choices < PLAN_CHOICES; g *= 2) {
		int rc;

		if (g > first && g * token_bytes > RECORD_MOST)
			break;
		rc = try_group(p, w, g, &smallest);
		if (rc)
			return rc;
	}
	for (int i = 0; i < p->n_choices; i++)
		if (i == 0 || p->choices[i].cost.total_ms < p->best.cost.total_ms)
			p->best = p->choices[i];
	return p->n_choices ? DONE : no_choice(p, smallest);
}

static uint32_t processors(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
}

static int measure_step(struct plan *p, const struct plan_want *w)
{
	struct compute compute;
	int rc = compute_open(&compute, (int)p->n_threads);

	if (rc)
		return rc;
	if (!w->quiet)
		report_progress("measuring the model");
	rc = engine_step(&p->model.model, &compute, p->n_seqs, &p->step);
	compute_close(&compute);
	report_progress_end();
	return rc;
}

int plan_prepare(struct plan *p, const struct plan_want *w)
{
	const struct shape_options shape = { .model = w->model };
	uint64_t total;
	int rc;

	if (!w->model)
		return report_usage("no model: give -m MODEL.gguf");
	if (w->group & (w->group - 1))
		return report_usage("--group is %u, must be a power of two", w->group);
	rc = shape_open(&p->model, &shape, w->context);
	if (rc)
		return rc;
	p->n_seqs = w->batch;
	p->n_threads = w->threads ? w->threads : processors();
	p->n_disk = count_disk(&p->model.shape);
	p->full_bytes = p->n_seqs * kvs_full_bytes(&p->model.shape, p->model.shape.n_ctx);
	p->budget = w->budget.bytes
			    ? w->budget.bytes
			    : (uint64_t)((double)p->full_bytes * w->budget.part / w->budget.whole);
	p->budget = p->budget ? p->budget : 1;
	memory_look(&p->available, &total);
	rc = plan_device_open(&p->device, w->device, w->force, w->quiet);
	return rc ? rc : measure_step(p, w);
}

void plan_close(struct plan *p)
{
	shape_close(&p->model);
}
