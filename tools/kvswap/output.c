// SPDX-License-Identifier: MIT
/* What a run says at its end: the JSON object, the texts of a batch, the summary on stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "report.h"
#include "run.h"

struct figures {
	uint64_t full_bytes;
	double hit_rate, recall, coverage, mean_selected;
	double p50_ms, p99_ms, decode_rate;
	uint64_t rss_peak;
	struct kvs_info info;
};

static uint64_t rss_peak_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %lu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return (uint64_t)kib * 1024;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double quantile_ms(const uint64_t *sorted, uint32_t n, double q)
{
	return n ? (double)sorted[(uint32_t)(q * (n - 1) + 0.5)] / 1e6 : 0;
}

static double share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

static void work_out(struct run *r, struct figures *f)
{
	const struct kvs_stats *s = &r->after, *b = &r->before;
	double selected = (double)(s->groups_selected - b->groups_selected);
	double selections = (double)(s->selections - b->selections);
	uint64_t stepped_ns = 0;

	f->info.size = sizeof(f->info);
	kvs_info_get(r->session.kvs, &f->info);
	for (uint32_t i = 0; i < r->options.batch; i++)
		f->full_bytes += session_full_bytes(&r->model, r->sequences[i].prompt.n +
								       r->sequences[i].made.n);
	f->hit_rate = share((double)(s->groups_hit - b->groups_hit), selected);
	f->recall = share((double)(s->groups_predicted - b->groups_predicted), selected);
	f->coverage = share(s->coverage_sum - b->coverage_sum, selections);
	f->mean_selected = share((double)(s->tokens_selected - b->tokens_selected), selections);
	for (uint32_t i = 0; i < r->n_steps; i++)
		stepped_ns += r->step_ns[i];
	f->decode_rate = share(r->n_stepped, (double)stepped_ns / 1e9);
	qsort(r->step_ns, r->n_steps, sizeof(*r->step_ns), compare);
	f->p50_ms = quantile_ms(r->step_ns, r->n_steps, 0.5);
	f->p99_ms = quantile_ms(r->step_ns, r->n_steps, 0.99);
	f->rss_peak = rss_peak_bytes();
}

/* Milliseconds per token of decode. */
static double per_token(const struct run *r, uint64_t ns)
{
	return share((double)ns / 1e6, r->n_stepped);
}

static void json_tokens(struct json *j, const struct sequence *s)
{
	json_open(j, "tokens", '[');
	for (uint32_t i = 0; i < s->made.n; i++)
		json_uint(j, NULL, (uint64_t)s->made.id[i]);
	json_close(j, ']');
}

