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
int results_write(const struct results *r);

/*
 * Where it was measured: a note on stderr when other work is going on, which moves every
 * figure.
 */
void results_note_load(void);

#endif
