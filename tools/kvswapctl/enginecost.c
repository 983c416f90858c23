// SPDX-License-Identifier: MIT
/* See enginecost.h. */
#include "enginecost.h"

#include <stdlib.h>
#include <string.h>

#include "kvswap/clock.h"
#include "kvswap/decode.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "modelshape.h"

#define STEP_CONTEXT 512u
#define STEPS_WARM 3u
#define STEPS 24u
#define STEP_SECONDS 3.0
#define TOKENS_MOST \
	16384u	   /* beyond it, what grows with depth is taken to grow with it in proportion */
#define ROWS 1021u /* different made-up keys; a prime, so that groups differ */
#define TRIES 16u

struct step_run {
	struct kvs *kvs;
	struct decode decode;
	uint32_t seqs[KVS_MAX_SEQS];
	int32_t tokens[KVS_MAX_SEQS];
};

static int step_open(struct step_run *r, const struct model *m, struct compute *c, uint32_t n_seqs)
{
	char message[KVS_MESSAGE_BYTES] = "";
	struct kvs_config cfg = { .size = sizeof(cfg), .where = KVS_MEMORY };
	uint32_t *window = calloc(m->n_layers, sizeof(*window));
	int err;

	if (!window)
		return report_fail("out of memory");
	for (uint32_t l = 0; l < m->n_layers; l++)
		window[l] = m->layers[l].window;
	cfg.settings.size = sizeof(cfg.settings);
	cfg.shape = (struct kvs_shape){
		.size = sizeof(cfg.shape),
		.n_layers = m->n_layers,
		.n_heads = m->n_heads,
		.n_kv_heads = m->n_kv_heads,
		.head_dim = m->head_dim,
		.n_ctx = STEP_CONTEXT,
		.n_seqs = n_seqs,
		.scale = m->attn_scale,
		.window = window,
	};
	err = kvs_open(&cfg, &r->kvs, message);
	free(window);
	if (err)
		return report_fail("%s", message);
	for (uint32_t i = 0; !err && i < n_seqs; i++)
		err = kvs_seq_new(r->kvs, &r->seqs[i]);
	return err ? report_fail("%s", kvs_message(r->kvs))
		   : decode_open(&r->decode, m, c, r->kvs, n_seqs);
}

