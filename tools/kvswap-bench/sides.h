/* SPDX-License-Identifier: MIT */
/*
 * The sides of a comparison on a model: their processes, and what is measured of each. Ours run
 * in the way to wait that a trial finds fastest. Of libllama there are several sides: flash
 * attention on or off, ways to wait, numbers of threads; the best of them is the one that
 * counts.
 */
#ifndef BENCH_SIDES_H
#define BENCH_SIDES_H

#include "kvswap/json.h"
#include "stats.h"
#include "worker.h"

#define MOST_POLICIES 3
#define MOST_LLAMA (2 * MOST_POLICIES)
#define MOST_SIDES (N_ENGINES + 2 * MOST_LLAMA * MOST_THREAD_COUNTS)

struct side {
	struct worker *worker;
	enum worker_op op; /* FILL, DEEP or ZERO */
	uint32_t threads;
	struct series series;
};

struct sides {
	const struct bench *bench;
	const char *policy;	       /* of ours: OMP_WAIT_POLICY */
	struct worker ours[N_ENGINES]; /* by kind; not of libllama */
	struct worker llama[MOST_LLAMA];
	uint32_t n_llama;
	struct side side[MOST_SIDES];
	uint32_t n;
	bool progress;
};

/*
 * Starts our process with its KV cache on disk and settles how ours wait: as it does n tokens
 * of op fastest. Then the other kinds, with more options if more is not NULL.
 */
int sides_start_disk(struct sides *s, enum worker_op op, uint32_t n);
int sides_start(struct sides *s, enum engine_kind kind, char *const *more);
/* libllama of a kind, one process for each wait policy from the first to before the end-th. */
int sides_start_llama(struct sides *s, enum engine_kind kind, uint32_t first, uint32_t end);
/* Wait policies that make a difference. */
uint32_t sides_policies(const struct sides *s);
void sides_end(struct sides *s);

/* One side; for libllama every thread count of every process (of DEEP, if it is filled). */
void sides_add(struct sides *s, struct worker *w, enum worker_op op, uint32_t threads);
void sides_add_llama(struct sides *s, enum worker_op op);

/* Every side once, n tokens each, beginning with another one each time. */
int sides_measure(struct sides *s, uint32_t repetition, uint32_t n);
int side_measure(struct sides *s, struct side *side, uint32_t n);

/* The side of a kind, or any of libllama, and op with the highest median; NULL: none. */
struct side *sides_best(struct sides *s, enum engine_kind kind, enum worker_op op);
struct side *sides_best_llama(struct sides *s, enum worker_op op);
int sides_info(struct sides *s, enum engine_kind kind, struct engine_info *info);

/* The settings that went with the figures, as members of an open JSON object. */
void sides_json(struct json *j, const struct engine_info *info, const struct bench *b,
		const struct model *m);

#endif
