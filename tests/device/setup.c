/* SPDX-License-Identifier: MIT */
/* What SETUP takes for a store and what it refuses; one context a device, one SETUP a context. */
#include <linux/fs.h>
#include <sys/mount.h>

#include "dev.h"

static int setup_fd(int fd, struct kvswap_setup *setup, int store)
{
	setup->size = sizeof(*setup);
	setup->fd = store;
	setup->entries = setup->entries ?: 8;
	setup->arena_bytes = setup->arena_bytes ?: 65536;
	return ioctl(fd, KVSWAP_IOC_SETUP, setup);
}

static int setup_path(const char *path, int flags, struct kvswap_setup *setup)
{
	int fd = dev_open(), store = open(path, flags), ret, err;

	CHECK(store >= 0);
	ret = setup_fd(fd, setup, store);
	err = errno;
	close(store);
	close(fd);
	errno = err;
	return ret;
}

/* SETUP of path, opened with flags, and the rest of the arguments as members, fails. */
#define refuse(path, flags, err, ...) \
	CHECK_ERR(setup_path(path, flags, &(struct kvswap_setup){ __VA_ARGS__ }), err)

static void kinds(const char *dev)
{
	refuse(dev, O_RDWR, EINVAL, 0);
	refuse(dev, O_RDONLY | O_DIRECT, EBADF, 0);
	refuse(dev, O_WRONLY | O_DIRECT, EBADF, 0);
	refuse(dev, O_RDWR | O_DIRECT | O_APPEND, EINVAL, 0);
	refuse(dev, O_PATH, EBADF, 0);
	refuse("/dev/null", O_RDWR, ENOTBLK, 0);
	refuse("/tmp", O_RDONLY, ENOTBLK, 0);
	refuse("/dev/kvswap", O_RDWR, ENOTBLK, 0);
	CHECK(!setup_path(dev, O_RDWR | O_DIRECT, &(struct kvswap_setup){ 0 }));
	CHECK(!setup_path(dev, O_RDONLY | O_DIRECT,
			  &(struct kvswap_setup){ .flags = KVSWAP_SETUP_RDONLY }));
	CHECK(!setup_path(dev, O_RDWR | O_DIRECT,
			  &(struct kvswap_setup){ .flags = KVSWAP_SETUP_RDONLY }));
}

static void ranges(const char *dev, uint32_t block)
{
	struct kvswap_setup s = { 0 };
	uint64_t size;

	CHECK(!setup_path(dev, O_RDWR | O_DIRECT, &s));
	size = s.store_bytes;
	CHECK_EQ(s.block_bytes, block);
	refuse(dev, O_RDWR | O_DIRECT, EINVAL, .store_offset = 1);
	refuse(dev, O_RDWR | O_DIRECT, EINVAL, .store_offset = block / 2);
	refuse(dev, O_RDWR | O_DIRECT, EINVAL, .store_bytes = block + 1);
	refuse(dev, O_RDWR | O_DIRECT, ERANGE, .store_offset = size);
	refuse(dev, O_RDWR | O_DIRECT, ERANGE, .store_offset = size + block);
	refuse(dev, O_RDWR | O_DIRECT, ERANGE, .store_offset = -(uint64_t)block);
	refuse(dev, O_RDWR | O_DIRECT, ERANGE, .store_bytes = size + block);
	refuse(dev, O_RDWR | O_DIRECT, ERANGE, .store_offset = block, .store_bytes = size);
	refuse(dev, O_RDWR | O_DIRECT, ERANGE, .store_offset = block,
	       .store_bytes = -(uint64_t)block);
	s = (struct kvswap_setup){ .store_offset = size - block };
	CHECK(!setup_path(dev, O_RDWR | O_DIRECT, &s));
	CHECK_EQ(s.store_bytes, block);
}

