// SPDX-License-Identifier: MIT
/*
 * The kernel module's backend (include/uapi/kvswap.h): the arena is the context's own pinned memory, mapped; a batch is one
 * ENTER. One caller, no lock.
 */
#include "io_queue.h"
#include "kvswap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "uapi/kvswap.h"

#define DEVICE "/dev/kvswap"

/* As in io_uring.c: class best effort, levels 0 (first) to 7. */
#define IOPRIO_BE(level) ((uint16_t)(2 << 13 | (level)))

struct module {
	struct kvs_io io;
	struct kvs_io_params params;
	struct kvs_io_queue queue;
	struct kvswap_setup setup;
	struct kvswap_sq *sq;
	struct kvswap_cq *cq;
	uint32_t tail, head; /* ours: next submission, next completion */
	uint32_t unsent;     /* submissions in the ring that no ENTER has taken */
	int fd;
};

static const uint16_t ioprio[KVS_IO_URGENCIES] = {
	[KVS_IO_LATE] = IOPRIO_BE(0),
	[KVS_IO_AHEAD] = IOPRIO_BE(4),
	[KVS_IO_BEHIND] = IOPRIO_BE(7),
};

static int unavailable(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Every reason not to take the module lets `auto` go on to the next backend. */
static int unavailable(char *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, KVS_MESSAGE_BYTES, format, args);
	va_end(args);
	return -ENOTSUP;
}

static int device_open(struct module *m, char *why)
{
	struct kvswap_info info = { .size = sizeof(info) };

	m->fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (m->fd < 0 && errno == ENOENT)
		return unavailable(why, "not loaded (no " DEVICE ")");
	if (m->fd < 0 && (errno == EACCES || errno == EPERM))
		return unavailable(why, "no permission for " DEVICE " (group kvswap)");
	if (m->fd < 0)
		return unavailable(why, DEVICE ": %s", strerror(errno));
	if (ioctl(m->fd, KVSWAP_IOC_INFO, &info))
		return unavailable(why, DEVICE " is not this module: %s", strerror(errno));
	if (info.abi != KVSWAP_ABI)
		return unavailable(why, "its ABI is version %u, this library speaks %u", info.abi,
				   KVSWAP_ABI);
	return 0;
}

/*
 * The module claims a block device for itself, so our own claim (O_EXCL) has to go first; exclusive: take it again. The
 * descriptor's number stays.
 */
static int device_reopen(int fd, int exclusive)
{
	char path[40];
	struct stat st;
	int again, ret = 0;

	if (fstat(fd, &st) || !S_ISBLK(st.st_mode))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_DIRECT | O_CLOEXEC | exclusive);
	if (again < 0 || dup3(again, fd, O_CLOEXEC) < 0)
		ret = -errno;
	if (again >= 0)
		close(again);
	if (!ret && exclusive && flock(fd, LOCK_EX | LOCK_NB))
		ret = -errno;
	return ret;
}

static int setup_refused(const struct module *m, int err, char *why)
{
	double mib = (double)m->params.arena_bytes / (1 << 20);

	switch (err) {
	case ENOMEM:
		return unavailable(why, "%.1f MiB of pinned memory: none left, or over RLIMIT_MEMLOCK (ulimit -l)",
				   mib);
	case ENOSPC:
		return unavailable(why, "%.1f MiB of pinned memory: over the module's cap", mib);
	case EBUSY:
		return unavailable(why, "the store is claimed by someone else");
	case EOPNOTSUPP:
		return unavailable(why, "the store has no direct I/O that the module can use");
	default:
		return unavailable(why, "SETUP: %s", strerror(err));
	}
}

static int module_setup(struct module *m, char *why)
{
	uint32_t entries = 1;
	int err;

	while (entries < m->params.depth)
		entries *= 2;
	m->setup = (struct kvswap_setup){
		.size = sizeof(m->setup), .fd = m->params.fd, .entries = entries,
		.store_bytes = m->params.store_bytes, .arena_bytes = m->params.arena_bytes,
	};
	err = device_reopen(m->params.fd, 0);
	if (err)
		return unavailable(why, "the device cannot be opened again: %s", strerror(-err));
	if (!ioctl(m->fd, KVSWAP_IOC_SETUP, &m->setup))
		return 0;
	err = errno;
	if (device_reopen(m->params.fd, O_EXCL))
		return -EBUSY;
	return setup_refused(m, err, why);
}

