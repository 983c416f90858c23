/* SPDX-License-Identifier: MIT */
/*
 * One side of a comparison: something that reads a prompt and makes tokens after it. All
 * engines are fed the tokens of the same text, also while they decode, so that all do the same
 * work whatever they would say.
 *
 * An engine has two contexts: deep, filled with the prompt, and zero, empty but for what the
 * burst itself has put in.
 */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include "bench.h"
#include "subject.h"

enum engine_kind {
	ENGINE_DISK, /* our runner, --kv disk */
	ENGINE_MEMORY,
	ENGINE_DENSE,
	ENGINE_FLASH, /* libllama, flash attention on, f16 KV */
	ENGINE_PLAIN, /* libllama, flash attention off */
};

extern const char *const engine_names[];
#define N_ENGINES 5

/* Milliseconds of a token of decode at depth. */
struct engine_stages {
	double weights, estimate, append, score, attend, wait;
};

/* What an engine of ours has to tell besides its speed; zeroes of libllama. */
struct engine_info {
	char backend[16], kernels[16], predictor[16];
	uint32_t direct_io;
	uint32_t group, select, rank, reuse, record_bytes;
	uint64_t resident_peak, full_bytes, budget;	     /* bytes */
	double hit_rate, foreseen, coverage, read_per_token; /* of decode; read: bytes */
	struct engine_stages stages;
};

struct engine;

/* Results as in kvswap/report.h: DONE, or a code and said why. */
struct engine_ops {
	int (*open)(struct engine **out, const struct bench *b, const struct subject *subject,
		    enum engine_kind kind);
	void (*close)(struct engine *e);
	int (*threads)(struct engine *e, uint32_t n); /* NULL: fixed by -t */
	int (*renew)(struct engine *e);		      /* the deep context becomes empty */
	int (*fill)(struct engine *e, uint32_t n);    /* and has the first n tokens of the text */
	int (*begin)(
		struct engine *e,
		bool deep); /* a burst: zero is emptied, deep is where it was filled to, or near */
	int (*steps)(struct engine *e, bool deep, uint32_t n);
	int (*save)(struct engine *e, int fd); /* the deep context; NULL: cannot */
	int (*load)(struct engine *e, int fd);
	void (*info)(struct engine *e, struct engine_info *info); /* NULL: nothing to tell */
};

struct engine {
	const struct engine_ops *ops;
	const struct bench *bench;
	const struct subject *subject;
};

extern const struct engine_ops engine_kvswap_ops, engine_llama_ops;

#endif
