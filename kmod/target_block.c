// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block devices: bios over the arena's own pages, embedded in the requests. The context holds the
 * device exclusively, as a mounted file system does, and what the page cache had of it is dropped
 * on the way in and out.
 *
 * I/O belongs to the cgroup of the task that has set the context up, as the memory does, whoever
 * submits it; a task's I/O is accounted for by the batch (io.c), hence submit_bio_noacct().
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
	target->block_bytes = kvswap_bdev_block_bytes(target->bdev);
	target->run_units_max =
		min_t(u32, queue_max_sectors(bdev_get_queue(target->bdev)), KVSWAP_REQUEST_MAX);
	kvswap_bio_init(&target->like, target->bdev, NULL, 0, REQ_OP_READ);
	return 0;

release:
	kvswap_bdev_release(claim, !target->readonly, ctx);
	return err;
}

static void kvswap_block_unbind(struct kvswap_ctx *ctx)
{
	struct kvswap_target *target = &ctx->target;

	bio_uninit(&target->like);
	invalidate_bdev(target->bdev);
	kvswap_bdev_release(target->claim, !target->readonly, ctx);
}

static void kvswap_block_end_io(struct bio *bio)
{
	kvswap_io_done(container_of(bio, struct kvswap_req, bio),
		       likely(!bio->bi_status) ? 0 : blk_status_to_errno(bio->bi_status));
}

/* We have already put together what there is to put together, hence NOMERGE. */
static const blk_opf_t kvswap_block_opf[KVSWAP_OP_END] = {
	[KVSWAP_OP_READ] = REQ_OP_READ | REQ_NOMERGE,
	[KVSWAP_OP_WRITE] = REQ_OP_WRITE | REQ_SYNC | REQ_IDLE | REQ_NOMERGE,
	[KVSWAP_OP_FLUSH] = REQ_OP_WRITE | REQ_PREFLUSH,
	[KVSWAP_OP_DISCARD] = REQ_OP_DISCARD,
	[KVSWAP_OP_WRITE_ZEROES] = REQ_OP_WRITE_ZEROES,
};

/*
 * More than one chunk: the table belongs to all requests, which a bio that says it is a clone
 * respects.
 */
static void kvswap_block_data(struct kvswap_req *req)
{
	struct bio *bio = &req->bio;
	u32 skip, nr;

	bio->bi_io_vec = kvswap_pool_range(&req->ctx->pool, req->sqe.arena, req->run_units,
					   &req->vec, &skip, &nr);
	bio->bi_vcnt = nr;
	bio->bi_iter.bi_bvec_done = skip;
	if (unlikely(nr > 1))
		bio_set_flag(bio, BIO_CLONED);
}

static void kvswap_block_start_one(struct kvswap_target *target, struct kvswap_req *run)
{
	blk_opf_t fua = run->sqe.flags & KVSWAP_SQE_FUA ? REQ_FUA : 0;
	struct bio *bio = &run->bio;

	kvswap_bio_init_like(bio, &target->like, &run->vec, 1, kvswap_block_opf[run->sqe.op] | fua);
	if (kvswap_req_traits(run) & KVSWAP_USES_ARENA)
		kvswap_block_data(run);
	bio->bi_iter.bi_sector = target->first + run->sqe.store;
	bio->bi_iter.bi_size = run->run_units << KVSWAP_UNIT_SHIFT;
	bio->bi_ioprio = run->sqe.ioprio;
	bio->bi_end_io = kvswap_block_end_io;
	submit_bio_noacct(bio);
}

static void kvswap_block_start(struct kvswap_ctx *ctx, struct kvswap_req *runs, u32 nr)
{
	struct kvswap_req *run, *next;

	kvswap_plug_expect(nr);
	for (run = runs; run; run = next) {
		next = run->next_run;
		kvswap_block_start_one(&ctx->target, run);
	}
}

const struct kvswap_target_ops kvswap_block_ops = {
	.kind = KVSWAP_STORE_BLOCK,
	.bind = kvswap_block_bind,
	.unbind = kvswap_block_unbind,
	.start = kvswap_block_start,
};
