/* SPDX-License-Identifier: MIT */
/* What a command says at its end: a table, or one JSON object. */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvswap/json.h"
#include "stats.h"

#define MOST_RATIOS 16

struct results {
	int argc; /* the command line, from the command's name on */
	char **argv;
	bool json;
	const char *title; /* of the table: what was measured on */
	const struct series *const *series;
	uint32_t n_series;
	struct ratio ratios[MOST_RATIOS];
	uint32_t n_ratios;
	/* More members of the JSON object, or NULL. */
	void (*more)(struct json *j, const void *arg);
	const void *arg;
};

void results_add(struct results *r, struct ratio ratio);
/*
 * Before anything is measured: other work on the machine moves every figure, and
 * results_write() says so.
 */
void results_start(void);
int results_write(const struct results *r);

#endif
