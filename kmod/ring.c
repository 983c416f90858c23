// SPDX-License-Identifier: GPL-2.0-only
/*
 * The two rings shared with user space: copying submissions out, posting completions, waking and waiting.
 *
 * User space may write anything into kvswap_sq at any time. Its two indices are read once and measured against ours,
 * an entry is copied once; kvswap_cq is never read back. cq_tail, wake_at and armed are under kvswap_ctx.lock, sq_head
 * under submit_lock.
 */
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>

#include "context.h"

size_t kvswap_ring_sq_bytes(u32 entries)
{
	return PAGE_ALIGN(struct_size((struct kvswap_sq *)NULL, sqes, entries));
}

size_t kvswap_ring_cq_bytes(u32 entries)
{
	return PAGE_ALIGN(struct_size((struct kvswap_cq *)NULL, cqes, entries));
}

int kvswap_ring_alloc(struct kvswap_ring *ring, u32 entries)
{
	ring->sq = vmalloc_user(kvswap_ring_sq_bytes(entries));
	if (!ring->sq)
		return -ENOMEM;
	ring->cq = vmalloc_user(kvswap_ring_cq_bytes(entries));
	if (!ring->cq)
		goto free;
	ring->entries = entries;
	return 0;

free:
	vfree(ring->sq);
	return -ENOMEM;
}

void kvswap_ring_free(struct kvswap_ring *ring)
{
	vfree(ring->cq);
	vfree(ring->sq);
}

/* Submissions to be taken. The acquire pairs with the release of sq->tail in user space. */
int kvswap_ring_submitted(const struct kvswap_ring *ring, u32 *n)
{
	*n = smp_load_acquire(&ring->sq->tail) - ring->sq_head;
	return *n > ring->entries ? -EBADFD : 0;
}

/* Completions to be consumed; under kvswap_ctx.lock. The acquire pairs with the release of sq->cq_head. */
int kvswap_ring_completed(const struct kvswap_ring *ring, u32 *n)
{
	*n = ring->cq_tail - smp_load_acquire(&ring->sq->cq_head);
	return *n > ring->entries ? -EBADFD : 0;
}

u32 kvswap_ring_available(struct kvswap_ctx *ctx)
{
	u32 n;

	spin_lock_irq(&ctx->lock);
	if (kvswap_ring_completed(&ctx->ring, &n))
		n = 0;
	spin_unlock_irq(&ctx->lock);
	return n;
}

/* The one read of an entry: what is checked afterwards is the copy. */
void kvswap_ring_copy(const struct kvswap_ring *ring, u32 index, struct kvswap_sqe *sqe)
{
	const u64 *from = (const u64 *)&ring->sq->sqes[(ring->sq_head + index) & (ring->entries - 1)];
	u64 *to = (u64 *)sqe;
	int i;

	for (i = 0; i < sizeof(*sqe) / sizeof(u64); i++)
		to[i] = READ_ONCE(from[i]);
}

/* User space may reuse n entries more. Pairs with the acquire of cq->sq_head there. */
void kvswap_ring_take(struct kvswap_ring *ring, u32 n)
{
	ring->sq_head += n;
	smp_store_release(&ring->cq->sq_head, ring->sq_head);
}

/* Under kvswap_ctx.lock, as is kvswap_ring_publish(). */
void kvswap_ring_post(struct kvswap_ring *ring, u64 user_data, int result, u64 latency_ns)
{
	struct kvswap_cqe *cqe = &ring->cq->cqes[ring->cq_tail++ & (ring->entries - 1)];

	cqe->user_data = user_data;
	cqe->result = result;
	cqe->latency_ns = min_t(u64, latency_ns, U32_MAX);
}

static bool kvswap_ring_reached(const struct kvswap_ctx *ctx, u32 target)
{
	return !ctx->in_flight || (s32)(ctx->ring.cq_tail - target) >= 0;
}

/*
 * Makes posted completions visible and wakes those whose count is reached. Waking under the lock is what lets
 * kvswap_ring_drain() free everything once it has had the lock.
 */
void kvswap_ring_publish(struct kvswap_ctx *ctx)
{
	struct kvswap_ring *ring = &ctx->ring;

	/* Pairs with the acquire of cq->tail in user space. */
	smp_store_release(&ring->cq->tail, ring->cq_tail);
	if (ring->armed && kvswap_ring_reached(ctx, ring->wake_at)) {
		ring->armed = false;
		wake_up_all(&ring->wait);
	}
}

/* Sleepers share one threshold, the nearest; each looks for itself when woken and arms again. */
static void kvswap_ring_arm(struct kvswap_ring *ring, u32 target)
{
	if (!ring->armed || (s32)(ring->wake_at - target) > 0)
		ring->wake_at = target;
	ring->armed = true;
}

static bool kvswap_ring_reached_or_arm(struct kvswap_ctx *ctx, u32 target)
{
	bool reached;

	spin_lock_irq(&ctx->lock);
	reached = kvswap_ring_reached(ctx, target);
	if (!reached)
		kvswap_ring_arm(&ctx->ring, target);
	spin_unlock_irq(&ctx->lock);
	return reached;
}

/* Until cq_tail is at target or nothing is in flight. */
int kvswap_ring_wait(struct kvswap_ctx *ctx, u32 target, u64 deadline_ns)
{
	ktime_t deadline = ns_to_ktime(min_t(u64, deadline_ns, KTIME_MAX));
	DEFINE_WAIT(wait);
	int err = 0;

	while (!err) {
		prepare_to_wait(&ctx->ring.wait, &wait, TASK_INTERRUPTIBLE);
		if (kvswap_ring_reached_or_arm(ctx, target))
			break;
		if (signal_pending(current))
			err = -EINTR;
		else if (!schedule_hrtimeout(deadline_ns ? &deadline : NULL, HRTIMER_MODE_ABS))
			err = kvswap_ring_reached_or_arm(ctx, target) ? 0 : -ETIME;
	}
	finish_wait(&ctx->ring.wait, &wait);
	return err;
}

/* Until nothing is in flight and the last completion has let go of the lock. */
void kvswap_ring_drain(struct kvswap_ctx *ctx)
{
	wait_event(ctx->ring.wait, kvswap_ring_reached_or_arm(ctx, ctx->ring.cq_tail + S32_MAX));
}

/*
 * Are there completions? Arms in either case: an edge-triggered poller hears of the next one only by being woken.
 */
bool kvswap_ring_poll(struct kvswap_ctx *ctx)
{
	u32 n = 0;

	spin_lock_irq(&ctx->lock);
	kvswap_ring_completed(&ctx->ring, &n);
	kvswap_ring_arm(&ctx->ring, ctx->ring.cq_tail + 1);
	spin_unlock_irq(&ctx->lock);
	return n;
}