static void granted(const char *dev)
{
	struct kvswap_setup s;
	int fd, store = dev_open_store(dev);

	for (uint32_t entries = 1; entries <= 4096; entries = entries * 3 / 2 + 1) {
		memset(&s, 0xcc, sizeof(s));
		s.flags = 0;
		s.entries = entries;
		s.store_offset = s.store_bytes = 0;
		s.arena_bytes = entries * 1000;
		s.write_depth = 0;
		fd = dev_open();
		CHECK(!setup_fd(fd, &s, store));
		CHECK(s.entries >= entries && s.entries < 2 * entries &&
		      !(s.entries & (s.entries - 1)));
		CHECK(s.arena_bytes >= entries * 1000 && s.arena_bytes % s.chunk_bytes == 0);
		CHECK(s.write_depth >= 1 && s.write_depth <= s.entries);
		CHECK(s.store_kind == KVSWAP_STORE_BLOCK && s.request_units_max >= 2048 &&
		      s.run_units_max >= 8);
		CHECK(s.sq_bytes >= 128 + 32 * s.entries && s.cq_bytes >= 128 + 16 * s.entries);
		CHECK_ERR(setup_fd(fd, &s, store), EALREADY);
		close(fd);
	}
	close(store);
}

static void exclusive(const char *dev)
{
	struct kvswap_setup s = { 0 };
	struct dev d;
	int fd;

	dev_start(&d, dev, 8, 65536);
	refuse(dev, O_RDWR | O_DIRECT, EBUSY, 0);
	CHECK_ERR(open(dev, O_RDWR | O_EXCL), EBUSY);
	dev_stop(&d);
	CHECK(!setup_path(dev, O_RDWR | O_DIRECT, &s));
	fd = open(dev, O_RDWR | O_EXCL);
	CHECK(fd >= 0);
	refuse(dev, O_RDWR | O_DIRECT, EBUSY, 0);
	close(fd);
}

static void read_only(const char *dev)
{
	struct kvswap_setup s = { .flags = KVSWAP_SETUP_RDONLY };
	int fd = open(dev, O_RDONLY), store = dev_open_store(dev), on = 1, off = 0, kv;

	CHECK(fd >= 0 && !ioctl(fd, BLKROSET, &on));
	kv = dev_open();
	CHECK_ERR(setup_fd(kv, &(struct kvswap_setup){ 0 }, store), EROFS);
	CHECK(!setup_fd(kv, &s, store));
	close(kv);
	CHECK(!ioctl(fd, BLKROSET, &off));
	close(store);
	close(fd);
}

/* A zoned device writes where it wants to, not where it is told. */
static void zoned(void)
{
	char model[32] = "";
	int fd = open("/sys/block/nullb0/queue/zoned", O_RDONLY);

	if (fd >= 0 && read(fd, model, sizeof(model) - 1) > 0 && strncmp(model, "none", 4))
		refuse("/dev/nullb0", O_RDWR | O_DIRECT, EOPNOTSUPP, 0);
}

static void file_systems(void)
{
	char path[200];
	int fd;

	dev_temp_file(path, sizeof(path), 1 << 20);
	refuse(path, O_RDWR | O_DIRECT, ERANGE, .store_bytes = 2 << 20);
	CHECK(!setup_path(path, O_RDWR | O_DIRECT,
			  &(struct kvswap_setup){ .store_bytes = 1 << 20 }));
	CHECK(!unlink(path));
	fd = open("/tmp/file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_ERR(setup_fd(dev_open(), &(struct kvswap_setup){ 0 }, fd), EINVAL);
	close(fd);
	unlink("/tmp/file");
}

int main(void)
{
	kinds(dev_store("KV_512"));
	ranges(dev_store("KV_512"), 512);
	ranges(dev_store("KV_4K"), 4096);
	granted(dev_store("KV_512"));
	exclusive(dev_store("KV_512"));
	read_only(dev_store("KV_512"));
	zoned();
	file_systems();
	CHECK_ERR(setup_fd(dev_open(), &(struct kvswap_setup){ 0 }, -1), EBADF);
	return 0;
}
