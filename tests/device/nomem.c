/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of a context's life failing in its turn (/proc/self/fail-nth): SETUP, mapping and requests fail
 * cleanly or not at all, and the next attempt works. Needs a kernel with fault injection.
 */
#include "dev.h"

#define FAIL_NTH "/proc/thread-self/fail-nth"
#define POINTS_MAX 3000

static void set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		return;
	CHECK(write(fd, value, strlen(value)) == (ssize_t)strlen(value));
	close(fd);
}

static void arm(int fd, int nth)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", nth);

	CHECK(pwrite(fd, text, n, 0) == n);
}

/* Has the failure asked for happened? Disarms in any case. */
static bool hit(int fd)
{
	char text[16] = "";

	CHECK(pread(fd, text, sizeof(text) - 1, 0) > 0);
	arm(fd, 0);
	return atoi(text) == 0;
}

static void map_and_use(int fd, struct kvswap_setup *s)
{
	struct kvswap_enter e = { .size = sizeof(e), .to_submit = 4, .min_complete = 4 };
	struct kvswap_sq *sq =
		mmap(NULL, s->sq_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, s->sq_offset);
	void *cq = mmap(NULL, s->cq_bytes, PROT_READ, MAP_SHARED, fd, s->cq_offset);
	void *arena =
		mmap(NULL, s->arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, s->arena_offset);

	if (sq != MAP_FAILED) {
		for (uint32_t i = 0; i < 4; i++)
			sq->sqes[i] =
				(struct kvswap_sqe){ .op = i % 2 ? KVSWAP_OP_READ : KVSWAP_OP_WRITE,
						     .units = 64,
						     .store = 1000 * i,
						     .arena = 64 * i };
		sq->tail = 4;
		ioctl(fd, KVSWAP_IOC_ENTER, &e);
		munmap(sq, s->sq_bytes);
	}
	if (cq != MAP_FAILED)
		munmap(cq, s->cq_bytes);
	if (arena != MAP_FAILED)
		munmap(arena, s->arena_bytes);
}

static void life(const char *path)
{
	struct kvswap_setup s = { .size = sizeof(s), .entries = 8, .arena_bytes = 3 << 20 };
	int fd = open("/dev/kvswap", O_RDWR);

	if (fd < 0)
		return;
	s.fd = open(path, O_RDWR | O_DIRECT);
	if (s.fd >= 0 && !ioctl(fd, KVSWAP_IOC_SETUP, &s))
		map_and_use(fd, &s);
	if (s.fd >= 0)
		close(s.fd);
	close(fd);
}

static void sweep(const char *path, int nth_fd)
{
	int nth = 1;
	struct dev d;

	for (; nth < POINTS_MAX; nth++) {
		arm(nth_fd, nth);
		life(path);
		if (!hit(nth_fd))
			break;
		if (nth % 50 == 0) {
			dev_start(&d, path, 8, 1 << 20);
			CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 0, 0, 64), 0);
			dev_stop(&d);
		}
	}
	printf("%d points of failure on %s\n", nth - 1, path);
	CHECK(nth > 10 && nth < POINTS_MAX);
}

int main(void)
{
	char file[200];
	int fd = open(FAIL_NTH, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		dev_skip("no fault injection in this kernel");
	set("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	set("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	set("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	set("/sys/kernel/debug/failslab/verbose", "0");
	set("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	dev_temp_file(file, sizeof(file), 4 << 20);
	sweep(dev_store("KV_512"), fd);
	sweep(file, fd);
	unlink(file);
	return 0;
}
