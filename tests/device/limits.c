/* SPDX-License-Identifier: MIT */
/*
 * What memory costs: RLIMIT_MEMLOCK of a user without privileges, the module's cap, and all of it
 * given back.
 */
#include <sys/resource.h>

#include "dev.h"

#define CAP_PATH "/sys/module/kvswap/parameters/max_pinned_mib"

static int setup(int fd, const char *path, uint64_t arena_bytes)
{
	struct kvswap_setup s = { .size = sizeof(s), .entries = 16, .arena_bytes = arena_bytes };
	int ret;

	s.fd = dev_open_store(path);
	ret = ioctl(fd, KVSWAP_IOC_SETUP, &s);
	close(s.fd);
	return ret;
}

static long locked_kib(void)
{
	char line[256];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %ld", &kib) == 1)
			break;
	fclose(f);
	CHECK(kib >= 0);
	return kib;
}

static void memlock(const char *path)
{
	struct rlimit limit = { 2 << 20, 2 << 20 };
	int fds[3] = { dev_open(), dev_open(), dev_open() };

	CHECK(!chmod(path, 0666));
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit));
	CHECK(!setuid(1000));
	CHECK_ERR(setup(fds[0], path, 4 << 20), ENOMEM);
	CHECK_EQ(locked_kib(), 0);
	CHECK(!setup(fds[0], path, 1 << 20));
	CHECK(locked_kib() >= 1024 && locked_kib() < 1200);
	CHECK_ERR(setup(fds[1], path, 1 << 20), EBUSY);
	CHECK(!close(fds[0]));
	CHECK_EQ(locked_kib(), 0);
	CHECK(!setup(fds[1], path, 1 << 20));
	close(fds[1]);
	close(fds[2]);
	_exit(0);
}

static void in_child(void (*fn)(const char *), const char *path)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		fn(path);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void set_cap(const char *mib)
{
	int fd = open(CAP_PATH, O_WRONLY);

	CHECK(fd >= 0 && write(fd, mib, strlen(mib)) == (ssize_t)strlen(mib));
	close(fd);
}

static uint64_t pinned(int fd)
{
	struct kvswap_info info = { .size = sizeof(info) };

	CHECK(!ioctl(fd, KVSWAP_IOC_INFO, &info));
	return info.pinned_bytes;
}

static void cap(const char *path)
{
	struct kvswap_info info = { .size = sizeof(info) };
	int fd = dev_open();

	set_cap("4");
	CHECK(!ioctl(fd, KVSWAP_IOC_INFO, &info));
	CHECK_EQ(info.pinned_bytes_max, 4 << 20);
	CHECK_ERR(setup(fd, path, 4 << 20), ENOSPC); /* rings and requests count, too */
	CHECK_ERR(setup(fd, path, 1ull << 40), ENOSPC);
	CHECK_ERR(setup(fd, path, UINT64_MAX), ENOSPC);
	CHECK_EQ(pinned(fd), 0);
	CHECK(!setup(fd, path, 2 << 20));
	CHECK(pinned(fd) >= 2 << 20 && pinned(fd) <= 4 << 20);
	CHECK(!close(fd));
	set_cap("0");
	fd = dev_open();
	CHECK_EQ(pinned(fd), 0);
	CHECK_ERR(setup(fd, path, 1ull << 40), ENOSPC);
	close(fd);
}

/* More than half of what is free: refused or granted, never killed, all of it given back. */
static void large(const char *path)
{
	struct dev d;

	dev_start(&d, path, 16, 200 << 20);
	CHECK(d.setup.chunk_bytes >= 4096);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 0, (200 << 11) - 128, 128), 0);
	dev_stop(&d);
	CHECK_EQ(locked_kib(), 0);
}

/* Sizes that no power of two fits: granted to the page or to 64 KiB, usable to the end, given back. */
static void odd_sizes(const char *path)
{
	for (uint64_t bytes = 1; bytes < 12 << 20; bytes = bytes * 3 / 2 + 4096) {
		uint32_t last;
		struct dev d;

		dev_start(&d, path, 8, bytes);
		CHECK(d.setup.arena_bytes >= bytes && d.setup.arena_bytes < bytes + 65536);
		last = d.setup.arena_bytes / KVSWAP_UNIT;
		for (uint32_t units = 1; units <= last && units <= 2048; units *= 2)
			CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 0, last - units, units), 0);
		dev_stop(&d);
	}
}

int main(void)
{
	in_child(memlock, dev_store("KV_512"));
	cap(dev_store("KV_512"));
	large(dev_store("KV_512"));
	odd_sizes(dev_store("KV_512"));
	return 0;
}
