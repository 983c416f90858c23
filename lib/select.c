/* SPDX-License-Identifier: MIT */
/*
 * The choice of groups: metadata of K is kept up to date, scored against a query, and the best groups are taken. The
 * choice is a function of K, the query and the settings; never of what is in memory.
 */
#include <math.h>
#include <string.h>

#include "session.h"

static void *meta_block(const struct kvs *s, uint32_t chunk, uint32_t dl)
{
	return s->chunks.meta + ((size_t)chunk * s->geo.n_disk + dl) * s->geo.block_bytes;
}

static void *packed_basis(const struct kvs *s, uint32_t dl)
{
	return s->basis ? s->basis + (size_t)dl * s->geo.basis_bytes : NULL;
}

/* Metadata of the full groups of spans, which follow what is built. */
int kvs_build(struct kvs *s, struct sequence *q, uint32_t layer, const struct kvs_span *spans,
	      uint32_t n)
{
	uint32_t dl = s->disk[layer], per = s->geo.groups_per_chunk, bad;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t group = spans[i].token / s->geo.rec.group, chunk = q->chunks[group / per];
		uint16_t *built = &s->chunks.built[(size_t)chunk * s->geo.n_disk + dl];

		if (*built > group % per)
			continue;
		if (s->predictor.ops->build(&s->predictor, packed_basis(s, dl), spans[i].record,
					    group % per, meta_block(s, chunk, dl), &bad))
			return kvs_fail(s, -EDOM, "layer %u, token %u: K is not finite", layer,
					spans[i].token + bad);
		*built = (uint16_t)(group % per + 1);
	}
	return 0;
}

/* Whether the next group of a layer can be built as it completes. */
bool kvs_can_build(const struct kvs *s, const struct sequence *q, uint32_t dl, uint32_t group)
{
	uint32_t per = s->geo.groups_per_chunk;

	if (!s->geo.scored || (s->geo.basis && !s->trained[dl]))
		return false;
	return s->chunks.built[(size_t)q->chunks[group / per] * s->geo.n_disk + dl] == group % per;
}

/* Adds the K of spans to the second moment that the basis is made from: tokens, or means where a group has one item. */
static uint32_t gram_rows(const struct kvs *s, const struct kvs_span *span, double *rows)
{
	const struct kvs_geom *g = &s->geo.rec;
	uint32_t per = s->predictor.mean_tokens, n = g->group / per;
	const uint16_t *k = span->record;
	float x[512];

	memset(rows, 0, sizeof(*rows) * n * s->geo.kv_dim);
	for (uint32_t h = 0; h < g->n_kv_heads; h++)
		for (uint32_t t = 0; t < g->group; t++) {
			double *row = rows + (size_t)(t / per) * s->geo.kv_dim + h * g->head_dim;

			s->kernels->from_f16(k + ((size_t)h * g->group + t) * g->head_dim, x,
					     g->head_dim);
			for (uint32_t d = 0; d < g->head_dim; d++)
				row[d] += (double)x[d] / per;
		}
	return n;
}

int kvs_gram_add(struct kvs *s, struct sequence *q, uint32_t layer, const struct kvs_span *spans,
		 uint32_t n)
{
	uint32_t dim = s->geo.kv_dim, rows = 0;

	(void)q;
	(void)layer;
	for (uint32_t i = 0; i < n; i++) {
		rows += gram_rows(s, &spans[i], s->scratch.rows + (size_t)rows * dim);
		if (rows + s->geo.rec.group <= s->geo.chunk_tokens && i + 1 < n)
			continue;
		kvs_lowrank_gram(s->scratch.gram, dim, s->scratch.rows, rows);
		rows = 0;
	}
	return 0;
}

void kvs_train_start(struct kvs *s)
{
	memset(s->scratch.gram, 0, sizeof(double) * s->geo.kv_dim * s->geo.kv_dim);
}

int kvs_train_finish(struct kvs *s, uint32_t dl)
{
	if (s->rope.dims)
		kvs_lowrank_spread(s->scratch.gram, &s->geo.rec, &s->rope, s->geo.n_ctx);
	if (kvs_lowrank_basis(s->scratch.gram, s->geo.kv_dim, s->predictor.rank, s->scratch.basis,
			      NULL))
		return kvs_fail(s, -EDOM, "layer %u: no basis of rank %u: K is not finite",
				s->layer_of[dl], s->predictor.rank);
	s->predictor.ops->basis_pack(&s->predictor, s->scratch.basis, packed_basis(s, dl));
	s->trained[dl] = 1;
	return 0;
}

