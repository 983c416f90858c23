// SPDX-License-Identifier: MIT
/* See sides.h. */
#include "sides.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvswap/report.h"

#define TRIALS 3

static const char *const policies[MOST_POLICIES] = { "passive", "active", NULL };

/* One thread waits for nobody. */
uint32_t sides_policies(const struct sides *s)
{
	return s->bench->run.n_threads > 1 ? MOST_POLICIES : 1;
}

int sides_start(struct sides *s, enum engine_kind kind, char *const *more)
{
	return worker_start(&s->ours[kind], s->bench, kind, s->policy, more);
}

int sides_start_llama(struct sides *s, enum engine_kind kind, uint32_t first, uint32_t end)
{
	int rc = DONE;

	for (uint32_t i = first; !rc && i < end; i++) {
		rc = worker_start(&s->llama[s->n_llama], s->bench, kind, policies[i], NULL);
		s->n_llama += !rc;
	}
	return rc;
}

void sides_end(struct sides *s)
{
	for (uint32_t i = 0; i < N_ENGINES; i++)
		worker_end(&s->ours[i]);
	for (uint32_t i = 0; i < s->n_llama; i++)
		worker_end(&s->llama[i]);
}

static void name_series(struct side *side, const struct bench *b)
{
	static const char *const names[N_ENGINES] = {
		"kvswap disk", "kvswap memory", "kvswap dense", "libllama", "libllama",
	};
	struct series *s = &side->series;
	const struct worker *w = side->worker;
	const char *policy = side->threads > 1 ? w->policy : NULL;
	uint32_t depth = side->op == WORKER_ZERO ? 0 : b->depth;

	snprintf(s->name, sizeof(s->name), "%s, %s %u", names[w->kind],
		 side->op == WORKER_FILL ? "prompt of" : "depth", depth);
	s->unit = "tokens/s";
	snprintf(s->how, sizeof(s->how), "%u thread%s%s%s%s", side->threads,
		 side->threads > 1 ? "s" : "", policy ? ", waiting " : "", policy ? policy : "",
		 w->kind == ENGINE_FLASH   ? ", flash attention"
		 : w->kind == ENGINE_PLAIN ? ", no flash attention"
					   : "");
}

void sides_add(struct sides *s, struct worker *w, enum worker_op op, uint32_t threads)
{
	struct side *side = &s->side[s->n++];

	memset(side, 0, sizeof(*side));
	side->worker = w;
	side->op = op;
	side->threads = threads;
	name_series(side, s->bench);
}

/* With one thread all policies are the first. */
void sides_add_llama(struct sides *s, enum worker_op op)
{
	uint32_t counts[MOST_THREAD_COUNTS], n = bench_thread_counts(s->bench, counts);

	for (uint32_t p = 0; p < s->n_llama; p++) {
		struct worker *w = &s->llama[p];

		if (op == WORKER_DEEP && !w->filled)
			continue;
		for (uint32_t i = 0; i < n; i++)
			if (w->policy == policies[0] || counts[i] > 1)
				sides_add(s, w, op, counts[i]);
	}
}

int side_measure(struct sides *s, struct side *side, uint32_t n)
{
	struct worker_request request = { .op = side->op, .n = n, .threads = side->threads };
	struct worker_reply reply;
	int rc;

	if (s->progress)
		report_progress("%s, %s, repetition %u of %u", side->series.name, side->series.how,
				side->series.n + 1, s->bench->repeat);
	rc = worker_call(side->worker, &request, &reply);
	report_progress_end();
	if (!rc)
		series_add(&side->series, n / ((double)reply.wall_ns / 1e9),
			   (double)reply.cpu_ns / 1e6 / n);
	return rc;
}

int sides_measure(struct sides *s, uint32_t repetition, uint32_t n)
{
	int rc = DONE;

	for (uint32_t i = 0; !rc && i < s->n; i++)
		rc = side_measure(s, &s->side[(repetition + i) % s->n], n);
	return rc;
}

static struct side *better(struct side *a, struct side *b)
{
	return !a || series_rate(&b->series) > series_rate(&a->series) ? b : a;
}

struct side *sides_best(struct sides *s, enum engine_kind kind, enum worker_op op)
{
	struct side *best = NULL;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->side[i].worker->kind == kind && s->side[i].op == op)
			best = better(best, &s->side[i]);
	return best;
}

