// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of a request: taken off the ring and checked, held back while an earlier write is in its
 * way or too many writes are under way, joined with its neighbours, started, completed.
 *
 * Everything here is under kvswap_ctx.lock but starting, which may sleep. Reads start at once
 * unless they overlap a pending write; what changes the store queues in order behind write_depth
 * and starts after the reads of its batch. Nothing is allocated after SETUP.
 */
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/interval_tree_generic.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/task_io_accounting_ops.h>
#include <linux/vmstat.h>

#include "compat.h"
#include "context.h"
#include "trace.h"

/* Submissions taken at a time: bounds how long interrupts stay off. */
#define KVSWAP_STEP 32u

/* A plug costs more than it gains for so few. */
#define KVSWAP_UNPLUGGED 2u

static inline u64 kvswap_req_first(const struct kvswap_req *req)
{
	return req->sqe.store;
}

static inline u64 kvswap_req_last(const struct kvswap_req *req)
{
	return req->sqe.store + req->sqe.units - 1;
}

INTERVAL_TREE_DEFINE(struct kvswap_req, node, u64, subtree_last, kvswap_req_first, kvswap_req_last,
		     static, kvswap_pending)

const struct kvswap_op kvswap_ops[KVSWAP_OP_END] = {
	[KVSWAP_OP_NOP] = { KVSWAP_WHOLE },
	[KVSWAP_OP_READ] = { KVSWAP_USES_RANGE | KVSWAP_USES_ARENA },
	[KVSWAP_OP_WRITE] = { KVSWAP_USES_RANGE | KVSWAP_USES_ARENA | KVSWAP_CHANGES |
				      KVSWAP_QUEUES,
			      KVSWAP_SQE_FUA },
	[KVSWAP_OP_FLUSH] = { KVSWAP_QUEUES },
	[KVSWAP_OP_DISCARD] = { KVSWAP_USES_RANGE | KVSWAP_CHANGES | KVSWAP_QUEUES },
	[KVSWAP_OP_WRITE_ZEROES] = { KVSWAP_USES_RANGE | KVSWAP_CHANGES | KVSWAP_QUEUES,
				     KVSWAP_SQE_FUA },
	[KVSWAP_OP_CANCEL] = { KVSWAP_WHOLE },
};

static int kvswap_ioprio_check(u16 ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_NONE:
		return ioprio ? -EINVAL : 0;
	case IOPRIO_CLASS_RT:
		if (!capable(CAP_SYS_NICE) && !capable(CAP_SYS_ADMIN))
			return -EPERM;
		fallthrough;
	case IOPRIO_CLASS_BE:
		return IOPRIO_PRIO_DATA(ioprio) < IOPRIO_BE_NR ? 0 : -EINVAL;
	case IOPRIO_CLASS_IDLE:
		return 0;
	default:
		return -EINVAL;
	}
}

static int kvswap_range_check(const struct kvswap_target *target, const struct kvswap_sqe *sqe,
			      u32 units_max)
{
	if (!sqe->units || (sqe->units | sqe->store | sqe->arena) & target->block_mask)
		return -ENOTBLK;
	if (sqe->units > target->units || sqe->store > target->units - sqe->units)
		return -ERANGE;
	return sqe->units > units_max ? -EMSGSIZE : 0;
}

/* The last check of all: the range is the request's from here on. */
static int kvswap_arena_claim(struct kvswap_pool *pool, const struct kvswap_sqe *sqe)
{
	u32 first = sqe->arena, last = first + sqe->units - 1;

	if (sqe->units > pool->units || first > pool->units - sqe->units)
		return -EFAULT;
	if (kvswap_pool_busy(pool, first, last))
		return -EBUSY;
	kvswap_pool_toggle(pool, first, last);
	return 0;
}

/*
 * What is not a READ or WRITE does without some of the members. A bio counts its bytes in 32 bits.
 */
static int kvswap_plain_check(const struct kvswap_ctx *ctx, const struct kvswap_sqe *sqe, u8 traits)
{
	if (sqe->arena)
		return -EINVAL;
	if (traits & KVSWAP_USES_RANGE)
		return kvswap_range_check(&ctx->target, sqe, U32_MAX >> KVSWAP_UNIT_SHIFT);
	return sqe->units || (sqe->arg && sqe->op != KVSWAP_OP_CANCEL) ? -EINVAL : 0;
}

