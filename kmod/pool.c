// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arena: pinned pages, what they are charged to, and their mapping into user space.
 *
 * The arena is cut into chunks of one size, the largest for which all of it could be had, and
 * chunks[] lists them in order as segments ready for a bio. Which parts take part in a request is a
 * bitmap under kvswap_ctx.lock; everything else is fixed between SETUP and release.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>

#include "compat.h"
#include "context.h"

static unsigned long max_pinned_mib;
module_param(max_pinned_mib, ulong, 0644);
MODULE_PARM_DESC(max_pinned_mib, "Pinned memory of all contexts together, MiB (0: half of RAM)");

static atomic_long_t kvswap_pages_pinned;

static unsigned long kvswap_pool_cap_pages(void)
{
	unsigned long mib = READ_ONCE(max_pinned_mib);

	return mib ? mib << (20 - PAGE_SHIFT) : totalram_pages() / 2;
}

u64 kvswap_pool_cap(void)
{
	return (u64)kvswap_pool_cap_pages() << PAGE_SHIFT;
}

u64 kvswap_pool_pinned(void)
{
	return (u64)atomic_long_read(&kvswap_pages_pinned) << PAGE_SHIFT;
}

static int kvswap_pool_charge(struct kvswap_pool *pool, unsigned long pages)
{
	int err;

	if (atomic_long_add_return(pages, &kvswap_pages_pinned) > kvswap_pool_cap_pages()) {
		err = -ENOSPC;
		goto uncap;
	}
	err = account_locked_vm(current->mm, pages, true);
	if (err)
		goto uncap;
	mmgrab(current->mm);
	pool->mm = current->mm;
	pool->charged = pages;
	return 0;

uncap:
	atomic_long_sub(pages, &kvswap_pages_pinned);
	return err;
}

static void kvswap_pool_uncharge(struct kvswap_pool *pool)
{
	account_locked_vm(pool->mm, pool->charged, false);
	mmdrop(pool->mm);
	atomic_long_sub(pool->charged, &kvswap_pages_pinned);
}

/* Larger blocks are tried for only as hard as is cheap; order says which. */
static struct page *kvswap_block_alloc(u32 order)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN;

	if (order)
		gfp |= __GFP_COMP | __GFP_NORETRY;
	return alloc_pages(gfp, order);
}

/*
 * A block goes with its first page, whatever chunks it has been cut into since; from the end,
 * because once it is gone the others are no tails any more.
 */
static void kvswap_blocks_free(struct bio_vec *chunks, u32 nr)
{
	while (nr--)
		if (!PageTail(chunks[nr].bv_page))
			put_page(chunks[nr].bv_page);
	kvfree(chunks);
}

/* A table for so many pages in chunks of half the size, and in it what the old one holds. */
static struct bio_vec *kvswap_chunks_halve(struct bio_vec *chunks, u32 filled, u64 pages, u32 order)
{
	struct bio_vec *half = kvcalloc(DIV_ROUND_UP_ULL(pages, 1ul << (order - 1)), sizeof(*half),
					GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	u32 i;

	if (!half)
		return NULL;
	for (i = 0; i < 2 * filled; i++) {
		half[i].bv_page = chunks[i / 2].bv_page + ((i & 1) << (order - 1));
		half[i].bv_len = PAGE_SIZE << (order - 1);
	}
	kvfree(chunks);
	return half;
}

static int kvswap_chunks_add(struct bio_vec *chunk, u32 order)
{
	chunk->bv_page = kvswap_block_alloc(order);
	chunk->bv_len = PAGE_SIZE << order;
	return chunk->bv_page ? 0 : -ENOMEM;
}

/*
 * Fills a table with blocks of the given order. Where memory is in smaller pieces, and for what is
 * left at the end, goes on with smaller ones and cuts the chunks that it has.
 */
static int kvswap_pool_fill(struct kvswap_pool *pool, u64 pages, u32 order)
{
	struct bio_vec *half, *chunks;
	u32 filled = 0;
	int err = -ENOMEM;

	chunks = kvcalloc(DIV_ROUND_UP_ULL(pages, 1ul << order), sizeof(*chunks),
			  GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!chunks)
		return -ENOMEM;
	while ((u64)filled << order < pages) {
		bool fits = (filled + 1ull) << order <= pages;

		if (fits && !kvswap_chunks_add(&chunks[filled], order)) {
			filled++;
		} else {
			half = order ? kvswap_chunks_halve(chunks, filled, pages, order) : NULL;
			if (!half)
				goto free;
			chunks = half;
			filled *= 2;
			order--;
		}
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			goto free;
		}
		cond_resched();
	}
	pool->chunks = chunks;
	pool->nr_chunks = filled;
	pool->chunk_shift = PAGE_SHIFT + order - KVSWAP_UNIT_SHIFT;
	return 0;

free:
	kvswap_blocks_free(chunks, filled);
	return err;
}

