/* SPDX-License-Identifier: MIT */
/* See dev.h. */
#include "dev.h"

void dev_fail(const char *file, int line, const char *what, int err)
{
	fprintf(stderr, "%s:%d: %s (%s)\n", file, line, what, strerror(err));
	_exit(1);
}

void dev_fail_eq(const char *file, int line, const char *what, long long a, long long b)
{
	fprintf(stderr, "%s:%d: %s: %lld, %lld\n", file, line, what, a, b);
	_exit(1);
}

void dev_skip(const char *why)
{
	printf("%s\n", why);
	fflush(stdout);
	_exit(77);
}

int dev_open(void)
{
	int fd = open("/dev/kvswap", O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		dev_skip("no /dev/kvswap");
	CHECK(fd >= 0);
	return fd;
}

const char *dev_store(const char *var)
{
	const char *path = getenv(var);

	if (!path || access(path, F_OK)) {
		static char why[100];

		snprintf(why, sizeof(why), "no %s", var);
		dev_skip(why);
	}
	return path;
}

int dev_open_store(const char *path)
{
	int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

void dev_temp_file(char *path, size_t size, uint64_t bytes)
{
	static const char zeroes[65536];
	int fd;

	snprintf(path, size, "%s/kvswap-XXXXXX", dev_store("KV_DIR"));
	fd = mkstemp(path);
	CHECK(fd >= 0);
	for (uint64_t at = 0; at < bytes; at += sizeof(zeroes))
		CHECK(write(fd, zeroes, sizeof(zeroes)) == sizeof(zeroes));
	CHECK(!fsync(fd));
	close(fd);
}

static void *dev_map(struct dev *d, uint64_t bytes, int prot, uint64_t offset)
{
	void *p = mmap(NULL, bytes, prot, MAP_SHARED, d->fd, offset);

	CHECK(p != MAP_FAILED);
	return p;
}

int dev_try(struct dev *d, const char *path, uint32_t entries, uint64_t arena_bytes,
	    uint32_t write_depth)
{
	int store = dev_open_store(path), ret;

	memset(d, 0, sizeof(*d));
	d->fd = dev_open();
	memset(&d->setup, 0xcc, sizeof(d->setup));
	d->setup.size = sizeof(d->setup);
	d->setup.flags = 0;
	d->setup.fd = store;
	d->setup.entries = entries;
	d->setup.store_offset = 0;
	d->setup.store_bytes = 0;
	d->setup.arena_bytes = arena_bytes;
	d->setup.write_depth = write_depth;
	ret = ioctl(d->fd, KVSWAP_IOC_SETUP, &d->setup);
	close(store);
	if (ret) {
		ret = errno;
		close(d->fd);
		errno = ret;
		return -1;
	}
	d->sq = dev_map(d, d->setup.sq_bytes, PROT_READ | PROT_WRITE, d->setup.sq_offset);
	d->cq = dev_map(d, d->setup.cq_bytes, PROT_READ, d->setup.cq_offset);
	d->arena = dev_map(d, d->setup.arena_bytes, PROT_READ | PROT_WRITE, d->setup.arena_offset);
	return 0;
}

void dev_start_depth(struct dev *d, const char *path, uint32_t entries, uint64_t arena_bytes,
		     uint32_t write_depth)
{
	CHECK(!dev_try(d, path, entries, arena_bytes, write_depth));
}

void dev_start(struct dev *d, const char *path, uint32_t entries, uint64_t arena_bytes)
{
	dev_start_depth(d, path, entries, arena_bytes, 0);
}

void dev_stop(struct dev *d)
{
	CHECK(!munmap(d->sq, d->setup.sq_bytes));
	CHECK(!munmap((void *)d->cq, d->setup.cq_bytes));
	CHECK(!munmap(d->arena, d->setup.arena_bytes));
	CHECK(!close(d->fd));
}

void dev_push(struct dev *d, const struct kvswap_sqe *sqe)
{
	uint32_t tail = d->sq->tail;

	CHECK(tail - __atomic_load_n(&d->cq->sq_head, __ATOMIC_ACQUIRE) < d->setup.entries);
	d->sq->sqes[tail & (d->setup.entries - 1)] = *sqe;
	__atomic_store_n(&d->sq->tail, tail + 1, __ATOMIC_RELEASE);
}

int dev_enter(struct dev *d, uint32_t submit, uint32_t min_complete, uint64_t deadline_ns,
	      struct kvswap_enter *out)
{
	struct kvswap_enter enter;
	int ret;

	memset(&enter, 0xcc, sizeof(enter));
	enter.size = sizeof(enter);
	enter.flags = 0;
	enter.to_submit = submit;
	enter.min_complete = min_complete;
	enter.deadline_ns = deadline_ns;
	ret = ioctl(d->fd, KVSWAP_IOC_ENTER, &enter);
	if (out)
		*out = enter;
	return ret;
}

bool dev_reap(struct dev *d, struct kvswap_cqe *cqe)
{
	if (d->cq_head == __atomic_load_n(&d->cq->tail, __ATOMIC_ACQUIRE))
		return false;
	*cqe = d->cq->cqes[d->cq_head & (d->setup.entries - 1)];
	__atomic_store_n(&d->sq->cq_head, ++d->cq_head, __ATOMIC_RELEASE);
	return true;
}

int dev_do(struct dev *d, const struct kvswap_sqe *sqe)
{
	struct kvswap_enter enter;
	struct kvswap_cqe cqe;

	dev_push(d, sqe);
	CHECK(!dev_enter(d, 1, 1, 0, &enter));
	CHECK_EQ(enter.submitted, 1);
	CHECK_EQ(enter.available, 1);
	CHECK(dev_reap(d, &cqe));
	CHECK_EQ(cqe.user_data, sqe->user_data);
	return cqe.result;
}

int dev_rw(struct dev *d, uint8_t op, uint64_t store, uint32_t arena, uint32_t units)
{
	struct kvswap_sqe sqe = {
		.op = op, .store = store, .arena = arena, .units = units, .user_data = store
	};

	return dev_do(d, &sqe);
}

uint64_t dev_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

uint64_t dev_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t dev_word(uint64_t place, uint64_t version, size_t i)
{
	return (place * 0x9e3779b97f4a7c15ull + i) ^ version << 48;
}

void dev_fill(void *buf, size_t bytes, uint64_t place, uint64_t version)
{
	uint64_t *p = buf;

	for (size_t i = 0; i < bytes / 8; i++)
		p[i] = dev_word(place, version, i);
}

bool dev_is(const void *buf, size_t bytes, uint64_t place, uint64_t version)
{
	const uint64_t *p = buf;

	for (size_t i = 0; i < bytes / 8; i++)
		if (p[i] != dev_word(place, version, i))
			return false;
	return true;
}
