/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the module share: the context behind an open file and a request on its way.
 *
 * Locks, outermost first: kvswap_ctx.setup_lock (SETUP, mmap), kvswap_ctx.submit_lock (taking submissions off
 * the ring, sleeps), kvswap_ctx.lock (everything that completion touches too, interrupts off).
 */
#ifndef KVSWAP_CONTEXT_H
#define KVSWAP_CONTEXT_H

#include <linux/bio.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "../include/uapi/kvswap.h"

#define KVSWAP_ENTRIES_MAX	4096u
#define KVSWAP_REQUEST_MAX	(1u << (20 - KVSWAP_UNIT_SHIFT))
#define KVSWAP_WRITE_DEPTH	32u

struct kvswap_ctx;
struct kvswap_req;

/* Pinned memory, cut into chunks of one size; never changes between SETUP and release. */
struct kvswap_pool {
	struct bio_vec *chunks;
	u32 nr_chunks;
	u32 chunk_shift;
	u64 units;
	unsigned long *busy;		/* a bit a unit; kvswap_ctx.lock */
	unsigned long charged;		/* pages */
	struct mm_struct *mm;		/* whose locked_vm carries them */
};

/* A store is one of two implementations of the same three calls. */
struct kvswap_target_ops {
	u32 kind;
	u32 slow_ops;			/* bits of operations that may sleep for long in start */
	int (*bind)(struct kvswap_ctx *ctx);
	void (*unbind)(struct kvswap_ctx *ctx);
	/* Ends in kvswap_io_done(), in any context, perhaps before it returns. */
	void (*start)(struct kvswap_req *req);
};

struct kvswap_target {
	const struct kvswap_target_ops *ops;
	struct file *file;
	void *claim;			/* what keeps a block device ours */
	struct block_device *bdev;
	u64 first;			/* unit of the store where the range begins */
	u64 units;
	u32 block_bytes;
	u32 run_units_max;
	bool readonly;
};

/* The two shared rings. The indices that the kernel owns are kept here and only ever written to the rings. */
struct kvswap_ring {
	struct kvswap_sq *sq;
	struct kvswap_cq *cq;
	u32 entries;
	u32 sq_head;			/* submit_lock */
	u32 cq_tail;			/* lock */
	u32 wake_at;			/* lock; completions up to this index wake the sleepers */
	bool armed;			/* lock; there are sleepers */
	wait_queue_head_t wait;
};

struct kvswap_req {
	struct kvswap_ctx *ctx;
	struct kvswap_req *next;	/* on the free list, or the neighbour that travels with this one */
	u64 store;
	u64 last;			/* last unit in the store */
	u32 arena;
	u32 units;
	u32 run_units;			/* of a run's first: length with all that travel along */
	u16 ioprio;
	u8 op;
	u8 flags;
	bool started;
	int result;
	u64 user_data;
	u64 taken_ns;
	u64 seq;
	struct list_head link;		/* waiting, or in a batch about to start */
	struct rb_node node;		/* in kvswap_ctx.pending while it may change the store */
	u64 subtree_last;
	union {
		struct bio bio;
		struct kiocb iocb;
	};
	struct bio_vec vec;
};

struct kvswap_ctx {
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct kvswap_ring ring;
	struct kvswap_pool pool;
	struct kvswap_target target;

	/* Requests; under lock. */
	struct kvswap_req *reqs;
	struct kvswap_req *free;
	u32 in_flight;			/* taken and not yet completed */
	u32 writes_started;
	u32 write_depth;
	u64 seq;
	struct rb_root_cached pending;	/* what may change the store, by range */
	struct list_head writes;	/* not started, in order */
	struct list_head parked;	/* reads that wait for a write */
	struct kvswap_stats stats;

	struct mutex submit_lock;
	struct mutex setup_lock;
	bool ready;			/* set once by SETUP, with release semantics */
	struct work_struct work;	/* starts what completions have made possible */
	struct list_head contexts;	/* main.c */
	pid_t pid;
};

/* main.c */
extern struct workqueue_struct *kvswap_wq;
void kvswap_contexts_add(struct kvswap_ctx *ctx);
void kvswap_contexts_del(struct kvswap_ctx *ctx);

/* file.c */
extern const struct file_operations kvswap_fops;

/* pool.c */
u64 kvswap_pool_cap(void);
u64 kvswap_pool_pinned(void);
int kvswap_pool_alloc(struct kvswap_pool *pool, u64 bytes, u64 extra);
void kvswap_pool_free(struct kvswap_pool *pool);
int kvswap_pool_mmap(struct kvswap_pool *pool, struct vm_area_struct *vma);
bool kvswap_pool_busy(const struct kvswap_pool *pool, u32 first, u32 units);
void kvswap_pool_toggle(struct kvswap_pool *pool, u32 first, u32 units);
const struct bio_vec *kvswap_pool_range(const struct kvswap_pool *pool, u32 first, u32 units,
					struct bio_vec *one, u32 *skip, u32 *nr);

/* ring.c */
int kvswap_ring_alloc(struct kvswap_ring *ring, u32 entries);
void kvswap_ring_free(struct kvswap_ring *ring);
size_t kvswap_ring_sq_bytes(u32 entries);
size_t kvswap_ring_cq_bytes(u32 entries);
int kvswap_ring_submitted(const struct kvswap_ring *ring, u32 *n);
int kvswap_ring_completed(const struct kvswap_ring *ring, u32 *n);
u32 kvswap_ring_available(struct kvswap_ctx *ctx);
void kvswap_ring_copy(const struct kvswap_ring *ring, u32 index, struct kvswap_sqe *sqe);
void kvswap_ring_take(struct kvswap_ring *ring, u32 n);
void kvswap_ring_post(struct kvswap_ring *ring, u64 user_data, int result, u64 latency_ns);
void kvswap_ring_publish(struct kvswap_ctx *ctx);
int kvswap_ring_wait(struct kvswap_ctx *ctx, u32 target, u64 deadline_ns);
void kvswap_ring_drain(struct kvswap_ctx *ctx);
bool kvswap_ring_poll(struct kvswap_ctx *ctx);

/* target.c */
int kvswap_target_bind(struct kvswap_ctx *ctx, const struct kvswap_setup *setup);
void kvswap_target_unbind(struct kvswap_ctx *ctx);
extern const struct kvswap_target_ops kvswap_block_ops;
extern const struct kvswap_target_ops kvswap_file_ops;

/* io.c */
int kvswap_io_alloc(struct kvswap_ctx *ctx, u32 entries);
void kvswap_io_free(struct kvswap_ctx *ctx);
int kvswap_io_submit(struct kvswap_ctx *ctx, u32 n, u32 *submitted);
void kvswap_io_done(struct kvswap_req *req, int result);
void kvswap_io_drain(struct kvswap_ctx *ctx);

/* Changes the store. */
static inline bool kvswap_op_changes(u8 op)
{
	return op == KVSWAP_OP_WRITE || op == KVSWAP_OP_DISCARD || op == KVSWAP_OP_WRITE_ZEROES;
}

/* Queues in order with what changes the store. */
static inline bool kvswap_op_writes(u8 op)
{
	return kvswap_op_changes(op) || op == KVSWAP_OP_FLUSH;
}

static inline bool kvswap_op_has_data(u8 op)
{
	return op == KVSWAP_OP_READ || op == KVSWAP_OP_WRITE;
}

#endif
