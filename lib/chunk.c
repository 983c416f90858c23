/* SPDX-License-Identifier: MIT */
/*
 * Chunks and sequences. A chunk is held by reference count; the part of a sequence's last chunk that is not yet
 * full belongs to that sequence alone, so a fork copies it. A chunk that is given back gets a new generation: no
 * record of its former life passes the checksum.
 */
#include <string.h>

#include "session.h"

int kvs_chunks_init(struct kvs *s)
{
	struct chunk_table *t = &s->chunks;
	const struct geometry *g = &s->geo;

	for (uint32_t i = 0; i < g->n_chunks; i++)
		t->free[i] = g->n_chunks - 1 - i;
	t->n_free = g->n_chunks;
	if (t->slot)
		memset(t->slot, 0xff,
		       (size_t)g->n_chunks * g->n_disk * g->groups_per_chunk * sizeof(*t->slot));
	for (uint32_t i = 0; i < g->n_seqs; i++) {
		s->seqs[i].tokens = s->seq_tokens + (size_t)i * g->n_layers;
		s->seqs[i].chunks = s->seq_chunks + (size_t)i * g->chunks_per_seq;
		s->seqs[i].writing = s->seq_writing + (size_t)i * g->n_disk * g->ring;
	}
	return 0;
}

static void chunk_put(struct kvs *s, uint32_t chunk)
{
	struct chunk_table *t = &s->chunks;
	const struct geometry *g = &s->geo;
	uint64_t first = (uint64_t)chunk * g->n_disk * g->groups_per_chunk;

	if (--t->refs[chunk])
		return;
	for (uint64_t r = 0; t->slot && r < (uint64_t)g->n_disk * g->groups_per_chunk; r++)
		kvs_slot_drop(s, first + r);
	if (t->built)
		memset(t->built + (size_t)chunk * g->n_disk, 0, g->n_disk * sizeof(*t->built));
	t->generation[chunk]++;
	t->free[t->n_free++] = chunk;
}

/* Chunks for n_tokens tokens. There are always enough: a sequence never holds more than its share. */
int kvs_chunks_extend(struct kvs *s, struct sequence *q, uint32_t n_tokens)
{
	struct chunk_table *t = &s->chunks;
	uint32_t need = (n_tokens + s->geo.chunk_tokens - 1) / s->geo.chunk_tokens;

	for (uint32_t i = 0; i < need; i++) {
		uint32_t chunk;

		if (q->chunks[i] != KVS_NO_CHUNK)
			continue;
		if (!t->n_free)
			return kvs_say(s, -ENOSPC, "no chunk left for token %u",
				       i * s->geo.chunk_tokens);
		chunk = t->free[--t->n_free];
		t->refs[chunk] = 1;
		t->token[chunk] = i * s->geo.chunk_tokens;
		q->chunks[i] = chunk;
	}
	return 0;
}

void kvs_chunks_shrink(struct kvs *s, struct sequence *q, uint32_t n_tokens)
{
	uint32_t keep = (n_tokens + s->geo.chunk_tokens - 1) / s->geo.chunk_tokens;

	for (uint32_t i = keep; i < s->geo.chunks_per_seq; i++) {
		if (q->chunks[i] == KVS_NO_CHUNK)
			continue;
		chunk_put(s, q->chunks[i]);
		q->chunks[i] = KVS_NO_CHUNK;
	}
}

struct sequence *kvs_seq_get(struct kvs *s, uint32_t seq)
{
	if (seq >= s->geo.n_seqs || !s->seqs[seq].used) {
		kvs_say(s, -EINVAL, "no sequence %u", seq);
		return NULL;
	}
	return &s->seqs[seq];
}

int kvs_seq_new(struct kvs *s, uint32_t *seq)
{
	if (s->failed)
		return s->failed;
	for (uint32_t i = 0; i < s->geo.n_seqs; i++) {
		struct sequence *q = &s->seqs[i];

		if (q->used)
			continue;
		q->used = true;
		memset(q->tokens, 0, s->geo.n_layers * sizeof(*q->tokens));
		memset(q->chunks, 0xff, s->geo.chunks_per_seq * sizeof(*q->chunks));
		*seq = i;
		return 0;
	}
	return kvs_say(s, -ENOSPC, "all %u sequences are in use", s->geo.n_seqs);
}

