// SPDX-License-Identifier: MIT
/*
 * Our runner as a side: the model, prefill and decode of tools/kvswap over one session for each
 * context.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine.h"
#include "kvswap/compute.h"
#include "kvswap/decode.h"
#include "kvswap/prefill.h"
#include "kvswap/report.h"
#include "kvswap/session.h"

/* A side may be stopped while others run, with writes on their way. */
#define IO_TIMEOUT_MS 3600000u

struct context {
	struct compute compute;
	struct session session;
	struct decode decode;
	uint32_t seq;
	bool open, decoding;
};

struct engine_kvswap {
	struct engine engine;
	struct session_options options;
	struct context deep, zero;
	struct kvs_stats before; /* when decode at depth began */
	uint32_t stepped;	 /* tokens since */
};

static struct engine_kvswap *of(struct engine *e)
{
	return (struct engine_kvswap *)e;
}

static void context_close(struct context *c)
{
	if (c->decoding)
		decode_close(&c->decode);
	if (c->open) {
		session_close(&c->session);
		compute_close(&c->compute);
	}
	memset(c, 0, sizeof(*c));
}

/* Both contexts have the size of the deep one, so that all settings are the same. */
static int context_open(struct engine_kvswap *k, struct context *c,
			const struct session_options *options)
{
	const struct bench *b = k->engine.bench;
	const struct model *m = &k->engine.subject->model;
	uint32_t n = b->depth + b->extra;
	int rc = compute_open(&c->compute, (int)b->run.n_threads);

	if (rc)
		return rc;
	rc = session_open(&c->session, m, &c->compute, options, n, 1, session_full_bytes(m, n));
	if (rc) {
		compute_close(&c->compute);
		return rc;
	}
	c->open = true;
	if (kvs_seq_new(c->session.kvs, &c->seq))
		return report_fail("%s", kvs_message(c->session.kvs));
	return DONE;
}

static int context_decode(struct engine_kvswap *k, struct context *c)
{
	const struct kvs_settings *set = &k->options.settings;
	int rc = compute_shrink(&c->compute);

	if (!rc)
		rc = decode_open(&c->decode, &k->engine.subject->model, &c->compute, c->session.kvs,
				 1);
	if (rc)
		return rc;
	c->decode.estimate_from = (set->recent ? set->recent : 32) + c->session.plan.group;
	if (k->options.where == KVS_DENSE)
		c->decode.estimate_from = UINT32_MAX;
	c->decoding = true;
	return DONE;
}

static int engine_open(struct engine **out, const struct bench *b, const struct subject *subject,
		       enum engine_kind kind)
{
	static const enum kvs_where where[] = {
		[ENGINE_DISK] = KVS_DISK,
		[ENGINE_MEMORY] = KVS_MEMORY,
		[ENGINE_DENSE] = KVS_DENSE,
	};
	struct engine_kvswap *k = calloc(1, sizeof(*k));

	if (!k)
		return report_fail("out of memory");
	k->engine = (struct engine){ &engine_kvswap_ops, b, subject };
	k->options = b->run.session;
	k->options.where = where[kind];
	k->options.io_timeout_ms = IO_TIMEOUT_MS;
	*out = &k->engine;
	return DONE;
}

static void engine_close(struct engine *e)
{
	context_close(&of(e)->deep);
	context_close(&of(e)->zero);
	free(of(e));
}

static int engine_renew(struct engine *e)
{
	struct engine_kvswap *k = of(e);

	context_close(&k->deep);
	k->stepped = 0;
	return context_open(k, &k->deep, &k->options);
}

static int engine_fill(struct engine *e, uint32_t n)
{
	struct context *c = &of(e)->deep;
	struct prefill_config config = { .n_tokens = n };
	struct prefill p;
	float *last;
	int rc = prefill_open(&p, &e->subject->model, &c->compute, c->session.kvs, &config);

	if (rc)
		return rc;
	rc = prefill_run(&p, c->seq, e->subject->text.id, n, &last);
	prefill_close(&p);
	return rc;
}

/* A store that only one session can have is the deep context's: at depth 0 nothing is read. */
static int open_zero(struct engine_kvswap *k)
{
	struct session_options options = k->options;
	struct stat st;

	if (options.store && (stat(options.store, &st) || !S_ISDIR(st.st_mode)))
		options.store = NULL;
	if (k->deep.open && k->deep.session.budget)
		options.budget = (struct budget){ .given = true, .bytes = k->deep.session.budget };
	return context_open(k, &k->zero, &options);
}