static int kvswap_sqe_check(struct kvswap_ctx *ctx, const struct kvswap_sqe *sqe)
{
	const struct kvswap_op *op;
	int err;

	if (sqe->op >= KVSWAP_OP_END)
		return -EINVAL;
	op = &kvswap_ops[array_index_nospec(sqe->op, KVSWAP_OP_END)];
	if (sqe->flags & ~op->flags || sqe->__reserved)
		return -EINVAL;
	if (ctx->target.readonly && op->traits & KVSWAP_QUEUES)
		return -EROFS;
	if (unlikely(sqe->ioprio)) {
		err = kvswap_ioprio_check(sqe->ioprio);
		if (err)
			return err;
	}
	if (!(op->traits & KVSWAP_USES_ARENA))
		return kvswap_plain_check(ctx, sqe, op->traits);
	err = kvswap_range_check(&ctx->target, sqe, KVSWAP_REQUEST_MAX);
	return err ? err : kvswap_arena_claim(&ctx->pool, sqe);
}

/* Is there a write in the way that has not completed? For a read, started or not. */
static bool kvswap_read_blocked(struct kvswap_ctx *ctx, const struct kvswap_req *req)
{
	return kvswap_pending_iter_first(&ctx->pending, kvswap_req_first(req),
					 kvswap_req_last(req));
}

/* For the first write in the queue: only one that has started can be. */
static bool kvswap_write_blocked(struct kvswap_ctx *ctx, const struct kvswap_req *req)
{
	u64 first = kvswap_req_first(req), last = kvswap_req_last(req);
	struct kvswap_req *other;

	for (other = kvswap_pending_iter_first(&ctx->pending, first, last); other;
	     other = kvswap_pending_iter_next(other, first, last))
		if (other->started)
			return true;
	return false;
}

static void kvswap_stats_add(struct kvswap_stats *stats, const struct kvswap_req *req, u64 ns)
{
	if (likely(req->sqe.op == KVSWAP_OP_READ)) {
		stats->reads++;
		stats->read_units += req->sqe.units;
		stats->read_ns += ns;
		return;
	}
	switch (req->sqe.op) {
	case KVSWAP_OP_WRITE:
	case KVSWAP_OP_WRITE_ZEROES:
		stats->writes++;
		stats->written_units += req->sqe.units;
		stats->write_ns += ns;
		break;
	case KVSWAP_OP_DISCARD:
		stats->discards++;
		break;
	case KVSWAP_OP_FLUSH:
		stats->flushes++;
		break;
	}
}

static void kvswap_req_free(struct kvswap_ctx *ctx, struct kvswap_req *req)
{
	req->next = ctx->free;
	ctx->free = req;
	ctx->in_flight--;
}

/* Gives everything back that accepting and starting took, and posts the completion. */
static __always_inline void kvswap_req_complete(struct kvswap_ctx *ctx, struct kvswap_req *req,
						int result, u64 now)
{
	u64 ns = now - req->taken_ns;
	u8 traits = kvswap_req_traits(req);

	trace_kvswap_complete(req, result, ns);
	if (traits & KVSWAP_USES_ARENA)
		kvswap_pool_toggle(&ctx->pool, req->sqe.arena, req->sqe.arena + req->sqe.units - 1);
	if (traits & KVSWAP_CHANGES)
		kvswap_pending_remove(req, &ctx->pending);
	if (traits & KVSWAP_QUEUES)
		ctx->writes_started -= req->started;
	if (likely(!result))
		kvswap_stats_add(&ctx->stats, req, ns);
	else if (req->started)
		ctx->stats.errors++;
	kvswap_ring_post(&ctx->ring, req->sqe.user_data, result, ns);
	kvswap_req_free(ctx, req);
}

