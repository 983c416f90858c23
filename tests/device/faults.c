/* SPDX-License-Identifier: MIT */
/*
 * Stores that fail: dm-error in the middle, dm-flakey that is down, a bad sector of the (emulated)
 * medium, slow reads.
 */
#include "dev.h"
#include "dm.h"

static void broken_middle(const char *dev)
{
	uint64_t size = dm_sectors(dev);
	struct dm_part parts[3] = {
		{ 0, 2048, "linear", "" },
		{ 2048, 1024, "error", "" },
		{ 3072, size - 3072, "linear", "" },
	};
	struct kvswap_stats stats = { .size = sizeof(stats) };
	struct kvswap_cqe cqe;
	char path[64];
	struct dev d;

	snprintf(parts[0].params, sizeof(parts[0].params), "%s 0", dev);
	snprintf(parts[2].params, sizeof(parts[2].params), "%s 3072", dev);
	dm_create(parts, 3, path, sizeof(path));
	dev_start(&d, path, 64, 4 << 20);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_WRITE, 2040, 0, 8), 0);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 2048, 0, 8), -EIO);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_WRITE, 2048, 0, 8), -EIO);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 2040, 0, 16), -EIO);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 3072, 0, 8), 0);
	/* Neighbours share their fate; alone each tells its own. */
	for (uint32_t i = 0; i < 4; i++)
		dev_push(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_READ,
						   .store = 2032 + 8 * i,
						   .arena = 8 * i,
						   .units = 8 });
	CHECK(!dev_enter(&d, 4, 4, 0, NULL));
	while (dev_reap(&d, &cqe))
		CHECK_EQ(cqe.result, -EIO);
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 2032 + 8 * i, 8 * i, 8), i < 2 ? 0 : -EIO);
	CHECK(!ioctl(d.fd, KVSWAP_IOC_STATS, &stats));
	CHECK_EQ(stats.errors, 9);
	dev_stop(&d);
	dm_remove(path);
}

/* Down all the time: nothing but errors, and a clean end. */
static void down(const char *dev)
{
	struct dm_part part = { 0, dm_sectors(dev), "flakey", "" };
	struct kvswap_cqe cqe;
	char path[64];
	struct dev d;
	int errors = 0;

	snprintf(part.params, sizeof(part.params), "%s 0 0 1000", dev);
	dm_create(&part, 1, path, sizeof(path));
	dev_start(&d, path, 64, 4 << 20);
	for (uint32_t i = 0; i < 32; i++)
		dev_push(&d, &(struct kvswap_sqe){ .op = i % 2 ? KVSWAP_OP_READ : KVSWAP_OP_WRITE,
						   .store = 16 * i,
						   .arena = 16 * i,
						   .units = 8 });
	dev_push(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_FLUSH });
	CHECK(!dev_enter(&d, 33, 33, 0, NULL));
	while (dev_reap(&d, &cqe))
		errors += cqe.result == -EIO;
	CHECK(errors >= 32);
	dev_stop(&d);
	dm_remove(path);
}

/* A sector that the medium cannot read: KV_BAD fails at unit 2048. */
static void bad_sector(void)
{
	const char *path = getenv("KV_BAD");
	struct dev d;
	int ret;

	if (!path) {
		printf("no KV_BAD: no bad sector to read\n");
		return;
	}
	dev_start(&d, path, 16, 1 << 20);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 1024, 0, 128), 0);
	ret = dev_rw(&d, KVSWAP_OP_READ, 2048, 0, 8);
	CHECK(ret == -EIO || ret == -ENODATA);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 4096, 0, 128), 0);
	dev_stop(&d);
}

int main(void)
{
	broken_middle(dev_store("KV_512"));
	down(dev_store("KV_512"));
	bad_sector();
	return 0;
}
