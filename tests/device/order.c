/* SPDX-License-Identifier: MIT */
/*
 * Order: a read sees the writes that were submitted before it, on a device whose writes are slow;
 * writes keep their bound and their turn; FLUSH comes after what it covers; what has not started
 * can be cancelled.
 */
#include "dev.h"
#include "dm.h"

#define DELAY_MS 60

static void push(struct dev *d, uint8_t op, uint64_t store, uint32_t arena, uint32_t units,
		 uint64_t tag)
{
	struct kvswap_sqe sqe = {
		.op = op, .store = store, .arena = arena, .units = units, .user_data = tag
	};

	dev_push(d, &sqe);
}

static void collect(struct dev *d, uint32_t n, uint64_t *order)
{
	struct kvswap_cqe cqe;

	CHECK(!dev_enter(d, n, n, 0, NULL));
	for (uint32_t i = 0; i < n; i++) {
		CHECK(dev_reap(d, &cqe));
		CHECK_EQ(cqe.result, 0);
		order[i] = cqe.user_data;
	}
}

/* Where a tag stands among the completions. */
static uint32_t place(const uint64_t *order, uint64_t tag)
{
	uint32_t i = 0;

	while (order[i] != tag)
		i++;
	return i;
}

static void read_after_write(struct dev *d)
{
	uint64_t order[4];

	for (uint64_t version = 1; version < 6; version++) {
		dev_fill(d->arena, 4096, 100, version);
		memset(d->arena + 8192, 0xcc, 8192);
		push(d, KVSWAP_OP_WRITE, 64, 0, 8, 1);
		push(d, KVSWAP_OP_READ, 64, 16, 8, 2);
		push(d, KVSWAP_OP_READ, 60, 24, 8, 3); /* overlaps in part */
		push(d, KVSWAP_OP_READ, 72, 64, 8, 4); /* does not */
		collect(d, 4, order);
		CHECK(dev_is(d->arena + 8192, 4096, 100, version));
		CHECK(!memcmp(d->arena + 24 * 512 + 4 * 512, d->arena, 4 * 512));
		CHECK(place(order, 4) < place(order, 1));
		CHECK(place(order, 1) < place(order, 2) && place(order, 1) < place(order, 3));
	}
}

/* The last of several writes to one place stays. */
static void write_after_write(struct dev *d)
{
	uint64_t order[9];

	for (uint32_t i = 0; i < 8; i++) {
		dev_fill(d->arena + i * 4096, 4096, 200, i);
		push(d, KVSWAP_OP_WRITE, 128, 8 * i, 8, i);
	}
	push(d, KVSWAP_OP_READ, 128, 256, 8, 8);
	collect(d, 9, order);
	CHECK(dev_is(d->arena + 256 * 512, 4096, 200, 7));
	for (uint32_t i = 0; i < 9; i++)
		CHECK_EQ(order[i], i);
}

/* Reads overtake a queue of writes; FLUSH comes last. */
static void bound(struct dev *d)
{
	struct kvswap_stats stats = { .size = sizeof(stats) };
	uint64_t order[12];

	for (uint32_t i = 0; i < 8; i++)
		push(d, KVSWAP_OP_WRITE, 1024 + 16 * i, 16 * i, 8, i);
	push(d, KVSWAP_OP_FLUSH, 0, 0, 0, 8);
	for (uint32_t i = 9; i < 12; i++)
		push(d, KVSWAP_OP_READ, 4096 + 16 * i, 16 * i, 8, i);
	collect(d, 12, order);
	CHECK_EQ(order[11], 8);
	for (uint32_t i = 9; i < 12; i++)
		CHECK(place(order, i) < 3);
	CHECK(!ioctl(d->fd, KVSWAP_IOC_STATS, &stats));
	CHECK(stats.deferred >= 6);
}

static void cancel(struct dev *d)
{
	struct kvswap_cqe cqe;
	int cancelled = 0, done = 0;

	for (uint32_t i = 0; i < 6; i++)
		push(d, KVSWAP_OP_WRITE, 2048 + 16 * i, 16 * i, 8, i < 4 ? 1 : 2);
	push(d, KVSWAP_OP_READ, 2048 + 80, 200, 8, 2); /* waits for the last write */
	dev_push(d, &(struct kvswap_sqe){ .op = KVSWAP_OP_CANCEL, .arg = 2, .user_data = 3 });
	dev_push(d, &(struct kvswap_sqe){ .op = KVSWAP_OP_CANCEL, .arg = 77, .user_data = 4 });
	CHECK(!dev_enter(d, 9, 9, 0, NULL));
	while (dev_reap(d, &cqe)) {
		if (cqe.user_data == 2)
			CHECK_EQ(cqe.result, -ECANCELED);
		else
			CHECK_EQ(cqe.result, cqe.user_data == 4 ? -ENOENT : 0);
		cancelled += cqe.result == -ECANCELED;
		done += cqe.user_data == 1;
	}
	CHECK_EQ(cancelled, 3);
	CHECK_EQ(done, 4);
}

int main(void)
{
	struct dev d;
	char slow[64];

	dm_delay(dev_store("KV_512"), 0, DELAY_MS, slow, sizeof(slow));
	dev_start_depth(&d, slow, 32, 1 << 20, 2);
	CHECK_EQ(d.setup.write_depth, 2);
	read_after_write(&d);
	write_after_write(&d);
	bound(&d);
	cancel(&d);
	dev_stop(&d);
	dm_remove(slow);
	return 0;
}