/* Waits for the writes of a sequence's rolling buffers, so that all its full groups are in the store. */
static int settle(struct kvs *s, struct sequence *q)
{
	uint32_t n = s->geo.n_disk * s->geo.ring;

	kvs_selection_drop(s, q);
	for (uint32_t i = 0; i < n; i++)
		while (q->writing[i]) {
			int err = kvs_drain(s, 1);

			if (err)
				return err;
		}
	return 0;
}

int kvs_seq_free(struct kvs *s, uint32_t seq)
{
	struct sequence *q = kvs_seq_get(s, seq);
	int err;

	if (!q)
		return -EINVAL;
	if (s->failed)
		return s->failed;
	if (s->pre.active && s->pre.seq == seq)
		return kvs_say(s, -EPROTO, "sequence %u is in a prefill", seq);
	err = settle(s, q);
	if (err)
		return err;
	kvs_chunks_shrink(s, q, 0);
	q->used = false;
	return 0;
}

uint32_t kvs_seq_tokens(const struct kvs *s, uint32_t seq)
{
	uint32_t n = UINT32_MAX;

	if (seq >= s->geo.n_seqs || !s->seqs[seq].used)
		return 0;
	for (uint32_t l = 0; l < s->geo.n_layers; l++)
		if (s->seqs[seq].tokens[l] < n)
			n = s->seqs[seq].tokens[l];
	return n;
}

/* The record of a full group, wherever it is, into the rolling buffer at its place. */
static int ring_load(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t group,
		     uint32_t have)
{
	uint64_t record = kvs_record(s, q, s->disk[layer], group);

	if (group + s->ring[layer] > have)
		return 0; /* still there */
	if (!s->io) {
		memcpy(kvs_arena_at(s, kvs_ring_sector(s, q, layer, group)),
		       s->records + record * s->geo.record_sectors * KVS_SECTOR,
		       s->geo.record_bytes);
		return 0;
	}
	return kvs_read_sync(s, record, kvs_ring_sector(s, q, layer, group));
}

/* The rolling buffer of a layer as it is with n tokens: its last groups, all that it has room for. */
static int ring_rewind(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n)
{
	uint32_t group = s->geo.rec.group, have = (q->tokens[layer] - 1) / group,
		 last = (n - 1) / group;
	uint32_t g = last >= s->ring[layer] ? last - s->ring[layer] + 1 : 0;
	int err = 0;

	for (; !err && n && g <= last; g++)
		err = ring_load(s, q, layer, g, have);
	return err;
}

/* A windowed layer keeps its window only: what was before it is gone. */
static bool window_reaches(const struct kvs *s, const struct sequence *q, uint32_t layer,
			   uint32_t n)
{
	uint32_t group = s->geo.rec.group, have = q->tokens[layer] / group;
	uint32_t first = n > s->window[layer] ? (n - s->window[layer]) / group : 0;

	return n == q->tokens[layer] || first + s->ring[layer] > have;
}

/* Groups that are no longer full lose their slots and their metadata. */
static void forget_groups(struct kvs *s, struct sequence *q, uint32_t dl, uint32_t n)
{
	const struct geometry *g = &s->geo;
	uint32_t first = n / g->rec.group, chunk = first / g->groups_per_chunk,
		 in = first % g->groups_per_chunk;
	uint16_t *built;

	if (n % g->chunk_tokens == 0)
		return;
	for (uint32_t i = in; s->chunks.slot && i < g->groups_per_chunk; i++)
		kvs_slot_drop(s, kvs_record(s, q, dl, chunk * g->groups_per_chunk + i));
	if (!s->chunks.built)
		return;
	built = &s->chunks.built[(size_t)q->chunks[chunk] * g->n_disk + dl];
	if (*built > in)
		*built = (uint16_t)in;
}

/* Copies the full groups of a layer in tokens [from, to) of src to the same place of q. */
static int copy_groups(struct kvs *s, struct sequence *src, struct sequence *q, uint32_t layer,
		       uint32_t from, uint32_t to)
{
	uint32_t group = s->geo.rec.group, dl = s->disk[layer];
	int err = 0;

	for (uint32_t g = from / group; !err && (g + 1) * group <= to; g++)
		err = kvs_record_copy(s, dl, kvs_record(s, src, dl, g), kvs_record(s, q, dl, g));
	return err;
}

