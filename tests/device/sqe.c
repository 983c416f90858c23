/* SPDX-License-Identifier: MIT */
/*
 * Every check of a submission: members, borders, overflows, what is under way; nothing refused does
 * anything.
 */
#include <sys/prctl.h>

#include "dev.h"

static struct dev d;
static uint32_t block; /* units */
static uint64_t store_units, arena_units;

static void refuse(struct kvswap_sqe sqe, int err)
{
	sqe.user_data = 0x1234567890abcdefull;
	CHECK_EQ(dev_do(&d, &sqe), -err);
}

static void accept(struct kvswap_sqe sqe)
{
	refuse(sqe, 0);
}

static struct kvswap_sqe io(uint8_t op, uint64_t store, uint32_t arena, uint32_t units)
{
	return (struct kvswap_sqe){ .op = op, .store = store, .arena = arena, .units = units };
}

static void members(void)
{
	struct kvswap_sqe sqe;

	for (int op = KVSWAP_OP_END; op < 256; op++)
		refuse(io(op, 0, 0, block), EINVAL);
	for (int bit = 0; bit < 8; bit++) {
		for (int op = 0; op < KVSWAP_OP_END; op++) {
			if (1 << bit == KVSWAP_SQE_FUA &&
			    (op == KVSWAP_OP_WRITE || op == KVSWAP_OP_WRITE_ZEROES))
				continue;
			sqe = io(op, 0, 0,
				 op == KVSWAP_OP_READ || op == KVSWAP_OP_WRITE ? block : 0);
			sqe.flags = 1 << bit;
			refuse(sqe, EINVAL);
		}
	}
	for (int op = 0; op < KVSWAP_OP_END; op++) {
		sqe = io(op, 0, 0, block);
		sqe.__reserved = 1u << 31;
		refuse(sqe, EINVAL);
	}
	refuse(io(KVSWAP_OP_NOP, 1, 0, 0), EINVAL);
	refuse(io(KVSWAP_OP_NOP, 0, 1, 0), EINVAL);
	refuse(io(KVSWAP_OP_NOP, 0, 0, 1), EINVAL);
	refuse(io(KVSWAP_OP_FLUSH, 1, 0, 0), EINVAL);
	refuse(io(KVSWAP_OP_FLUSH, 0, 0, 1), EINVAL);
	refuse(io(KVSWAP_OP_DISCARD, 0, 1, block), EINVAL);
	refuse(io(KVSWAP_OP_WRITE_ZEROES, 0, 1, block), EINVAL);
	refuse(io(KVSWAP_OP_CANCEL, 7, 0, 0), ENOENT);
	accept(io(KVSWAP_OP_NOP, 0, 0, 0));
	accept(io(KVSWAP_OP_FLUSH, 0, 0, 0));
	sqe = io(KVSWAP_OP_WRITE, 0, 0, block);
	sqe.flags = KVSWAP_SQE_FUA;
	accept(sqe);
}

static void borders(uint8_t op)
{
	uint32_t max = d.setup.request_units_max;

	refuse(io(op, 0, 0, 0), ENOTBLK);
	accept(io(op, store_units - block, 0, block));
	accept(io(op, 0, arena_units - block, block));
	accept(io(op, store_units - max, arena_units - max, max));
	refuse(io(op, 0, 0, max + block), EMSGSIZE);
	refuse(io(op, 0, 0, -block), ERANGE);
	refuse(io(op, store_units, 0, block), ERANGE);
	refuse(io(op, store_units - block, 0, 2 * block), ERANGE);
	refuse(io(op, UINT64_MAX - block + 1, 0, block), ERANGE);
	refuse(io(op, (UINT64_MAX >> 9) + 1, 0, block), ERANGE);
	refuse(io(op, 1ull << 63, 0, block), ERANGE);
	refuse(io(op, 0, arena_units, block), EFAULT);
	refuse(io(op, 0, arena_units - block, 2 * block), EFAULT);
	refuse(io(op, 0, UINT32_MAX - block + 1, block), EFAULT);
	if (block > 1) {
		refuse(io(op, 1, 0, block), ENOTBLK);
		refuse(io(op, 0, 1, block), ENOTBLK);
		refuse(io(op, 0, 0, 1), ENOTBLK);
		refuse(io(op, 0, 0, block + 1), ENOTBLK);
	}
}

static void ranges(void)
{
	refuse(io(KVSWAP_OP_DISCARD, store_units, 0, block), ERANGE);
	refuse(io(KVSWAP_OP_DISCARD, 0, 0, 0), ENOTBLK);
	refuse(io(KVSWAP_OP_WRITE_ZEROES, store_units - block, 0, 2 * block), ERANGE);
	refuse(io(KVSWAP_OP_WRITE_ZEROES, UINT64_MAX, 0, block), block > 1 ? ENOTBLK : ERANGE);
}

