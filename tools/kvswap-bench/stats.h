/* SPDX-License-Identifier: MIT */
/* Figures of repeated measurements, and ratios of two sides that were measured in turns. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stdint.h>

#define MOST_REPEATS 1000

/* Of one side: a figure for each repetition. */
struct series {
	char name[64];
	char how[64];	  /* threads, wait policy, settings: what distinguishes it */
	const char *unit; /* of rate */
	uint32_t n;
	double rate[MOST_REPEATS];
	double cpu_ms[MOST_REPEATS]; /* processor time of a token (or record), all threads */
};

struct ratio {
	const char *name;
	const char *unit;
	double value;	  /* median of a over median of b */
	double low, high; /* quartiles of the ratio within a repetition */
	double a, b;	  /* the medians */
	double cpu;	  /* the same by processor time: b's over a's; 0: none */
};

/* q 0.5: the median. 0 when n is 0. */
double stats_quantile(const double *values, uint32_t n, double q);

void series_add(struct series *s, double rate, double cpu_ms);
double series_rate(const struct series *s); /* median */

/* How many times the rate of a is that of b. */
struct ratio ratio_of(const char *name, const struct series *a, const struct series *b);
/* Of two plain figures that have no spread. */
struct ratio ratio_plain(const char *name, const char *unit, double a, double b);

#endif