int kvs_basis_set(struct kvs *s, uint32_t rank, const float *basis)
{
	if (s->failed)
		return s->failed;
	if (!s->geo.basis)
		return 0;
	if (rank != s->predictor.rank)
		return kvs_say(s, -EINVAL, "basis of rank %u, the session has rank %u", rank,
			       s->predictor.rank);
	for (uint32_t dl = 0; dl < s->geo.n_disk; dl++) {
		const float *b = basis + (size_t)s->layer_of[dl] * s->geo.kv_dim * rank;

		if (s->trained[dl])
			return kvs_say(s, -EPROTO, "layer %u has a basis already", s->layer_of[dl]);
		for (size_t i = 0; i < (size_t)s->geo.kv_dim * rank; i++)
			if (!isfinite(b[i]))
				return kvs_say(s, -EINVAL, "layer %u: the basis is not finite",
					       s->layer_of[dl]);
		s->predictor.ops->basis_pack(&s->predictor, b, packed_basis(s, dl));
		s->trained[dl] = 1;
	}
	return 0;
}

struct visit_layer {
	struct sequence *q;
	uint32_t layer;
	int (*fn)(struct kvs *s, struct sequence *q, uint32_t layer, const struct kvs_span *spans,
		  uint32_t n);
};

static int visit_layer(struct kvs *s, void *arg, const struct kvs_span *spans, uint32_t n)
{
	struct visit_layer *v = arg;

	return v->fn(s, v->q, v->layer, spans, n);
}

static int visit_range(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t from,
		       uint32_t to,
		       int (*fn)(struct kvs *, struct sequence *, uint32_t, const struct kvs_span *,
				 uint32_t))
{
	struct visit_layer v = { q, layer, fn };

	for (uint32_t g = from; g < to; g++)
		s->scratch.groups[g - from] = g;
	return kvs_visit_groups(s, q, layer, s->scratch.groups, to - from, NULL, visit_layer, &v);
}

/* Metadata of groups [0, n) exists. The usual case is that it does; else the records are read back. */
static int metadata_ready(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n)
{
	uint32_t dl = s->disk[layer], per = s->geo.groups_per_chunk;
	int err = 0;

	if (s->geo.basis && !s->trained[dl]) {
		uint32_t most = KVS_TRAIN_TOKENS / s->geo.rec.group;
		uint64_t start = kvs_now();

		kvs_train_start(s);
		err = visit_range(s, q, layer, 0, n < most ? n : most, kvs_gram_add);
		if (!err)
			err = kvs_train_finish(s, dl);
		s->stats.train_ns += kvs_now() - start;
	}
	for (uint32_t c = 0; !err && c * per < n; c++) {
		uint32_t built = s->chunks.built[(size_t)q->chunks[c] * s->geo.n_disk + dl];
		uint32_t need = n - c * per < per ? n - c * per : per;

		if (built < need)
			err = visit_range(s, q, layer, c * per + built, c * per + need, kvs_build);
	}
	return err;
}

/* Spans of a layer's rolling buffer when it has n_tokens, the last of which may be still to come. */
uint32_t kvs_rolling_spans(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n_tokens,
			   struct kvs_span *out)
{
	uint32_t group = s->geo.rec.group, have = q->tokens[layer], w = s->window[layer], n = 0;
	uint32_t from =
		w ? (n_tokens > w ? n_tokens - w : 0) : kvs_rolling_first(s, n_tokens) * group;

	while (from < have) {
		uint32_t g = from / group, end = (g + 1) * group < have ? (g + 1) * group : have;

		out[n++] =
			(struct kvs_span){ kvs_arena_at(s, kvs_ring_sector(s, q, layer, g)),
					   (uint16_t)(from % group), (uint16_t)(end - from), from };
		from = end;
	}
	return n;
}

struct scoring {
	struct kvs *s;
	struct sequence *q;
	uint32_t dl, n_groups;
};

