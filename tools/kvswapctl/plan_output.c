// SPDX-License-Identifier: MIT
/* What a plan says: the JSON object, which is a profile too, and the table with the terms of the cost model. */
#include <inttypes.h>
#include <sys/utsname.h>

#include "doc.h"
#include "kvswap/json.h"
#include "kvswap/report.h"
#include "kvswap/session.h"
#include "plan.h"

static const char *write_back(const struct plan *p)
{
	return p->best.settings.write_back == KVS_WRITE_SYNC ? "sync" : "async";
}

static void json_settings(struct json *j, const struct plan *p)
{
	const struct kvs_plan *k = &p->best.plan;

	json_open(j, "settings", '{');
	json_uint(j, "group", k->group);
	if (k->select == KVS_ALL)
		json_text(j, "select", "all");
	else
		json_uint(j, "select", k->select);
	json_text(j, "predictor", k->predictor);
	json_uint(j, "rank", k->rank);
	json_uint(j, "reuse", k->reuse);
	json_uint(j, "record_bytes", k->record_bytes);
	json_uint(j, "ahead_percent", p->best.settings.ahead_percent);
	json_uint(j, "depth", p->best.settings.depth);
	json_text(j, "write_back", write_back(p));
	json_text(j, "kv_type", "f16");
	json_close(j, '}');
}

static void json_memory(struct json *j, const struct plan *p)
{
	const struct kvs_plan *k = &p->best.plan;

	json_open(j, "memory", '{');
	json_uint(j, "budget_bytes", p->budget);
	json_uint(j, "kv_full_bytes", p->full_bytes);
	json_uint(j, "kv_resident_bytes", k->resident_bytes);
	json_uint(j, "metadata_bytes", k->metadata_bytes);
	json_uint(j, "slot_bytes", k->slot_bytes);
	json_uint(j, "rolling_bytes", k->rolling_bytes);
	json_uint(j, "staging_bytes", k->staging_bytes);
	json_uint(j, "smallest_bytes", k->smallest_bytes);
	json_uint(j, "store_bytes", k->store_bytes);
	json_uint(j, "available_bytes", p->available);
	json_close(j, '}');
}

static void json_expected(struct json *j, const struct plan *p)
{
	const struct cost *c = &p->best.cost;

	json_open(j, "expected", '{');
	json_number(j, "tokens_per_s", c->tokens_per_s);
	json_text(j, "binding", c->binding);
	json_number(j, "ms_per_step", c->total_ms);
	json_number(j, "hit_rate", c->hit_rate);
	json_number(j, "ahead_records", c->ahead_records);
	json_number(j, "late_records", c->late_records);
	json_number(j, "read_bytes_per_s", c->read_bytes_s);
	json_number(j, "dense_tokens_per_s", p->dense_tokens_per_s);
	json_uint(j, "threads", p->n_threads);
	json_uint(j, "batch", p->n_seqs);
	json_open(j, "stages", '{');
	for (int k = 0; k < COST_STAGES; k++)
		json_number(j, cost_stage_name((enum cost_stage)k), c->ms[k]);
	json_close(j, '}');
	json_close(j, '}');
}