/*
 * At depth the text goes on from burst to burst: the same tokens again would find their groups
 * in the slots.
 */
static int engine_begin(struct engine *e, bool deep)
{
	struct context *c = &of(e)->zero;

	if (deep)
		return DONE;
	if (!c->open)
		return open_zero(of(e));
	if (kvs_seq_truncate(c->session.kvs, c->seq, 0))
		return report_fail("%s", kvs_message(c->session.kvs));
	return DONE;
}

static int start_decode(struct engine_kvswap *k, struct context *c)
{
	int rc = c->decoding ? DONE : context_decode(k, c);

	if (rc || c != &k->deep || k->stepped)
		return rc;
	k->before.size = sizeof(k->before);
	kvs_stats_get(c->session.kvs, &k->before);
	return DONE;
}

static int engine_steps(struct engine *e, bool deep, uint32_t n)
{
	struct context *c = deep ? &of(e)->deep : &of(e)->zero;
	int rc = start_decode(of(e), c);

	for (uint32_t i = 0; !rc && i < n; i++) {
		uint32_t at = kvs_seq_tokens(c->session.kvs, c->seq);
		float *logits;

		rc = decode_step(&c->decode, &c->seq, &e->subject->text.id[at], &logits);
	}
	if (deep)
		of(e)->stepped += n;
	return rc;
}

static double share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

static void info_of_decode(const struct engine_kvswap *k, const struct kvs_stats *s,
			   struct engine_info *info)
{
	const struct kvs_stats *b = &k->before;
	const struct decode *d = &k->deep.decode;
	double ms = 1e6 * k->stepped, selected = (double)(s->groups_selected - b->groups_selected);

	info->hit_rate = share((double)(s->groups_hit - b->groups_hit), selected);
	info->foreseen = share((double)(s->groups_predicted - b->groups_predicted), selected);
	info->coverage =
		share(s->coverage_sum - b->coverage_sum, (double)(s->selections - b->selections));
	info->read_per_token = share((double)(s->bytes_read - b->bytes_read), k->stepped);
	info->stages = (struct engine_stages){
		.weights = share((double)d->compute_ns, ms),
		.estimate = share((double)d->estimate_ns, ms),
		.append = share((double)(s->append_ns - b->append_ns), ms),
		.score = share((double)(s->score_ns - b->score_ns), ms),
		.attend = share((double)(s->attend_ns - b->attend_ns), ms),
		.wait = share((double)(s->wait_ns - b->wait_ns), ms),
	};
}

static void info_of_session(const struct engine_kvswap *k, struct engine_info *info)
{
	const struct kvs_plan *p = &k->deep.session.plan;
	struct kvs_info i = { .size = sizeof(i) };

	kvs_info_get(k->deep.session.kvs, &i);
	snprintf(info->backend, sizeof(info->backend), "%s", i.backend);
	snprintf(info->kernels, sizeof(info->kernels), "%s", i.kernels);
	snprintf(info->predictor, sizeof(info->predictor), "%s", p->predictor ? p->predictor : "");
	info->direct_io = i.direct_io;
	info->group = p->group;
	info->select = p->select;
	info->rank = p->rank;
	info->reuse = p->reuse;
	info->record_bytes = p->record_bytes;
	info->budget = k->deep.session.budget;
}

static void engine_info(struct engine *e, struct engine_info *info)
{
	struct engine_kvswap *k = of(e);
	struct kvs_stats s = { .size = sizeof(s) };

	if (!k->deep.open)
		return;
	info_of_session(k, info);
	kvs_stats_get(k->deep.session.kvs, &s);
	info->resident_peak = s.resident_peak_bytes;
	info->full_bytes = session_full_bytes(&e->subject->model,
					      kvs_seq_tokens(k->deep.session.kvs, k->deep.seq));
	if (k->stepped)
		info_of_decode(k, &s, info);
}

const struct engine_ops engine_kvswap_ops = {
	.open = engine_open,
	.close = engine_close,
	.renew = engine_renew,
	.fill = engine_fill,
	.begin = engine_begin,
	.steps = engine_steps,
	.info = engine_info,
};
