/* SPDX-License-Identifier: MIT */
/*
 * Layer-major prefill. K and V of the layer at hand are in the staging, which takes the memory of the slots; they go
 * to the store in runs of neighbouring records while attention computes. Earlier records stream back, in order,
 * through two blocks. Attention is exact: rows in tiles, the online softmax in blocks of KVS_BLOCK tokens
 * aligned to the token number, so that how the prompt is cut changes nothing.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "session.h"

#define TILE KVS_BLOCK	      /* tokens whose rows are computed together */
#define PIECE 1024u	      /* tokens of the staging that tiles pass over at a time */
#define REQUEST_SECTORS 2048u /* most of one request */

static uint64_t stage_sector(const struct kvs *s, uint32_t group)
{
	return kvs_region_sector(s) +
	       (uint64_t)(group - s->pre.first / s->geo.rec.group) * s->geo.record_sectors;
}

static uint64_t stream_sector(const struct kvs *s, uint32_t block)
{
	return kvs_region_sector(s) + (uint64_t)s->geo.stage_groups * s->geo.record_sectors +
	       (uint64_t)block * (s->geo.stream_bytes / KVS_SECTOR);
}

/* [n_kv_heads][n][heads per KV head] maxima, then as many sums. */
static float *running_softmax(const struct kvs *s)
{
	return kvs_arena_at(s, stream_sector(s, 2));
}

static int wait_for(struct kvs *s, const uint32_t *in_flight)
{
	while (*in_flight && !s->failed)
		kvs_drain(s, 1);
	return s->failed;
}

/* Everything that is in flight, of every sequence: the slots' memory is about to be something else. */
static int settle_all(struct kvs *s)
{
	int err = s->io ? kvs_drain(s, 0) : 0;

	for (uint32_t i = 0; i < s->geo.n_seqs; i++)
		kvs_selection_drop(s, &s->seqs[i]);
	while (!err && s->io && s->io->in_flight)
		err = kvs_drain(s, 1);
	return err;
}

int kvs_prefill_begin(struct kvs *s, uint32_t seq, uint32_t n_tokens, uint32_t n_total)
{
	struct sequence *q = kvs_seq_get(s, seq);
	uint32_t pos;
	int err;

	if (s->failed)
		return s->failed;
	if (!q)
		return -EINVAL;
	if (s->pre.active)
		return kvs_say(s, -EPROTO, "sequence %u is in a prefill already", s->pre.seq);
	pos = q->tokens[0];
	for (uint32_t l = 1; l < s->geo.n_layers; l++)
		if (q->tokens[l] != pos)
			return kvs_say(
				s, -EPROTO,
				"prefill in the middle of a decode step: layer 0 has %u tokens, layer %u %u",
				pos, l, q->tokens[l]);
	if (!n_tokens || n_tokens > s->geo.prefill_tokens)
		return kvs_say(s, -E2BIG, "prefill of %u tokens: 1 to %u at a time", n_tokens,
			       s->geo.prefill_tokens);
	if (n_tokens > s->geo.n_ctx - pos)
		return kvs_say(s, -E2BIG, "%u tokens more than the context of %u holds",
			       pos + n_tokens - s->geo.n_ctx, s->geo.n_ctx);
	err = settle_all(s);
	if (!err)
		err = kvs_chunks_extend(s, q, pos + n_tokens);
	if (err) {
		kvs_chunks_shrink(s, q, pos);
		return err;
	}
	kvs_slots_drop_all(s);
	s->pre = (struct prefill){ .active = true,
				   .seq = seq,
				   .n = n_tokens,
				   .pos = pos,
				   .total = n_total > pos + n_tokens ? n_total : pos + n_tokens };
	return 0;
}

