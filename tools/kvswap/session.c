// SPDX-License-Identifier: MIT
/* Owns the kvs_config of a run; see session.h. */
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

const char *session_size(uint64_t bytes, char out[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return out;
}

static int make_shape(struct session *s, const struct model *m)
{
	s->window = calloc(m->n_layers, sizeof(*s->window));
	if (!s->window)
		return report_fail("out of memory");
	for (uint32_t l = 0; l < m->n_layers; l++)
		s->window[l] = m->layers[l].window;
	s->shape = (struct kvs_shape){
		.size = sizeof(s->shape),
		.n_layers = m->n_layers,
		.n_heads = m->n_heads,
		.n_kv_heads = m->n_kv_heads,
		.head_dim = m->head_dim,
		.scale = m->attn_scale,
		.window = s->window,
	};
	return DONE;
}

/* Left out where a pair of channels does not turn by one angle a token (YaRN). */
static int make_rope(struct session *s, const struct model *m)
{
	const float *factors = m->rope.factors ? m->rope.factors->data : NULL;
	uint32_t l = 0;

	while (l < m->n_layers && m->layers[l].window)
		l++;
	if (l == m->n_layers || m->rope.ext_factor != 0)
		return DONE;
	s->turn = malloc(m->head_dim / 2 * sizeof(*s->turn));
	if (!s->turn)
		return report_fail("out of memory");
	for (uint32_t i = 0; i < m->head_dim / 2; i++)
		s->turn[i] = m->layers[l].freq_scale / (factors ? factors[i] : 1) *
			     powf(m->layers[l].freq_base, -2.0f * (float)i / (float)m->head_dim);
	s->rope = (struct kvs_rope){ m->head_dim, m->rope.mode == GGML_ROPE_TYPE_NEOX, s->turn };
	s->shape.rope = &s->rope;
	return DONE;
}

uint64_t session_full_bytes(const struct model *m, uint32_t n_tokens)
{
	struct session s = { 0 };
	uint64_t bytes = 0;

	if (!make_shape(&s, m)) {
		s.shape.n_ctx = n_tokens;
		bytes = kvs_full_bytes(&s.shape, n_tokens);
	}
	free(s.window);
	return bytes;
}

static void apply_profile(struct kvs_config *cfg, enum profile profile)
{
	struct kvs_config any = *cfg;
	struct kvs_plan plan = { .size = sizeof(plan) };

	if (profile == PROFILE_NONE)
		return;
	if (!cfg->settings.write_back)
		cfg->settings.write_back =
			profile == PROFILE_EMMC ? KVS_WRITE_SYNC : KVS_WRITE_ASYNC;
	if (profile == PROFILE_NVME || cfg->settings.group)
		return;
	any.budget = 0;
	if (!kvs_plan(&any, &plan, NULL))
		cfg->settings.group = 2 * plan.group;
}

static int budget_too_small(const struct kvs_config *cfg, const struct kvs_plan *plan)
{
	char asked[32], smallest[32];

	return report_fail("a budget of %s is too small for this context, the smallest is %s: "
			   "--budget %" PRIu64,
			   session_size(cfg->budget, asked),
			   session_size(plan->smallest_bytes, smallest), plan->smallest_bytes);
}

/*
 * Plans with the budget that was asked for; the default one gives way to the smallest that works.
 */
static int plan(struct session *s, struct kvs_config *cfg, const struct budget *budget)
{
	char message[KVS_MESSAGE_BYTES] = "", size[32];
	int rc;

	s->plan.size = sizeof(s->plan);
	rc = kvs_plan(cfg, &s->plan, message);
	if (!rc)
		return DONE;
	if (rc != -ENOSPC || cfg->budget >= s->plan.smallest_bytes)
		return report_fail("%s", message);
	if (budget->given)
		return budget_too_small(cfg, &s->plan);
	cfg->budget = s->plan.smallest_bytes;
	report_note("1/%u of the KV cache is too little memory for this context: using %s, "
		    "the smallest budget that works",
		    budget->whole, session_size(cfg->budget, size));
	rc = kvs_plan(cfg, &s->plan, message);
	return rc ? report_fail("%s", message) : DONE;
}

static uint64_t budget_bytes(const struct session_options *o, uint64_t full_bytes)
{
	uint64_t bytes = o->budget.bytes;

	if (o->where != KVS_DISK)
		return 0;
	if (o->budget.part)
		bytes = (uint64_t)((double)full_bytes * o->budget.part / o->budget.whole);
	return bytes ? bytes : 1;
}

int session_open(struct session *s, const struct model *m, struct compute *compute,
		 const struct session_options *o, uint32_t n_ctx, uint32_t n_seqs,
		 uint64_t full_bytes)
{
	char message[KVS_MESSAGE_BYTES] = "";
	struct kvs_config cfg = {
		.size = sizeof(cfg),
		.where = o->where,
		.settings = o->settings,
		.budget = budget_bytes(o, full_bytes),
		.store = o->store,
		.backend = o->backend,
		.force = o->force,
		.n_threads = compute->n_threads,
		.parallel = compute->n_threads > 1 ? compute_parallel : NULL,
		.pool = compute,
		.io_timeout_ms = o->io_timeout_ms,
		.test_delay_us = o->test_delay_us,
	};
	int rc;

	memset(s, 0, sizeof(*s));
	rc = make_shape(s, m);
	if (!rc)
		rc = make_rope(s, m);
	if (rc)
		return rc;
	s->shape.n_ctx = n_ctx;
	s->shape.n_seqs = n_seqs;
	cfg.shape = s->shape;
	cfg.settings.size = sizeof(cfg.settings);
	apply_profile(&cfg, o->profile);
	rc = plan(s, &cfg, &o->budget);
	if (!rc && kvs_open(&cfg, &s->kvs, message))
		rc = report_fail("%s", message);
	if (rc) {
		session_close(s);
		return rc;
	}
	s->budget = cfg.budget;
	kvs_plan_get(s->kvs, &s->plan);
	return DONE;
}

void session_close(struct session *s)
{
	kvs_close(s->kvs);
	free(s->window);
	free(s->turn);
	memset(s, 0, sizeof(*s));
}
