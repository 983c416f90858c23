// SPDX-License-Identifier: MIT
/*
 * `kvswap run`: prompts in, text out. Owns the order of things and what happens when one of them
 * fails.
 */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "interrupt.h"
#include "report.h"

#define CONTEXT_STEP 64 /* a context worked out from the prompt is rounded up to this */

static uint32_t longest_prompt(const struct run *r)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < r->options.batch; i++)
		if (r->sequences[i].prompt.n > longest)
			longest = r->sequences[i].prompt.n;
	return longest;
}

static int check_model_context(const struct run *r)
{
	const struct model *m = &r->model;

	if (r->n_ctx <= m->n_ctx_train)
		return DONE;
	if (r->n_ctx > m->n_ctx_rope && !r->options.session.force)
		return report_fail("a context of %u is more than the %u that the model's RoPE "
				   "reaches: lower -c or -n, or --force",
				   r->n_ctx, m->n_ctx_rope);
	report_note("warning: a context of %u is more than the model's %u", r->n_ctx,
		    m->n_ctx_train);
	return DONE;
}

static int choose_context(struct run *r)
{
	uint32_t longest = longest_prompt(r);
	uint64_t all = (uint64_t)longest + r->options.n_predict;

	if (r->options.n_ctx && longest > r->options.n_ctx)
		return report_fail("the prompt has %u tokens, more than the context of %u (-c)",
				   longest, r->options.n_ctx);
	if (all > INT32_MAX - CONTEXT_STEP)
		all = INT32_MAX - CONTEXT_STEP;
	r->n_ctx = r->options.n_ctx;
	if (!r->n_ctx) {
		r->n_ctx = (uint32_t)(all + CONTEXT_STEP - 1) / CONTEXT_STEP * CONTEXT_STEP;
		/* Rounding alone is no reason to leave the model's context. */
		if (r->n_ctx > r->model.n_ctx_train && all <= r->model.n_ctx_train)
			r->n_ctx = r->model.n_ctx_train;
	}
	return check_model_context(r);
}

/* Tokens that sequence i will have at most. */
static uint32_t most_tokens(const struct run *r, uint32_t i)
{
	uint64_t n = (uint64_t)r->sequences[i].prompt.n + r->options.n_predict;

	return n < r->n_ctx ? (uint32_t)n : r->n_ctx;
}

static int open_session(struct run *r)
{
	uint64_t full = 0;

	for (uint32_t i = 0; i < r->options.batch; i++)
		full += session_full_bytes(&r->model, most_tokens(r, i));
	return session_open(&r->session, &r->model, &r->compute, &r->options.session, r->n_ctx,
			    r->options.batch, full);
}

static int open_logits(struct run *r, uint32_t i)
{
	char path[4096];

	if (!r->options.logits)
		return DONE;
	if (r->options.batch == 1)
		return outfile_open(&r->sequences[i].logits, r->options.logits);
	snprintf(path, sizeof(path), "%s.%u", r->options.logits, i);
	return outfile_open(&r->sequences[i].logits, path);
}

static int open_sequence(struct run *r, uint32_t i)
{
	struct sequence *s = &r->sequences[i];
	struct sampling how = r->options.sampling;

	how.seed += i;
	s->stream.stops = r->options.stops;
	s->stream.n_stops = r->options.n_stops;
	s->made.id = malloc(((size_t)most_tokens(r, i) - s->prompt.n + 1) * sizeof(*s->made.id));
	if (!s->made.id)
		return report_fail("out of memory");
	if (sampler_open(&s->sampler, &how, r->model.n_vocab, &s->prompt))
		return FAILED;
	return open_logits(r, i);
}

static int open_all(struct run *r)
{
	int rc = model_open(&r->model, r->options.model);

	if (!rc)
		rc = text_open(&r->text, &r->model);
	if (!rc)
		rc = prompt_read_all(r);
	if (!rc)
		rc = choose_context(r);
	if (!rc)
		rc = compute_open(&r->compute, (int)r->options.n_threads);
	if (!rc)
		rc = open_session(r);
	for (uint32_t i = 0; !rc && i < r->options.batch; i++)
		rc = open_sequence(r, i);
	return rc;
}

