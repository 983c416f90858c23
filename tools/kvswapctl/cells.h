/* SPDX-License-Identifier: MIT */
/* A table of measured reads or writes, and what lies between its entries. */
#ifndef KVSWAPCTL_CELLS_H
#define KVSWAPCTL_CELLS_H

#include <stdint.h>

#define CELLS_MAX 64

struct cell {
	uint32_t bytes, depth;
	uint64_t ios;
	double seconds, iops, mib_s, p50_us, p99_us;
	double cpu_us; /* of this process, for each request */
};

struct cells {
	struct cell cell[CELLS_MAX];
	int n;
};

/*
 * Requests a second of `bytes` with `depth` under way: interpolated between the sizes and depths measured (in the
 * logarithms), and held at the ends; beyond the largest size by bandwidth. 0: nothing was measured.
 */
double cells_iops(const struct cells *cells, uint32_t bytes, double depth);

/* The least depth that reaches `share` of the most requests a second for that size; 0: nothing was measured. */
uint32_t cells_depth(const struct cells *cells, uint32_t bytes, double share);

#endif
