// SPDX-License-Identifier: MIT
/*
 * The io_uring backend: the store as a fixed file and the arena as fixed buffers where the kernel
 * and RLIMIT_MEMLOCK allow, plain reads and writes otherwise. One caller, no lock.
 */
#include "io_queue.h"
#include "kvswap.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernel takes at most 1 GiB as one fixed buffer. */
#define PIECE_SHIFT 30
#define PIECE_BYTES ((uint64_t)1 << PIECE_SHIFT)

#define REAP_BATCH 32u

/*
 * linux/ioprio.h is not in every distribution's headers: class best effort, levels 0 (first) to 7.
 */
#define IOPRIO_BE(level) ((uint16_t)(2 << 13 | (level)))

struct uring {
	struct kvs_io io;
	struct kvs_io_params params;
	struct kvs_io_queue queue;
	struct io_uring ring;
	uint32_t n_buffers; /* 0: plain reads and writes */
	bool fixed_file;
};

/*
 * From best to plain. Not SINGLE_ISSUER with DEFER_TASKRUN: a session may pass from thread to
 * thread with reads in flight, and those only the thread that had sent them could reap. It bought
 * nothing that could be measured in batches of 10 reads of 4 to 16 KiB. COOP_TASKRUN makes another
 * thread wait for a clock tick at worst.
 */
static const uint32_t setup_flags[] = {
	IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
	0,
};

static const uint16_t ioprio[KVS_IO_URGENCIES] = {
	[KVS_IO_LATE] = IOPRIO_BE(0),
	[KVS_IO_AHEAD] = IOPRIO_BE(4),
	[KVS_IO_BEHIND] = IOPRIO_BE(7),
};

static int ring_init(struct uring *u, char *why)
{
	int ret = -ENOSYS;

	for (size_t i = 0; i < sizeof(setup_flags) / sizeof(setup_flags[0]); i++) {
		struct io_uring_params p = { .flags = setup_flags[i] };

		ret = io_uring_queue_init_params(u->params.depth, &u->ring, &p);
		if (ret != -EINVAL)
			break;
	}
	if (ret == -EMFILE || ret == -ENFILE)
		return ret;
	if (ret) {
		snprintf(why, KVS_MESSAGE_BYTES, "%s",
			 ret == -ENOSYS ? "not in this kernel"
			 : ret == -EPERM
				 ? "forbidden by sysctl kernel.io_uring_disabled or a filter"
			 : ret == -ENOMEM ? "no memory for the ring (RLIMIT_MEMLOCK)"
					  : strerror(-ret));
		return -ENOTSUP;
	}
	/* Comes with the plain read and write operations, 5.6. */
	if (!(u->ring.features & IORING_FEAT_RW_CUR_POS)) {
		io_uring_queue_exit(&u->ring);
		snprintf(why, KVS_MESSAGE_BYTES, "kernel older than 5.6");
		return -ENOTSUP;
	}
	io_uring_ring_dontfork(&u->ring);
	return 0;
}

static void buffers_register(struct uring *u)
{
	uint64_t bytes = u->io.arena_bytes;
	uint32_t n = (uint32_t)((bytes + PIECE_BYTES - 1) >> PIECE_SHIFT);
	struct iovec *pieces = calloc(n, sizeof(*pieces));

	if (!pieces)
		return;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t from = (uint64_t)i << PIECE_SHIFT;

		pieces[i].iov_base = (char *)u->io.arena + from;
		pieces[i].iov_len = bytes - from < PIECE_BYTES ? bytes - from : PIECE_BYTES;
	}
	if (!io_uring_register_buffers(&u->ring, pieces, n))
		u->n_buffers = n;
	free(pieces);
}

