/* SPDX-License-Identifier: MIT */
/*
 * Records to memory and back: requests are collected, submitted in one batch, checked when they complete. A record
 * is written from the rolling buffer or the staging, where it stays until the write has completed, and is read from
 * there meanwhile.
 */
#include <string.h>

#include "session.h"

static uint32_t record_layer(const struct kvs *s, uint64_t record)
{
	return s->layer_of[record / s->geo.groups_per_chunk % s->geo.n_disk];
}

static uint32_t first_token(const struct kvs *s, uint64_t record)
{
	return s->chunks.token[kvs_record_chunk(s, record)] +
	       (uint32_t)(record % s->geo.groups_per_chunk) * s->geo.rec.group;
}

static uint32_t record_crc(const struct kvs *s, uint64_t record, const void *data)
{
	uint32_t dl = (uint32_t)(record / s->geo.groups_per_chunk % s->geo.n_disk);

	return kvs_record_crc(s->store_id, record, dl,
			      s->chunks.generation[kvs_record_chunk(s, record)], data,
			      s->geo.record_bytes);
}

/* The checksum that a read of the record will be held against. */
void kvs_record_seal(struct kvs *s, uint64_t record, const void *data)
{
	s->chunks.crc[record] = record_crc(s, record, data);
}

int kvs_check_record(struct kvs *s, uint64_t record, const void *data)
{
	uint32_t first = first_token(s, record);

	if (record_crc(s, record, data) == s->chunks.crc[record])
		return 0;
	return kvs_fail(
		s, -EBADMSG,
		"layer %u, tokens %u to %u: the record read from %s does not match its checksum; the store is damaged or shared",
		record_layer(s, record), first, first + s->geo.rec.group - 1, s->store.path);
}

/* Of a request for n neighbouring records. */
static int io_failed(struct kvs *s, enum kvs_io_op op, uint64_t record, uint32_t n, int err)
{
	uint32_t first = first_token(s, record);

	return kvs_fail(s, err, "layer %u, tokens %u to %u: %s %s: %s", record_layer(s, record),
			first, first + n * s->geo.rec.group - 1,
			op == KVS_IO_READ ? "reading from" : "writing to", s->store.path,
			strerror(-err));
}

int kvs_queue(struct kvs *s, const struct kvs_io_request *req)
{
	int err = 0;

	if (s->n_reqs == 2 * s->set.depth)
		err = kvs_submit(s);
	if (!err)
		s->scratch.reqs[s->n_reqs++] = *req;
	return err;
}

/* Hands over what was collected; waits only when the backend is full. */
int kvs_submit(struct kvs *s)
{
	uint32_t done = 0;

	while (done < s->n_reqs && !s->failed) {
		uint32_t taken = 0, n = s->n_reqs;
		int err = s->io->ops->submit(s->io, s->scratch.reqs + done, n - done, &taken);

		done += taken;
		if (err && err != -EAGAIN)
			return kvs_fail(s, err, "submitting to %s: %s", s->store.path,
					strerror(-err));
		if (err != -EAGAIN)
			continue;
		n = s->n_reqs;
		s->n_reqs = 0;
		err = kvs_drain(s, 1);
		s->n_reqs = n;
		if (err)
			return err;
	}
	s->n_reqs = 0;
	return s->failed;
}

static int slot_done(struct kvs *s, uint32_t dl, uint32_t index, int result)
{
	struct slot *slot = &s->slots[(size_t)dl * s->geo.reuse + index];

	s->reading[dl]--;
	if (result)
		return io_failed(s, KVS_IO_READ, slot->record, 1, result);
	if (kvs_check_record(s, slot->record, kvs_arena_at(s, kvs_slot_sector(s, dl, index))))
		return s->failed;
	slot->state = SLOT_READY;
	return 0;
}

/* What the tags mean is said in session.h. */
static int completed(struct kvs *s, const struct kvs_io_completion *c)
{
	uint32_t kind = (uint32_t)(c->tag >> 60), extra = (uint32_t)(c->tag >> 48) & 0xfff;
	uint32_t dl = (uint32_t)(c->tag >> 32) & 0xffff, record = (uint32_t)c->tag, n = 1;
	enum kvs_io_op op = KVS_IO_WRITE;

	switch (kind) {
	case KVS_TAG_SLOT:
		return slot_done(s, dl, record, c->result);
	case KVS_TAG_RING:
		s->seqs[extra].writing[dl * s->geo.ring +
				       first_token(s, record) / s->geo.rec.group % s->geo.ring] = 0;
		break;
	case KVS_TAG_STAGE:
		s->pre.writes--;
		n = extra;
		break;
	case KVS_TAG_STREAM:
		s->pre.streams[first_token(s, record) / s->geo.chunk_tokens % 2]--;
		n = extra;
		op = KVS_IO_READ;
		break;
	default:
		s->sync = 0;
		op = extra;
	}
	return c->result ? io_failed(s, op, record, n, c->result) : 0;
}

