/* SPDX-License-Identifier: MIT */
/* The trials of a tuning, on disk as they are made, so that an interrupted one goes on. */
#ifndef KVSWAPCTL_TRIALS_H
#define KVSWAPCTL_TRIALS_H

#include "plan.h"
#include "trial.h"

struct trials {
	char path[PATH_MAX]; /* PROFILE.trials */
	char key[512];	     /* what they were made with: other trials do not count */
	int n;
	struct trial trial[TRIALS_MAX]; /* [0]: the defaults */
};

/* Reads those that are there already and were made with the same. */
int trials_open(struct trials *t, const char *profile, const struct trial_run *run,
		const char *text, uint32_t context);
int trials_save(const struct trials *t);

/* By group, select and ahead; NULL: none. */
struct trial *trials_find(struct trials *t, const struct trial *like);
/* NULL: no room. */
struct trial *trials_add(struct trials *t, const struct trial *like);

/* The plan with the winner's settings and all trials; trials_save()'s file goes. */
int trials_write_profile(const struct trials *t, const struct plan *p, const struct trial *winner,
			 const char *path);

#endif
