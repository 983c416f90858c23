// SPDX-License-Identifier: MIT
/*
 * Groups through slots: which are there, which have to be read, in what order attention passes over them. A group is pinned
 * from the moment that it has been chosen until it has been attended to.
 */
#include "session.h"

#define IN_RING UINT32_MAX
#define MISSING (UINT32_MAX - 1u)

static struct slot *resident(struct kvs *s, uint64_t record, uint32_t dl)
{
	uint16_t index = s->chunks.slot[record];

	return index == KVS_NO_SLOT ? NULL : &s->slots[(size_t)dl * s->geo.reuse + index];
}

/*
 * Whether the rolling buffer of a layer with n > 0 tokens still has the group. What it no longer has is in the store: its
 * place was not given to another group before the write had completed.
 */
static bool in_ring(const struct kvs *s, uint32_t layer, uint32_t group, uint32_t n_tokens)
{
	return group + s->ring[layer] > (n_tokens - 1) / s->geo.rec.group;
}

/* The group that the coming token will push out of the rolling buffer may not be in the store yet. */
static bool being_written(const struct kvs *s, const struct sequence *q, uint32_t layer,
			  uint32_t group)
{
	return q->tokens[layer] && in_ring(s, layer, group, q->tokens[layer]) &&
	       q->writing[s->disk[layer] * s->geo.ring + group % s->geo.ring];
}

static struct slot *slot_at(struct kvs *s, uint32_t dl, uint32_t index)
{
	return &s->slots[(size_t)dl * s->geo.reuse + index];
}

static int read_slot(struct kvs *s, uint32_t dl, uint32_t slot, uint64_t record,
		     enum kvs_io_urgency urgency)
{
	struct kvs_io_request req;

	kvs_slot_assign(s, dl, slot, record);
	s->reading[dl]++;
	req = kvs_record_request(s, KVS_IO_READ, urgency, record, kvs_slot_sector(s, dl, slot),
				 kvs_tag(KVS_TAG_SLOT, 0, dl, slot));
	return kvs_queue(s, &req);
}

/* Starts reads of n records, as far as pinned_percent of the slots allows. */
static int read_ahead(struct kvs *s, uint32_t dl, const uint32_t *records, uint32_t n)
{
	uint32_t limit = (uint32_t)((uint64_t)s->geo.reuse * s->set.pinned_percent / 100);
	uint32_t room = limit > s->reading[dl] ? limit - s->reading[dl] : 0,
		 *victims = s->scratch.victims;
	uint32_t got = kvs_slots_take(s, dl, room < n ? room : n, victims);
	int err = 0;

	for (uint32_t i = 0; !err && i < got; i++) {
		err = read_slot(s, dl, victims[i], records[i], KVS_IO_AHEAD);
		slot_at(s, dl, victims[i])->ahead = s->step[dl] + 1;
		slot_at(s, dl, victims[i])->read = s->step[dl] + 1;
	}
	return err;
}

/*
 * Reads ahead of attention to the coming token: what of groups is not in memory. What is there is kept from being
 * given away for it.
 */
int kvs_ahead(struct kvs *s, struct sequence *q, uint32_t layer, const uint32_t *groups, uint32_t n)
{
	uint32_t dl = s->disk[layer], miss = 0, kept = 0, *missing = s->scratch.place,
		 *keep = missing + n;
	int err;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t record = kvs_record(s, q, dl, groups[i]);
		struct slot *slot = resident(s, record, dl);

		if (in_ring(s, layer, groups[i], q->tokens[layer] + 1) ||
		    being_written(s, q, layer, groups[i]))
			continue;
		if (slot) {
			slot->ahead = s->step[dl] + 1;
			slot->pins++;
			*--keep = s->chunks.slot[record];
			kept++;
		} else {
			missing[miss++] = (uint32_t)record;
		}
	}
	err = miss ? read_ahead(s, dl, missing, miss) : 0;
	for (uint32_t i = 0; i < kept; i++)
		slot_at(s, dl, keep[i])->pins--;
	return err ? err : kvs_submit(s);
}

/* One pass over groups through slots; place [n]: where each is. */
struct visit {
	struct kvs *s;
	struct sequence *q;
	const uint32_t *groups;
	uint32_t *place;
	const float *scores;
	uint32_t layer, dl;
};

static void count_hit(struct kvs *s, const struct slot *slot, uint32_t dl)
{
	s->stats.groups_hit += slot->read != s->step[dl];
	s->stats.groups_predicted += slot->ahead == s->step[dl];
}

/* Pins those of groups [from, to) that are in slots; returns how many are not. */
static uint32_t pin_resident(const struct visit *v, uint32_t from, uint32_t to)
{
	uint32_t n_tokens = v->q->tokens[v->layer], miss = 0;
	struct kvs *s = v->s;

	for (uint32_t i = from; i < to; i++) {
		uint64_t record = kvs_record(s, v->q, v->dl, v->groups[i]);
		struct slot *slot = resident(s, record, v->dl);

		if (in_ring(s, v->layer, v->groups[i], n_tokens)) {
			v->place[i] = IN_RING;
			continue;
		}
		s->stats.groups_selected += v->scores != NULL;
		if (!slot) {
			v->place[i] = MISSING;
			miss++;
			continue;
		}
		v->place[i] = s->chunks.slot[record];
		slot->pins++;
		if (v->scores) {
			count_hit(s, slot, v->dl);
			kvs_slot_touch(s, v->dl, slot, v->scores[v->groups[i]]);
		}
	}
	return miss;
}

