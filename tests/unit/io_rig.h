/* SPDX-License-Identifier: MIT */
/* What the tests of the I/O backends share: an open backend over a file with known content. */
#ifndef TEST_IO_RIG_H
#define TEST_IO_RIG_H

#include "io.h"
#include "kvswap.h"

#define RIG_BACKENDS 2
#define RIG_STORE_BYTES ((uint64_t)4 << 20)
#define RIG_ARENA_BYTES ((uint64_t)2 << 20)

struct rig {
	struct kvs_io *io;
	struct kvs_io_params params;
	char why[KVS_MESSAGE_BYTES];
	uint32_t delay_us;
};

extern const char *const rig_backends[RIG_BACKENDS];

/* The byte at a place in the store: known, and different in neighbouring sectors. */
uint8_t rig_byte(uint64_t offset);
/* A file "store" of RIG_STORE_BYTES full of rig_byte(), opened for direct I/O where that works. */
void rig_init(struct rig *rig);
/* Opens a backend over it; the arena is full of 0xcc. */
void rig_open(struct rig *rig, int backend);
void rig_close(struct rig *rig);

void rig_submit(struct rig *rig, const struct kvs_io_request *reqs, uint32_t n);
/* Waits for exactly n completions. */
void rig_wait(struct rig *rig, struct kvs_io_completion *out, uint32_t n);
/* A read or write that is to end with `result`. */
void rig_one(struct rig *rig, struct kvs_io_request req, int result);
/* The arena of a request holds what is at its place in the store. */
void rig_verify(const struct rig *rig, const struct kvs_io_request *req);
/* Puts into the arena of a request what belongs at its place in the store, plus `change`. */
void rig_fill(const struct rig *rig, const struct kvs_io_request *req, uint8_t change);

uint64_t rig_random(uint64_t *state);
double rig_seconds(void);

#endif