static void close_sequence(struct sequence *s)
{
	outfile_abandon(&s->logits);
	stream_close(&s->stream);
	sampler_close(&s->sampler);
	free(s->made.id);
	free(s->prompt.id);
}

static void close_all(struct run *r)
{
	for (uint32_t i = 0; i < r->options.batch; i++)
		close_sequence(&r->sequences[i]);
	session_close(&r->session);
	compute_close(&r->compute);
	text_close(&r->text);
	model_close(&r->model);
	free(r->step_ns);
	free(r->sequences);
}

static void note_activations(struct run *r, size_t bytes)
{
	bytes += compute_bytes(&r->compute);
	if (bytes > r->activation_bytes)
		r->activation_bytes = bytes;
}

/* Text goes out as it is made, where there is one sequence and people read it. */
static int show(struct run *r, struct sequence *s, bool all)
{
	const char *text;
	size_t n;

	if (r->options.json || r->options.batch > 1)
		return DONE;
	text = stream_take(&s->stream, all, &n);
	if (fwrite(text, 1, n, stdout) != n || fflush(stdout))
		return report_fail("cannot write to stdout");
	return DONE;
}

static int write_row(struct run *r, struct sequence *s, const float *logits)
{
	if (!r->options.logits)
		return DONE;
	return outfile_write(&s->logits, logits, r->model.n_vocab * sizeof(*logits));
}

/* Picks the next token of a sequence from its row. */
static int take(struct run *r, uint32_t i, const float *logits)
{
	struct sequence *s = &r->sequences[i];
	int32_t token = sampler_pick(&s->sampler, logits);
	char piece[512];
	size_t n;

	s->made.id[s->made.n++] = token;
	r->n_made++;
	s->ended = text_ends(&r->text, token) || s->prompt.n + s->made.n >= most_tokens(r, i);
	if (text_ends(&r->text, token))
		return DONE;
	text_piece(&r->text, token, piece, sizeof(piece), &n);
	if (stream_add(&s->stream, piece, n))
		return FAILED;
	s->ended |= s->stream.stopped;
	return show(r, s, s->ended);
}

struct prompt_rows {
	struct run *r;
	struct sequence *s;
	uint32_t done; /* tokens of prompts before this one */
};

static int on_logits(void *arg, const float *logits, uint32_t n_rows)
{
	struct prompt_rows *rows = arg;

	return outfile_write(&rows->s->logits, logits,
			     (size_t)n_rows * rows->r->model.n_vocab * sizeof(*logits));
}

static void on_progress(void *arg, double tokens)
{
	struct prompt_rows *rows = arg;

	progress_update(&rows->r->progress, rows->done + tokens);
}

/* A row of the prompt's end: the first token is picked from it. */
static int first_token(struct run *r, uint32_t i, const float *logits, bool written)
{
	struct sequence *s = &r->sequences[i];

	s->ended = r->options.n_predict == 0 || s->prompt.n >= r->n_ctx;
	if (s->ended)
		return DONE;
	if (!written && write_row(r, s, logits))
		return FAILED;
	return take(r, i, logits);
}

static int prefill_one(struct run *r, struct prefill *p, uint32_t i, struct prompt_rows *rows)
{
	struct sequence *s = &r->sequences[i];
	float *last;
	int rc;

	rows->s = s;
	if (kvs_seq_new(r->session.kvs, &s->id))
		return report_fail("%s", kvs_message(r->session.kvs));
	rc = prefill_run(p, s->id, s->prompt.id, s->prompt.n, &last);
	rows->done += s->prompt.n;
	return rc ? rc : first_token(r, i, last, r->options.logits_all);
}