static int uring_open(const struct kvs_io_params *params, struct kvs_io **out, char *why)
{
	struct uring *u = calloc(1, sizeof(*u));
	int ret = -ENOMEM;

	if (!u)
		return -ENOMEM;
	u->io.ops = &kvs_io_uring_ops;
	u->params = *params;
	u->io.arena_bytes = params->arena_bytes;
	u->io.arena = kvs_arena_map(params->arena_bytes);
	if (!u->io.arena)
		goto free_uring;
	ret = kvs_io_queue_init(&u->queue, params->depth);
	if (ret)
		goto unmap_arena;
	ret = ring_init(u, why);
	if (ret)
		goto destroy_queue;
	buffers_register(u);
	u->fixed_file = !io_uring_register_files(&u->ring, &params->fd, 1);
	*out = &u->io;
	return 0;

destroy_queue:
	kvs_io_queue_destroy(&u->queue);
unmap_arena:
	kvs_arena_unmap(u->io.arena, u->io.arena_bytes);
free_uring:
	free(u);
	return ret;
}

static void sqe_prepare(struct uring *u, struct io_uring_sqe *sqe, struct kvs_io_entry *entry)
{
	const struct kvs_io_request *req = &entry->req;
	uint64_t from = req->arena * KVS_SECTOR + entry->moved;
	uint32_t bytes = req->sectors * KVS_SECTOR - (uint32_t)entry->moved;
	uint64_t offset = req->store * KVS_SECTOR + entry->moved;
	uint32_t piece = (uint32_t)(from >> PIECE_SHIFT);
	bool fixed = u->n_buffers && piece == (from + bytes - 1) >> PIECE_SHIFT;
	char *buf = (char *)u->io.arena + from;
	int fd = u->fixed_file ? 0 : u->params.fd;

	if (req->op == KVS_IO_FLUSH)
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	else if (req->op == KVS_IO_READ && fixed)
		io_uring_prep_read_fixed(sqe, fd, buf, bytes, offset, (int)piece);
	else if (req->op == KVS_IO_READ)
		io_uring_prep_read(sqe, fd, buf, bytes, offset);
	else if (fixed)
		io_uring_prep_write_fixed(sqe, fd, buf, bytes, offset, (int)piece);
	else
		io_uring_prep_write(sqe, fd, buf, bytes, offset);
	if (req->op != KVS_IO_FLUSH)
		sqe->ioprio = ioprio[req->urgency];
	sqe->flags = u->fixed_file ? IOSQE_FIXED_FILE : 0;
	sqe->user_data = (uint64_t)(entry - u->queue.entries);
}

/* Fills the submission ring up to depth; whoever enters the kernel next sends it. */
static void uring_dispatch(struct uring *u)
{
	uint64_t now = 0;

	while (u->queue.running.n < u->params.depth && kvs_io_queue_waiting(&u->queue)) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

		if (!sqe)
			return;
		if (!now)
			now = kvs_now_ns();
		sqe_prepare(u, sqe, kvs_io_queue_start(&u->queue, now));
	}
}

static void uring_reap(struct uring *u)
{
	struct io_uring_cqe *cqes[REAP_BATCH];
	uint32_t n;

	do {
		n = io_uring_peek_batch_cqe(&u->ring, cqes, REAP_BATCH);
		for (uint32_t i = 0; i < n; i++) {
			struct kvs_io_entry *entry = &u->queue.entries[cqes[i]->user_data];

			if (kvs_io_entry_step(entry, &u->params, cqes[i]->res))
				kvs_io_queue_finish(&u->queue, entry);
			else
				kvs_io_queue_again(&u->queue, entry);
		}
		io_uring_cq_advance(&u->ring, n);
	} while (n == REAP_BATCH);
}

/*
 * The kernel is short of something for the moment, or was interrupted: what was not sent stays in
 * the ring.
 */
static bool passing(int ret)
{
	return ret == -EAGAIN || ret == -EBUSY || ret == -EINTR;
}

static int uring_send(struct uring *u)
{
	int ret;

	if (!io_uring_sq_ready(&u->ring))
		return 0;
	ret = io_uring_submit(&u->ring);
	return ret >= 0 || passing(ret) ? 0 : ret;
}

