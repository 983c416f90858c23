/* SPDX-License-Identifier: MIT */
/* One measurement of tune: a `kvswap run` of its own, and what it said. */
#ifndef KVSWAPCTL_TRIAL_H
#define KVSWAPCTL_TRIAL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "doc.h"

#define TRIALS_MAX 64

struct trial {
	uint32_t group, select, ahead; /* 0: the runner's default */
	double predicted;	       /* tokens a second by the cost model; 0: not asked */
	double tokens_per_s, p50_ms, coverage, hit_rate;
	uint32_t reuse, record_bytes; /* as the run had them */
	uint32_t runs;
};

/* What all trials have in common. */
struct trial_run {
	char program[PATH_MAX]; /* kvswap */
	const char *model, *text, *store;
	uint64_t budget;
	uint32_t tokens, threads;
};

/* kvswap beside this program, else in PATH. */
void trial_program(char path[PATH_MAX]);

/* DONE, INTERRUPTED's like, or FAILED and said why. Fills what was measured. */
int trial_measure(const struct trial_run *r, struct trial *t);

#endif
