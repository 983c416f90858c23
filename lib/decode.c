/* SPDX-License-Identifier: MIT */
/*
 * Decode: one token of each sequence, layer by layer. A full group is written back and its metadata enters the
 * predictor in the same call.
 */
#include <math.h>
#include <string.h>

#include "session.h"

static int check_call(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs)
{
	if (s->failed)
		return s->failed;
	if (s->pre.active)
		return kvs_say(s, -EPROTO, "decode in the middle of a prefill");
	if (layer >= s->geo.n_layers)
		return kvs_say(s, -EINVAL, "layer %u: the model has %u", layer, s->geo.n_layers);
	for (uint32_t i = 0; i < n_seqs; i++)
		if (!kvs_seq_get(s, seqs[i]))
			return -EINVAL;
	return 0;
}

/* One token into a record: k and v [n_kv_heads][head_dim] at place t. */
void kvs_record_put(const struct kvs *s, void *record, uint32_t t, const float *k, const float *v)
{
	const struct kvs_geom *g = &s->geo.rec;
	uint16_t *out = record;

	for (uint32_t h = 0; h < g->n_kv_heads; h++) {
		size_t at = ((size_t)h * g->group + t) * g->head_dim;

		s->kernels->to_f16(k + (size_t)h * g->head_dim, out + at, g->head_dim);
		s->kernels->to_f16(v + (size_t)h * g->head_dim,
				   out + (size_t)g->group * s->geo.kv_dim + at, g->head_dim);
	}
}

static int group_full(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t group)
{
	uint32_t dl = s->disk[layer];
	struct kvs_span span = { kvs_arena_at(s, kvs_ring_sector(s, q, layer, group)), 0,
				 (uint16_t)s->geo.rec.group, group * s->geo.rec.group };
	int err = 0;

	if (kvs_can_build(s, q, dl, group))
		err = kvs_build(s, q, layer, &span, 1);
	if (!err)
		err = kvs_ring_write(s, q, layer, group);
	if (!err && s->io && s->set.write_back == KVS_WRITE_SYNC) {
		err = kvs_submit(s);
		while (!err && q->writing[dl * s->geo.ring + group % s->geo.ring])
			err = kvs_drain(s, 1);
	}
	return err;
}

static int append_one(struct kvs *s, struct sequence *q, uint32_t layer, const float *k,
		      const float *v)
{
	uint32_t n = q->tokens[layer], group = n / s->geo.rec.group, t = n % s->geo.rec.group;
	bool disk = !s->window[layer];
	int err;

	if (n >= s->geo.n_ctx)
		return kvs_say(s, -E2BIG, "the context of %u tokens is full", s->geo.n_ctx);
	err = disk ? kvs_chunks_extend(s, q, n + 1) : 0;
	if (!err && disk && !t)
		err = kvs_ring_wait(s, q, s->disk[layer], group);
	if (err)
		return err;
	kvs_record_put(s, kvs_arena_at(s, kvs_ring_sector(s, q, layer, group)), t, k, v);
	q->tokens[layer] = n + 1;
	return disk && t + 1 == s->geo.rec.group ? group_full(s, q, layer, group) : 0;
}

int kvs_append(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs, const float *k,
	       const float *v)
{
	uint64_t start = kvs_now();
	int err = check_call(s, layer, n_seqs, seqs);

	for (uint32_t i = 0; !err && i < n_seqs; i++)
		err = append_one(s, &s->seqs[seqs[i]], layer, k + (size_t)i * s->geo.kv_dim,
				 v + (size_t)i * s->geo.kv_dim);
	if (!err && s->n_reqs)
		err = kvs_submit(s);
	s->stats.append_ns += kvs_now() - start;
	return err;
}

static const float *scale_query(struct kvs *s, const float *q)
{
	uint32_t n = s->geo.rec.n_heads * s->geo.rec.head_dim;

	for (uint32_t i = 0; i < n; i++)
		s->scratch.q[i] = q[i] * s->shape.scale;
	return s->scratch.q;
}

static uint32_t estimate_index(const struct kvs *s, const struct sequence *q, uint32_t layer)
{
	return (uint32_t)kvs_seq_index(s, q) * KVS_ESTIMATES + layer % KVS_ESTIMATES;
}

