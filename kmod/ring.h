/* SPDX-License-Identifier: GPL-2.0-only */
/* The two rings shared with user space: see ring.c. What every request does with them is inline. */
#ifndef KVSWAP_RING_H
#define KVSWAP_RING_H

#include <linux/list.h>
#include <linux/wait.h>

#include "../include/uapi/kvswap.h"

struct kvswap_ctx;

/* The indices that the kernel owns are kept here and only ever written to the rings. */
struct kvswap_ring {
	struct kvswap_sq *sq;
	struct kvswap_cq *cq;
	u32 entries;
	u32 sq_head; /* kvswap_ctx.submit_lock */
	u32 cq_tail; /* kvswap_ctx.lock, as are the next three */
	u32 wake_at; /* cq_tail at which someone wants to be woken */
	bool polled; /* someone may be in poll's queue */
	struct list_head sleepers;
	wait_queue_head_t poll;
};

int kvswap_ring_alloc(struct kvswap_ring *ring, u32 entries);
void kvswap_ring_free(struct kvswap_ring *ring);
size_t kvswap_ring_sq_bytes(u32 entries);
size_t kvswap_ring_cq_bytes(u32 entries);
void kvswap_ring_wake(struct kvswap_ctx *ctx);
int kvswap_ring_wait(struct kvswap_ctx *ctx, u32 want, u64 deadline_ns, u32 *there);
void kvswap_ring_drain(struct kvswap_ctx *ctx);
bool kvswap_ring_poll(struct kvswap_ctx *ctx);

/* Submissions to be taken. */
static inline int kvswap_ring_submitted(const struct kvswap_ring *ring, u32 *n)
{
	/* Pairs with the release of sq->tail in user space. */
	*n = smp_load_acquire(&ring->sq->tail) - ring->sq_head;
	return *n > ring->entries ? -EBADFD : 0;
}

/* Completions to be consumed; under kvswap_ctx.lock. */
static inline int kvswap_ring_completed(const struct kvswap_ring *ring, u32 *n)
{
	/* Pairs with the release of sq->cq_head in user space. */
	*n = ring->cq_tail - smp_load_acquire(&ring->sq->cq_head);
	return *n > ring->entries ? -EBADFD : 0;
}

/* The one read of an entry: what is checked afterwards is the copy. */
static inline void kvswap_ring_copy(const struct kvswap_ring *ring, u32 index,
				    struct kvswap_sqe *sqe)
{
	u32 slot = (ring->sq_head + index) & (ring->entries - 1);
	const u64 *from = (const u64 *)&ring->sq->sqes[slot];
	u64 *to = (u64 *)sqe;

	BUILD_BUG_ON(sizeof(*sqe) != 4 * sizeof(u64));
	to[0] = READ_ONCE(from[0]);
	to[1] = READ_ONCE(from[1]);
	to[2] = READ_ONCE(from[2]);
	to[3] = READ_ONCE(from[3]);
}

/* User space may reuse n entries more. */
static inline void kvswap_ring_take(struct kvswap_ring *ring, u32 n)
{
	ring->sq_head += n;
	/* Pairs with the acquire of cq->sq_head in user space. */
	smp_store_release(&ring->cq->sq_head, ring->sq_head);
}

/* Under kvswap_ctx.lock; kvswap_ring_publish() makes it visible, and the caller wakes. */
static inline void kvswap_ring_post(struct kvswap_ring *ring, u64 user_data, int result,
				    u64 latency_ns)
{
	struct kvswap_cqe *cqe = &ring->cq->cqes[ring->cq_tail++ & (ring->entries - 1)];

	cqe->user_data = user_data;
	cqe->result = result;
	cqe->latency_ns = min_t(u64, latency_ns, U32_MAX);
}

/* Makes what was posted visible. Is there someone to be woken? The last of all wakes everyone. */
static inline bool kvswap_ring_publish(struct kvswap_ring *ring, u32 in_flight)
{
	/* Pairs with the acquire of cq->tail in user space. */
	smp_store_release(&ring->cq->tail, ring->cq_tail);
	return !in_flight || (s32)(ring->cq_tail - ring->wake_at) >= 0;
}

#endif