/* A chunk of its own for the part of the last one that sequences will write to differently. */
static int unshare(struct kvs *s, struct sequence *q, uint32_t n)
{
	uint32_t last = n / s->geo.chunk_tokens, shared, err = 0;
	struct sequence view = *q;
	uint32_t *chunks = s->scratch.groups;

	if (n % s->geo.chunk_tokens == 0 || q->chunks[last] == KVS_NO_CHUNK ||
	    s->chunks.refs[q->chunks[last]] == 1)
		return 0;
	shared = q->chunks[last];
	memcpy(chunks, q->chunks, (last + 1) * sizeof(*chunks));
	view.chunks = chunks;
	q->chunks[last] = KVS_NO_CHUNK;
	err = kvs_chunks_extend(s, q, n);
	for (uint32_t l = 0; !err && l < s->geo.n_layers; l++)
		if (!s->window[l])
			err = copy_groups(s, &view, q, l, last * s->geo.chunk_tokens, n);
	if (err && q->chunks[last] == KVS_NO_CHUNK)
		q->chunks[last] = shared;
	else
		chunk_put(s, shared);
	return err;
}

int kvs_seq_truncate(struct kvs *s, uint32_t seq, uint32_t n_tokens)
{
	struct sequence *q = kvs_seq_get(s, seq);
	int err;

	if (!q)
		return -EINVAL;
	if (s->failed)
		return s->failed;
	if (s->pre.active)
		return kvs_say(s, -EPROTO, "truncation in the middle of a prefill");
	for (uint32_t l = 0; l < s->geo.n_layers; l++) {
		if (n_tokens > q->tokens[l])
			return kvs_say(s, -EINVAL, "sequence %u has %u tokens, cannot keep %u", seq,
				       q->tokens[l], n_tokens);
		if (s->window[l] && !window_reaches(s, q, l, n_tokens))
			return kvs_say(
				s, -ENOTSUP,
				"layer %u keeps a window of %u tokens: the sequence cannot go back to %u",
				l, s->window[l], n_tokens);
	}
	err = settle(s, q);
	for (uint32_t l = 0; !err && l < s->geo.n_layers; l++)
		if (!s->window[l])
			err = ring_rewind(s, q, l, n_tokens);
	if (!err)
		err = unshare(s, q, n_tokens);
	if (err)
		return err;
	for (uint32_t l = 0; l < s->geo.n_layers; l++) {
		if (!s->window[l])
			forget_groups(s, q, s->disk[l], n_tokens);
		q->tokens[l] = n_tokens;
	}
	kvs_chunks_shrink(s, q, n_tokens);
	return 0;
}

int kvs_seq_fork(struct kvs *s, uint32_t src, uint32_t n_tokens, uint32_t *seq)
{
	struct sequence *from = kvs_seq_get(s, src), *q;
	int err;

	if (!from)
		return -EINVAL;
	if (s->pre.active)
		return kvs_say(s, -EPROTO, "fork in the middle of a prefill");
	if (n_tokens > kvs_seq_tokens(s, src))
		return kvs_say(s, -EINVAL, "sequence %u has %u tokens, cannot fork at %u", src,
			       kvs_seq_tokens(s, src), n_tokens);
	err = kvs_seq_new(s, seq);
	if (err)
		return err;
	err = settle(s, from);
	if (err)
		return err;
	q = &s->seqs[*seq];
	for (uint32_t i = 0; i < s->geo.chunks_per_seq; i++) {
		q->chunks[i] = from->chunks[i];
		if (q->chunks[i] != KVS_NO_CHUNK)
			s->chunks.refs[q->chunks[i]]++;
	}
	memcpy(q->tokens, from->tokens, s->geo.n_layers * sizeof(*q->tokens));
	memcpy(kvs_arena_at(s, kvs_seq_index(s, q) * s->geo.seq_ring_sectors),
	       kvs_arena_at(s, kvs_seq_index(s, from) * s->geo.seq_ring_sectors),
	       s->geo.seq_ring_sectors * KVS_SECTOR);
	err = kvs_seq_truncate(s, *seq, n_tokens);
	if (err && !s->failed) {
		kvs_chunks_shrink(s, q, 0);
		q->used = false;
	}
	return err;
}