static void score_chunks(void *arg, int part, int n_parts)
{
	struct scoring *v = arg;
	struct kvs *s = v->s;
	uint32_t per = s->geo.groups_per_chunk, chunks = (v->n_groups + per - 1) / per;
	uint32_t from = (uint32_t)((uint64_t)chunks * (uint32_t)part / (uint32_t)n_parts);
	uint32_t to = (uint32_t)((uint64_t)chunks * ((uint32_t)part + 1) / (uint32_t)n_parts);

	for (uint32_t c = from; c < to; c++) {
		uint32_t n = v->n_groups - c * per < per ? v->n_groups - c * per : per;

		s->predictor.ops->score(
			&s->predictor, s->scratch.projected, meta_block(s, v->q->chunks[c], v->dl),
			n, s->scratch.est + (size_t)c * per * s->predictor.items_per_group,
			s->scratch.ld);
	}
}

static void score(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n_tokens,
		  uint32_t n_groups, const float *query)
{
	const struct kvs_geom *g = &s->geo.rec;
	struct scoring v = { s, q, s->disk[layer], n_groups };
	uint32_t rows = g->n_heads / g->n_kv_heads, n_spans, n_rolling = 0;

	s->predictor.ops->query(&s->predictor, packed_basis(s, v.dl), query, s->scratch.projected);
	kvs_run(s, score_chunks, &v,
		n_groups >= 8 * s->geo.groups_per_chunk && s->cfg.n_threads > 1 ? s->cfg.n_threads
										: 1);
	n_spans = kvs_rolling_spans(s, q, layer, n_tokens, s->scratch.spans);
	for (uint32_t i = 0; i < n_spans; i++)
		n_rolling += s->scratch.spans[i].n;
	for (uint32_t h = 0; h < g->n_kv_heads; h++)
		s->kernels->logits(g, h, query + (size_t)h * rows * g->head_dim, s->scratch.spans,
				   n_spans, s->scratch.rolling + (size_t)h * rows * n_rolling,
				   n_rolling);
	kvs_predict_reduce(&s->predictor, s->set.reduce == KVS_REDUCE_MEAN, s->scratch.est,
			   s->scratch.ld, n_groups, s->scratch.rolling, n_rolling,
			   s->scratch.score);
}

/* Share of the estimated attention mass that the chosen groups and the rolling buffer hold. */
static float estimate_coverage(const struct kvs *s, uint32_t n_groups, uint32_t chosen)
{
	double all = 0, in = 0;

	for (uint32_t g = 0; g < n_groups; g++)
		all += (double)s->scratch.score[g];
	for (uint32_t i = 0; i < chosen; i++)
		in += (double)s->scratch.score[s->scratch.groups[i]];
	return (float)(1.0 - (all - in) / s->geo.rec.n_heads);
}

/*
 * The groups to attend to, or to read ahead (percent of the selection), with n_tokens in the layer: scratch.groups,
 * ascending, and scratch.score by group. query: scaled.
 */
int kvs_choose(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n_tokens,
	       const float *query, uint32_t percent, uint32_t *n_groups, float *coverage)
{
	uint32_t n = kvs_rolling_first(s, n_tokens), m = s->geo.select;
	uint64_t start = kvs_now();
	int err;

	if (s->predictor.ops == &kvs_predict_window)
		m = s->geo.forced;
	else if (m != UINT32_MAX)
		m = (uint32_t)(((uint64_t)m * percent + 99) / 100);
	*coverage = 1;
	if (n <= m || !s->geo.scored) {
		*n_groups = n < m ? n : m;
		for (uint32_t i = 0; i < *n_groups; i++)
			s->scratch.groups[i] = i;
		memset(s->scratch.score, 0, n * sizeof(*s->scratch.score));
		return 0;
	}
	err = metadata_ready(s, q, layer, n);
	if (err)
		return err;
	score(s, q, layer, n_tokens, n, query);
	*n_groups = kvs_predict_top(s->kernels, s->scratch.score, n, m, s->geo.forced,
				    s->scratch.groups, s->scratch.top);
	if (s->set.reduce == KVS_REDUCE_SUM)
		*coverage = estimate_coverage(s, n, *n_groups);
	s->stats.score_ns += kvs_now() - start;
	return 0;
}