/* Tokens before the prefill that share the staging's first block: from the rolling buffer, or read back. */
static int stage_earlier(struct kvs *s, struct sequence *q, uint32_t layer)
{
	uint32_t group = s->geo.rec.group, pos = s->pre.pos;
	int err = 0;

	for (uint32_t g = s->pre.first / group; !err && g * group < pos; g++) {
		void *to = kvs_arena_at(s, stage_sector(s, g));
		uint64_t record;

		if (g + s->ring[layer] > pos / group) {
			memcpy(to, kvs_arena_at(s, kvs_ring_sector(s, q, layer, g)),
			       s->geo.record_bytes);
			continue;
		}
		if (s->window[layer]) {
			memset(to, 0, s->geo.record_bytes); /* before every window: masked */
			continue;
		}
		record = kvs_record(s, q, s->disk[layer], g);
		if (s->io)
			err = kvs_read_sync(s, record, stage_sector(s, g));
		else
			memcpy(to, s->records + record * s->geo.record_sectors * KVS_SECTOR,
			       s->geo.record_bytes);
	}
	return err;
}

static int stage_start(struct kvs *s, struct sequence *q, uint32_t layer)
{
	uint32_t pos = s->pre.pos, w = s->window[layer],
		 from = !w	   ? pos
			: pos >= w ? pos - w + 1
				   : 0;
	int err = wait_for(s, &s->pre.writes);

	if (err)
		return err;
	s->pre.first = from / s->geo.align * s->geo.align;
	s->pre.queued = pos / s->geo.rec.group;
	return stage_earlier(s, q, layer);
}

static struct kvs_span stage_span(const struct kvs *s, uint32_t group)
{
	return (struct kvs_span){ kvs_arena_at(s, stage_sector(s, group)), 0,
				  (uint16_t)s->geo.rec.group, group * s->geo.rec.group };
}

/* Metadata and checksum of a staged group; in memory, the record itself. */
static int stage_commit(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t group)
{
	uint32_t dl = s->disk[layer];
	uint64_t record = kvs_record(s, q, dl, group),
		 bytes = (uint64_t)s->geo.record_sectors * KVS_SECTOR;
	struct kvs_span span = stage_span(s, group);
	int err = kvs_can_build(s, q, dl, group) ? kvs_build(s, q, layer, &span, 1) : 0;

	if (s->io)
		kvs_record_seal(s, record, span.record);
	else
		memcpy(s->records + record * bytes, span.record, s->geo.record_bytes);
	return err;
}

/* Write-back of staged groups [from, to) of one chunk, as few requests as may be. */
static int stage_write(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t from,
		       uint32_t to)
{
	uint32_t per = REQUEST_SECTORS / s->geo.record_sectors, dl = s->disk[layer];
	int err = 0;

	for (uint32_t g = from; !err && g < to; g++)
		err = stage_commit(s, q, layer, g);
	per = per ? per : 1;
	for (uint32_t g = from, n; s->io && !err && g < to; g += n) {
		n = to - g < per ? to - g : per;
		struct kvs_io_request req = {
			.op = KVS_IO_WRITE,
			.urgency = KVS_IO_BEHIND,
			.layer = (uint16_t)layer,
			.sectors = n * s->geo.record_sectors,
			.arena = stage_sector(s, g),
			.store = kvs_record(s, q, dl, g) * s->geo.record_sectors,
			.tag = kvs_tag(KVS_TAG_STAGE, n, dl, (uint32_t)kvs_record(s, q, dl, g)),
		};

		s->stats.records_written += n;
		s->stats.bytes_written += (uint64_t)req.sectors * KVS_SECTOR;
		s->pre.writes++;
		err = kvs_queue(s, &req);
	}
	return err ? err : s->io ? kvs_submit(s) : 0;
}

/* Full groups up to token `end`: whole chunks, or all of them. */
static int stage_flush(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t end, bool all)
{
	uint32_t per = s->geo.groups_per_chunk, full = end / s->geo.rec.group;
	int err = 0;

	if (s->window[layer])
		return 0;
	while (!err && s->pre.queued < full) {
		uint32_t to = (s->pre.queued / per + 1) * per;

		if (to > full && !all)
			break;
		to = to < full ? to : full;
		err = stage_write(s, q, layer, s->pre.queued, to);
		s->pre.queued = to;
	}
	return err;
}

