// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an open file of /dev/kvswap can do: the ioctl table, SETUP and its undoing, mmap, poll,
 * release.
 *
 * setup_lock keeps SETUP from running twice; ready says, with release semantics, that it has run.
 * Nothing that SETUP made goes away before release, which comes after the last mapping and the last
 * call.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "context.h"

/* Offsets for mmap, far apart. */
#define KVSWAP_MAP_SQ 0ull
#define KVSWAP_MAP_CQ BIT_ULL(28)
#define KVSWAP_MAP_ARENA BIT_ULL(32)

static bool kvswap_ctx_ready(const struct kvswap_ctx *ctx)
{
	/* Pairs with the release in SETUP: what SETUP made is there. */
	return smp_load_acquire(&ctx->ready);
}

static int kvswap_ioctl_info(struct kvswap_ctx *ctx, void *arg)
{
	struct kvswap_info *info = arg;

	*info = (struct kvswap_info){
		.size = sizeof(*info),
		.abi = KVSWAP_ABI,
		.features = KVSWAP_F_BLOCK | KVSWAP_F_FILE,
		.ops = (1ull << KVSWAP_OP_END) - 1,
		.entries_max = KVSWAP_ENTRIES_MAX,
		.request_units_max = KVSWAP_REQUEST_MAX,
		.pinned_bytes_max = kvswap_pool_cap(),
		.pinned_bytes = kvswap_pool_pinned(),
	};
	return 0;
}

static int kvswap_setup_check(const struct kvswap_setup *setup)
{
	if (setup->flags & ~KVSWAP_SETUP_RDONLY)
		return -EINVAL;
	if (!setup->entries || setup->entries > KVSWAP_ENTRIES_MAX || !setup->arena_bytes)
		return -EINVAL;
	return setup->arena_bytes > (u64)U32_MAX << KVSWAP_UNIT_SHIFT ? -ENOSPC : 0;
}

/*
 * Everything of a context that costs something, in the order in which kvswap_ctx_clear() undoes it.
 */
static int kvswap_ctx_fill(struct kvswap_ctx *ctx, const struct kvswap_setup *setup, u32 entries)
{
	u64 extra = kvswap_ring_sq_bytes(entries) + kvswap_ring_cq_bytes(entries) +
		    entries * sizeof(*ctx->reqs);
	int err;

	err = kvswap_target_bind(ctx, setup);
	if (err)
		return err;
	err = kvswap_pool_alloc(&ctx->pool, setup->arena_bytes, extra);
	if (err)
		goto unbind;
	err = kvswap_ring_alloc(&ctx->ring, entries);
	if (err)
		goto free_pool;
	err = kvswap_io_alloc(ctx, entries);
	if (err)
		goto free_ring;
	return 0;

free_ring:
	kvswap_ring_free(&ctx->ring);
free_pool:
	kvswap_pool_free(&ctx->pool);
unbind:
	kvswap_target_unbind(ctx);
	return err;
}

static void kvswap_ctx_clear(struct kvswap_ctx *ctx)
{
	kvswap_io_free(ctx);
	kvswap_ring_free(&ctx->ring);
	kvswap_pool_free(&ctx->pool);
	kvswap_target_unbind(ctx);
}

static void kvswap_setup_granted(const struct kvswap_ctx *ctx, struct kvswap_setup *setup)
{
	setup->entries = ctx->ring.entries;
	setup->store_bytes = ctx->target.units << KVSWAP_UNIT_SHIFT;
	setup->arena_bytes = ctx->pool.units << KVSWAP_UNIT_SHIFT;
	setup->write_depth = ctx->write_depth;
	setup->store_kind = ctx->target.ops->kind;
	setup->block_bytes = ctx->target.block_bytes;
	setup->request_units_max = KVSWAP_REQUEST_MAX;
	setup->run_units_max = ctx->target.run_units_max;
	setup->chunk_bytes = 1u << (ctx->pool.chunk_shift + KVSWAP_UNIT_SHIFT);
	setup->arena_offset = KVSWAP_MAP_ARENA;
	setup->sq_offset = KVSWAP_MAP_SQ;
	setup->sq_bytes = kvswap_ring_sq_bytes(ctx->ring.entries);
	setup->cq_offset = KVSWAP_MAP_CQ;
	setup->cq_bytes = kvswap_ring_cq_bytes(ctx->ring.entries);
}