/* The sequences of a batch that begin with the same prompt share its records. */
static int fork_one(struct run *r, struct prefill *p, uint32_t i, struct prompt_rows *rows)
{
	struct sequence *s = &r->sequences[i];
	uint32_t n = s->prompt.n - 1;
	float *last;
	int rc;

	rows->s = s;
	if (kvs_seq_fork(r->session.kvs, r->sequences[0].id, n, &s->id))
		return report_fail("%s", kvs_message(r->session.kvs));
	rc = prefill_run(p, s->id, s->prompt.id + n, 1, &last);
	return rc ? rc : first_token(r, i, last, r->options.logits_all);
}

static int prefill_all(struct run *r)
{
	struct prompt_rows rows = { .r = r };
	struct prefill_config config = {
		.n_tokens = longest_prompt(r),
		.no_bf16 = r->options.no_bf16,
		.on_logits = r->options.logits_all ? on_logits : NULL,
		.on_progress = on_progress,
		.arg = &rows,
	};
	struct prefill p;
	int rc = prefill_open(&p, &r->model, &r->compute, r->session.kvs, &config);

	if (rc)
		return rc;
	progress_start(&r->progress, "prefill", r->n_prompt);
	for (uint32_t i = 0; !rc && i < r->options.batch; i++)
		rc = i < r->options.n_prompts ? prefill_one(r, &p, i, &rows)
					      : fork_one(r, &p, i, &rows);
	progress_end(&r->progress);
	note_activations(r, prefill_bytes(&p));
	prefill_close(&p);
	return rc;
}

/* One decode step of the sequences that live, in the rows of d. */
static int step(struct run *r, struct decode *d, const uint32_t *live, const int32_t *tokens,
		float **logits)
{
	uint32_t ids[KVS_MAX_SEQS];

	for (int64_t i = 0; i < d->rows.n; i++)
		ids[i] = r->sequences[live[i]].id;
	return decode_step(d, ids, tokens, logits);
}

static int open_decode(struct run *r, struct decode *d, uint32_t n_live)
{
	const struct kvs_settings *set = &r->options.session.settings;
	uint32_t always = (set->recent ? set->recent : 32) + r->session.plan.group;
	int rc = compute_shrink(&r->compute);

	if (!rc)
		rc = decode_open(d, &r->model, &r->compute, r->session.kvs, n_live);
	if (rc)
		return rc;
	d->estimate_from = r->options.session.where == KVS_DENSE ? UINT32_MAX : always;
	note_activations(r, decode_bytes(d));
	return DONE;
}

static void close_decode(struct run *r, struct decode *d)
{
	r->compute_ns += d->compute_ns;
	r->estimate_ns += d->estimate_ns;
	decode_close(d);
}

/*
 * The prompts token by token: what decode makes of them, where prefill is not to be trusted or
 * timed.
 */
static int step_prompt(struct run *r, uint32_t i)
{
	struct sequence *s = &r->sequences[i];
	struct decode d;
	float *logits = NULL;
	int rc = open_decode(r, &d, 1);

	if (rc)
		return rc;
	if (kvs_seq_new(r->session.kvs, &s->id))
		rc = report_fail("%s", kvs_message(r->session.kvs));
	for (uint32_t at = 0; !rc && at < s->prompt.n; at++) {
		rc = step(r, &d, &i, &s->prompt.id[at], &logits);
		if (!rc && r->options.logits_all)
			rc = write_row(r, s, logits);
		progress_update(&r->progress, at + 1);
	}
	progress_end(&r->progress);
	if (!rc)
		rc = first_token(r, i, logits, r->options.logits_all);
	decode_close(&d);
	return rc;
}

static int step_prompts(struct run *r)
{
	int rc = DONE;

	for (uint32_t i = 0; !rc && i < r->options.batch; i++) {
		progress_start(&r->progress, "prompt", r->sequences[i].prompt.n);
		rc = step_prompt(r, i);
	}
	return rc;
}

