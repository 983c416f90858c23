/* SPDX-License-Identifier: MIT */
/*
 * The reuse buffer: the slots of each layer, who is in and who goes. Least recently used, weighted by importance:
 * a slot's weight is the score that its group was selected with, summed with a half-life, and the slot of the least
 * weight goes. The choice never changes an output, only what has to be read.
 */
#include <math.h>
#include <string.h>

#include "session.h"

#define HALF_LIFE 8.0f	 /* steps */
#define WEIGHT_MIN 1e-6f /* so that a group that scored nothing still ages */

static struct slot *layer_slots(struct kvs *s, uint32_t dl)
{
	return s->slots + (size_t)dl * s->geo.reuse;
}

/*
 * key = log2(weight) + step / half-life orders slots as their decayed weights would be ordered at any later step, so
 * nothing has to be aged.
 */
void kvs_slot_touch(struct kvs *s, uint32_t dl, struct slot *slot, float score)
{
	uint32_t now = s->step[dl];
	float aged = slot->weight * exp2f(-(float)(now - slot->step) / HALF_LIFE);

	slot->weight = aged + (score > WEIGHT_MIN ? score : WEIGHT_MIN);
	slot->step = now;
	slot->key = log2f(slot->weight) + (float)now / HALF_LIFE;
}

/*
 * Up to n slots that can be given away, free ones and those of the least weight first, into out. Returns how many:
 * fewer when the rest is pinned or being read.
 */
uint32_t kvs_slots_take(struct kvs *s, uint32_t dl, uint32_t n, uint32_t *out)
{
	struct slot *slots = layer_slots(s, dl);
	float *keys = s->scratch.keys;
	uint32_t can = 0;

	for (uint32_t i = 0; i < s->geo.reuse; i++) {
		bool goes = !slots[i].pins && slots[i].state != SLOT_READING;

		keys[i] = !goes				? -INFINITY
			  : slots[i].state == SLOT_FREE ? INFINITY
							: -slots[i].key;
		can += goes;
	}
	return kvs_predict_top(s->kernels, keys, s->geo.reuse, n < can ? n : can, 0, out,
			       s->scratch.top);
}

void kvs_slot_assign(struct kvs *s, uint32_t dl, uint32_t slot, uint64_t record)
{
	struct slot *t = &layer_slots(s, dl)[slot];

	if (t->state != SLOT_FREE)
		s->chunks.slot[t->record] = KVS_NO_SLOT;
	*t = (struct slot){ .record = (uint32_t)record,
			    .state = SLOT_READING,
			    .read = s->step[dl] };
	s->chunks.slot[record] = (uint16_t)slot;
}

/* A record's content is void: its slot, if any, is free. */
void kvs_slot_drop(struct kvs *s, uint64_t record)
{
	uint16_t slot = s->chunks.slot[record];
	uint32_t dl = (uint32_t)(record / s->geo.groups_per_chunk % s->geo.n_disk);
	struct slot *t;

	if (slot == KVS_NO_SLOT)
		return;
	t = &layer_slots(s, dl)[slot];
	while (t->state == SLOT_READING && !s->failed)
		kvs_drain(s, 1);
	t->state = SLOT_FREE;
	s->chunks.slot[record] = KVS_NO_SLOT;
}

/* Before a prefill takes the slots' memory. Nothing is in flight. */
void kvs_slots_drop_all(struct kvs *s)
{
	for (uint32_t dl = 0; dl < s->geo.n_disk && s->geo.reuse; dl++)
		for (uint32_t i = 0; i < s->geo.reuse; i++) {
			struct slot *t = &layer_slots(s, dl)[i];

			if (t->state != SLOT_FREE)
				s->chunks.slot[t->record] = KVS_NO_SLOT;
			*t = (struct slot){ .state = SLOT_FREE };
		}
}