static void keep_estimate(struct kvs *s, const struct sequence *q, uint32_t layer, uint32_t n)
{
	uint32_t i = estimate_index(s, q, layer);

	s->estimates[i] = (struct estimate){ layer, q->tokens[layer] + 1, n };
	memcpy(s->estimated + (size_t)i * s->geo.estimate_groups, s->scratch.groups,
	       n * sizeof(uint32_t));
}

static bool take_estimate(struct kvs *s, const struct sequence *q, uint32_t layer, uint32_t *n)
{
	uint32_t i = estimate_index(s, q, layer);
	const struct estimate *e = &s->estimates[i];

	if (!s->geo.estimate_groups || !e->n || e->layer != layer ||
	    e->n_tokens != q->tokens[layer])
		return false;
	*n = e->n;
	memcpy(s->scratch.groups, s->estimated + (size_t)i * s->geo.estimate_groups,
	       e->n * sizeof(uint32_t));
	memset(s->scratch.score, 0, s->geo.max_groups * sizeof(*s->scratch.score));
	return true;
}

static int prefetch_one(struct kvs *s, struct sequence *q, uint32_t layer, const float *q_hat)
{
	uint32_t percent = s->geo.estimate_groups ? 100 : s->set.ahead_percent, n;
	float coverage;
	int err = kvs_choose(s, q, layer, q->tokens[layer] + 1, scale_query(s, q_hat), percent, &n,
			     &coverage);

	if (err)
		return err;
	if (s->geo.estimate_groups && n <= s->geo.estimate_groups)
		keep_estimate(s, q, layer, n);
	/* of more than the slots hold, what attention begins with */
	if (n > s->geo.reuse)
		n = s->geo.reuse / 2;
	return s->io ? kvs_ahead(s, q, layer, s->scratch.groups, n) : 0;
}

int kvs_prefetch(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs,
		 const float *q_hat)
{
	uint32_t row = s->geo.rec.n_heads * s->geo.rec.head_dim;
	uint64_t start = kvs_now();
	int err = check_call(s, layer, n_seqs, seqs);

	if (err || s->window[layer] || (!s->io && !s->geo.estimate_groups))
		return err;
	err = s->io ? kvs_drain(s, 0) : 0;
	for (uint32_t i = 0; !err && i < n_seqs; i++)
		err = prefetch_one(s, &s->seqs[seqs[i]], layer, q_hat + (size_t)i * row);
	s->stats.prefetch_ns += kvs_now() - start;
	return err;
}

struct attention {
	struct kvs *s;
	const float *query;
	float *out;
	const struct kvs_span *spans;
	uint32_t n_spans;
};

static void attend_head(void *arg, int h, int n)
{
	struct attention *a = arg;
	struct kvs *s = a->s;
	const struct kvs_geom *g = &s->geo.rec;
	uint32_t rows = g->n_heads / g->n_kv_heads, head = (uint32_t)h * rows;
	struct kvs_softmax state = { s->scratch.m + head, s->scratch.l + head,
				     a->out + (size_t)head * g->head_dim };

	(void)n;
	s->kernels->attend(g, (uint32_t)h, a->query + (size_t)head * g->head_dim, a->spans,
			   a->n_spans, &state);
}

static int attend_spans(struct kvs *s, void *arg, const struct kvs_span *spans, uint32_t n)
{
	struct attention *a = arg;
	uint64_t start = kvs_now();

	a->spans = spans;
	a->n_spans = n;
	kvs_run(s, attend_head, a, (int)s->geo.rec.n_kv_heads);
	s->stats.attend_ns += kvs_now() - start;
	return 0;
}

static void finish(const struct kvs *s, float *out)
{
	uint32_t dim = s->geo.rec.head_dim;

	for (uint32_t h = 0; h < s->geo.rec.n_heads; h++) {
		float r = s->scratch.l[h] > 0 ? 1.0f / s->scratch.l[h] : 0;

		for (uint32_t d = 0; d < dim; d++)
			out[(size_t)h * dim + d] *= r;
	}
}

static struct selection *selection_of(const struct kvs *s, const struct sequence *q)
{
	return s->selections ? &s->selections[kvs_seq_index(s, q)] : NULL;
}

static uint32_t *selected_of(const struct kvs *s, const struct sequence *q, uint32_t *lists)
{
	return lists + kvs_seq_index(s, q) * s->geo.selected_groups;
}

/* A selection that nobody attended to gives its slots back. */
void kvs_selection_drop(struct kvs *s, struct sequence *q)
{
	struct selection *sel = selection_of(s, q);

	if (!sel || !sel->placed)
		return;
	kvs_unplace(s, s->disk[sel->layer], sel->n, selected_of(s, q, s->placed));
	sel->placed = false;
}