int kvs_prefill_put(struct kvs *s, uint32_t layer, uint32_t n, const float *k, const float *v)
{
	struct sequence *q = &s->seqs[s->pre.seq];
	uint32_t group = s->geo.rec.group;
	int err = 0;

	if (s->failed)
		return s->failed;
	if (!s->pre.active || layer != s->pre.layer || n > s->pre.n - s->pre.put)
		return kvs_say(s, -EPROTO, "prefill of %u tokens of layer %u out of order", n,
			       layer);
	if (!s->pre.put && n)
		err = stage_start(s, q, layer);
	for (uint32_t i = 0; !err && i < n; i++) {
		uint32_t token = s->pre.pos + s->pre.put + i;

		kvs_record_put(s, kvs_arena_at(s, stage_sector(s, token / group)), token % group,
			       k + (size_t)i * s->geo.kv_dim, v + (size_t)i * s->geo.kv_dim);
	}
	s->pre.put += n;
	return err ? err : stage_flush(s, q, layer, s->pre.pos + s->pre.put, false);
}

/* Starts reading chunk c's first n groups into a block: the one that c's parity says. */
static int stream_read(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t c, uint32_t n,
		       uint32_t block)
{
	uint64_t sectors = (uint64_t)n * s->geo.record_sectors, at;
	uint64_t record = kvs_record(s, q, s->disk[layer], c * s->geo.groups_per_chunk);
	uint32_t piece = REQUEST_SECTORS / s->geo.record_sectors * s->geo.record_sectors;
	int err = 0;

	piece = piece ? piece : s->geo.record_sectors;
	for (at = 0; !err && at < sectors; at += piece) {
		uint64_t left = sectors - at;
		struct kvs_io_request req = {
			.op = KVS_IO_READ,
			.urgency = KVS_IO_AHEAD,
			.layer = (uint16_t)layer,
			.sectors = (uint32_t)(left < piece ? left : piece),
			.arena = stream_sector(s, block) + at,
			.store = record * s->geo.record_sectors + at,
		};

		req.tag = kvs_tag(KVS_TAG_STREAM, req.sectors / s->geo.record_sectors,
				  s->disk[layer], (uint32_t)(record + at / s->geo.record_sectors));
		s->pre.streams[block]++;
		s->stats.bytes_read += (uint64_t)req.sectors * KVS_SECTOR;
		err = kvs_queue(s, &req);
	}
	s->stats.records_read += n;
	return err ? err : kvs_submit(s);
}

/* Spans of chunk c's first n groups, which are in a block or in memory; checked. */
static int stream_spans(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t c, uint32_t n,
			uint32_t block)
{
	uint64_t bytes = (uint64_t)s->geo.record_sectors * KVS_SECTOR;
	uint32_t per = s->geo.groups_per_chunk, group = s->geo.rec.group;
	int err = s->io ? wait_for(s, &s->pre.streams[block]) : 0;

	for (uint32_t i = 0; !err && i < n; i++) {
		uint64_t record = kvs_record(s, q, s->disk[layer], c * per + i);
		const uint8_t *at =
			s->io ? (uint8_t *)kvs_arena_at(s, stream_sector(s, block)) + i * bytes
			      : s->records + record * bytes;

		if (s->io)
			err = kvs_check_record(s, record, at);
		s->scratch.spans[i] =
			(struct kvs_span){ at, 0, (uint16_t)group, (c * per + i) * group };
	}
	return err;
}

typedef int (*layer_fn)(struct kvs *s, struct sequence *q, uint32_t layer,
			const struct kvs_span *spans, uint32_t n);

/* Groups [0, n) of a layer in order, a chunk at a time, the next one being read meanwhile. */
static int stream(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n, layer_fn fn)
{
	uint32_t per = s->geo.groups_per_chunk, chunks = (n + per - 1) / per;
	int err = s->io && chunks ? stream_read(s, q, layer, 0, n < per ? n : per, 0) : 0;

	for (uint32_t c = 0; !err && c < chunks; c++) {
		uint32_t left = n - c * per, next = left > per ? left - per : 0;

		if (s->io && next)
			err = stream_read(s, q, layer, c + 1, next < per ? next : per, (c + 1) % 2);
		if (!err)
			err = stream_spans(s, q, layer, c, left < per ? left : per, c % 2);
		if (!err)
			err = fn(s, q, layer, s->scratch.spans, left < per ? left : per);
	}
	return err;
}

struct rows { /* one pass of all rows over some spans */
	struct kvs *s;
	const float *q;
	float *out;
	const struct kvs_span *spans;
	uint32_t n_spans, layer;
	atomic_uint next;
	bool last; /* divide by the sums */
};