static int kvswap_ioctl_setup(struct kvswap_ctx *ctx, void *arg)
{
	struct kvswap_setup *setup = arg;
	int err = kvswap_setup_check(setup);
	u32 entries;

	if (err)
		return err;
	entries = roundup_pow_of_two(setup->entries);
	if (mutex_lock_interruptible(&ctx->setup_lock))
		return -EINTR;
	err = -EALREADY;
	if (ctx->ready)
		goto unlock;
	err = kvswap_ctx_fill(ctx, setup, entries);
	if (err)
		goto unlock;
	ctx->write_depth = min(setup->write_depth ?: KVSWAP_WRITE_DEPTH, entries);
	ctx->pid = task_tgid_nr(current);
	kvswap_setup_granted(ctx, setup);
	kvswap_contexts_add(ctx);
	/* Pairs with kvswap_ctx_ready(). */
	smp_store_release(&ctx->ready, true);
unlock:
	mutex_unlock(&ctx->setup_lock);
	return err;
}

static int kvswap_ioctl_enter(struct kvswap_ctx *ctx, void *arg)
{
	struct kvswap_enter *enter = arg;
	int err = 0;

	if (enter->flags)
		return -EINVAL;
	if (!kvswap_ctx_ready(ctx))
		return -ENXIO;
	enter->submitted = 0;
	if (enter->to_submit)
		err = kvswap_io_submit(ctx, enter->to_submit, &enter->submitted);
	if (err) {
		kvswap_ring_wait(ctx, 0, 0, &enter->available);
		return err;
	}
	return kvswap_ring_wait(ctx, enter->min_complete, enter->deadline_ns, &enter->available);
}

static int kvswap_ioctl_stats(struct kvswap_ctx *ctx, void *arg)
{
	struct kvswap_stats *stats = arg;

	spin_lock_irq(&ctx->lock);
	*stats = ctx->stats;
	stats->in_flight = ctx->in_flight;
	spin_unlock_irq(&ctx->lock);
	stats->size = sizeof(*stats);
	return 0;
}

union kvswap_arg {
	u32 size;
	struct kvswap_info info;
	struct kvswap_setup setup;
	struct kvswap_enter enter;
	struct kvswap_stats stats;
};

/* min_size is the size that the argument had in the first version. */
static const struct kvswap_ioctl {
	unsigned int cmd;
	u32 size;
	u32 min_size;
	int (*run)(struct kvswap_ctx *ctx, void *arg);
} kvswap_ioctls[] = {
	{ KVSWAP_IOC_INFO, sizeof(struct kvswap_info), 48, kvswap_ioctl_info },
	{ KVSWAP_IOC_SETUP, sizeof(struct kvswap_setup), 104, kvswap_ioctl_setup },
	{ KVSWAP_IOC_ENTER, sizeof(struct kvswap_enter), 32, kvswap_ioctl_enter },
	{ KVSWAP_IOC_STATS, sizeof(struct kvswap_stats), 112, kvswap_ioctl_stats },
};

static_assert(sizeof(struct kvswap_info) == 48);
static_assert(sizeof(struct kvswap_setup) == 104);
static_assert(sizeof(struct kvswap_enter) == 32);
static_assert(sizeof(struct kvswap_stats) == 112);
static_assert(sizeof(struct kvswap_sqe) == 32);
static_assert(sizeof(struct kvswap_cqe) == 16);
static_assert(offsetof(struct kvswap_sq, cq_head) == 64 && offsetof(struct kvswap_sq, sqes) == 128);
static_assert(offsetof(struct kvswap_cq, sq_head) == 64 && offsetof(struct kvswap_cq, cqes) == 128);

/*
 * The first part is copied with a size that the compiler knows and holds all of ENTER, which is
 * called for every batch.
 */
#define KVSWAP_ARG_FIRST 32u