static int step_run(struct step_run *r, uint32_t n_vocab, uint32_t n_seqs, uint32_t i)
{
	float *logits;

	for (uint32_t k = 0; k < n_seqs; k++)
		r->tokens[k] = (int32_t)((i * 7919u + k * 104729u) % n_vocab);
	return decode_step(&r->decode, r->seqs, r->tokens, &logits);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The median: another process's slice is not the model's cost. */
static double median(double *values, uint32_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return n ? values[n / 2] : 0;
}

static int steps(struct step_run *r, uint32_t n_vocab, uint32_t n_seqs, struct step_cost *out)
{
	double compute[STEPS], estimate[STEPS];
	uint64_t start = clock_ns();
	uint32_t n = 0;
	int rc = DONE;

	for (uint32_t i = 0; !rc && i < STEPS_WARM; i++)
		rc = step_run(r, n_vocab, n_seqs, i);
	for (; !rc && n < STEPS && (n < 3 || (double)(clock_ns() - start) / 1e9 < STEP_SECONDS);
	     n++) {
		uint64_t computed = r->decode.compute_ns, estimated = r->decode.estimate_ns;

		rc = step_run(r, n_vocab, n_seqs, STEPS_WARM + n);
		compute[n] = (double)(r->decode.compute_ns - computed) / 1e6;
		estimate[n] = (double)(r->decode.estimate_ns - estimated) / 1e6;
	}
	out->compute_ms = median(compute, n);
	out->estimate_ms = median(estimate, n);
	return rc;
}

int engine_step(const struct model *m, struct compute *c, uint32_t n_seqs, struct step_cost *out)
{
	struct step_run *r = calloc(1, sizeof(*r));
	int rc = r ? step_open(r, m, c, n_seqs) : report_fail("out of memory");

	memset(out, 0, sizeof(*out));
	if (!rc)
		rc = steps(r, m->n_vocab, n_seqs, out);
	if (!r)
		return rc;
	if (r->decode.model)
		decode_close(&r->decode);
	kvs_close(r->kvs);
	free(r);
	return rc;
}

/* Made-up rows, about normal. */
struct made_rows {
	uint32_t row; /* floats of a token's K */
	float *k, *q; /* [ROWS][row], [heads][head_dim] */
};

static void make(float *out, size_t n, uint64_t *state)
{
	for (size_t i = 0; i < n; i++) {
		float sum = 0;

		for (int k = 0; k < 3; k++) {
			*state = *state * 6364136223846793005u + 1442695040888963407u;
			sum += (float)(*state >> 40) / (float)(1u << 23) - 1.0f;
		}
		out[i] = sum;
	}
}

/* The second half is timed: a group's metadata is made by the append that fills it, so the mean counts. */
static int layer_fill(struct kvs *s, uint32_t seq, const struct made_rows *rows, uint32_t tokens,
		      double *append_us)
{
	uint64_t start = 0;

	for (uint32_t t = 0; t < tokens; t++) {
		const float *k = rows->k + (size_t)(t % ROWS) * rows->row;
		const float *v = rows->k + (size_t)(t * 31u % ROWS) * rows->row;

		if (t == tokens / 2)
			start = clock_ns();
		if (interrupt_check())
			return interrupt_check();
		if (kvs_append(s, 0, 1, &seq, k, v))
			return report_fail("%s", kvs_message(s));
	}
	*append_us = (double)(clock_ns() - start) / 1e3 / (tokens - tokens / 2);
	return DONE;
}

static int layer_try(struct kvs *s, uint32_t seq, const struct made_rows *rows, float *out,
		     struct layer_cost *cost)
{
	struct kvs_stats a = { .size = sizeof(a) }, b = { .size = sizeof(b) };
	uint64_t start;

	kvs_stats_get(s, &a);
	if (kvs_append(s, 0, 1, &seq, rows->k, rows->k))
		return report_fail("%s", kvs_message(s));
	start = clock_ns();
	if (kvs_prefetch(s, 0, 1, &seq, rows->q) || kvs_attend(s, 0, 1, &seq, rows->q, out))
		return report_fail("%s", kvs_message(s));
	kvs_stats_get(s, &b);
	cost->score_us = (double)(b.score_ns - a.score_ns) / 1e3;
	cost->attend_us = (double)(clock_ns() - start) / 1e3 - cost->score_us;
	return DONE;
}

static int layer_tries(struct kvs *s, uint32_t seq, const struct made_rows *rows, float *out,
		       struct layer_cost *cost)
{
	double score[TRIES], attend[TRIES];
	int rc = DONE;

	for (uint32_t i = 0; !rc && i < TRIES; i++) {
		struct layer_cost one = { 0 };

		rc = layer_try(s, seq, rows, out, &one);
		score[i] = one.score_us;
		attend[i] = one.attend_us;
	}
	if (rc)
		return rc;
	cost->score_us = median(score, TRIES);
	cost->attend_us = median(attend, TRIES);
	return DONE;
}

static int layer_run(const struct kvs_config *cfg, const struct made_rows *rows, uint32_t tokens,
		     float *out, struct layer_cost *cost)
{
	char message[KVS_MESSAGE_BYTES] = "";
	struct kvs *s;
	uint32_t seq;
	int rc;

	if (kvs_open(cfg, &s, message))
		return report_fail("%s", message);
	rc = kvs_seq_new(s, &seq) ? report_fail("%s", kvs_message(s))
				  : layer_fill(s, seq, rows, tokens, &cost->append_us);
	if (!rc)
		rc = layer_tries(s, seq, rows, out, cost);
	kvs_close(s);
	return rc;
}

int engine_layer(const struct kvs_shape *shape, enum kvs_where where,
		 const struct kvs_settings *settings, struct layer_cost *out)
{
	struct kvs_config cfg = {
		.size = sizeof(cfg), .where = where, .shape = *shape, .settings = *settings
	};
	uint32_t tokens = shape->n_ctx < TOKENS_MOST ? shape->n_ctx : TOKENS_MOST;
	size_t q_dim = (size_t)shape->n_heads * shape->head_dim;
	struct made_rows rows = { .row = shape->n_kv_heads * shape->head_dim };
	uint64_t state = 1;
	float *result;
	int rc;

	cfg.shape.n_layers = 1;
	cfg.shape.n_seqs = 1;
	cfg.shape.window = NULL;
	cfg.shape.n_ctx = tokens + TRIES;
	rows.k = malloc(ROWS * (size_t)rows.row * sizeof(float));
	rows.q = malloc(q_dim * sizeof(float));
	result = malloc(q_dim * sizeof(float));
	rc = rows.k && rows.q && result ? DONE : report_fail("out of memory");
	if (!rc) {
		make(rows.k, ROWS * (size_t)rows.row, &state);
		make(rows.q, q_dim, &state);
		rc = layer_run(&cfg, &rows, tokens, result, out);
	}
	/* Scoring reads every group's metadata, dense attention every record: both grow with depth. */
	if (!rc && where == KVS_DENSE)
		out->attend_us *= (double)shape->n_ctx / tokens;
	if (!rc)
		out->score_us *= (double)shape->n_ctx / tokens;
	free(rows.k);
	free(rows.q);
	free(result);
	return rc;
}
