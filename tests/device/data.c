/* SPDX-License-Identifier: MIT */
/*
 * Data comes back as it went, at every size, in every shape, and lies in the store where it should.
 */
#include "dev.h"

#define ARENA (8u << 20)

static uint32_t block_units(const struct dev *d)
{
	return d->setup.block_bytes / KVSWAP_UNIT;
}

/* Written at one place of the arena, read back into another. */
static void round_trip(struct dev *d, uint32_t units, uint64_t store, uint32_t from, uint32_t to)
{
	size_t bytes = (size_t)units * KVSWAP_UNIT;

	dev_fill(d->arena + (size_t)from * KVSWAP_UNIT, bytes, store, units);
	memset(d->arena + (size_t)to * KVSWAP_UNIT, 0xcc, bytes);
	CHECK_EQ(dev_rw(d, KVSWAP_OP_WRITE, store, from, units), 0);
	CHECK_EQ(dev_rw(d, KVSWAP_OP_READ, store, to, units), 0);
	CHECK(dev_is(d->arena + (size_t)to * KVSWAP_UNIT, bytes, store, units));
}

static void sizes(struct dev *d)
{
	uint32_t b = block_units(d), last = d->setup.arena_bytes / KVSWAP_UNIT;

	for (uint32_t units = b; units <= d->setup.request_units_max; units *= 2) {
		round_trip(d, units, 0, 0, units);
		round_trip(d, units, 3 * b, b, last - units);
		/* Across a border of chunks. */
		if (d->setup.chunk_bytes < d->setup.arena_bytes)
			round_trip(d, units, 5 * b, d->setup.chunk_bytes / KVSWAP_UNIT - b,
				   last - units);
	}
	round_trip(d, 3 * b, d->setup.store_bytes / KVSWAP_UNIT - 3 * b, 7 * b, 99 * b);
}

/*
 * A batch of records in a random order of the store, read in another: neighbours are joined, all
 * are right.
 */
static void batch(struct dev *d, uint8_t op, const uint32_t *order, uint32_t n, uint32_t units,
		  uint32_t base)
{
	struct kvswap_enter enter;
	struct kvswap_cqe cqe;
	uint64_t seen = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct kvswap_sqe sqe = { .op = op,
					  .units = units,
					  .store = (uint64_t)order[i] * units,
					  .arena = base + order[i] * units,
					  .user_data = order[i] };

		dev_push(d, &sqe);
	}
	CHECK(!dev_enter(d, n, n, 0, &enter));
	CHECK_EQ(enter.submitted, n);
	CHECK_EQ(enter.available, n);
	while (dev_reap(d, &cqe)) {
		CHECK_EQ(cqe.result, 0);
		CHECK(cqe.user_data < n && !(seen >> cqe.user_data & 1));
		seen |= 1ull << cqe.user_data;
	}
	CHECK(seen == (n == 64 ? ~0ull : (1ull << n) - 1));
}

static void batches(struct dev *d, uint32_t units)
{
	uint32_t n = 64, order[64], half = d->setup.arena_bytes / KVSWAP_UNIT / 2;
	size_t bytes = (size_t)units * KVSWAP_UNIT;
	uint64_t seed = units;

	for (uint32_t i = 0; i < n; i++) {
		order[i] = i;
		dev_fill(d->arena + i * bytes, bytes, i, units + 7);
	}
	batch(d, KVSWAP_OP_WRITE, order, n, units, 0);
	memset(d->arena + (size_t)half * KVSWAP_UNIT, 0xcc, n * bytes);
	for (uint32_t i = n - 1; i; i--) {
		uint32_t j = dev_random(&seed) % (i + 1), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	batch(d, KVSWAP_OP_READ, order, n, units, half);
	for (uint32_t i = 0; i < n; i++)
		CHECK(dev_is(d->arena + (size_t)half * KVSWAP_UNIT + i * bytes, bytes, i,
			     units + 7));
}

static void zero_and_discard(struct dev *d)
{
	struct kvswap_sqe sqe = {
		.op = KVSWAP_OP_WRITE_ZEROES, .units = 64, .store = 64, .user_data = 5
	};
	int ret;

	CHECK_EQ(dev_rw(d, KVSWAP_OP_WRITE, 0, 0, 256), 0);
	ret = dev_do(d, &sqe);
	CHECK(ret == 0 || ret == -EOPNOTSUPP);
	if (!ret) {
		CHECK_EQ(dev_rw(d, KVSWAP_OP_READ, 0, 512, 256), 0);
		CHECK(!memcmp(d->arena + 512 * 512, d->arena, 64 * 512));
		CHECK(!memcmp(d->arena + (512 + 128) * 512, d->arena + 128 * 512, 128 * 512));
		for (int i = 0; i < 64 * 512; i++)
			CHECK(!d->arena[(512 + 64) * 512 + i]);
	}
	sqe.op = KVSWAP_OP_DISCARD;
	ret = dev_do(d, &sqe);
	CHECK(ret == 0 || ret == -EOPNOTSUPP);
	CHECK_EQ(dev_do(d, &(struct kvswap_sqe){ .op = KVSWAP_OP_FLUSH, .user_data = 1 }), 0);
}

/* Seen by others: what was written lies in the store, once the context is gone. */
static void seen_by_others(const char *path, uint32_t b)
{
	struct dev d;
	void *buf;
	int fd;

	dev_start(&d, path, 8, ARENA);
	dev_fill(d.arena + (size_t)b * 512, (size_t)b * 16 * 512, 77, 1);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_WRITE, 16 * b, b, 16 * b), 0);
	dev_stop(&d);
	fd = dev_open_store(path);
	CHECK(!posix_memalign(&buf, 4096, (size_t)b * 16 * 512));
	CHECK(pread(fd, buf, (size_t)b * 16 * 512, (off_t)b * 16 * 512) == (ssize_t)b * 16 * 512);
	CHECK(dev_is(buf, (size_t)b * 16 * 512, 77, 1));
	free(buf);
	close(fd);
}

static void store(const char *path)
{
	struct kvswap_stats stats = { .size = sizeof(stats) };
	uint32_t b;
	struct dev d;

	dev_start(&d, path, 64, ARENA);
	b = block_units(&d);
	for (size_t i = 0; i < d.setup.arena_bytes; i += 4096)
		CHECK(!d.arena[i]);
	sizes(&d);
	batches(&d, b);
	batches(&d, 8);
	batches(&d, 128 / 2);
	zero_and_discard(&d);
	CHECK(!ioctl(d.fd, KVSWAP_IOC_STATS, &stats));
	CHECK_EQ(stats.in_flight, 0);
	CHECK_EQ(stats.errors <= 2, 1);
	CHECK(stats.reads > 192 && stats.writes > 192 && stats.merged > 64 && stats.flushes == 1);
	dev_stop(&d);
	seen_by_others(path, b);
}

int main(void)
{
	char file[200];

	store(dev_store("KV_512"));
	store(dev_store("KV_4K"));
	if (getenv("KV_SD"))
		store(dev_store("KV_SD"));
	dev_temp_file(file, sizeof(file), 16 << 20);
	store(file);
	return 0;
}
