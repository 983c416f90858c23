/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the module share: the context behind an open file and a request on its way.
 *
 * Locks, outermost first: kvswap_ctx.setup_lock (SETUP, mmap), kvswap_ctx.submit_lock (taking
 * submissions off the ring, sleeps), kvswap_ctx.lock (everything that completion touches too,
 * interrupts off).
 */
#ifndef KVSWAP_CONTEXT_H
#define KVSWAP_CONTEXT_H

#include <linux/bio.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "pool.h"
#include "ring.h"

#define KVSWAP_ENTRIES_MAX 4096u
#define KVSWAP_REQUEST_MAX (1u << (20 - KVSWAP_UNIT_SHIFT))
#define KVSWAP_WRITE_DEPTH 32u

struct kvswap_ctx;
struct kvswap_req;

/* A store is one of two implementations of the same three calls. */
struct kvswap_target_ops {
	u32 kind;
	u32 slow_ops; /* bits of operations that may sleep for long */
	int (*bind)(struct kvswap_ctx *ctx);
	void (*unbind)(struct kvswap_ctx *ctx);
	/*
	 * Starts nr runs; each ends in kvswap_io_done(), in any context, perhaps before this
	 * returns.
	 */
	void (*start)(struct kvswap_ctx *ctx, struct kvswap_req *runs, u32 nr);
};

struct kvswap_target {
	const struct kvswap_target_ops *ops;
	struct file *file;
	void *claim; /* what keeps a block device ours */
	struct block_device *bdev;
	struct bio like; /* never sent: a pattern of device and cgroup */
	u64 first;	 /* unit of the store where the range begins */
	u64 units;
	u32 block_bytes;
	u32 block_mask; /* units that are not on a border of blocks */
	u32 run_units_max;
	bool readonly;
};

struct kvswap_req {
	struct kvswap_ctx *ctx;
	struct kvswap_req *next;     /* on the free list, or the neighbour that travels along */
	struct kvswap_req *next_run; /* in a batch about to start */
	struct kvswap_sqe sqe;
	u32 run_units; /* of the first of a run: of all that travel */
	bool started;
	u64 taken_ns;
	struct list_head link; /* while waiting: in kvswap_ctx.writes or parked */
	struct rb_node node;   /* in kvswap_ctx.pending if it changes the store */
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
	u32 in_flight; /* taken and not yet completed */
	u32 writes_started;
	u32 write_depth;
	struct rb_root_cached pending; /* what may change the store, by range */
	struct list_head writes;       /* not started, in order */
	struct list_head parked;       /* reads that wait for a write */
	struct kvswap_stats stats;

	struct mutex submit_lock;  /* one caller at a time takes from the ring */
	struct mutex setup_lock;   /* SETUP runs once */
	bool ready;		   /* set once by SETUP, with release semantics */
	struct work_struct work;   /* starts what completions have made possible */
	struct list_head contexts; /* main.c */
	pid_t pid;
};

/* main.c */
extern struct workqueue_struct *kvswap_wq;
void kvswap_contexts_add(struct kvswap_ctx *ctx);
void kvswap_contexts_del(struct kvswap_ctx *ctx);

/* file.c */
extern const struct file_operations kvswap_fops;

/* target.c */
int kvswap_target_bind(struct kvswap_ctx *ctx, const struct kvswap_setup *setup);
void kvswap_target_unbind(struct kvswap_ctx *ctx);
u32 kvswap_bdev_block_bytes(struct block_device *bdev);
extern const struct kvswap_target_ops kvswap_block_ops;
extern const struct kvswap_target_ops kvswap_file_ops;

/* io.c */
int kvswap_io_alloc(struct kvswap_ctx *ctx, u32 entries);
void kvswap_io_free(struct kvswap_ctx *ctx);
int kvswap_io_submit(struct kvswap_ctx *ctx, u32 n, u32 *submitted);
void kvswap_io_done(struct kvswap_req *req, int result);
void kvswap_io_drain(struct kvswap_ctx *ctx);

/* What an operation uses and does. */
#define KVSWAP_USES_RANGE BIT(0) /* of the store */
#define KVSWAP_USES_ARENA BIT(1)
#define KVSWAP_CHANGES BIT(2) /* the store */
#define KVSWAP_QUEUES BIT(3)  /* in order with what changes the store */
#define KVSWAP_WHOLE BIT(4)   /* is done with once it has been taken */

extern const struct kvswap_op {
	u8 traits;
	u8 flags; /* KVSWAP_SQE_* that it takes */
} kvswap_ops[KVSWAP_OP_END];

static inline u8 kvswap_req_traits(const struct kvswap_req *req)
{
	return kvswap_ops[req->sqe.op].traits;
}

#endif
