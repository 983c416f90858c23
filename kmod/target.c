// SPDX-License-Identifier: GPL-2.0-only
/*
 * The store behind a context: takes the file that user space opened, decides which implementation
 * serves it and which part of it is used. Fixed between SETUP and release.
 */
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>

#include "context.h"

/* Place in the store, length and place in memory are all multiples of this. */
u32 kvswap_bdev_block_bytes(struct block_device *bdev)
{
	return max_t(u32, bdev_logical_block_size(bdev),
		     queue_dma_alignment(bdev_get_queue(bdev)) + 1);
}

static int kvswap_target_check(const struct file *file, bool readonly)
{
	fmode_t need = FMODE_READ | (readonly ? 0 : FMODE_WRITE);

	if ((file->f_mode & need) != need)
		return -EBADF;
	if (!(file->f_flags & O_DIRECT) || (file->f_flags & O_APPEND))
		return -EINVAL;
	return 0;
}

static const struct kvswap_target_ops *kvswap_target_find(const struct file *file)
{
	umode_t mode = file_inode(file)->i_mode;

	if (S_ISBLK(mode))
		return &kvswap_block_ops;
	return S_ISREG(mode) ? &kvswap_file_ops : NULL;
}

/* f_mapping's inode has the size of either kind. */
static int kvswap_target_range(struct kvswap_target *target, u64 offset, u64 bytes)
{
	u64 size = i_size_read(target->file->f_mapping->host);

	if ((offset | bytes) & (target->block_bytes - 1))
		return -EINVAL;
	if (offset > size || bytes > size - offset)
		return -ERANGE;
	if (!bytes)
		bytes = round_down(size - offset, target->block_bytes);
	if (!bytes)
		return -ERANGE;
	target->block_mask = (target->block_bytes >> KVSWAP_UNIT_SHIFT) - 1;
	target->first = offset >> KVSWAP_UNIT_SHIFT;
	target->units = bytes >> KVSWAP_UNIT_SHIFT;
	return 0;
}

int kvswap_target_bind(struct kvswap_ctx *ctx, const struct kvswap_setup *setup)
{
	struct kvswap_target *target = &ctx->target;
	int err;

	target->readonly = setup->flags & KVSWAP_SETUP_RDONLY;
	target->file = fget(setup->fd);
	if (!target->file)
		return -EBADF;
	target->ops = kvswap_target_find(target->file);
	err = target->ops ? kvswap_target_check(target->file, target->readonly) : -ENOTBLK;
	if (err)
		goto put;
	err = target->ops->bind(ctx);
	if (err)
		goto put;
	err = kvswap_target_range(target, setup->store_offset, setup->store_bytes);
	if (err)
		goto unbind;
	return 0;

unbind:
	target->ops->unbind(ctx);
put:
	fput(target->file);
	return err;
}

void kvswap_target_unbind(struct kvswap_ctx *ctx)
{
	ctx->target.ops->unbind(ctx);
	fput(ctx->target.file);
}