static void json_device(struct json *j, const struct plan *p)
{
	const struct plan_device *d = &p->device;

	json_open(j, "device", '{');
	json_text(j, "path", d->path);
	json_text(j, "device", d->name);
	json_text(j, "kind", d->kind);
	json_text(j, "model", d->model);
	json_text(j, "probe", d->from);
	json_bool(j, "direct_io", d->direct);
	json_uint(j, "logical_block", d->block);
	json_number(j, "cpu_us", d->cpu_us);
	json_open(j, "reads", '[');
	for (int i = 0; i < d->reads.n; i++) {
		json_open(j, NULL, '{');
		json_uint(j, "bytes", d->reads.cell[i].bytes);
		json_uint(j, "depth", d->reads.cell[i].depth);
		json_number(j, "iops", d->reads.cell[i].iops);
		json_number(j, "cpu_us", d->reads.cell[i].cpu_us);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

void plan_json_members(struct json *j, const struct plan *p)
{
	struct utsname host;

	json_uint(j, "format", DOC_FORMAT);
	json_text(j, "host", uname(&host) ? "" : host.nodename);
	json_settings(j, p);
	json_memory(j, p);
	json_expected(j, p);
	json_device(j, p);
	shape_json(j, &p->model);
	json_uint(j, "context", p->model.shape.n_ctx);
	json_open(j, "advice", '[');
	for (int i = 0; i < p->advice.n; i++)
		json_text(j, NULL, p->advice.text[i]);
	json_close(j, ']');
}

int plan_write_json(const struct plan *p, FILE *f)
{
	struct json j = { .f = f };

	json_open(&j, NULL, '{');
	plan_json_members(&j, p);
	json_close(&j, '}');
	fputc('\n', f);
	return fflush(f) || ferror(f) ? report_fail("cannot write the plan") : DONE;
}

static void table_settings(const struct plan *p)
{
	const struct kvs_plan *k = &p->best.plan;
	char record[32];

	printf("settings   G %u (records of %s), ", k->group,
	       session_size(k->record_bytes, record));
	if (k->select == KVS_ALL)
		printf("select all, ");
	else
		printf("select %u, ", k->select);
	printf("%s, rank %u, %u slots a layer, read ahead %u %%, depth %u, write-back %s\n",
	       k->predictor, k->rank, k->reuse, p->best.settings.ahead_percent,
	       p->best.settings.depth, write_back(p));
}

static void table_memory(const struct plan *p)
{
	const struct kvs_plan *k = &p->best.plan;
	char a[32], b[32], c[32], d[32], e[32];

	printf("memory     %s of %s allowed: slots %s, metadata %s, rolling %s",
	       session_size(k->resident_bytes, a), session_size(p->budget, b),
	       session_size(k->slot_bytes, c), session_size(k->metadata_bytes, d),
	       session_size(k->rolling_bytes, e));
	printf(", staging %s; store %s\n", session_size(k->staging_bytes, a),
	       session_size(k->store_bytes, b));
}

/* What each term is made of. */
static void table_terms(const struct plan *p)
{
	const struct cost *c = &p->best.cost;
	const struct cost_input *in = &p->best.in;
	double n = in->n_disk;
	const char *const how[COST_STAGES] = {
		[COST_COMPUTE] = "the model's graphs near depth 0, measured",
		[COST_ESTIMATE] = "the next layer's query, measured",
		[COST_APPEND] = "layers x the time of one, measured",
		[COST_SCORE] = "layers x the time of one at this depth, measured",
		[COST_ATTEND] = "layers x the time of one over the selection, measured",
		[COST_SUBMIT] = "records read and written x CPU of one, probed",
		[COST_LATE] = "layers x the reads that the estimate misses, probed",
		[COST_AHEAD] =
			"layers x what the reads ahead take beyond the computing of a layer, probed",
		[COST_WRITE] = "layers / G x a write, where it is waited for",
	};

	printf("\n%-9s %9s  ms a step\n", "term", "");
	for (int k = 0; k < COST_STAGES; k++)
		printf("%-9s %9.3f  %s\n", cost_stage_name((enum cost_stage)k), c->ms[k], how[k]);
	printf("%-9s %9.3f  %.1f tokens/s\n", "sum", c->total_ms, c->tokens_per_s);
	printf("\nof a layer %u groups selected, %u slots: hit rate %.2f; %.1f records ahead, %.1f late, of %.0f groups; %.0f layers read\n",
	       in->groups_selected, in->slots, c->hit_rate, c->ahead_records, c->late_records,
	       (double)in->groups_all, n);
}

int plan_write_table(const struct plan *p)
{
	const struct plan_device *d = &p->device;
	char rate[32];

	printf("model      %s, %u layers, %u KV heads x %u, context %u, batch %u, %u threads\n",
	       p->model.arch, p->model.shape.n_layers, p->model.shape.n_kv_heads,
	       p->model.shape.head_dim, p->model.shape.n_ctx, p->n_seqs, p->n_threads);
	printf("storage    %s, %s%s%s%s%s\n", d->path, d->kind, *d->model ? ", " : "", d->model,
	       *d->from ? ", probed in " : "", d->from);
	table_settings(p);
	table_memory(p);
	table_terms(p);
	printf("\nexpected   %.1f tokens/s, reading %s/s; bound by %s; all KV in memory with full attention: %.1f\n",
	       p->best.cost.tokens_per_s, session_size((uint64_t)p->best.cost.read_bytes_s, rate),
	       p->best.cost.binding, p->dense_tokens_per_s);
	for (int i = 0; i < p->advice.n; i++)
		printf("advice     %s\n", p->advice.text[i]);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}
