/* SPDX-License-Identifier: MIT */
/* Running sessions and what they did since they were last looked at. */
#ifndef KVSWAPCTL_RATES_H
#define KVSWAPCTL_RATES_H

#include "publish.h"

enum rate_stage { RATE_APPEND, RATE_PREFETCH, RATE_SCORE, RATE_ATTEND, RATE_WAIT, RATE_STAGES };

struct rates {
	struct kvs_published now;
	/* Since the look before; of a session that is new, or has done nothing since, zero. */
	double steps_s, reads_s, read_bytes_s, late_s;
	double hit, foreseen, coverage, wait_share; /* shares, 0 to 1 */
	double stage_ms[RATE_STAGES];		    /* a step */
};

struct rates_set {
	struct rates *session;
	int n;
	uint64_t taken_ns;
};

/* -errno. The set holds what it knew before. */
int rates_take(const char *dir, struct rates_set *set);
void rates_free(struct rates_set *set);

/* Fills all but now, from two looks `seconds` apart. */
void rates_work_out(const struct kvs_published *before, double seconds, struct rates *r);

#endif
