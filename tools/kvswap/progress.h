/* SPDX-License-Identifier: MIT */
/* "prefill 3,584 of 7,000 tokens, 861/s, 4 s left" on stderr, a few times a second. */
#ifndef KVSWAP_PROGRESS_H
#define KVSWAP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool on;
	const char *what;
	double total;
	uint64_t start_ns, shown_ns;
};

void progress_start(struct progress *p, const char *what, double total);
void progress_update(struct progress *p, double done);
void progress_end(struct progress *p);

/* n with thousands apart, in out. */
const char *progress_count(double n, char out[32]);

#endif
