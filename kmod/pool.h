/* SPDX-License-Identifier: GPL-2.0-only */
/* The arena: see pool.c. What every request does with it is inline. */
#ifndef KVSWAP_POOL_H
#define KVSWAP_POOL_H

#include <linux/bitops.h>
#include <linux/bvec.h>
#include <linux/mm.h>

#include "../include/uapi/kvswap.h"

/*
 * Pinned memory, cut into chunks of one size; never changes between SETUP and release but for busy.
 */
struct kvswap_pool {
	struct bio_vec *chunks;
	u32 nr_chunks;
	u32 chunk_shift; /* in units */
	u64 units;
	unsigned long *busy;   /* a bit a unit; kvswap_ctx.lock */
	unsigned long charged; /* pages */
	struct mm_struct *mm;  /* whose locked_vm carries them */
};

u64 kvswap_pool_cap(void);
u64 kvswap_pool_pinned(void);
int kvswap_pool_alloc(struct kvswap_pool *pool, u64 bytes, u64 extra);
void kvswap_pool_free(struct kvswap_pool *pool);
int kvswap_pool_mmap(struct kvswap_pool *pool, struct vm_area_struct *vma);

/* The bits of a range that lie in its first and in its last word. */
static inline unsigned long kvswap_busy_head(u32 first)
{
	return ~0ul << first % BITS_PER_LONG;
}

static inline unsigned long kvswap_busy_tail(u32 last)
{
	return ~0ul >> (BITS_PER_LONG - 1 - last % BITS_PER_LONG);
}

static inline bool kvswap_pool_busy(const struct kvswap_pool *pool, u32 first, u32 last)
{
	const unsigned long *word = &pool->busy[first / BITS_PER_LONG];
	const unsigned long *end = &pool->busy[last / BITS_PER_LONG];
	unsigned long mask = kvswap_busy_head(first);

	for (; word < end; word++, mask = ~0ul)
		if (*word & mask)
			return true;
	return *word & mask & kvswap_busy_tail(last);
}

/* From free to busy or back, all of it. */
static inline void kvswap_pool_toggle(struct kvswap_pool *pool, u32 first, u32 last)
{
	unsigned long *word = &pool->busy[first / BITS_PER_LONG];
	unsigned long *end = &pool->busy[last / BITS_PER_LONG];
	unsigned long mask = kvswap_busy_head(first);

	for (; word < end; word++, mask = ~0ul)
		*word ^= mask;
	*word ^= mask & kvswap_busy_tail(last);
}

/* Do two chunks belong to one block of pages, with all that is between them? */
static inline bool kvswap_chunks_joined(const struct bio_vec *first, const struct bio_vec *last)
{
	return compound_head(first->bv_page) == compound_head(last->bv_page);
}

/*
 * The segments of a range: in *one when it is contiguous, else a part of the table that all
 * requests share, of which the first *skip bytes are passed over.
 */
static inline struct bio_vec *kvswap_pool_range(struct kvswap_pool *pool, u32 first, u32 units,
						struct bio_vec *one, u32 *skip, u32 *nr)
{
	struct bio_vec *chunk = &pool->chunks[first >> pool->chunk_shift];
	struct bio_vec *last = &pool->chunks[(first + units - 1) >> pool->chunk_shift];
	u32 byte = (first & ((1u << pool->chunk_shift) - 1)) << KVSWAP_UNIT_SHIFT;

	if (unlikely(chunk != last) && !kvswap_chunks_joined(chunk, last)) {
		*skip = byte;
		*nr = last - chunk + 1;
		return chunk;
	}
	one->bv_page = chunk->bv_page + (byte >> PAGE_SHIFT);
	one->bv_offset = offset_in_page(byte);
	one->bv_len = units << KVSWAP_UNIT_SHIFT;
	*skip = 0;
	*nr = 1;
	return one;
}

#endif