static void normalise(const struct rows *r, uint32_t h, uint32_t row, uint32_t n, const float *sums)
{
	const struct kvs_geom *g = &r->s->geo.rec;
	uint32_t per = g->n_heads / g->n_kv_heads;

	for (uint32_t i = 0; i < n * per; i++) {
		float *out = r->out + ((size_t)(row + i / per) * g->n_heads + h * per + i % per) *
					      g->head_dim;
		float x = sums[i] > 0 ? 1.0f / sums[i] : 0;

		for (uint32_t d = 0; d < g->head_dim; d++)
			out[d] *= x;
	}
}

static void tile(struct rows *r, uint32_t h, uint32_t row, uint32_t n, void *scratch)
{
	const struct kvs *s = r->s;
	const struct kvs_geom *g = &s->geo.rec;
	uint32_t per = g->n_heads / g->n_kv_heads, stride = g->n_heads * g->head_dim;
	size_t at = ((size_t)h * s->pre.n + row) * per,
	       head = (size_t)row * stride + (size_t)h * per * g->head_dim;
	float *m = running_softmax(s) + at, *l = m + (size_t)s->pre.n * g->n_heads;
	struct kvs_softmax state = { m, l, r->out + head };

	if (r->n_spans && r->spans[0].token < s->pre.pos + row + n)
		s->kernels->prefill(g, h, r->q + head, stride, n, s->pre.pos + row,
				    s->window[r->layer], s->shape.scale, r->spans, r->n_spans,
				    &state, stride, scratch);
	if (r->last)
		normalise(r, h, row, n, l);
}

static void worker(void *arg, int i, int n)
{
	struct rows *r = arg;
	struct kvs *s = r->s;
	uint32_t tiles = (s->pre.n + TILE - 1) / TILE, all = tiles * s->geo.rec.n_kv_heads, k;

	(void)n;
	while ((k = atomic_fetch_add(&r->next, 1)) < all) {
		/* the last rows see most: they go first */
		uint32_t row = (tiles - 1 - k / s->geo.rec.n_kv_heads) * TILE,
			 left = s->pre.n - row;

		tile(r, k % s->geo.rec.n_kv_heads, row, left < TILE ? left : TILE,
		     s->scratch.prefill + (size_t)i * s->scratch.prefill_bytes);
	}
}

static int attend_rows(struct kvs *s, struct sequence *q, uint32_t layer,
		       const struct kvs_span *spans, uint32_t n)
{
	struct rows *r = s->pre.rows;

	(void)q;
	(void)layer;
	r->spans = spans;
	r->n_spans = n;
	atomic_store(&r->next, 0);
	kvs_run(s, worker, r, s->cfg.parallel && s->cfg.n_threads > 1 ? s->cfg.n_threads : 1);
	return 0;
}

/* All rows over the staging, a piece at a time; the last group may be partly filled. */
static int attend_staging(struct kvs *s, struct sequence *q, uint32_t layer)
{
	uint32_t group = s->geo.rec.group, end = s->pre.pos + s->pre.n, n = 0;

	for (uint32_t g = s->pre.first / group; g * group < end; g++) {
		struct kvs_span span = stage_span(s, g);

		if (span.token + group > end)
			span.n = (uint16_t)(end - span.token);
		s->scratch.spans[n++] = span;
		s->pre.rows->last = span.token + group >= end;
		if (!s->pre.rows->last && (span.token + group) % s->geo.align)
			continue;
		if (s->pre.rows->last || n * group >= PIECE ||
		    n + s->geo.align / group > s->pre.max_spans) {
			attend_rows(s, q, layer, s->scratch.spans, n);
			n = 0;
		}
	}
	return 0;
}

/* What the rolling buffer of a layer holds at the end of the prefill. */
static void keep_recent(struct kvs *s, struct sequence *q, uint32_t layer)
{
	uint32_t group = s->geo.rec.group, end = s->pre.pos + s->pre.n,
		 first = s->pre.first / group;
	uint32_t last = (end - 1) / group;
	uint32_t from = last >= s->ring[layer] ? last - s->ring[layer] + 1 : 0;

	for (uint32_t g = from > first ? from : first; g * group < end; g++)
		memcpy(kvs_arena_at(s, kvs_ring_sector(s, q, layer, g)),
		       kvs_arena_at(s, stage_sector(s, g)), s->geo.record_bytes);
}