/* Runs on their way to being started outside of the lock. */
struct kvswap_batch {
	struct kvswap_req *runs;
	u32 nr;
	struct kvswap_req *run; /* the latest, and the last of its neighbours */
	struct kvswap_req *last;
	u64 now; /* what was taken at another time has had to wait */
	u64 read_units;
	u64 written_units;
};

/* Neighbours in submission, store and arena travel as one. */
static bool kvswap_run_extend(struct kvswap_ctx *ctx, struct kvswap_batch *batch,
			      struct kvswap_req *req)
{
	const struct kvswap_sqe *last = &batch->last->sqe, *sqe = &req->sqe;
	struct kvswap_req *run = batch->run;

	if (last->store + last->units != sqe->store || last->arena + last->units != sqe->arena ||
	    last->op != sqe->op || last->flags != sqe->flags || last->ioprio != sqe->ioprio ||
	    !(kvswap_req_traits(req) & KVSWAP_USES_ARENA) ||
	    run->run_units + sqe->units > ctx->target.run_units_max)
		return false;
	run->run_units += sqe->units;
	batch->last->next = req;
	batch->last = req;
	ctx->stats.merged++;
	return true;
}

static __always_inline void kvswap_batch_add(struct kvswap_ctx *ctx, struct kvswap_batch *batch,
					     struct kvswap_req *req)
{
	req->started = true;
	req->next = NULL;
	if (req->sqe.op == KVSWAP_OP_READ)
		batch->read_units += req->sqe.units;
	else
		batch->written_units += req->sqe.units;
	if (batch->run) {
		if (kvswap_run_extend(ctx, batch, req))
			return;
		batch->run->next_run = req;
	} else {
		batch->runs = req;
	}
	req->run_units = req->sqe.units;
	req->next_run = NULL;
	batch->run = req;
	batch->last = req;
	batch->nr++;
}

static bool kvswap_write_may_start(struct kvswap_ctx *ctx, const struct kvswap_req *req)
{
	if (req->sqe.op == KVSWAP_OP_FLUSH)
		return !ctx->writes_started;
	return ctx->writes_started < ctx->write_depth && !kvswap_write_blocked(ctx, req);
}

static void kvswap_batch_move(struct kvswap_ctx *ctx, struct kvswap_batch *batch,
			      struct kvswap_req *req)
{
	list_del(&req->link);
	ctx->stats.deferred += req->taken_ns != batch->now;
	kvswap_batch_add(ctx, batch, req);
}

/*
 * Moves what may start now into the batch. What may take long to start is for the worker
 * (may_sleep).
 */
static void kvswap_batch_collect(struct kvswap_ctx *ctx, struct kvswap_batch *batch, bool may_sleep)
{
	struct kvswap_req *req, *next;

	list_for_each_entry_safe(req, next, &ctx->parked, link)
		if (!kvswap_read_blocked(ctx, req))
			kvswap_batch_move(ctx, batch, req);
	list_for_each_entry_safe(req, next, &ctx->writes, link) {
		if (!kvswap_write_may_start(ctx, req))
			break;
		if (!may_sleep && ctx->target.ops->slow_ops & BIT(req->sqe.op)) {
			queue_work(kvswap_wq, &ctx->work);
			break;
		}
		ctx->writes_started++;
		kvswap_batch_move(ctx, batch, req);
	}
}

/* What submit_bio() would have done for each bio. Files account for themselves. */
static void kvswap_batch_account(const struct kvswap_ctx *ctx, const struct kvswap_batch *batch)
{
	if (ctx->target.ops->kind != KVSWAP_STORE_BLOCK)
		return;
	task_io_account_read(batch->read_units << KVSWAP_UNIT_SHIFT);
	count_vm_events(PGPGIN, batch->read_units);
	count_vm_events(PGPGOUT, batch->written_units);
}

static void kvswap_batch_start(struct kvswap_ctx *ctx, const struct kvswap_batch *batch)
{
	struct kvswap_req *run;

	if (!batch->nr)
		return;
	if (trace_kvswap_issue_enabled())
		for (run = batch->runs; run; run = run->next_run)
			trace_kvswap_issue(run);
	kvswap_batch_account(ctx, batch);
	ctx->target.ops->start(ctx, batch->runs, batch->nr);
}