/* Less than 64 KiB at the end of a large arena is not worth cutting the chunks for. */
static u64 kvswap_pool_pages(u64 bytes)
{
	u64 round = bytes >= SZ_1M ? max_t(u64, SZ_64K, PAGE_SIZE) : PAGE_SIZE;

	return round_up(bytes, round) >> PAGE_SHIFT;
}

/* extra: bytes of rings and requests, charged along. */
int kvswap_pool_alloc(struct kvswap_pool *pool, u64 bytes, u64 extra)
{
	u64 pages = kvswap_pool_pages(bytes);
	u32 order = min_t(u32, get_order(SZ_2M), ilog2(pages));
	int err;

	if (pages > kvswap_pool_cap_pages())
		return -ENOSPC;
	err = kvswap_pool_charge(pool, pages + DIV_ROUND_UP_ULL(extra, PAGE_SIZE));
	if (err)
		return err;
	pool->units = pages << (PAGE_SHIFT - KVSWAP_UNIT_SHIFT);
	pool->busy = kvcalloc(BITS_TO_LONGS(pool->units), sizeof(long),
			      GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	err = pool->busy ? kvswap_pool_fill(pool, pages, order) : -ENOMEM;
	if (err)
		goto free;
	return 0;

free:
	kvfree(pool->busy);
	kvswap_pool_uncharge(pool);
	pool->units = 0;
	return err;
}

/* What was in the arena is nobody's business afterwards. */
static void kvswap_pool_wipe(struct kvswap_pool *pool)
{
	u32 pages = 1u << (pool->chunk_shift + KVSWAP_UNIT_SHIFT - PAGE_SHIFT);
	u32 i, page;

	for (i = 0; i < pool->nr_chunks; i++) {
		for (page = 0; page < pages; page++)
			clear_highpage(pool->chunks[i].bv_page + page);
		cond_resched();
	}
}

void kvswap_pool_free(struct kvswap_pool *pool)
{
	kvswap_pool_wipe(pool);
	kvswap_blocks_free(pool->chunks, pool->nr_chunks);
	kvfree(pool->busy);
	kvswap_pool_uncharge(pool);
}

/* Page by page, with references, so that other drivers can register the range in their turn. */
int kvswap_pool_mmap(struct kvswap_pool *pool, struct vm_area_struct *vma)
{
	u32 shift = pool->chunk_shift + KVSWAP_UNIT_SHIFT - PAGE_SHIFT;
	unsigned long page;

	if (vma_pages(vma) > (u64)pool->nr_chunks << shift)
		return -EINVAL;
	for (page = 0; page < vma_pages(vma); page++) {
		struct page *from = pool->chunks[page >> shift].bv_page;
		int err = vm_insert_page(vma, vma->vm_start + (page << PAGE_SHIFT),
					 from + (page & ((1ul << shift) - 1)));

		if (err)
			return err;
		cond_resched();
	}
	return 0;
}