/* Groups [from, to) are in slots, pinned, or on their way. */
static int place_groups(const struct visit *v, uint32_t from, uint32_t to)
{
	struct kvs *s = v->s;
	uint32_t miss = pin_resident(v, from, to), *victims = s->scratch.victims, i = from;

	s->stats.records_late += v->scores ? miss : 0;
	while (miss) {
		uint32_t got = kvs_slots_take(s, v->dl, miss, victims);

		for (uint32_t k = 0; k < got; k++) {
			struct slot *slot = slot_at(s, v->dl, victims[k]);

			while (v->place[i] != MISSING)
				i++;
			if (read_slot(s, v->dl, victims[k],
				      kvs_record(s, v->q, v->dl, v->groups[i]), KVS_IO_LATE))
				return s->failed;
			v->place[i] = victims[k];
			slot->pins++;
			kvs_slot_touch(s, v->dl, slot, v->scores ? v->scores[v->groups[i]] : 0);
		}
		miss -= got;
		if (!got && kvs_drain(s, 1))
			return s->failed;
	}
	return kvs_submit(s);
}

static uint32_t still_reading(const struct visit *v, uint32_t from, uint32_t to)
{
	uint32_t n = 0;

	for (uint32_t i = from; i < to; i++)
		n += v->place[i] != IN_RING &&
		     slot_at(v->s, v->dl, v->place[i])->state == SLOT_READING;
	return n;
}

/* Spans of groups [from, to), which are then in memory. */
static int collect(const struct visit *v, uint32_t from, uint32_t to)
{
	struct kvs *s = v->s;
	uint32_t group = s->geo.rec.group, reading;

	while ((reading = still_reading(v, from, to)))
		if (kvs_drain(s, reading))
			return s->failed;
	for (uint32_t i = from; i < to; i++) {
		uint64_t sector = v->place[i] == IN_RING
					  ? kvs_ring_sector(s, v->q, v->layer, v->groups[i])
					  : kvs_slot_sector(s, v->dl, v->place[i]);

		s->scratch.spans[i - from] =
			(struct kvs_span){ kvs_arena_at(s, sector), 0, (uint16_t)group,
					   v->groups[i] * group };
	}
	return 0;
}

static void unpin(const struct visit *v, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (v->place[i] != IN_RING)
			slot_at(v->s, v->dl, v->place[i])->pins--;
}

static int visit_memory(const struct visit *v, uint32_t n, kvs_visit_fn fn, void *arg)
{
	struct kvs *s = v->s;
	uint32_t group = s->geo.rec.group;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t record = kvs_record(s, v->q, v->dl, v->groups[i]);

		s->scratch.spans[i] =
			(struct kvs_span){ s->records + record * s->geo.record_sectors * KVS_SECTOR,
					   0, (uint16_t)group, v->groups[i] * group };
	}
	return fn(s, arg, s->scratch.spans, n);
}

/*
 * When the groups are more than the slots they pass through in waves, the next being read while one is visited. Waves are
 * small beside the slots, so that what scores high stays. With one to three slots, one after the other.
 */
int kvs_visit_groups(struct kvs *s, struct sequence *q, uint32_t layer, const uint32_t *groups,
		     uint32_t n, const float *scores, kvs_visit_fn fn, void *arg)
{
	const struct visit v = { s, q, groups, s->scratch.place, scores, layer, s->disk[layer] };
	uint32_t wave = n <= s->geo.reuse ? n : s->geo.reuse > 3 ? s->geo.reuse / 4 : 1, to;
	bool overlap = 2 * wave <= s->geo.reuse;
	int err;

	if (!s->io)
		return visit_memory(&v, n, fn, arg);
	err = place_groups(&v, 0, wave);
	for (uint32_t from = 0; !err && from < n; from = to) {
		uint32_t next;

		to = from + wave < n ? from + wave : n;
		next = to + wave < n ? to + wave : n;
		if (overlap && next > to)
			err = place_groups(&v, to, next);
		if (!err)
			err = collect(&v, from, to);
		if (!err)
			err = fn(s, arg, s->scratch.spans, to - from);
		unpin(&v, from, to);
		if (!err && !overlap && next > to)
			err = place_groups(&v, to, next);
	}
	return err;
}

/* Pins n <= R groups, starts to read those that are missing; place [n] is for kvs_visit_placed(). */
int kvs_place_groups(struct kvs *s, struct sequence *q, uint32_t layer, const uint32_t *groups,
		     uint32_t n, const float *scores, uint32_t *place)
{
	const struct visit v = { s, q, groups, place, scores, layer, s->disk[layer] };

	return place_groups(&v, 0, n);
}

int kvs_visit_placed(struct kvs *s, struct sequence *q, uint32_t layer, const uint32_t *groups,
		     uint32_t n, uint32_t *place, kvs_visit_fn fn, void *arg)
{
	const struct visit v = { s, q, groups, place, NULL, layer, s->disk[layer] };
	int err = collect(&v, 0, n);

	if (!err)
		err = fn(s, arg, s->scratch.spans, n);
	unpin(&v, 0, n);
	return err;
}

/* Groups that were placed and will not be visited. */
void kvs_unplace(struct kvs *s, uint32_t dl, uint32_t n, const uint32_t *place)
{
	const struct visit v = { .s = s, .place = (uint32_t *)place, .dl = dl };

	unpin(&v, 0, n);
}