static void *map(const struct module *m, uint64_t offset, uint64_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_SHARED, m->fd, (off_t)offset);

	return p == MAP_FAILED ? NULL : p;
}

static void module_unmap(struct module *m)
{
	if (m->io.arena)
		munmap(m->io.arena, m->io.arena_bytes);
	if (m->sq)
		munmap(m->sq, m->setup.sq_bytes);
	if (m->cq)
		munmap(m->cq, m->setup.cq_bytes);
}

static int module_map(struct module *m, char *why)
{
	m->io.arena = map(m, m->setup.arena_offset, m->params.arena_bytes, PROT_READ | PROT_WRITE);
	m->sq = map(m, m->setup.sq_offset, m->setup.sq_bytes, PROT_READ | PROT_WRITE);
	m->cq = map(m, m->setup.cq_offset, m->setup.cq_bytes, PROT_READ);
	if (m->io.arena && m->sq && m->cq)
		return 0;
	return unavailable(why, "mapping its memory: %s", strerror(errno));
}

static void module_free(struct module *m)
{
	module_unmap(m);
	if (m->fd >= 0)
		close(m->fd);
	kvs_io_queue_destroy(&m->queue);
	free(m);
}

static int module_open(const struct kvs_io_params *params, struct kvs_io **out, char *why)
{
	struct module *m;
	int ret;

	if (!params->direct)
		return unavailable(why, "the store has no direct I/O");
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->fd = -1;
	m->io.ops = &kvs_io_module_ops;
	m->io.arena_bytes = params->arena_bytes;
	m->params = *params;
	ret = kvs_io_queue_init(&m->queue, params->depth);
	if (!ret)
		ret = device_open(m, why);
	if (!ret)
		ret = module_setup(m, why);
	if (!ret)
		ret = module_map(m, why);
	if (ret) {
		module_free(m);
		return ret;
	}
	*out = &m->io;
	return 0;
}

/* Bytes of the next piece of a request: the module may take less at a time. */
static uint32_t piece_bytes(const struct module *m, const struct kvs_io_entry *entry)
{
	uint64_t left = (uint64_t)entry->req.sectors * KVS_SECTOR - entry->moved;
	uint64_t most = (uint64_t)m->setup.request_units_max * KVSWAP_UNIT;

	return (uint32_t)(left < most ? left : most);
}

static void sqe_fill(struct module *m, const struct kvs_io_entry *entry)
{
	struct kvswap_sqe *sqe = &m->sq->sqes[m->tail & (m->setup.entries - 1)];
	const struct kvs_io_request *req = &entry->req;
	uint64_t moved = entry->moved / KVSWAP_UNIT;

	*sqe = (struct kvswap_sqe){ .user_data = (uint64_t)(entry - m->queue.entries) };
	if (req->op == KVS_IO_FLUSH) {
		sqe->op = KVSWAP_OP_FLUSH;
		return;
	}
	sqe->op = req->op == KVS_IO_READ ? KVSWAP_OP_READ : KVSWAP_OP_WRITE;
	sqe->ioprio = ioprio[req->urgency];
	sqe->units = piece_bytes(m, entry) / KVSWAP_UNIT;
	sqe->store = req->store + moved;
	sqe->arena = (uint32_t)(req->arena + moved);
}

/* Fills the ring up to depth; the next ENTER sends it. */
static void module_dispatch(struct module *m)
{
	uint64_t now = 0;

	while (m->queue.running.n < m->params.depth && kvs_io_queue_waiting(&m->queue)) {
		if (!now)
			now = kvs_now_ns();
		sqe_fill(m, kvs_io_queue_start(&m->queue, now));
		m->tail++;
		m->unsent++;
	}
	__atomic_store_n(&m->sq->tail, m->tail, __ATOMIC_RELEASE);
}