/* Takes back what has not started: requests with this user_data, or all. */
static u32 kvswap_waiting_cancel(struct kvswap_ctx *ctx, struct list_head *waiting,
				 const u64 *user_data, u64 now)
{
	struct kvswap_req *req, *next;
	u32 n = 0;

	list_for_each_entry_safe(req, next, waiting, link) {
		if (user_data && req->sqe.user_data != *user_data)
			continue;
		list_del(&req->link);
		kvswap_req_complete(ctx, req, -ECANCELED, now);
		n++;
	}
	ctx->stats.cancelled += n;
	return n;
}

static int kvswap_cancel(struct kvswap_ctx *ctx, u64 user_data, u64 now)
{
	u32 n = kvswap_waiting_cancel(ctx, &ctx->writes, &user_data, now) +
		kvswap_waiting_cancel(ctx, &ctx->parked, &user_data, now);

	return n ? 0 : -ENOENT;
}

static void kvswap_write_accept(struct kvswap_ctx *ctx, struct kvswap_req *req, u8 traits)
{
	if (traits & KVSWAP_CHANGES)
		kvswap_pending_insert(req, &ctx->pending);
	list_add_tail(&req->link, &ctx->writes);
}

static void kvswap_req_accept(struct kvswap_ctx *ctx, struct kvswap_batch *batch,
			      struct kvswap_req *req, u8 traits)
{
	ctx->free = req->next;
	ctx->in_flight++;
	req->started = false;
	req->taken_ns = batch->now;
	if (traits & KVSWAP_QUEUES)
		kvswap_write_accept(ctx, req, traits);
	else if (!RB_EMPTY_ROOT(&ctx->pending.rb_root) && kvswap_read_blocked(ctx, req))
		list_add_tail(&req->link, &ctx->parked);
	else
		kvswap_batch_add(ctx, batch, req);
}

/*
 * One submission: refused or done at once, or accepted. There is a free request for each that may
 * be in flight.
 */
static void kvswap_sqe_take(struct kvswap_ctx *ctx, struct kvswap_batch *batch, u32 index)
{
	struct kvswap_req *req = ctx->free;
	struct kvswap_sqe *sqe = &req->sqe;
	u8 traits;
	int err;

	kvswap_ring_copy(&ctx->ring, index, sqe);
	err = kvswap_sqe_check(ctx, sqe);
	trace_kvswap_submit(ctx, sqe, err);
	traits = err ? KVSWAP_WHOLE : kvswap_req_traits(req);
	if (likely(!(traits & KVSWAP_WHOLE))) {
		kvswap_req_accept(ctx, batch, req, traits);
		return;
	}
	ctx->stats.refused += !!err;
	if (!err && sqe->op == KVSWAP_OP_CANCEL)
		err = kvswap_cancel(ctx, sqe->arg, batch->now);
	kvswap_ring_post(&ctx->ring, sqe->user_data, err, 0);
}

/*
 * Takes up to n submissions as far as there is room for their completions. Returns how many, or an
 * error.
 */
static int kvswap_step_take(struct kvswap_ctx *ctx, struct kvswap_batch *batch, u32 n)
{
	u32 posted, completed, i;
	int err;

	batch->now = ktime_get_ns();
	spin_lock_irq(&ctx->lock);
	err = kvswap_ring_completed(&ctx->ring, &completed);
	if (err)
		goto unlock;
	posted = ctx->ring.cq_tail;
	n = min(n, ctx->ring.entries - min(ctx->ring.entries, ctx->in_flight + completed));
	for (i = 0; i < n; i++)
		kvswap_sqe_take(ctx, batch, i);
	kvswap_batch_collect(ctx, batch, false);
	if (ctx->ring.cq_tail != posted && kvswap_ring_publish(&ctx->ring, ctx->in_flight))
		kvswap_ring_wake(ctx);
unlock:
	spin_unlock_irq(&ctx->lock);
	return err ? err : n;
}

static int kvswap_step(struct kvswap_ctx *ctx, u32 n)
{
	struct kvswap_batch batch = {};
	int taken = kvswap_step_take(ctx, &batch, n);

	if (taken > 0)
		kvswap_ring_take(&ctx->ring, taken);
	kvswap_batch_start(ctx, &batch);
	return taken;
}