static int kvswap_arg_rest(union kvswap_arg *arg, u32 size, void __user *user, u32 user_size)
{
	if (size == user_size && size == KVSWAP_ARG_FIRST)
		return 0;
	return copy_struct_from_user((u8 *)arg + KVSWAP_ARG_FIRST, size - KVSWAP_ARG_FIRST,
				     user + KVSWAP_ARG_FIRST, user_size - KVSWAP_ARG_FIRST);
}

/* ENTER reports how far it came with these, too. */
static bool kvswap_ioctl_answers(int err)
{
	return !err || err == -EAGAIN || err == -EINTR || err == -ETIME;
}

static long kvswap_ioctl(struct file *file, unsigned int cmd, unsigned long uarg)
{
	unsigned int nr = _IOC_NR(cmd);
	const struct kvswap_ioctl *ioctl;
	void __user *user = (void __user *)uarg;
	union kvswap_arg arg;
	u32 size;
	int err;

	BUILD_BUG_ON(sizeof(arg.enter) != KVSWAP_ARG_FIRST);
	if (nr >= ARRAY_SIZE(kvswap_ioctls))
		return -ENOTTY;
	ioctl = &kvswap_ioctls[array_index_nospec(nr, ARRAY_SIZE(kvswap_ioctls))];
	if (ioctl->cmd != cmd)
		return -ENOTTY;
	if (copy_from_user(&arg, user, KVSWAP_ARG_FIRST))
		return -EFAULT;
	size = arg.size;
	if (size < ioctl->min_size || size > PAGE_SIZE)
		return -EINVAL;
	err = kvswap_arg_rest(&arg, ioctl->size, user, size);
	if (err)
		return err;
	err = ioctl->run(file->private_data, &arg);
	if (kvswap_ioctl_answers(err) && copy_to_user(user, &arg, min(size, ioctl->size)))
		return -EFAULT;
	return err;
}

static int kvswap_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct kvswap_ctx *ctx = file->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (!kvswap_ctx_ready(ctx))
		return -ENXIO;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	kvswap_vm_flags(vma, VM_DONTCOPY | VM_DONTDUMP | VM_DONTEXPAND, 0);
	switch (offset) {
	case KVSWAP_MAP_SQ:
		return remap_vmalloc_range(vma, ctx->ring.sq, 0);
	case KVSWAP_MAP_CQ:
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		kvswap_vm_flags(vma, 0, VM_MAYWRITE);
		return remap_vmalloc_range(vma, ctx->ring.cq, 0);
	case KVSWAP_MAP_ARENA:
		return kvswap_pool_mmap(&ctx->pool, vma);
	default:
		return -EINVAL;
	}
}

static __poll_t kvswap_poll(struct file *file, struct poll_table_struct *wait)
{
	struct kvswap_ctx *ctx = file->private_data;

	if (!kvswap_ctx_ready(ctx))
		return EPOLLERR;
	poll_wait(file, &ctx->ring.poll, wait);
	return kvswap_ring_poll(ctx) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int kvswap_open(struct inode *inode, struct file *file)
{
	struct kvswap_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);

	if (!ctx)
		return -ENOMEM;
	spin_lock_init(&ctx->lock);
	mutex_init(&ctx->submit_lock);
	mutex_init(&ctx->setup_lock);
	INIT_LIST_HEAD(&ctx->ring.sleepers);
	init_waitqueue_head(&ctx->ring.poll);
	file->private_data = ctx;
	return nonseekable_open(inode, file);
}

static int kvswap_release(struct inode *inode, struct file *file)
{
	struct kvswap_ctx *ctx = file->private_data;

	if (ctx->ready) {
		kvswap_contexts_del(ctx);
		kvswap_io_drain(ctx);
		kvswap_ctx_clear(ctx);
	}
	mutex_destroy(&ctx->setup_lock);
	mutex_destroy(&ctx->submit_lock);
	kfree(ctx);
	return 0;
}

const struct file_operations kvswap_fops = {
	.owner = THIS_MODULE,
	.open = kvswap_open,
	.release = kvswap_release,
	.unlocked_ioctl = kvswap_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = kvswap_mmap,
	.poll = kvswap_poll,
};
