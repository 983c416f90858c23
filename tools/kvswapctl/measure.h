/* SPDX-License-Identifier: MIT */
/*
 * Measures reads and writes of a range by the library's own I/O. A cell is one record size at one depth;
 * cells share the time and bytes that are allowed.
 */
#ifndef KVSWAPCTL_MEASURE_H
#define KVSWAPCTL_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "cells.h"
#include "io.h"
#include "kvswap.h"

#define MEASURE_BYTES_MAX 262144u
#define MEASURE_DEPTH_MAX 64u
#define MEASURE_SAMPLES 65536u

struct measure {
	struct kvs_io *io;
	uint32_t block;	     /* requests are multiples of it */
	uint64_t bytes;	     /* of the range */
	double cell_seconds; /* a cell ends then, with at least a few requests done */
	uint64_t cell_bytes;
	uint64_t random;		 /* state */
	uint64_t at;			 /* next write */
	uint64_t *started;		 /* [MEASURE_DEPTH_MAX] ns */
	uint32_t *samples;		 /* [MEASURE_SAMPLES] latencies in ns */
	char message[KVS_MESSAGE_BYTES]; /* of the last failure */
};

enum measure_kind {
	MEASURE_READ,  /* at random */
	MEASURE_WRITE, /* in order, from the start again at the end */
	MEASURE_MIXED, /* one write in order for every 7 reads at random, which are counted */
};

/* fd: the range's, direct as said; bytes: of the range. 0 or -errno, m->message says. */
int measure_open(struct measure *m, int fd, bool direct, uint32_t block, uint64_t bytes);
void measure_close(struct measure *m);

/* -EINTR: a signal came; cell is then of what was done so far. */
int measure_cell(struct measure *m, enum measure_kind kind, uint32_t bytes, uint32_t depth,
		 struct cell *cell);
/* Writes the whole range once, so that reads find blocks; stops early after seconds and shortens m->bytes. */
int measure_fill(struct measure *m, double seconds, struct cell *cell);

#endif
