/* SPDX-License-Identifier: MIT */
/*
 * The I/O interface that the session sees: an arena of pinned memory and batches of reads and writes
 * between it and the store. Three implementations: io_uring.c, io_threads.c, io_module.c.
 *
 * Memory that takes part in I/O belongs to the backend: slots, rolling buffers and staging are cut from its
 * arena, so that nothing is copied between the backend and attention. Positions in the arena and in the store, and
 * lengths, are counted in sectors of 512 bytes; requests may differ in length. The caller keeps requests that
 * are in flight from overlapping in the arena, and a read from overlapping a write in the store.
 *
 * One thread calls at a time. Nothing is allocated after open.
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
	uint8_t op;		/* enum kvs_io_op */
	uint8_t urgency;	/* enum kvs_io_urgency */
	uint16_t layer;		/* for statistics and ordering only */
	uint32_t sectors;	/* length, > 0 */
	uint64_t arena;		/* sector in the arena */
	uint64_t store;		/* sector in the store */
	uint64_t tag;		/* handed back at completion */
};

struct kvs_io_completion {
	uint64_t tag;
	int32_t result;		/* 0 or -errno; a short transfer is -EIO */
};

struct kvs_io_params {
	int fd;			/* the store, opened O_RDWR, O_DIRECT where that works; stays the caller's */
	bool direct;		/* fd is O_DIRECT */
	uint64_t arena_bytes;	/* multiple of 4096 */
	uint64_t store_bytes;
	uint32_t block_bytes;	/* logical block of the store: every request is a multiple of it */
	uint32_t depth;		/* most requests in flight */
	uint32_t timeout_ms;	/* a request in flight for longer than this fails wait() with -ETIMEDOUT */
};

struct kvs_io;

struct kvs_io_ops {
	const char *name;
	/* -ENOTSUP: not available here; why (KVS_MESSAGE_BYTES) says the reason. */
	int (*open)(const struct kvs_io_params *params, struct kvs_io **out, char *why);
	/*
	 * Queues and starts n requests; those beyond depth are kept by the backend (it has room for `depth` more than in
	 * flight; -EAGAIN when full, *taken says how many went in). Does not wait.
	 */
	int (*submit)(struct kvs_io *io, const struct kvs_io_request *reqs, uint32_t n, uint32_t *taken);
	/*
	 * Takes up to max completions; waits until there are at least min (0: only looks). Returns how many, or -errno:
	 * -ETIMEDOUT when the oldest request exceeded timeout_ms.
	 */
	int (*wait)(struct kvs_io *io, struct kvs_io_completion *out, uint32_t min, uint32_t max);
	/* Written data is on stable storage. Only with nothing in flight. */
	int (*flush)(struct kvs_io *io);
	/* Waits for what is in flight (bounded by timeout_ms: a stuck device leaks the arena rather than hang). */
	void (*close)(struct kvs_io *io);
};

/* First member of every backend's own struct. */
struct kvs_io {
	const struct kvs_io_ops *ops;
	void *arena;		/* arena_bytes, page-aligned, zeroed */
	uint64_t arena_bytes;
	uint32_t in_flight;	/* submitted and not yet handed back, kept by the backend */
};

extern const struct kvs_io_ops kvs_io_uring_ops;
extern const struct kvs_io_ops kvs_io_threads_ops;

/*
 * Opens the named backend ("auto": the first that works), wrapped so that completions are held back at random
 * when delay_us is set (tests: io_delay.c). why: KVS_MESSAGE_BYTES, reasons of the ones passed over, or the error.
 */
int kvs_io_open(const char *name, const struct kvs_io_params *params, uint32_t delay_us, struct kvs_io **out,
		char *why);

#endif
