/* SPDX-License-Identifier: MIT */
/*
 * Every ioctl with sizes short, exact, long and zero, long and not zero; numbers, flags and
 * reserved members.
 */
#include "dev.h"

#define LONG 64

struct call {
	const char *name;
	unsigned int cmd;
	uint32_t size;
};

static const struct call calls[] = {
	{ "INFO", KVSWAP_IOC_INFO, sizeof(struct kvswap_info) },
	{ "SETUP", KVSWAP_IOC_SETUP, sizeof(struct kvswap_setup) },
	{ "ENTER", KVSWAP_IOC_ENTER, sizeof(struct kvswap_enter) },
	{ "STATS", KVSWAP_IOC_STATS, sizeof(struct kvswap_stats) },
};

/* An argument that would do, in a buffer with room behind it. */
static void prepare(uint8_t *arg, const struct call *call, uint32_t size)
{
	memset(arg, 0, call->size + LONG);
	memcpy(arg, &size, sizeof(size));
	if (call->cmd == KVSWAP_IOC_SETUP) {
		struct kvswap_setup *setup = (void *)arg;

		setup->fd = -1;
		setup->entries = 8;
		setup->arena_bytes = 4096;
	}
}

/* What the call says when its argument has the right shape: the context is not set up. */
static int expected(const struct call *call)
{
	switch (call->cmd) {
	case KVSWAP_IOC_SETUP:
		return EBADF;
	case KVSWAP_IOC_ENTER:
		return ENXIO;
	default:
		return 0;
	}
}

static void check_call(int fd, const struct call *call, uint8_t *arg)
{
	int ret = ioctl(fd, call->cmd, arg);

	if (expected(call))
		CHECK(ret == -1 && errno == expected(call));
	else
		CHECK(!ret);
}

static void sizes(int fd, const struct call *call)
{
	uint8_t arg[sizeof(struct kvswap_stats) + LONG];

	for (uint32_t size = 0; size < call->size; size++) {
		prepare(arg, call, size);
		CHECK_ERR(ioctl(fd, call->cmd, arg), EINVAL);
	}
	for (uint32_t size = call->size; size <= call->size + LONG; size++) {
		prepare(arg, call, size);
		check_call(fd, call, arg);
		if (size == call->size)
			continue;
		prepare(arg, call, size);
		arg[size - 1] = 1;
		CHECK_ERR(ioctl(fd, call->cmd, arg), E2BIG);
		prepare(arg, call, size);
		arg[call->size] = 1;
		CHECK_ERR(ioctl(fd, call->cmd, arg), E2BIG);
	}
	prepare(arg, call, ~0u);
	CHECK_ERR(ioctl(fd, call->cmd, arg), EINVAL);
	CHECK_ERR(ioctl(fd, call->cmd, NULL), EFAULT);
}

/*
 * Nothing behind the end of the argument is written, and an argument at the end of a mapping will
 * do.
 */
static void ends(int fd, const struct call *call)
{
	size_t size = sysconf(_SC_PAGESIZE);
	uint8_t *page =
		mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *arg = page + size - call->size, buf[sizeof(struct kvswap_stats) + LONG];

	CHECK(page != MAP_FAILED && !munmap(page + size, size));
	prepare(buf, call, call->size);
	memcpy(arg, buf, call->size);
	check_call(fd, call, arg);
	memcpy(arg, &(uint32_t){ call->size + 8 }, 4);
	CHECK_ERR(ioctl(fd, call->cmd, arg), EFAULT);
	prepare(buf, call, call->size);
	memset(buf + call->size, 0xcc, LONG);
	check_call(fd, call, buf);
	for (int i = 0; i < LONG; i++)
		CHECK(buf[call->size + i] == 0xcc);
	munmap(page, size);
}

static void numbers(int fd)
{
	uint8_t arg[256] = { 0 };

	for (unsigned int nr = 4; nr < 256; nr++)
		CHECK_ERR(ioctl(fd, _IO(KVSWAP_IOC_TYPE, nr), arg), ENOTTY);
	for (unsigned int nr = 0; nr < 4; nr++) {
		CHECK_ERR(ioctl(fd, _IO(KVSWAP_IOC_TYPE + 1, nr), arg), ENOTTY);
		CHECK_ERR(ioctl(fd, _IOWR(KVSWAP_IOC_TYPE, nr, uint64_t), arg), ENOTTY);
	}
}

static void info(int fd)
{
	struct kvswap_info info;

	memset(&info, 0xcc, sizeof(info));
	info.size = sizeof(info);
	CHECK(!ioctl(fd, KVSWAP_IOC_INFO, &info));
	CHECK_EQ(info.abi, KVSWAP_ABI);
	CHECK_EQ(info.size, sizeof(info));
	CHECK((info.features & (KVSWAP_F_BLOCK | KVSWAP_F_FILE)) ==
	      (KVSWAP_F_BLOCK | KVSWAP_F_FILE));
	CHECK_EQ(info.ops, (1ull << KVSWAP_OP_END) - 1);
	CHECK(info.entries_max >= 1024 && info.request_units_max >= 2048);
	CHECK(info.pinned_bytes_max > 1 << 20 && info.pinned_bytes == 0);
}

static void stats(int fd)
{
	struct kvswap_stats stats, zero = { .size = sizeof(stats) };

	memset(&stats, 0xcc, sizeof(stats));
	stats.size = sizeof(stats);
	CHECK(!ioctl(fd, KVSWAP_IOC_STATS, &stats));
	CHECK(!memcmp(&stats, &zero, sizeof(stats)));
}

static void flags(int fd)
{
	struct kvswap_setup setup = {
		.size = sizeof(setup), .fd = -1, .entries = 8, .arena_bytes = 4096
	};
	struct kvswap_enter enter = { .size = sizeof(enter) };

	for (int bit = 0; bit < 32; bit++) {
		enter.flags = 1u << bit;
		CHECK_ERR(ioctl(fd, KVSWAP_IOC_ENTER, &enter), EINVAL);
		setup.flags = 1u << bit;
		CHECK_ERR(ioctl(fd, KVSWAP_IOC_SETUP, &setup),
			  setup.flags == KVSWAP_SETUP_RDONLY ? EBADF : EINVAL);
	}
	setup.flags = 0;
	setup.entries = 0;
	CHECK_ERR(ioctl(fd, KVSWAP_IOC_SETUP, &setup), EINVAL);
	setup.entries = 4097;
	CHECK_ERR(ioctl(fd, KVSWAP_IOC_SETUP, &setup), EINVAL);
	setup.entries = 8;
	setup.arena_bytes = 0;
	CHECK_ERR(ioctl(fd, KVSWAP_IOC_SETUP, &setup), EINVAL);
}

int main(void)
{
	int fd = dev_open();

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		sizes(fd, &calls[i]);
		ends(fd, &calls[i]);
	}
	numbers(fd);
	info(fd);
	stats(fd);
	flags(fd);
	close(fd);
	return 0;
}
