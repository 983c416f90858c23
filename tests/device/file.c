/* SPDX-License-Identifier: MIT */
/*
 * Regular files: truncated underneath, sparse on a full file system, unlinked, holes; never made
 * longer.
 */
#include <sys/statvfs.h>

#include "dev.h"

static void truncated(void)
{
	char path[200];
	struct stat st;
	struct dev d;

	dev_temp_file(path, sizeof(path), 1 << 20);
	dev_start(&d, path, 16, 1 << 20);
	CHECK_EQ(d.setup.store_kind, KVSWAP_STORE_FILE);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 1024, 0, 1024), 0);
	CHECK(!truncate(path, 512 * 1024 + 4096));
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 1024, 0, 1024), -EIO);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 2040, 0, 8), -EIO);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 1024, 0, 8), 0);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_WRITE, 2040, 0, 8), -EIO);
	CHECK(!stat(path, &st) && st.st_size == 512 * 1024 + 4096);
	CHECK(!truncate(path, 0));
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 0, 0, 8), -EIO);
	dev_stop(&d);
	unlink(path);
}

static void full(void)
{
	struct statvfs fs;
	char path[200];
	uint64_t bytes;
	struct dev d;
	int ret = 0;

	dev_temp_file(path, sizeof(path), 0);
	CHECK(!statvfs(dev_store("KV_DIR"), &fs));
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize * 2;
	CHECK(!truncate(path, bytes & ~4095ull));
	dev_start(&d, path, 16, 1 << 20);
	for (uint64_t at = 0; at + 2048 <= d.setup.store_bytes / 512 && !ret; at += 2048)
		ret = dev_rw(&d, KVSWAP_OP_WRITE, at, 0, 2048);
	CHECK_EQ(ret, -ENOSPC);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 0, 0, 2048), 0);
	CHECK_EQ(dev_do(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_FLUSH }), 0);
	CHECK(!unlink(path));
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 0, 0, 2048), 0);
	dev_stop(&d);
}

static void holes(void)
{
	char path[200];
	struct dev d;

	dev_temp_file(path, sizeof(path), 0);
	CHECK(!truncate(path, 8 << 20));
	dev_start(&d, path, 16, 1 << 20);
	memset(d.arena, 0xcc, 1 << 20);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 64, 0, 512), 0);
	for (int i = 0; i < 512 * 512; i++)
		CHECK(!d.arena[i]);
	dev_fill(d.arena, 65536, 9, 9);
	CHECK_EQ(dev_do(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_WRITE,
						  .flags = KVSWAP_SQE_FUA,
						  .units = 128,
						  .store = 1280 }),
		 0);
	CHECK_EQ(dev_do(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_WRITE_ZEROES,
						  .units = 64,
						  .store = 1280 }),
		 0);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 1280, 512, 128), 0);
	for (int i = 0; i < 32768; i++)
		CHECK(!d.arena[512 * 512 + i]);
	CHECK(!memcmp(d.arena + 512 * 512 + 32768, d.arena + 32768, 32768));
	CHECK_EQ(dev_do(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_DISCARD,
						  .units = 128,
						  .store = 1280 }),
		 0);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 1280, 512, 128), 0);
	for (int i = 0; i < 65536; i++)
		CHECK(!d.arena[512 * 512 + i]);
	dev_stop(&d);
	unlink(path);
}

int main(void)
{
	truncated();
	full();
	holes();
	return 0;
}