/* Groups [0, n): those before the staging from the store, the others from the staging. */
static int over_all(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n, layer_fn fn)
{
	uint32_t first = s->pre.first / s->geo.rec.group;
	int err = stream(s, q, layer, first < n ? first : n, fn);

	for (uint32_t g = first; !err && g < n; g++) {
		struct kvs_span span = stage_span(s, g);

		err = fn(s, q, layer, &span, 1);
	}
	return err;
}

/*
 * A basis is made when the tokens that it is made from are there, whichever prefill brings the last of them; not when
 * the whole prompt is shorter than the selection.
 */
static int train(struct kvs *s, struct sequence *q, uint32_t layer)
{
	uint32_t dl = s->disk[layer], group = s->geo.rec.group, end = s->pre.pos + s->pre.n;
	uint32_t from = s->pre.total < KVS_TRAIN_TOKENS ? s->pre.total : KVS_TRAIN_TOKENS;
	uint64_t start = kvs_now();
	int err;

	if (s->window[layer] || !s->geo.basis || s->trained[dl] || end < from ||
	    kvs_rolling_first(s, s->pre.total) <= s->geo.select)
		return 0;
	kvs_train_start(s);
	err = over_all(s, q, layer, from / group, kvs_gram_add);
	if (!err)
		err = kvs_train_finish(s, dl);
	if (!err)
		err = over_all(s, q, layer, end / group, kvs_build);
	s->stats.train_ns += kvs_now() - start;
	return err;
}

static void softmax_start(struct kvs *s, float *out)
{
	size_t rows = (size_t)s->pre.n * s->geo.rec.n_heads;
	float *m = running_softmax(s);

	for (size_t i = 0; i < rows; i++)
		m[i] = -INFINITY;
	memset(m + rows, 0, rows * sizeof(*m));
	memset(out, 0, rows * s->geo.rec.head_dim * sizeof(*out));
}

int kvs_prefill_attend(struct kvs *s, uint32_t layer, const float *query, float *out)
{
	struct sequence *q = &s->seqs[s->pre.seq];
	struct rows rows = { .s = s, .q = query, .out = out, .layer = layer };
	uint64_t start = kvs_now();
	int err;

	if (s->failed)
		return s->failed;
	if (!s->pre.active || layer != s->pre.layer || s->pre.put != s->pre.n)
		return kvs_say(s, -EPROTO, "prefill attention of layer %u out of order", layer);
	err = stage_flush(s, q, layer, s->pre.pos + s->pre.n, true);
	if (err)
		return err;
	softmax_start(s, out);
	s->pre.rows = &rows;
	s->pre.max_spans = s->geo.max_groups > 2 * s->geo.groups_per_chunk
				   ? s->geo.max_groups
				   : 2 * s->geo.groups_per_chunk;
	if (!s->window[layer])
		err = stream(s, q, layer, s->pre.first / s->geo.rec.group, attend_rows);
	if (!err)
		err = attend_staging(s, q, layer);
	s->pre.rows = NULL;
	s->stats.prefill_attend_ns += kvs_now() - start;
	if (!err)
		err = train(s, q, layer);
	keep_recent(s, q, layer);
	s->pre.layer++;
	s->pre.put = 0;
	return err;
}

int kvs_prefill_end(struct kvs *s)
{
	struct sequence *q = &s->seqs[s->pre.seq];
	int err;

	if (s->failed)
		return s->failed;
	if (!s->pre.active)
		return kvs_say(s, -EPROTO, "no prefill to end");
	if (s->pre.layer != s->geo.n_layers)
		return kvs_fail(s, -EPROTO, "prefill ended at layer %u of %u", s->pre.layer,
				s->geo.n_layers);
	err = wait_for(s, &s->pre.writes);
	if (err)
		return err;
	for (uint32_t l = 0; l < s->geo.n_layers; l++)
		q->tokens[l] = s->pre.pos + s->pre.n;
	s->pre.active = false;
	kvs_session_published(s, 0);
	return 0;
}
