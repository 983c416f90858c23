// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block devices: bios over the arena's own pages, embedded in the requests. The context holds the device
 * exclusively, as a mounted file system does, and what the page cache had of it is dropped on the way in and out.
 */
#include <linux/blk_types.h>
#include <linux/blkdev.h>

#include "compat.h"
#include "context.h"

static int kvswap_block_bind(struct kvswap_ctx *ctx)
{
	struct kvswap_target *target = &ctx->target;
	void *claim;
	int err;

	claim = kvswap_bdev_claim(file_inode(target->file)->i_rdev, !target->readonly, ctx,
				  &target->bdev);
	if (IS_ERR(claim))
		return PTR_ERR(claim);
	target->claim = claim;
	err = -EROFS;
	if (!target->readonly && bdev_read_only(target->bdev))
		goto release;
	err = -EOPNOTSUPP;
	if (bdev_is_zoned(target->bdev))
		goto release;
	err = sync_blockdev(target->bdev);
	if (err)
		goto release;
	invalidate_bdev(target->bdev);
	target->block_bytes = bdev_logical_block_size(target->bdev);
	target->run_units_max = min_t(u32, queue_max_sectors(bdev_get_queue(target->bdev)),
				      KVSWAP_REQUEST_MAX);
	return 0;

release:
	kvswap_bdev_release(claim, !target->readonly, ctx);
	return err;
}

static void kvswap_block_unbind(struct kvswap_ctx *ctx)
{
	struct kvswap_target *target = &ctx->target;

	invalidate_bdev(target->bdev);
	kvswap_bdev_release(target->claim, !target->readonly, ctx);
}

static void kvswap_block_end_io(struct bio *bio)
{
	struct kvswap_req *req = container_of(bio, struct kvswap_req, bio);
	int result = blk_status_to_errno(bio->bi_status);

	bio_uninit(bio);
	kvswap_io_done(req, result);
}

/* We have already put together what there is to put together, hence NOMERGE. */
static blk_opf_t kvswap_block_opf(const struct kvswap_req *req)
{
	blk_opf_t fua = req->flags & KVSWAP_SQE_FUA ? REQ_FUA : 0;

	switch (req->op) {
	case KVSWAP_OP_READ:
		return REQ_OP_READ | REQ_NOMERGE;
	case KVSWAP_OP_WRITE:
		return REQ_OP_WRITE | REQ_SYNC | REQ_IDLE | REQ_NOMERGE | fua;
	case KVSWAP_OP_DISCARD:
		return REQ_OP_DISCARD;
	case KVSWAP_OP_WRITE_ZEROES:
		return REQ_OP_WRITE_ZEROES | fua;
	default:
		return REQ_OP_WRITE | REQ_PREFLUSH;
	}
}

/* More than one chunk: the table belongs to all requests, which a bio that says it is a clone respects. */
static void kvswap_block_data(struct kvswap_req *req)
{
	struct bio *bio = &req->bio;
	u32 skip, nr;

	bio->bi_io_vec = (struct bio_vec *)kvswap_pool_range(&req->ctx->pool, req->arena,
							     req->run_units, &req->vec, &skip, &nr);
	bio->bi_vcnt = nr;
	bio->bi_iter.bi_bvec_done = skip;
	if (nr > 1)
		bio_set_flag(bio, BIO_CLONED);
}

static void kvswap_block_start(struct kvswap_req *req)
{
	struct kvswap_target *target = &req->ctx->target;
	struct bio *bio = &req->bio;

	kvswap_bio_init(bio, target->bdev, &req->vec, 1, kvswap_block_opf(req));
	if (kvswap_op_has_data(req->op))
		kvswap_block_data(req);
	bio->bi_iter.bi_sector = target->first + req->store;
	bio->bi_iter.bi_size = req->run_units << KVSWAP_UNIT_SHIFT;
	bio->bi_ioprio = req->ioprio;
	bio->bi_end_io = kvswap_block_end_io;
	submit_bio(bio);
}

const struct kvswap_target_ops kvswap_block_ops = {
	.kind = KVSWAP_STORE_BLOCK,
	.bind = kvswap_block_bind,
	.unbind = kvswap_block_unbind,
	.start = kvswap_block_start,
};