static int uring_submit(struct kvs_io *io, const struct kvs_io_request *reqs, uint32_t n,
			uint32_t *taken)
{
	struct uring *u = (struct uring *)io;
	uint32_t i;
	int ret = 0, sent;

	for (i = 0; i < n && !ret; i++) {
		ret = kvs_io_check(&u->params, &reqs[i]);
		if (!ret)
			ret = kvs_io_queue_put(&u->queue, &reqs[i]);
		if (ret)
			break;
	}
	io->in_flight += i;
	*taken = i;
	uring_dispatch(u);
	sent = uring_send(u);
	return ret ? ret : sent;
}

/* Waits for n completions through a kernel that takes no timeout with them (before 5.11). */
static int uring_poll(struct uring *u, uint64_t ns)
{
	struct pollfd pfd = { .fd = u->ring.ring_fd, .events = POLLIN };
	int ret = uring_send(u);

	if (!ret && poll(&pfd, 1, (int)((ns + 999999) / 1000000)) < 0 && errno != EINTR)
		ret = -errno;
	return ret;
}

/*
 * Sends what is prepared and sleeps until n completions are there, or the oldest request is too
 * old.
 */
static int uring_block(struct uring *u, uint32_t n)
{
	uint64_t now = kvs_now_ns(), limit = (uint64_t)u->params.timeout_ms * 1000000u;
	uint64_t age = u->queue.running.first ? now - u->queue.running.first->started_ns : 0;
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe;
	int ret;

	if (age >= limit)
		return -ETIMEDOUT;
	if (!(u->ring.features & IORING_FEAT_EXT_ARG))
		return uring_poll(u, limit - age);
	ts.tv_sec = (int64_t)((limit - age) / 1000000000u);
	ts.tv_nsec = (int64_t)((limit - age) % 1000000000u);
	ret = io_uring_submit_and_wait_timeout(&u->ring, &cqe, n, &ts, NULL);
	return ret >= 0 || ret == -ETIME || passing(ret) ? 0 : ret;
}

static int uring_gather(struct uring *u, uint32_t min)
{
	for (;;) {
		int ret;

		uring_reap(u);
		uring_dispatch(u);
		if (u->queue.done.n >= min)
			return uring_send(u);
		ret = uring_block(u, kvs_io_queue_stride(&u->queue, u->params.depth, min));
		if (ret)
			return ret;
	}
}

static int uring_wait(struct kvs_io *io, struct kvs_io_completion *out, uint32_t min, uint32_t max)
{
	struct uring *u = (struct uring *)io;
	uint32_t n;
	int ret;

	if (min > max)
		min = max;
	ret = uring_gather(u, min < io->in_flight ? min : io->in_flight);
	if (ret)
		return ret;
	n = kvs_io_queue_take(&u->queue, out, max);
	io->in_flight -= n;
	return (int)n;
}

static int uring_flush(struct kvs_io *io)
{
	struct uring *u = (struct uring *)io;
	struct kvs_io_request req = { .op = KVS_IO_FLUSH, .urgency = KVS_IO_LATE };
	struct kvs_io_completion done;
	int ret;

	if (io->in_flight)
		return -EBUSY;
	ret = kvs_io_queue_put(&u->queue, &req);
	if (!ret)
		ret = uring_gather(u, 1);
	if (ret)
		return ret;
	kvs_io_queue_take(&u->queue, &done, 1);
	return done.result;
}

static void uring_close(struct kvs_io *io)
{
	struct uring *u = (struct uring *)io;
	bool stuck = false;

	while (u->queue.running.n && !stuck) {
		stuck = uring_block(u, 1) != 0;
		uring_reap(u);
	}
	/*
	 * A device that never answers: the kernel may still write into the arena, so its pages stay
	 * mapped for the life of the process. The ring itself the kernel takes down behind us.
	 */
	if (!stuck && u->n_buffers)
		io_uring_unregister_buffers(&u->ring);
	io_uring_queue_exit(&u->ring);
	if (!stuck)
		kvs_arena_unmap(io->arena, io->arena_bytes);
	kvs_io_queue_destroy(&u->queue);
	free(u);
}

const struct kvs_io_ops kvs_io_uring_ops = {
	.name = "io_uring",
	.open = uring_open,
	.submit = uring_submit,
	.wait = uring_wait,
	.flush = uring_flush,
	.close = uring_close,
};
