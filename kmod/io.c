// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of a request: taken off the ring and checked, held back while an earlier write is in its way or too many
 * writes are under way, joined with its neighbours, started, completed.
 *
 * Everything here is under kvswap_ctx.lock but starting, which may sleep. Reads start at once unless they overlap
 * a pending write; what changes the store queues in order behind write_depth and starts after the reads of its
 * batch. Nothing is allocated after SETUP.
 */
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/interval_tree_generic.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/slab.h>

#include "compat.h"
#include "context.h"
#include "trace.h"

/* Submissions taken at a time: bounds how long interrupts stay off. */
#define KVSWAP_STEP 32u

#define kvswap_req_first(req) ((req)->store)
#define kvswap_req_last(req) ((req)->last)

INTERVAL_TREE_DEFINE(struct kvswap_req, node, u64, subtree_last, kvswap_req_first, kvswap_req_last,
		     static, kvswap_pending)

/* What an operation uses of a submission. */
static const struct {
	u8 flags;
	bool range;
	bool data;
} kvswap_ops[KVSWAP_OP_END] = {
	[KVSWAP_OP_READ] = { .range = true, .data = true },
	[KVSWAP_OP_WRITE] = { .flags = KVSWAP_SQE_FUA, .range = true, .data = true },
	[KVSWAP_OP_DISCARD] = { .range = true },
	[KVSWAP_OP_WRITE_ZEROES] = { .flags = KVSWAP_SQE_FUA, .range = true },
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

static int kvswap_range_check(const struct kvswap_ctx *ctx, const struct kvswap_sqe *sqe)
{
	const struct kvswap_target *target = &ctx->target;
	u32 block_mask = (target->block_bytes >> KVSWAP_UNIT_SHIFT) - 1;

	if (!sqe->units || (sqe->units | sqe->store) & block_mask)
		return -ENOTBLK;
	if (sqe->units > target->units || sqe->store > target->units - sqe->units)
		return -ERANGE;
	/* A bio counts its bytes in 32 bits. */
	if (sqe->units > (kvswap_ops[sqe->op].data ? KVSWAP_REQUEST_MAX :
						     U32_MAX >> KVSWAP_UNIT_SHIFT))
		return -EMSGSIZE;
	return 0;
}

static int kvswap_data_check(const struct kvswap_ctx *ctx, const struct kvswap_sqe *sqe)
{
	const struct kvswap_pool *pool = &ctx->pool;

	if (sqe->units > pool->units || sqe->arena > pool->units - sqe->units)
		return -EFAULT;
	return kvswap_pool_busy(pool, sqe->arena, sqe->units) ? -EBUSY : 0;
}

static int kvswap_sqe_check(const struct kvswap_ctx *ctx, const struct kvswap_sqe *sqe)
{
	int err;

	if (sqe->op >= KVSWAP_OP_END || sqe->flags & ~kvswap_ops[sqe->op].flags || sqe->__reserved)
		return -EINVAL;
	if (!kvswap_ops[sqe->op].data && sqe->arena)
		return -EINVAL;
	if (ctx->target.readonly && kvswap_op_writes(sqe->op))
		return -EROFS;
	if (sqe->ioprio) {
		err = kvswap_ioprio_check(sqe->ioprio);
		if (err)
			return err;
	}
	if (!kvswap_ops[sqe->op].range)
		return sqe->units || (sqe->arg && sqe->op != KVSWAP_OP_CANCEL) ? -EINVAL : 0;
	err = kvswap_range_check(ctx, sqe);
	if (err || !kvswap_ops[sqe->op].data)
		return err;
	return kvswap_data_check(ctx, sqe);
}

/* Is a write in the way that was submitted before? */
static bool kvswap_req_blocked(struct kvswap_ctx *ctx, const struct kvswap_req *req)
{
	struct kvswap_req *other;

	for (other = kvswap_pending_iter_first(&ctx->pending, req->store, req->last); other;
	     other = kvswap_pending_iter_next(other, req->store, req->last))
		if (other->seq < req->seq)
			return true;
	return false;
}

static struct kvswap_req *kvswap_req_get(struct kvswap_ctx *ctx, const struct kvswap_sqe *sqe,
					 u64 now)
{
	struct kvswap_req *req = ctx->free;

	ctx->free = req->next;
	ctx->in_flight++;
	req->next = NULL;
	req->store = sqe->store;
	req->units = sqe->units;
	req->last = sqe->store + sqe->units - 1;
	req->run_units = sqe->units;
	req->arena = sqe->arena;
	req->ioprio = sqe->ioprio;
	req->op = sqe->op;
	req->flags = sqe->flags;
	req->started = false;
	req->user_data = sqe->user_data;
	req->taken_ns = now;
	req->seq = ctx->seq++;
	if (kvswap_op_has_data(req->op))
		kvswap_pool_toggle(&ctx->pool, req->arena, req->units);
	return req;
}

static void kvswap_stats_add(struct kvswap_stats *stats, const struct kvswap_req *req, u64 ns)
{
	switch (req->op) {
	case KVSWAP_OP_READ:
		stats->reads++;
		stats->read_units += req->units;
		stats->read_ns += ns;
		break;
	case KVSWAP_OP_WRITE:
	case KVSWAP_OP_WRITE_ZEROES:
		stats->writes++;
		stats->written_units += req->units;
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

/* Gives everything back that kvswap_req_get() and starting took, and posts the completion. */
static void kvswap_req_put(struct kvswap_ctx *ctx, struct kvswap_req *req, int result, u64 now)
{
	u64 ns = now - req->taken_ns;

	req->result = result;
	trace_kvswap_complete(req, ns);
	if (kvswap_op_has_data(req->op))
		kvswap_pool_toggle(&ctx->pool, req->arena, req->units);
	if (kvswap_op_changes(req->op))
		kvswap_pending_remove(req, &ctx->pending);
	if (kvswap_op_writes(req->op))
		ctx->writes_started -= req->started;
	if (!result)
		kvswap_stats_add(&ctx->stats, req, ns);
	else if (req->started)
		ctx->stats.errors++;
	kvswap_ring_post(&ctx->ring, req->user_data, result, ns);
	req->next = ctx->free;
	ctx->free = req;
	ctx->in_flight--;
}

/* Neighbours in submission, store and arena travel as one. */
static bool kvswap_run_extend(struct kvswap_ctx *ctx, struct kvswap_req *run,
			      struct kvswap_req **last, struct kvswap_req *req)
{
	if (run->op != req->op || !kvswap_op_has_data(req->op) || run->flags != req->flags ||
	    run->ioprio != req->ioprio || (*last)->last + 1 != req->store ||
	    (*last)->arena + (*last)->units != req->arena ||
	    run->run_units + req->units > ctx->target.run_units_max)
		return false;
	run->run_units += req->units;
	(*last)->next = req;
	*last = req;
	ctx->stats.merged++;
	return true;
}

/* Runs on their way to being started outside of the lock. */
struct kvswap_batch {
	struct list_head runs;
	struct kvswap_req *run;		/* the latest, and the last of its neighbours */
	struct kvswap_req *last;
	u64 seq;			/* what was accepted before this has had to wait */
};

static void kvswap_batch_add(struct kvswap_ctx *ctx, struct kvswap_batch *batch,
			     struct kvswap_req *req)
{
	req->started = true;
	if (batch->run && kvswap_run_extend(ctx, batch->run, &batch->last, req))
		return;
	list_add_tail(&req->link, &batch->runs);
	batch->run = req;
	batch->last = req;
}

static bool kvswap_write_may_start(struct kvswap_ctx *ctx, const struct kvswap_req *req)
{
	if (req->op == KVSWAP_OP_FLUSH)
		return !ctx->writes_started;
	return ctx->writes_started < ctx->write_depth && !kvswap_req_blocked(ctx, req);
}

static void kvswap_batch_move(struct kvswap_ctx *ctx, struct kvswap_batch *batch,
			      struct kvswap_req *req)
{
	list_del(&req->link);
	ctx->stats.deferred += req->seq < batch->seq;
	kvswap_batch_add(ctx, batch, req);
}

/*
 * Moves what may start now into the batch. What may take long to start is for the worker (may_sleep).
 */
static void kvswap_batch_collect(struct kvswap_ctx *ctx, struct kvswap_batch *batch, bool may_sleep)
{
	struct kvswap_req *req, *next;

	list_for_each_entry_safe(req, next, &ctx->parked, link)
		if (!kvswap_req_blocked(ctx, req))
			kvswap_batch_move(ctx, batch, req);
	list_for_each_entry_safe(req, next, &ctx->writes, link) {
		if (!kvswap_write_may_start(ctx, req))
			break;
		if (!may_sleep && ctx->target.ops->slow_ops & BIT(req->op)) {
			queue_work(kvswap_wq, &ctx->work);
			break;
		}
		ctx->writes_started++;
		kvswap_batch_move(ctx, batch, req);
	}
}

static void kvswap_batch_start(struct kvswap_ctx *ctx, struct kvswap_batch *batch)
{
	struct kvswap_req *req, *next;

	list_for_each_entry_safe(req, next, &batch->runs, link) {
		trace_kvswap_issue(req);
		ctx->target.ops->start(req);
	}
}

/* Takes back what has not started: requests with this user_data, or all. */
static u32 kvswap_waiting_cancel(struct kvswap_ctx *ctx, struct list_head *waiting,
				 const u64 *user_data, u64 now)
{
	struct kvswap_req *req, *next;
	u32 n = 0;

	list_for_each_entry_safe(req, next, waiting, link) {
		if (user_data && req->user_data != *user_data)
			continue;
		list_del(&req->link);
		kvswap_req_put(ctx, req, -ECANCELED, now);
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

static void kvswap_req_accept(struct kvswap_ctx *ctx, struct kvswap_batch *batch,
			      const struct kvswap_sqe *sqe, u64 now)
{
	struct kvswap_req *req = kvswap_req_get(ctx, sqe, now);

	if (kvswap_op_changes(req->op))
		kvswap_pending_insert(req, &ctx->pending);
	if (kvswap_op_writes(req->op))
		list_add_tail(&req->link, &ctx->writes);
	else if (kvswap_req_blocked(ctx, req))
		list_add_tail(&req->link, &ctx->parked);
	else
		kvswap_batch_add(ctx, batch, req);
}

/* One submission: refused or done at once, or accepted. */
static void kvswap_sqe_take(struct kvswap_ctx *ctx, struct kvswap_batch *batch, u32 index, u64 now)
{
	struct kvswap_sqe sqe;
	int err;

	kvswap_ring_copy(&ctx->ring, index, &sqe);
	err = kvswap_sqe_check(ctx, &sqe);
	trace_kvswap_submit(ctx, &sqe, err);
	if (!err && sqe.op != KVSWAP_OP_NOP && sqe.op != KVSWAP_OP_CANCEL) {
		kvswap_req_accept(ctx, batch, &sqe, now);
		return;
	}
	ctx->stats.refused += !!err;
	if (!err && sqe.op == KVSWAP_OP_CANCEL)
		err = kvswap_cancel(ctx, sqe.arg, now);
	kvswap_ring_post(&ctx->ring, sqe.user_data, err, 0);
}

/* Takes up to n submissions as far as there is room for their completions. Returns how many, or an error. */
static int kvswap_step_take(struct kvswap_ctx *ctx, struct kvswap_batch *batch, u32 n)
{
	u32 posted, completed, i;
	u64 now = ktime_get_ns();
	int err;

	spin_lock_irq(&ctx->lock);
	err = kvswap_ring_completed(&ctx->ring, &completed);
	if (err)
		goto unlock;
	posted = ctx->ring.cq_tail;
	batch->seq = ctx->seq;
	n = min(n, ctx->ring.entries - min(ctx->ring.entries, ctx->in_flight + completed));
	for (i = 0; i < n; i++)
		kvswap_sqe_take(ctx, batch, i, now);
	kvswap_batch_collect(ctx, batch, false);
	if (ctx->ring.cq_tail != posted)
		kvswap_ring_publish(ctx);
unlock:
	spin_unlock_irq(&ctx->lock);
	return err ? err : n;
}

static int kvswap_step(struct kvswap_ctx *ctx, u32 n)
{
	struct kvswap_batch batch = { .runs = LIST_HEAD_INIT(batch.runs) };
	int taken = kvswap_step_take(ctx, &batch, n);

	if (taken > 0)
		kvswap_ring_take(&ctx->ring, taken);
	kvswap_batch_start(ctx, &batch);
	return taken;
}

/* Takes up to n submissions. -EAGAIN: there were some, and no room for the completion of the first. */
int kvswap_io_submit(struct kvswap_ctx *ctx, u32 n, u32 *submitted)
{
	struct blk_plug plug;
	int taken = 0;
	u32 there;
	int err;

	if (mutex_lock_interruptible(&ctx->submit_lock))
		return -EINTR;
	err = kvswap_ring_submitted(&ctx->ring, &there);
	if (err)
		goto unlock;
	n = min(n, there);
	kvswap_plug_start(&plug, n);
	while (n) {
		taken = kvswap_step(ctx, min(n, KVSWAP_STEP));
		if (taken <= 0)
			break;
		n -= taken;
		*submitted += taken;
	}
	blk_finish_plug(&plug);
	if (taken < 0)
		err = taken;
	else if (n && !*submitted)
		err = -EAGAIN;
unlock:
	mutex_unlock(&ctx->submit_lock);
	return err;
}

/* Completes a run. Any context; after the lock is let go, the context may be gone. */
void kvswap_io_done(struct kvswap_req *run, int result)
{
	struct kvswap_ctx *ctx = run->ctx;
	bool writes = kvswap_op_writes(run->op);
	u64 now = ktime_get_ns();
	struct kvswap_req *next;
	unsigned long flags;

	spin_lock_irqsave(&ctx->lock, flags);
	for (; run; run = next) {
		next = run->next;
		kvswap_req_put(ctx, run, result, now);
	}
	if (writes && !(list_empty(&ctx->writes) && list_empty(&ctx->parked)))
		queue_work(kvswap_wq, &ctx->work);
	kvswap_ring_publish(ctx);
	spin_unlock_irqrestore(&ctx->lock, flags);
}

static void kvswap_io_work(struct work_struct *work)
{
	struct kvswap_ctx *ctx = container_of(work, struct kvswap_ctx, work);
	struct kvswap_batch batch = { .runs = LIST_HEAD_INIT(batch.runs), .seq = U64_MAX };
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

	ctx->reqs = kvcalloc(entries, sizeof(*ctx->reqs), GFP_KERNEL_ACCOUNT);
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
