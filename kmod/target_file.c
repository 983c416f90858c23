// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regular files: asynchronous direct I/O through the file's own read_iter and write_iter, as loop
 * devices do it. A file is never made longer: SETUP has measured the range against its size.
 */
#include <linux/fs.h>
#include <linux/falloc.h>
#include <linux/uio.h>

#include "compat.h"
#include "context.h"

static int kvswap_file_bind(struct kvswap_ctx *ctx)
{
	struct kvswap_target *target = &ctx->target;
	struct inode *inode = file_inode(target->file);
	struct block_device *bdev = inode->i_sb->s_bdev;

	if (!target->file->f_op->read_iter ||
	    (!target->readonly && !target->file->f_op->write_iter))
		return -EOPNOTSUPP;
	target->block_bytes = bdev ? kvswap_bdev_block_bytes(bdev) : i_blocksize(inode);
	target->run_units_max = KVSWAP_REQUEST_MAX;
	return 0;
}

static void kvswap_file_unbind(struct kvswap_ctx *ctx)
{
}

/* The system call is not restarted for the sake of one request. */
static int kvswap_file_result(const struct kvswap_req *req, long ret)
{
	if (ret == -ERESTARTSYS || ret == -ERESTARTNOINTR || ret == -ERESTARTNOHAND ||
	    ret == -ERESTART_RESTARTBLOCK)
		return -EINTR;
	if (ret < 0)
		return ret;
	return ret == (long)req->run_units << KVSWAP_UNIT_SHIFT ? 0 : -EIO;
}

static void kvswap_file_data_done(struct kvswap_req *req, long ret)
{
	if (req->sqe.op == KVSWAP_OP_WRITE)
		kvswap_write_end(&req->iocb);
	kvswap_io_done(req, kvswap_file_result(req, ret));
}

static void kvswap_file_complete(KVSWAP_KI_COMPLETE_ARGS)
{
	kvswap_file_data_done(container_of(iocb, struct kvswap_req, iocb), ret);
}

static void kvswap_file_data(struct kvswap_req *req, struct file *file, loff_t pos)
{
	unsigned int dir = req->sqe.op == KVSWAP_OP_READ ? READ : WRITE;
	size_t bytes = (size_t)req->run_units << KVSWAP_UNIT_SHIFT;
	struct kiocb *iocb = &req->iocb;
	struct bio_vec *vecs;
	struct iov_iter iter;
	u32 skip, nr;
	long ret;

	if (pos + bytes > i_size_read(file_inode(file))) {
		kvswap_io_done(req, -EIO);
		return;
	}
	vecs = kvswap_pool_range(&req->ctx->pool, req->sqe.arena, req->run_units, &req->vec, &skip,
				 &nr);
	iov_iter_bvec(&iter, dir, vecs, nr, skip + bytes);
	iov_iter_advance(&iter, skip);
	init_sync_kiocb(iocb, file);
	iocb->ki_flags &= ~IOCB_APPEND;
	iocb->ki_pos = pos;
	iocb->ki_complete = kvswap_file_complete;
	if (req->sqe.ioprio)
		iocb->ki_ioprio = req->sqe.ioprio;
	if (dir == READ) {
		ret = vfs_iocb_iter_read(file, iocb, &iter);
	} else {
		if (req->sqe.flags & KVSWAP_SQE_FUA)
			iocb->ki_flags |= IOCB_DSYNC;
		kvswap_write_begin(iocb);
		ret = vfs_iocb_iter_write(file, iocb, &iter);
	}
	if (ret != -EIOCBQUEUED)
		kvswap_file_data_done(req, ret);
}

static int kvswap_file_allocate(struct kvswap_req *req, struct file *file, loff_t pos, int mode)
{
	loff_t bytes = (loff_t)req->sqe.units << KVSWAP_UNIT_SHIFT;
	int err = vfs_fallocate(file, mode | FALLOC_FL_KEEP_SIZE, pos, bytes);

	if (!err && req->sqe.flags & KVSWAP_SQE_FUA)
		err = vfs_fsync_range(file, pos, pos + bytes - 1, 1);
	return err;
}

static void kvswap_file_start_one(struct kvswap_req *req)
{
	struct kvswap_target *target = &req->ctx->target;
	loff_t pos = (target->first + req->sqe.store) << KVSWAP_UNIT_SHIFT;
	struct file *file = target->file;

	switch (req->sqe.op) {
	case KVSWAP_OP_FLUSH:
		kvswap_io_done(req, vfs_fsync_range(file, 0, LLONG_MAX, 1));
		break;
	case KVSWAP_OP_DISCARD:
		kvswap_io_done(req, kvswap_file_allocate(req, file, pos, FALLOC_FL_PUNCH_HOLE));
		break;
	case KVSWAP_OP_WRITE_ZEROES:
		kvswap_io_done(req, kvswap_file_allocate(req, file, pos, FALLOC_FL_ZERO_RANGE));
		break;
	default:
		kvswap_file_data(req, file, pos);
	}
}

static void kvswap_file_start(struct kvswap_ctx *ctx, struct kvswap_req *runs, u32 nr)
{
	struct kvswap_req *run, *next;

	for (run = runs; run; run = next) {
		next = run->next_run;
		kvswap_file_start_one(run);
	}
}

const struct kvswap_target_ops kvswap_file_ops = {
	.kind = KVSWAP_STORE_FILE,
	.slow_ops = BIT(KVSWAP_OP_FLUSH) | BIT(KVSWAP_OP_DISCARD) | BIT(KVSWAP_OP_WRITE_ZEROES),
	.bind = kvswap_file_bind,
	.unbind = kvswap_file_unbind,
	.start = kvswap_file_start,
};