static int kvswap_steps(struct kvswap_ctx *ctx, u32 n, u32 *submitted)
{
	while (n) {
		int taken = kvswap_step(ctx, min(n, KVSWAP_STEP));

		if (taken < 0)
			return taken;
		if (!taken)
			return *submitted ? 0 : -EAGAIN;
		n -= taken;
		*submitted += taken;
	}
	return 0;
}

/*
 * Takes up to n submissions. -EAGAIN: there were some, and no room for the completion of the first.
 */
int kvswap_io_submit(struct kvswap_ctx *ctx, u32 n, u32 *submitted)
{
	struct blk_plug plug;
	u32 there;
	int err;

	if (mutex_lock_interruptible(&ctx->submit_lock))
		return -EINTR;
	err = kvswap_ring_submitted(&ctx->ring, &there);
	if (err)
		goto unlock;
	n = min(n, there);
	if (n > KVSWAP_UNPLUGGED)
		blk_start_plug(&plug);
	err = kvswap_steps(ctx, n, submitted);
	if (n > KVSWAP_UNPLUGGED)
		blk_finish_plug(&plug);
unlock:
	mutex_unlock(&ctx->submit_lock);
	return err;
}

/* Completes a run. Any context; after the lock is let go, the context may be gone. */
void kvswap_io_done(struct kvswap_req *run, int result)
{
	struct kvswap_ctx *ctx = run->ctx;
	bool writes = kvswap_req_traits(run) & KVSWAP_QUEUES;
	u64 now = ktime_get_ns();
	struct kvswap_req *next;
	unsigned long flags;

	spin_lock_irqsave(&ctx->lock, flags);
	for (; run; run = next) {
		next = run->next;
		kvswap_req_complete(ctx, run, result, now);
	}
	if (writes && !(list_empty(&ctx->writes) && list_empty(&ctx->parked)))
		queue_work(kvswap_wq, &ctx->work);
	if (kvswap_ring_publish(&ctx->ring, ctx->in_flight))
		kvswap_ring_wake(ctx);
	spin_unlock_irqrestore(&ctx->lock, flags);
}

static void kvswap_io_work(struct work_struct *work)
{
	struct kvswap_ctx *ctx = container_of(work, struct kvswap_ctx, work);
	struct kvswap_batch batch = {};
	struct blk_plug plug;

	spin_lock_irq(&ctx->lock);
	kvswap_batch_collect(ctx, &batch, true);
	spin_unlock_irq(&ctx->lock);
	blk_start_plug(&plug);
	kvswap_batch_start(ctx, &batch);
	blk_finish_plug(&plug);
}

/* At release: takes back what has not started, waits for what has. */
void kvswap_io_drain(struct kvswap_ctx *ctx)
{
	spin_lock_irq(&ctx->lock);
	kvswap_waiting_cancel(ctx, &ctx->writes, NULL, ktime_get_ns());
	kvswap_waiting_cancel(ctx, &ctx->parked, NULL, ktime_get_ns());
	spin_unlock_irq(&ctx->lock);
	kvswap_ring_drain(ctx);
	cancel_work_sync(&ctx->work);
}

int kvswap_io_alloc(struct kvswap_ctx *ctx, u32 entries)
{
	struct kvswap_req *req;

	ctx->reqs = kvcalloc(entries, sizeof(*ctx->reqs), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!ctx->reqs)
		return -ENOMEM;
	for (req = ctx->reqs; req < ctx->reqs + entries; req++) {
		req->ctx = ctx;
		req->next = ctx->free;
		ctx->free = req;
	}
	INIT_WORK(&ctx->work, kvswap_io_work);
	INIT_LIST_HEAD(&ctx->writes);
	INIT_LIST_HEAD(&ctx->parked);
	ctx->pending = RB_ROOT_CACHED;
	return 0;
}

void kvswap_io_free(struct kvswap_ctx *ctx)
{
	kvfree(ctx->reqs);
	ctx->free = NULL;
}