/* The choice by the true query, into scratch.groups. */
static int choose(struct kvs *s, struct sequence *q, uint32_t layer, const float *query,
		  uint32_t *n)
{
	float coverage = 1;
	int err = 0;

	if (!take_estimate(s, q, layer, n))
		err = kvs_choose(s, q, layer, q->tokens[layer], query, 100, n, &coverage);
	if (err)
		return err;
	s->step[s->disk[layer]]++;
	s->stats.selections++;
	s->stats.coverage_sum += (double)coverage;
	s->stats.tokens_selected += (uint64_t)*n * s->geo.rec.group;
	return 0;
}

/* Slots of a layer that selections of other sequences hold. */
static uint32_t held(const struct kvs *s, uint32_t layer)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->geo.n_seqs; i++)
		if (s->selections[i].placed && s->selections[i].layer == layer)
			n += s->selections[i].n;
	return n;
}

static int select_one(struct kvs *s, struct sequence *q, uint32_t layer, const float *query)
{
	struct selection *sel = selection_of(s, q);
	uint32_t n, *groups = selected_of(s, q, s->selected);
	int err;

	kvs_selection_drop(s, q);
	if (!q->tokens[layer] || held(s, layer) + s->geo.selected_groups > s->geo.reuse)
		return 0;
	err = choose(s, q, layer, scale_query(s, query), &n);
	if (err)
		return err;
	memcpy(groups, s->scratch.groups, n * sizeof(*groups));
	*sel = (struct selection){ layer, q->tokens[layer], n, true };
	return kvs_place_groups(s, q, layer, groups, n, s->scratch.score,
				selected_of(s, q, s->placed));
}

int kvs_select(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs, const float *q)
{
	size_t row = (size_t)s->geo.rec.n_heads * s->geo.rec.head_dim;
	int err = check_call(s, layer, n_seqs, seqs);

	if (err || s->window[layer] || !s->selections)
		return err;
	for (uint32_t i = 0; !err && i < n_seqs; i++)
		err = select_one(s, &s->seqs[seqs[i]], layer, q + i * row);
	return err;
}

static int attend_selected(struct kvs *s, struct sequence *q, uint32_t layer, struct attention *a)
{
	struct selection *sel = selection_of(s, q);
	uint32_t n;
	int err;

	if (sel && sel->placed && sel->layer == layer && sel->n_tokens == q->tokens[layer]) {
		sel->placed = false;
		return kvs_visit_placed(s, q, layer, selected_of(s, q, s->selected), sel->n,
					selected_of(s, q, s->placed), attend_spans, a);
	}
	err = choose(s, q, layer, a->query, &n);
	if (err || !n)
		return err;
	return kvs_visit_groups(s, q, layer, s->scratch.groups, n, s->scratch.score, attend_spans,
				a);
}

static int attend_one(struct kvs *s, struct sequence *q, uint32_t layer, const float *query,
		      float *out)
{
	const struct kvs_geom *g = &s->geo.rec;
	struct attention a = { .s = s, .query = scale_query(s, query), .out = out };
	int err = 0;

	if (!q->tokens[layer])
		return kvs_say(s, -EPROTO, "layer %u: attention before the first token", layer);
	for (uint32_t h = 0; h < g->n_heads; h++) {
		s->scratch.m[h] = -INFINITY;
		s->scratch.l[h] = 0;
	}
	memset(out, 0, sizeof(*out) * g->n_heads * g->head_dim);
	if (!s->window[layer])
		err = attend_selected(s, q, layer, &a);
	if (err)
		return err;
	attend_spans(s, &a, s->scratch.spans,
		     kvs_rolling_spans(s, q, layer, q->tokens[layer], s->scratch.spans));
	finish(s, out);
	return 0;
}

int kvs_attend(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs, const float *q,
	       float *out)
{
	size_t row = (size_t)s->geo.rec.n_heads * s->geo.rec.head_dim;
	int err = check_call(s, layer, n_seqs, seqs);

	for (uint32_t i = 0; !err && i < n_seqs; i++)
		err = attend_one(s, &s->seqs[seqs[i]], layer, q + i * row, out + i * row);
	if (!err && layer + 1 == s->geo.n_layers)
		kvs_session_published(s, 1);
	return err;
}
