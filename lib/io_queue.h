/* SPDX-License-Identifier: MIT */
/*
 * The requests a backend holds, each on one list: free, waiting by urgency, running (oldest first),
 * done. What the backends share beside it: the arena, the clock, the check of a request. No lock of
 * its own.
 */
#ifndef KVS_IO_QUEUE_H
#define KVS_IO_QUEUE_H

#include "io.h"

#define KVS_IO_FLUSH 2u /* op of a request that only a backend itself makes */
#define KVS_IO_URGENCIES (KVS_IO_BEHIND + 1)

struct kvs_io_entry {
	struct kvs_io_request req;
	struct kvs_io_entry *next, **link; /* link: what points at this entry */
	uint64_t moved;			   /* bytes transferred so far */
	uint64_t started_ns;		   /* first handed to the kernel; 0: not yet */
	int32_t result;
};

struct kvs_io_list {
	struct kvs_io_entry *first, **last;
	uint32_t n;
};

struct kvs_io_queue {
	struct kvs_io_entry *entries;
	uint32_t capacity;
	struct kvs_io_list free, waiting[KVS_IO_URGENCIES], running, done;
};

int kvs_io_queue_init(struct kvs_io_queue *queue, uint32_t depth);
void kvs_io_queue_destroy(struct kvs_io_queue *queue);

/* -EAGAIN: full. */
int kvs_io_queue_put(struct kvs_io_queue *queue, const struct kvs_io_request *req);
/* The most urgent waiting entry becomes running; NULL: none waits. */
struct kvs_io_entry *kvs_io_queue_start(struct kvs_io_queue *queue, uint64_t now_ns);
/*
 * Counts a transfer of `moved` bytes or -errno; true: the entry has its result, false: there is
 * more to do.
 */
bool kvs_io_entry_step(struct kvs_io_entry *entry, const struct kvs_io_params *params,
		       int64_t moved);
/* From running to done, or back to the front of those that wait. */
void kvs_io_queue_finish(struct kvs_io_queue *queue, struct kvs_io_entry *entry);
void kvs_io_queue_again(struct kvs_io_queue *queue, struct kvs_io_entry *entry);
/* Hands back up to max that are done; returns how many. */
uint32_t kvs_io_queue_take(struct kvs_io_queue *queue, struct kvs_io_completion *out, uint32_t max);
uint32_t kvs_io_queue_waiting(const struct kvs_io_queue *queue);
/*
 * How many completions to sleep for until min are done: while requests wait for room, the device is not to run dry.
 */
uint32_t kvs_io_queue_stride(const struct kvs_io_queue *queue, uint32_t depth, uint32_t min);

/* 0 or -EINVAL. */
int kvs_io_check(const struct kvs_io_params *params, const struct kvs_io_request *req);

/*
 * Zeroed pages, huge where the kernel likes, not inherited over fork, not in core dumps. NULL: no
 * memory.
 */
void *kvs_arena_map(uint64_t bytes);
void kvs_arena_unmap(void *arena, uint64_t bytes);

uint64_t kvs_now_ns(void); /* CLOCK_MONOTONIC */

/* Wrappers for tests (io_delay.c, io_fault.c): on success *out owns inner. */
int kvs_io_delay_wrap(struct kvs_io *inner, const struct kvs_io_params *params, uint32_t delay_us,
		      struct kvs_io **out);
int kvs_io_fault_wrap(struct kvs_io *inner, const struct kvs_io_params *params,
		      struct kvs_io **out);

#endif