static void priorities(void)
{
	struct kvswap_sqe sqe = io(KVSWAP_OP_READ, 0, 0, block);

	sqe.ioprio = 1 << 13 | 4;
	accept(sqe);
	sqe.ioprio = 2 << 13 | 7;
	accept(sqe);
	sqe.ioprio = 3 << 13;
	accept(sqe);
	for (int bad = 0; bad < 4; bad++) {
		static const uint16_t prios[] = { 4, 4 << 13, 7 << 13, 0xffff };

		sqe.ioprio = prios[bad];
		refuse(sqe, EINVAL);
	}
}

/* Two requests in one batch over the same part of the arena. */
static void busy(void)
{
	static const uint32_t shift[] = { 0, 1, 7, 8, 15 };
	struct kvswap_cqe cqe;
	int failed = 0;

	for (int i = 0; i < 5; i++) {
		struct kvswap_sqe a = io(KVSWAP_OP_READ, 0, 1000, 128),
				  b = io(KVSWAP_OP_READ, 256, 1000 + shift[i] * block, 128);

		a.user_data = 1;
		b.user_data = 2;
		dev_push(&d, &a);
		dev_push(&d, &b);
		CHECK(!dev_enter(&d, 2, 2, 0, NULL));
		while (dev_reap(&d, &cqe)) {
			CHECK_EQ(cqe.result, cqe.user_data == 1 ? 0 : -EBUSY);
			failed += !!cqe.result;
		}
	}
	CHECK_EQ(failed, 5);
	/* Neighbours do not touch. */
	dev_push(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_READ, .arena = 1000, .units = 128 });
	dev_push(&d, &(struct kvswap_sqe){
			     .op = KVSWAP_OP_READ, .arena = 1128, .units = 128, .store = 1024 });
	CHECK(!dev_enter(&d, 2, 2, 0, NULL));
	while (dev_reap(&d, &cqe))
		CHECK_EQ(cqe.result, 0);
}

static void readonly(const char *path)
{
	struct kvswap_setup s = { .size = sizeof(s),
				  .flags = KVSWAP_SETUP_RDONLY,
				  .entries = 8,
				  .arena_bytes = 1 << 20 };

	d = (struct dev){ .fd = dev_open() };
	s.fd = open(path, O_RDONLY | O_DIRECT);
	CHECK(s.fd >= 0 && !ioctl(d.fd, KVSWAP_IOC_SETUP, &s));
	close(s.fd);
	d.setup = s;
	d.sq = mmap(NULL, s.sq_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd, s.sq_offset);
	d.cq = mmap(NULL, s.cq_bytes, PROT_READ, MAP_SHARED, d.fd, s.cq_offset);
	d.arena =
		mmap(NULL, s.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd, s.arena_offset);
	accept(io(KVSWAP_OP_READ, 0, 0, block));
	accept(io(KVSWAP_OP_NOP, 0, 0, 0));
	refuse(io(KVSWAP_OP_WRITE, 0, 0, block), EROFS);
	refuse(io(KVSWAP_OP_DISCARD, 0, 0, block), EROFS);
	refuse(io(KVSWAP_OP_WRITE_ZEROES, 0, 0, block), EROFS);
	refuse(io(KVSWAP_OP_FLUSH, 0, 0, 0), EROFS);
	dev_stop(&d);
}

static void store(const char *path)
{
	struct kvswap_stats stats = { .size = sizeof(stats) };

	dev_start(&d, path, 16, 4 << 20);
	block = d.setup.block_bytes / KVSWAP_UNIT;
	store_units = d.setup.store_bytes / KVSWAP_UNIT;
	arena_units = d.setup.arena_bytes / KVSWAP_UNIT;
	members();
	borders(KVSWAP_OP_READ);
	borders(KVSWAP_OP_WRITE);
	ranges();
	priorities();
	busy();
	CHECK(!ioctl(d.fd, KVSWAP_IOC_STATS, &stats));
	CHECK(stats.refused > 250 && !stats.in_flight && !stats.errors);
	dev_stop(&d);
	readonly(path);
}

/* Without privileges: the real-time class is not for everyone. */
static void unprivileged(const char *path)
{
	struct kvswap_sqe sqe = io(KVSWAP_OP_READ, 0, 0, 8);
	pid_t pid;
	int status;

	dev_start(&d, path, 16, 65536);
	pid = fork();
	if (!pid) {
		/* The rings are not inherited. */
		d.sq = mmap(NULL, d.setup.sq_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd,
			    d.setup.sq_offset);
		d.cq = mmap(NULL, d.setup.cq_bytes, PROT_READ, MAP_SHARED, d.fd, d.setup.cq_offset);
		CHECK(d.sq != MAP_FAILED && d.cq != MAP_FAILED);
		CHECK(!setuid(1000));
		sqe.ioprio = 1 << 13;
		refuse(sqe, EPERM);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	dev_stop(&d);
}

int main(void)
{
	store(dev_store("KV_512"));
	store(dev_store("KV_4K"));
	unprivileged(dev_store("KV_4K"));
	return 0;
}