/* Submits what is collected, takes what has completed, waits until there were at least min. */
int kvs_drain(struct kvs *s, uint32_t min)
{
	uint32_t max = 2 * s->set.depth;
	uint64_t start = min ? kvs_now() : 0;
	int n;

	if (!s->io || s->failed)
		return s->failed;
	if (s->n_reqs && kvs_submit(s))
		return s->failed;
	n = s->io->ops->wait(s->io, s->scratch.done, min, max);
	if (min)
		s->stats.wait_ns += kvs_now() - start;
	s->store.stuck = n == -ETIMEDOUT;
	if (n == -ETIMEDOUT)
		return kvs_fail(s, n, "%s does not answer: a request took longer than %u ms",
				s->store.path, s->cfg.io_timeout_ms ? s->cfg.io_timeout_ms : 30000);
	if (n < 0)
		return kvs_fail(s, n, "waiting for %s: %s", s->store.path, strerror(-n));
	for (int i = 0; i < n; i++)
		completed(s, &s->scratch.done[i]);
	return s->failed;
}

struct kvs_io_request kvs_record_request(struct kvs *s, enum kvs_io_op op,
					 enum kvs_io_urgency urgency, uint64_t record,
					 uint64_t sector, uint64_t tag)
{
	uint32_t dl = (uint32_t)(record / s->geo.groups_per_chunk % s->geo.n_disk);
	uint32_t bytes = s->geo.record_sectors * KVS_SECTOR;

	if (op == KVS_IO_READ) {
		s->stats.records_read++;
		s->stats.bytes_read += bytes;
	} else {
		s->stats.records_written++;
		s->stats.bytes_written += bytes;
	}
	return (struct kvs_io_request){
		.op = op,
		.urgency = urgency,
		.layer = (uint16_t)s->layer_of[dl],
		.sectors = s->geo.record_sectors,
		.arena = sector,
		.store = record * s->geo.record_sectors,
		.tag = tag,
	};
}

/* Write-back of a full group from the rolling buffer. */
int kvs_ring_write(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t group)
{
	uint32_t dl = s->disk[layer];
	uint64_t sector = kvs_ring_sector(s, q, layer, group), record = kvs_record(s, q, dl, group);
	struct kvs_io_request req;

	if (!s->io) {
		memcpy(s->records + record * s->geo.record_sectors * KVS_SECTOR,
		       kvs_arena_at(s, sector), s->geo.record_bytes);
		return 0;
	}
	kvs_record_seal(s, record, kvs_arena_at(s, sector));
	req = kvs_record_request(s, KVS_IO_WRITE, KVS_IO_BEHIND, record, sector,
				 kvs_tag(KVS_TAG_RING, (uint32_t)kvs_seq_index(s, q), dl,
					 (uint32_t)record));
	q->writing[dl * s->geo.ring + group % s->geo.ring] = 1;
	return kvs_queue(s, &req);
}

/* Until the place of `group` in the rolling buffer may be written to. */
int kvs_ring_wait(struct kvs *s, struct sequence *q, uint32_t dl, uint32_t group)
{
	while (q->writing[dl * s->geo.ring + group % s->geo.ring] && !s->failed)
		kvs_drain(s, 1);
	return s->failed;
}

static int sync_request(struct kvs *s, enum kvs_io_op op, uint64_t record, uint64_t sector)
{
	struct kvs_io_request req = kvs_record_request(
		s, op, KVS_IO_LATE, record, sector, kvs_tag(KVS_TAG_SYNC, op, 0, (uint32_t)record));
	int err = kvs_queue(s, &req);

	s->sync = 1;
	while (!err && s->sync)
		err = kvs_drain(s, 1);
	return err;
}

/* One record into the arena, checked. */
int kvs_read_sync(struct kvs *s, uint64_t record, uint64_t sector)
{
	int err = sync_request(s, KVS_IO_READ, record, sector);

	return err ? err : kvs_check_record(s, record, kvs_arena_at(s, sector));
}

/* A record's content to another place of the same layer, by way of a slot. */
int kvs_record_copy(struct kvs *s, uint32_t dl, uint64_t from, uint64_t to)
{
	size_t bytes = (size_t)s->geo.record_sectors * KVS_SECTOR;
	uint32_t slot;
	uint64_t sector;
	int err;

	if (!s->io) {
		memcpy(s->records + to * bytes, s->records + from * bytes, bytes);
		return 0;
	}
	while (!kvs_slots_take(s, dl, 1, &slot))
		if (kvs_drain(s, 1))
			return s->failed;
	kvs_slot_assign(s, dl, slot, to);
	sector = kvs_slot_sector(s, dl, slot);
	err = kvs_read_sync(s, from, sector);
	if (err)
		return err;
	kvs_record_seal(s, to, kvs_arena_at(s, sector));
	s->slots[(size_t)dl * s->geo.reuse + slot].state = SLOT_READY;
	return sync_request(s, KVS_IO_WRITE, to, sector);
}
