/* SPDX-License-Identifier: MIT */
/*
 * kvswap-bench: what its commands share. Each measures both sides of its ratios in one run, in
 * turns.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "kvswap/options.h"

struct bench {
	struct options run; /* what `kvswap run` would be told; run.n_threads bounds both sides */
	const char *command;
	int argc; /* the command line as it was given, from the command's name on */
	char **argv;
	uint32_t depth;	 /* tokens before the ones that are timed */
	uint32_t steps;	 /* tokens of a burst of decode */
	uint32_t repeat; /* times that each side is measured */
	bool no_llama;	 /* our sides only */
	uint32_t extra;	 /* tokens that the steps of all bursts take, beyond depth */
};

/*
 * argv[0] is the command's name; one option after another is as in `kvswap run`, plus --steps
 * and --repeat.
 */
enum parsed bench_parse(struct bench *b, int argc, char **argv);

/*
 * Thread counts that are tried for the other side, largest first: n, then powers of two below
 * it.
 */
#define MOST_THREAD_COUNTS 11
uint32_t bench_thread_counts(const struct bench *b, uint32_t out[MOST_THREAD_COUNTS]);

int decode_main(int argc, char **argv);
int prefill_main(int argc, char **argv);
int io_main(int argc, char **argv);
int attend_main(int argc, char **argv);
int score_main(int argc, char **argv);

/*
 * One side of a comparison, as a process of its own; worker.c starts it. argv[0] is the
 * engine's kind.
 */
int serve_main(int argc, char **argv);

#endif