static void module_reap(struct module *m)
{
	uint32_t tail = __atomic_load_n(&m->cq->tail, __ATOMIC_ACQUIRE);

	for (; m->head != tail; m->head++) {
		struct kvswap_cqe cqe = m->cq->cqes[m->head & (m->setup.entries - 1)];
		struct kvs_io_entry *entry = &m->queue.entries[cqe.user_data];
		int64_t moved = cqe.result ? (int64_t)cqe.result : piece_bytes(m, entry);

		if (kvs_io_entry_step(entry, &m->params, moved))
			kvs_io_queue_finish(&m->queue, entry);
		else
			kvs_io_queue_again(&m->queue, entry);
	}
	__atomic_store_n(&m->sq->cq_head, m->head, __ATOMIC_RELEASE);
}

/* Sends what is in the ring; waits for n completions until the deadline when n is not 0. */
static int module_enter(struct module *m, uint32_t n, uint64_t deadline_ns)
{
	struct kvswap_enter enter = {
		.size = sizeof(enter), .to_submit = m->unsent, .min_complete = n, .deadline_ns = deadline_ns,
	};
	int err = ioctl(m->fd, KVSWAP_IOC_ENTER, &enter) ? errno : 0;

	if (err && err != EAGAIN && err != EINTR && err != ETIME)
		return -err;
	m->unsent -= enter.submitted;
	return 0;
}

static int module_submit(struct kvs_io *io, const struct kvs_io_request *reqs, uint32_t n,
			 uint32_t *taken)
{
	struct module *m = (struct module *)io;
	uint32_t i;
	int ret = 0, sent;

	for (i = 0; i < n; i++) {
		ret = kvs_io_check(&m->params, &reqs[i]);
		if (!ret)
			ret = kvs_io_queue_put(&m->queue, &reqs[i]);
		if (ret)
			break;
	}
	io->in_flight += i;
	*taken = i;
	module_dispatch(m);
	sent = m->unsent ? module_enter(m, 0, 0) : 0;
	return ret ? ret : sent;
}

static int module_block(struct module *m, uint32_t n)
{
	uint64_t limit = (uint64_t)m->params.timeout_ms * 1000000u, now = kvs_now_ns();
	uint64_t since = m->queue.running.first ? m->queue.running.first->started_ns : now;

	if (now - since >= limit)
		return -ETIMEDOUT;
	return module_enter(m, n, since + limit);
}

static int module_gather(struct module *m, uint32_t min)
{
	for (;;) {
		int ret;

		module_reap(m);
		module_dispatch(m);
		if (m->queue.done.n >= min)
			return m->unsent ? module_enter(m, 0, 0) : 0;
		ret = module_block(m, kvs_io_queue_stride(&m->queue, m->params.depth, min));
		if (ret)
			return ret;
	}
}

static int module_wait(struct kvs_io *io, struct kvs_io_completion *out, uint32_t min, uint32_t max)
{
	struct module *m = (struct module *)io;
	uint32_t n;
	int ret;

	if (min > max)
		min = max;
	ret = module_gather(m, min < io->in_flight ? min : io->in_flight);
	if (ret)
		return ret;
	n = kvs_io_queue_take(&m->queue, out, max);
	io->in_flight -= n;
	return (int)n;
}

static int module_flush(struct kvs_io *io)
{
	struct module *m = (struct module *)io;
	struct kvs_io_request req = { .op = KVS_IO_FLUSH, .urgency = KVS_IO_LATE };
	struct kvs_io_completion done;
	int ret;

	if (io->in_flight)
		return -EBUSY;
	ret = kvs_io_queue_put(&m->queue, &req);
	if (!ret)
		ret = module_gather(m, 1);
	if (ret)
		return ret;
	kvs_io_queue_take(&m->queue, &done, 1);
	return done.result;
}

static void module_close(struct kvs_io *io)
{
	struct module *m = (struct module *)io;

	while (m->queue.running.n) {
		/* A device that never answers: the last close would wait for it, so it is left to the exit. */
		if (module_block(m, 1))
			return;
		module_reap(m);
	}
	module_free(m);
}

const struct kvs_io_ops kvs_io_module_ops = {
	.name = "module",
	.open = module_open,
	.submit = module_submit,
	.wait = module_wait,
	.flush = module_flush,
	.close = module_close,
};
