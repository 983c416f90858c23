/* SPDX-License-Identifier: MIT */
/* Options by a table: takes out of a command line what the table knows, leaves the rest. */
#ifndef BENCH_ARGS_H
#define BENCH_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arg {
	const char *name; /* with its dashes */
	uint32_t *number; /* exactly one of these is set */
	const char **text;
	bool *flag;
	uint32_t min, max; /* of number */
};

/* argv[*argc] must be NULL. DONE, or WRONG_USAGE and said why. */
int args_take(const struct arg *args, size_t n, int *argc, char **argv);
/* What is left must be nothing but argv[0]. */
int args_end(int argc, char **argv);

#endif