struct side *sides_best_llama(struct sides *s, enum worker_op op)
{
	struct side *flash = sides_best(s, ENGINE_FLASH, op);
	struct side *plain = sides_best(s, ENGINE_PLAIN, op);

	return plain ? better(flash, plain) : flash;
}

static int try_policies(struct sides *s, struct worker *w, enum worker_op op, uint32_t n)
{
	int rc = DONE;

	for (uint32_t i = 0; !rc && i < sides_policies(s); i++) {
		rc = worker_start(&w[i], s->bench, ENGINE_DISK, policies[i], NULL);
		sides_add(s, &w[i], op, s->bench->run.n_threads);
	}
	for (uint32_t i = 0; !rc && i < TRIALS; i++)
		rc = sides_measure(s, i, n);
	return rc;
}

int sides_start_disk(struct sides *s, enum worker_op op, uint32_t n)
{
	struct worker w[MOST_POLICIES] = { 0 }, *best = &w[0];
	int rc = DONE;

	s->policy = policies[0];
	if (sides_policies(s) == 1)
		return sides_start(s, ENGINE_DISK, NULL);
	rc = try_policies(s, w, op, n);
	if (!rc)
		best = sides_best(s, ENGINE_DISK, op)->worker;
	s->policy = best->policy;
	s->ours[ENGINE_DISK] = *best;
	for (uint32_t i = 0; i < MOST_POLICIES; i++)
		if (&w[i] != best)
			worker_end(&w[i]);
	s->n = 0;
	return rc;
}

int sides_info(struct sides *s, enum engine_kind kind, struct engine_info *info)
{
	struct worker_request request = { .op = WORKER_INFO };
	struct worker_reply reply;
	int rc = worker_call(&s->ours[kind], &request, &reply);

	if (!rc)
		*info = reply.info;
	return rc;
}

static void json_model(struct json *j, const struct bench *b, const struct model *m)
{
	json_open(j, "model", '{');
	json_text(j, "file", b->run.model);
	json_text(j, "arch", m->arch_name);
	json_uint(j, "layers", m->n_layers);
	json_uint(j, "heads", m->n_heads);
	json_uint(j, "kv_heads", m->n_kv_heads);
	json_uint(j, "head_dim", m->head_dim);
	json_close(j, '}');
}

static void json_settings(struct json *j, const struct engine_info *info)
{
	json_open(j, "settings", '{');
	json_uint(j, "group", info->group);
	json_uint(j, "select", info->select);
	json_text(j, "predictor", info->predictor);
	json_uint(j, "rank", info->rank);
	json_uint(j, "reuse", info->reuse);
	json_uint(j, "record_bytes", info->record_bytes);
	json_close(j, '}');
}

static void json_memory(struct json *j, const struct engine_info *info)
{
	json_open(j, "memory", '{');
	json_uint(j, "kv_full_bytes", info->full_bytes);
	json_uint(j, "kv_resident_peak_bytes", info->resident_peak);
	json_uint(j, "budget_bytes", info->budget);
	json_close(j, '}');
}

static void json_decode(struct json *j, const struct engine_info *info)
{
	const struct engine_stages *t = &info->stages;

	json_open(j, "selection", '{');
	json_number(j, "hit_rate", info->hit_rate);
	json_number(j, "predicted_recall", info->foreseen);
	json_number(j, "coverage", info->coverage);
	json_number(j, "bytes_read_per_token", info->read_per_token);
	json_close(j, '}');
	json_open(j, "stages", '{');
	json_number(j, "compute", t->weights);
	json_number(j, "estimate", t->estimate);
	json_number(j, "append", t->append);
	json_number(j, "score", t->score);
	json_number(j, "attend", t->attend);
	json_number(j, "wait", t->wait);
	json_close(j, '}');
}

void sides_json(struct json *j, const struct engine_info *info, const struct bench *b,
		const struct model *m)
{
	json_model(j, b, m);
	json_uint(j, "depth", b->depth);
	json_uint(j, "threads", b->run.n_threads);
	json_text(j, "backend", info->backend);
	json_bool(j, "direct_io", info->direct_io);
	json_text(j, "kernels", info->kernels);
	json_settings(j, info);
	json_memory(j, info);
	if (info->stages.weights > 0)
		json_decode(j, info);
}