static uint32_t find_live(const struct run *r, uint32_t *live, int32_t *tokens)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->options.batch; i++) {
		const struct sequence *s = &r->sequences[i];

		if (s->ended)
			continue;
		live[n] = i;
		tokens[n++] = s->made.id[s->made.n - 1];
	}
	return n;
}

static int step_and_take(struct run *r, struct decode *d, const uint32_t *live,
			 const int32_t *tokens)
{
	uint64_t start = clock_ns(), stepped;
	float *logits;
	int rc = step(r, d, live, tokens, &logits);

	stepped = clock_ns();
	for (int64_t i = 0; !rc && i < d->rows.n; i++) {
		const float *row = logits + (size_t)i * r->model.n_vocab;

		rc = write_row(r, &r->sequences[live[i]], row);
		if (!rc)
			rc = take(r, live[i], row);
	}
	r->sample_ns += clock_ns() - stepped;
	r->step_ns[r->n_steps++] = clock_ns() - start;
	r->n_stepped += (uint32_t)d->rows.n;
	return rc;
}

/* Steps until the number of live sequences changes. */
static int generate_some(struct run *r, uint32_t n_live)
{
	uint32_t live[KVS_MAX_SEQS];
	int32_t tokens[KVS_MAX_SEQS];
	struct decode d;
	int rc = open_decode(r, &d, n_live);

	if (rc)
		return rc;
	while (!rc && find_live(r, live, tokens) == n_live) {
		rc = step_and_take(r, &d, live, tokens);
		if (r->options.json || r->options.batch > 1)
			progress_update(&r->progress, r->n_steps);
	}
	progress_end(&r->progress);
	close_decode(r, &d);
	return rc;
}

static int generate(struct run *r)
{
	uint32_t live[KVS_MAX_SEQS], n;
	int32_t tokens[KVS_MAX_SEQS];
	uint32_t most = 0;
	int rc = DONE;

	for (uint32_t i = 0; i < r->options.batch; i++)
		if (most_tokens(r, i) - r->sequences[i].prompt.n > most)
			most = most_tokens(r, i) - r->sequences[i].prompt.n;
	r->step_ns = calloc((size_t)most + 1, sizeof(*r->step_ns));
	if (!r->step_ns)
		return report_fail("out of memory");
	progress_start(&r->progress, "generated", most);
	while (!rc && (n = find_live(r, live, tokens)) > 0)
		rc = generate_some(r, n);
	return rc;
}

static int run_all(struct run *r)
{
	uint64_t start = clock_ns(), read;
	int rc = r->options.stepwise ? step_prompts(r) : prefill_all(r);

	if (rc)
		return rc;
	read = clock_ns();
	r->before.size = r->after.size = sizeof(r->before);
	kvs_stats_get(r->session.kvs, &r->before);
	rc = generate(r);
	r->prefill_s = (double)(read - start) / 1e9;
	r->decode_s = (double)(clock_ns() - read) / 1e9;
	kvs_stats_get(r->session.kvs, &r->after);
	for (uint32_t i = 0; !rc && i < r->options.batch; i++)
		rc = outfile_commit(&r->sequences[i].logits);
	return rc;
}

int run_main(int argc, char **argv)
{
	struct run *r = calloc(1, sizeof(*r));
	enum parsed parsed;
	int rc;

	if (!r)
		return report_fail("out of memory");
	parsed = options_parse(&r->options, argc, argv);
	if (parsed != PARSED) {
		free(r);
		return parsed == PARSED_HELP ? DONE : WRONG_USAGE;
	}
	interrupt_catch();
	r->progress.on = r->options.progress || isatty(STDERR_FILENO);
	r->sequences = calloc(r->options.batch, sizeof(*r->sequences));
	rc = r->sequences ? open_all(r) : report_fail("out of memory");
	if (!rc)
		rc = run_all(r);
	if (!rc)
		rc = output_write(r);
	if (rc > WRONG_USAGE)
		report_note("interrupted");
	if (r->sequences)
		close_all(r);
	free(r);
	return rc;
}
