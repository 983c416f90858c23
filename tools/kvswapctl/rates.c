// SPDX-License-Identifier: MIT
/* See rates.h. */
#include "rates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvswap/clock.h"

static const enum kvs_counter stage_counters[RATE_STAGES] = {
	[RATE_APPEND] = KVS_COUNT_APPEND_NS, [RATE_PREFETCH] = KVS_COUNT_PREFETCH_NS,
	[RATE_SCORE] = KVS_COUNT_SCORE_NS,   [RATE_ATTEND] = KVS_COUNT_ATTEND_NS,
	[RATE_WAIT] = KVS_COUNT_WAIT_NS,
};

static double share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

/* A counter that went down was set back: then it counts from there. */
static double change(const struct kvs_published *a, const struct kvs_published *b,
		     enum kvs_counter which)
{
	uint64_t from = b->counters[which] >= a->counters[which] ? a->counters[which] : 0;

	return (double)(b->counters[which] - from);
}

void rates_work_out(const struct kvs_published *before, double seconds, struct rates *r)
{
	const struct kvs_published *now = &r->now;
	double steps = change(before, now, KVS_COUNT_STEPS),
	       selected = change(before, now, KVS_COUNT_GROUPS_SELECTED);

	r->steps_s = share(steps, seconds);
	r->reads_s = share(change(before, now, KVS_COUNT_RECORDS_READ), seconds);
	r->read_bytes_s = share(change(before, now, KVS_COUNT_BYTES_READ), seconds);
	r->late_s = share(change(before, now, KVS_COUNT_RECORDS_LATE), seconds);
	r->hit = share(change(before, now, KVS_COUNT_GROUPS_HIT), selected);
	r->foreseen = share(change(before, now, KVS_COUNT_GROUPS_PREDICTED), selected);
	r->coverage = share(change(before, now, KVS_COUNT_COVERAGE_MILLIONTHS) / 1e6,
			    change(before, now, KVS_COUNT_SELECTIONS));
	r->wait_share = share(change(before, now, KVS_COUNT_WAIT_NS) / 1e9, seconds);
	for (int k = 0; k < RATE_STAGES; k++)
		r->stage_ms[k] = share(change(before, now, stage_counters[k]) / 1e6, steps);
}

static void add(const struct kvs_published *session, void *arg)
{
	struct rates_set *set = arg;
	struct rates *more = realloc(set->session, ((size_t)set->n + 1) * sizeof(*more));

	if (!more)
		return;
	set->session = more;
	memset(&more[set->n], 0, sizeof(*more));
	more[set->n++].now = *session;
}

int rates_take(const char *dir, struct rates_set *set)
{
	struct rates_set next = { .taken_ns = clock_ns() };
	int err = kvs_published_each(dir, add, &next);

	for (int i = 0; i < next.n; i++)
		for (int k = 0; k < set->n; k++)
			if (!strcmp(next.session[i].now.path, set->session[k].now.path) &&
			    next.session[i].now.head.started_s ==
				    set->session[k].now.head.started_s)
				rates_work_out(&set->session[k].now,
					       (double)(next.taken_ns - set->taken_ns) / 1e9,
					       &next.session[i]);
	rates_free(set);
	*set = next;
	return err;
}

void rates_free(struct rates_set *set)
{
	free(set->session);
	set->session = NULL;
	set->n = 0;
}