static void json_sequences(struct json *j, const struct run *r)
{
	json_open(j, "sequences", '[');
	for (uint32_t i = 0; i < r->options.batch; i++) {
		const struct sequence *s = &r->sequences[i];

		json_open(j, NULL, '{');
		json_bytes(j, "text", s->stream.text, s->stream.n);
		json_uint(j, "prompt_tokens", s->prompt.n);
		json_uint(j, "generated_tokens", s->made.n);
		json_tokens(j, s);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json_model(struct json *j, const struct model *m)
{
	json_open(j, "model", '{');
	json_text(j, "arch", m->arch_name);
	json_uint(j, "layers", m->n_layers);
	json_uint(j, "heads", m->n_heads);
	json_uint(j, "kv_heads", m->n_kv_heads);
	json_uint(j, "head_dim", m->head_dim);
	json_close(j, '}');
}

static void json_settings(struct json *j, const struct kvs_plan *p)
{
	json_open(j, "settings", '{');
	json_uint(j, "group", p->group);
	if (p->select == KVS_ALL)
		json_text(j, "select", "all");
	else
		json_uint(j, "select", p->select);
	json_text(j, "predictor", p->predictor);
	json_uint(j, "rank", p->rank);
	json_uint(j, "reuse", p->reuse);
	json_uint(j, "record_bytes", p->record_bytes);
	json_text(j, "kv_type", "f16");
	json_close(j, '}');
}

static void json_memory(struct json *j, const struct run *r, const struct figures *f)
{
	const struct kvs_plan *p = &r->session.plan;

	json_open(j, "memory", '{');
	json_uint(j, "kv_full_bytes", f->full_bytes);
	json_uint(j, "kv_resident_peak_bytes", r->after.resident_peak_bytes);
	json_uint(j, "budget_bytes", r->session.budget);
	json_uint(j, "metadata_bytes", p->metadata_bytes);
	json_uint(j, "slot_bytes", p->slot_bytes);
	json_uint(j, "rolling_bytes", p->rolling_bytes);
	json_uint(j, "staging_bytes", p->staging_bytes);
	json_number(j, "ratio", share((double)f->full_bytes, (double)r->after.resident_peak_bytes));
	json_uint(j, "activation_bytes", r->activation_bytes);
	json_uint(j, "rss_peak_bytes", f->rss_peak);
	json_close(j, '}');
}

static void json_speed(struct json *j, const struct run *r, const struct figures *f)
{
	json_open(j, "prefill", '{');
	json_number(j, "seconds", r->prefill_s);
	json_number(j, "tokens_per_s", share(r->n_prompt, r->prefill_s));
	json_close(j, '}');
	json_open(j, "decode", '{');
	json_number(j, "seconds", r->decode_s);
	json_number(j, "tokens_per_s", f->decode_rate);
	json_number(j, "p50_ms", f->p50_ms);
	json_number(j, "p99_ms", f->p99_ms);
	json_close(j, '}');
}

static void json_io(struct json *j, const struct run *r)
{
	const struct kvs_stats *s = &r->after;

	json_open(j, "io", '{');
	json_uint(j, "records_read", s->records_read);
	json_uint(j, "bytes_read", s->bytes_read);
	json_uint(j, "records_written", s->records_written);
	json_uint(j, "bytes_written", s->bytes_written);
	json_number(j, "wait_seconds", (double)s->wait_ns / 1e9);
	json_uint(j, "late_records", s->records_late);
	json_close(j, '}');
}

static void json_selection(struct json *j, const struct figures *f)
{
	json_open(j, "selection", '{');
	json_number(j, "hit_rate", f->hit_rate);
	json_number(j, "predicted_recall", f->recall);
	json_number(j, "coverage", f->coverage);
	json_number(j, "mean_selected", f->mean_selected);
	json_close(j, '}');
}

static void json_stages(struct json *j, const struct run *r)
{
	const struct kvs_stats *s = &r->after, *b = &r->before;

	json_open(j, "stages", '{');
	json_number(j, "compute", per_token(r, r->compute_ns));
	json_number(j, "estimate", per_token(r, r->estimate_ns));
	json_number(j, "append", per_token(r, s->append_ns - b->append_ns));
	json_number(j, "prefetch", per_token(r, s->prefetch_ns - b->prefetch_ns));
	json_number(j, "score", per_token(r, s->score_ns - b->score_ns));
	json_number(j, "attend", per_token(r, s->attend_ns - b->attend_ns));
	json_number(j, "wait", per_token(r, s->wait_ns - b->wait_ns));
	json_number(j, "sample", per_token(r, r->sample_ns));
	json_close(j, '}');
}

static int write_json(const struct run *r, const struct figures *f)
{
	struct json j = { .f = stdout };
	const struct sequence *first = &r->sequences[0];

	json_open(&j, NULL, '{');
	json_bytes(&j, "text", first->stream.text, first->stream.n);
	json_tokens(&j, first);
	if (r->options.batch > 1)
		json_sequences(&j, r);
	json_uint(&j, "prompt_tokens", r->n_prompt);
	json_uint(&j, "reused_tokens", 0);
	json_uint(&j, "generated_tokens", r->n_made);
	json_model(&j, &r->model);
	json_text(&j, "backend", f->info.backend);
	json_text(&j, "backend_why", f->info.backend_why);
	json_bool(&j, "direct_io", f->info.direct_io);
	json_text(&j, "direct_why", f->info.direct_io ? "" : f->info.direct_why);
	json_text(&j, "store", f->info.store);
	json_text(&j, "kernels", f->info.kernels);
	json_settings(&j, &r->session.plan);
	json_memory(&j, r, f);
	json_speed(&j, r, f);
	json_io(&j, r);
	json_selection(&j, f);
	json_stages(&j, r);
	json_close(&j, '}');
	fputc('\n', stdout);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static int write_texts(const struct run *r)
{
	if (r->options.batch == 1)
		return puts("") == EOF || fflush(stdout) ? report_fail("cannot write to stdout")
							 : DONE;
	for (uint32_t i = 0; i < r->options.batch; i++) {
		const struct sequence *s = &r->sequences[i];

		printf("--- %u ---\n", i);
		fwrite(s->stream.text, 1, s->stream.n, stdout);
		putchar('\n');
	}
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static void summarize_place(const struct run *r, const struct figures *f)
{
	const struct model *m = &r->model;
	const struct kvs_info *info = &f->info;
	char resident[32], full[32];

	report_note("%s, %u layers, %u heads, %u KV heads x %u", m->arch_name, m->n_layers,
		    m->n_heads, m->n_kv_heads, m->head_dim);
	session_size(r->after.resident_peak_bytes, resident);
	session_size(f->full_bytes, full);
	if (r->options.session.where != KVS_DISK) {
		report_note("KV cache: %s in memory (%s)", resident,
			    r->options.session.where == KVS_DENSE ? "dense" : "sparse");
		return;
	}
	if (r->after.resident_peak_bytes < f->full_bytes)
		report_note("KV cache: %s of %s in memory (1/%.1f), on disk in %s", resident, full,
			    share((double)f->full_bytes, (double)r->after.resident_peak_bytes),
			    info->store);
	else
		report_note("KV cache: %s in memory for %s in all, on disk in %s", resident, full,
			    info->store);
	report_note("I/O by %s, %s%s", info->backend, info->direct_io ? "direct" : "not direct: ",
		    info->direct_io ? "" : info->direct_why);
	if (*info->backend_why)
		report_note("%s", info->backend_why);
}

static void summarize_selection(const struct run *r, const struct figures *f)
{
	char read[32];

	if (r->after.tokens_selected == r->before.tokens_selected)
		return;
	report_note(
		"%.0f tokens selected a layer in groups of %u by %s: coverage %.0f %%, hit rate "
		"%.0f %%, foreseen %.0f %%; read %s",
		f->mean_selected, r->session.plan.group, r->session.plan.predictor,
		100 * f->coverage, 100 * f->hit_rate, 100 * f->recall,
		session_size(r->after.bytes_read - r->before.bytes_read, read));
}

static void summarize_time(const struct run *r, const struct figures *f)
{
	const struct kvs_stats *s = &r->after, *b = &r->before;
	char prompt[32], activations[32];

	report_note("prompt: %s tokens in %.2f s, %.0f/s, activations %s",
		    progress_count(r->n_prompt, prompt), r->prefill_s,
		    share(r->n_prompt, r->prefill_s),
		    session_size(r->activation_bytes, activations));
	if (!r->n_steps)
		return;
	report_note("generated: %u tokens, %.1f/s (p50 %.1f ms, p99 %.1f ms)", r->n_made,
		    f->decode_rate, f->p50_ms, f->p99_ms);
	report_note("ms a token: weights %.2f, estimate %.2f, append %.2f, score %.2f, "
		    "attention %.2f, waiting %.2f, sampling %.2f",
		    per_token(r, r->compute_ns), per_token(r, r->estimate_ns),
		    per_token(r, s->append_ns - b->append_ns),
		    per_token(r, s->score_ns - b->score_ns),
		    per_token(r, s->attend_ns - b->attend_ns),
		    per_token(r, s->wait_ns - b->wait_ns), per_token(r, r->sample_ns));
}

int output_write(struct run *r)
{
	struct figures f = { 0 };
	int rc;

	work_out(r, &f);
	rc = r->options.json ? write_json(r, &f) : write_texts(r);
	if (rc)
		return rc;
	summarize_place(r, &f);
	summarize_selection(r, &f);
	summarize_time(r, &f);
	return DONE;
}
