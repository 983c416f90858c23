// SPDX-License-Identifier: GPL-2.0-only
/*
 * The two rings shared with user space: copying submissions out, posting completions, waking and
 * waiting.
 *
 * User space may write anything into kvswap_sq at any time. Its two indices are read once and
 * measured against ours, an entry is copied once; kvswap_cq is never read back.
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

/* Someone in kvswap_ring_wait(); on its stack and, under kvswap_ctx.lock, in the list. */
struct kvswap_sleeper {
	struct list_head link;
	struct task_struct *task;
	u32 target;
};

static bool kvswap_ring_reached(const struct kvswap_ctx *ctx, u32 target)
{
	const struct kvswap_ring *ring = &ctx->ring;

	return !ctx->in_flight || (s32)(ring->cq_tail - target) >= 0;
}

/*
 * The index at which kvswap_ring_wake() has something to do: the nearest of all sleepers', or far
 * away.
 */
static void kvswap_ring_aim(struct kvswap_ring *ring)
{
	struct kvswap_sleeper *sleeper;

	ring->wake_at = ring->cq_tail + S32_MAX;
	list_for_each_entry(sleeper, &ring->sleepers, link)
		if ((s32)(ring->wake_at - sleeper->target) > 0)
			ring->wake_at = sleeper->target;
	if (ring->polled && (s32)(ring->wake_at - ring->cq_tail) > 1)
		ring->wake_at = ring->cq_tail + 1;
}

/*
 * Wakes those whose count is reached. Under kvswap_ctx.lock; that nothing is touched after letting
 * it go is what lets kvswap_ring_drain()'s caller free everything.
 */
void kvswap_ring_wake(struct kvswap_ctx *ctx)
{
	struct kvswap_ring *ring = &ctx->ring;
	struct kvswap_sleeper *sleeper, *next;

	list_for_each_entry_safe(sleeper, next, &ring->sleepers, link) {
		if (!kvswap_ring_reached(ctx, sleeper->target))
			continue;
		list_del_init(&sleeper->link);
		wake_up_process(sleeper->task);
	}
	if (ring->polled) {
		ring->polled = false;
		wake_up_all(&ring->poll);
	}
	kvswap_ring_aim(ring);
}

/* Until cq_tail is at target or nothing is in flight. Lets the lock go while it sleeps. */
static int kvswap_ring_sleep(struct kvswap_ctx *ctx, u32 target, ktime_t *deadline,
			     unsigned int state) __must_hold(&ctx->lock)
{
	struct kvswap_sleeper self = { .task = current, .target = target };
	int err = 0;

	if (kvswap_ring_reached(ctx, target))
		return 0;
	list_add_tail(&self.link, &ctx->ring.sleepers);
	kvswap_ring_aim(&ctx->ring);
	while (!err && !list_empty(&self.link)) {
		set_current_state(state);
		spin_unlock_irq(&ctx->lock);
		if (signal_pending_state(state, current))
			err = -EINTR;
		else if (!schedule_hrtimeout(deadline, HRTIMER_MODE_ABS))
			err = -ETIME;
		spin_lock_irq(&ctx->lock);
	}
	__set_current_state(TASK_RUNNING);
	if (list_empty(&self.link))
		return 0;
	list_del(&self.link);
	kvswap_ring_aim(&ctx->ring);
	return err;
}

/* Until so many completions are there to be consumed (0: only looks), or nothing is in flight. */
int kvswap_ring_wait(struct kvswap_ctx *ctx, u32 want, u64 deadline_ns, u32 *there)
{
	ktime_t deadline = ns_to_ktime(min_t(u64, deadline_ns, KTIME_MAX));
	struct kvswap_ring *ring = &ctx->ring;
	int err;

	want = min(want, ring->entries);
	spin_lock_irq(&ctx->lock);
	err = kvswap_ring_completed(ring, there);
	if (err || *there >= want)
		goto unlock;
	err = kvswap_ring_sleep(ctx, ring->cq_tail - *there + want, deadline_ns ? &deadline : NULL,
				TASK_INTERRUPTIBLE);
	if (kvswap_ring_completed(ring, there))
		err = -EBADFD;
unlock:
	spin_unlock_irq(&ctx->lock);
	return err;
}

/* Until nothing is in flight and the last completion has let go of the lock. */
void kvswap_ring_drain(struct kvswap_ctx *ctx)
{
	struct kvswap_ring *ring = &ctx->ring;

	spin_lock_irq(&ctx->lock);
	while (ctx->in_flight)
		kvswap_ring_sleep(ctx, ring->cq_tail + ctx->in_flight, NULL, TASK_UNINTERRUPTIBLE);
	spin_unlock_irq(&ctx->lock);
}

/*
 * Are there completions? Asks to be woken in either case: an edge-triggered poller hears of the
 * next one only so.
 */
bool kvswap_ring_poll(struct kvswap_ctx *ctx)
{
	u32 there;
	bool ready;

	spin_lock_irq(&ctx->lock);
	ready = !kvswap_ring_completed(&ctx->ring, &there) && there;
	ctx->ring.polled = true;
	kvswap_ring_aim(&ctx->ring);
	spin_unlock_irq(&ctx->lock);
	return ready;
}
