/* SPDX-License-Identifier: MIT */
/*
 * The I/O interface that the session sees: an arena of pinned memory and batches of reads and
 * writes between it and the store. Three implementations: io_uring.c, io_threads.c, io_module.c.
 *
 * Memory that takes part in I/O belongs to the backend: slots, rolling buffers and staging are cut
 * from its arena, so that nothing is copied between the backend and attention. Positions in the
 * arena and in the store, and lengths, are counted in sectors of 512 bytes; requests may differ in
 * length. The caller keeps requests that are in flight from overlapping in the arena, and a read
 * from overlapping a write in the store.
 *
 * One thread calls at a time, not always the same. Nothing is allocated after open.
 */
#ifndef KVS_IO_H
#define KVS_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVS_SECTOR 512u

enum kvs_io_op { KVS_IO_READ, KVS_IO_WRITE };

/* Late reads go before reads ahead, those before write-back. */
enum kvs_io_urgency { KVS_IO_LATE, KVS_IO_AHEAD, KVS_IO_BEHIND };

struct kvs_io_request {
	uint8_t op;	  /* enum kvs_io_op */
	uint8_t urgency;  /* enum kvs_io_urgency */
	uint16_t layer;	  /* for statistics and ordering only */
	uint32_t sectors; /* length, > 0 */
	uint64_t arena;	  /* sector in the arena */
	uint64_t store;	  /* sector in the store */
	uint64_t tag;	  /* handed back at completion */
};

struct kvs_io_completion {
	uint64_t tag;
	int32_t result; /* 0 or -errno; a short transfer is -EIO */
};

#define KVS_IO_DEPTH_MAX 4096u

struct kvs_io_params {
	int fd;	     /* the store, opened O_RDWR, O_DIRECT where that works; stays the caller's */
	bool direct; /* fd is O_DIRECT */
	uint64_t arena_bytes; /* multiple of 4096 */
	uint64_t store_bytes;
	uint32_t block_bytes; /* logical block of the store: every request is a multiple of it */
	uint32_t depth;	      /* most requests in flight, 1 to KVS_IO_DEPTH_MAX */
	uint32_t threads;     /* of the threads backend; 0: as many as depth, at most 8 */
	uint32_t timeout_ms;  /* a request may be under way for so long, then -ETIMEDOUT; > 0 */
	const struct kvs_io_fault *fault; /* tests: what goes wrong; NULL: nothing */
};

/*
 * What io_fault.c does to requests number first .. first + count - 1 (from 0) of those of one op.
 * STALL: never completes, wait() fails with -ETIMEDOUT in time. FLIP: one bit of what was read is
 * wrong. ASTRAY: read from the neighbouring place in the store.
 */
enum kvs_io_fault_kind { KVS_FAULT_ERROR, KVS_FAULT_STALL, KVS_FAULT_FLIP, KVS_FAULT_ASTRAY };

struct kvs_io_fault {
	uint8_t kind;  /* enum kvs_io_fault_kind */
	uint8_t op;    /* enum kvs_io_op; FLIP and ASTRAY are of reads */
	int32_t error; /* of ERROR: -errno */
	uint64_t first, count;
};

struct kvs_io;

struct kvs_io_ops {
	const char *name;
	/* -ENOTSUP: not available here; why (KVS_MESSAGE_BYTES) says the reason. */
	int (*open)(const struct kvs_io_params *params, struct kvs_io **out, char *why);
	/*
	 * Queues and starts n requests. Those beyond depth are kept by the backend and go out by
	 * urgency as wait() makes room; it holds 2 * depth requests, counting what wait() has not
	 * handed back yet. -EAGAIN when full, -EINVAL a request out of range or not a multiple of
	 * block_bytes; *taken says how many went in. Does not wait.
	 */
	int (*submit)(struct kvs_io *io, const struct kvs_io_request *reqs, uint32_t n,
		      uint32_t *taken);
	/*
	 * Takes up to max completions, in any order; waits until there are at least min (0: only
	 * looks; more than are outstanding: all of them). Returns how many, or -errno, and then
	 * nothing is lost: -ETIMEDOUT when it would have to wait for more while the oldest request
	 * under way is older than timeout_ms.
	 */
	int (*wait)(struct kvs_io *io, struct kvs_io_completion *out, uint32_t min, uint32_t max);
	/*
	 * Written data is on stable storage. Only with nothing in flight (-EBUSY). -ETIMEDOUT as
	 * above.
	 */
	int (*flush)(struct kvs_io *io);
	/*
	 * Waits for what is in flight (bounded by timeout_ms: a stuck device leaks the arena rather
	 * than hang).
	 */
	void (*close)(struct kvs_io *io);
};

/* First member of every backend's own struct. */
struct kvs_io {
	const struct kvs_io_ops *ops;
	void *arena; /* arena_bytes, page-aligned, zeroed */
	uint64_t arena_bytes;
	uint32_t in_flight; /* submitted and not yet handed back, kept by the backend */
};

extern const struct kvs_io_ops kvs_io_module_ops;
extern const struct kvs_io_ops kvs_io_uring_ops;
extern const struct kvs_io_ops kvs_io_threads_ops;

/*
 * Opens the named backend ("auto": the first that works), wrapped by params->fault (io_fault.c) and
 * so that completions are held back up to delay_us at random and change places (io_delay.c), where
 * these are set. why: KVS_MESSAGE_BYTES, reasons of the ones passed over ("" when none), or the
 * error.
 */
int kvs_io_open(const char *name, const struct kvs_io_params *params, uint32_t delay_us,
		struct kvs_io **out, char *why);

#endif
