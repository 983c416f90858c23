/* SPDX-License-Identifier: MIT */
/*
 * records DEVICE FILE PATTERNED: reads records in batches through the module and through io_uring
 * at its best, between marks that count.c understands, and checks every byte.
 *
 * io_uring at its best: registered buffers on huge pages, registered file, SINGLE_ISSUER |
 * DEFER_TASKRUN, one enter a batch. A phase prints "PHASE side store bytes depth run records" and
 * ends in one dump. Where PATTERNED is 1 the device is written first and contents are checked, else
 * (a device without content) that zeroes arrived everywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../include/uapi/kvswap.h"

#define ARENA (4u << 20)
#define DEPTH 32u
#define WARM 16
#define BATCHES 64

#define mark_on() __asm__ volatile("nopl 0x4b560001(%%rax)" ::: "memory")
#define mark_off() __asm__ volatile("nopl 0x4b560002(%%rax)" ::: "memory")
#define mark_dump() __asm__ volatile("nopl 0x4b560003(%%rax)" ::: "memory")

/* A batch: pieces read from the store into the arena, in bytes. */
struct piece {
	uint64_t store;
	uint32_t arena;
	uint32_t bytes;
};

struct side {
	const char *name;
	uint8_t *arena;
	void (*batch)(struct side *side, const struct piece *pieces, uint32_t n);
	int fd;
	struct kvswap_setup setup;
	struct kvswap_sq *sq;
	const struct kvswap_cq *cq;
	struct io_uring ring;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int open_store(const char *path)
{
	int fd = open(path, O_RDWR | O_DIRECT);

	if (fd < 0)
		die(path);
	return fd;
}

static void module_batch(struct side *side, const struct piece *pieces, uint32_t n)
{
	struct kvswap_enter enter = { .size = sizeof(enter), .to_submit = n, .min_complete = n };
	uint32_t mask = side->setup.entries - 1, tail = side->sq->tail, head = side->sq->cq_head;

	for (uint32_t i = 0; i < n; i++)
		side->sq->sqes[tail++ & mask] = (struct kvswap_sqe){
			.op = KVSWAP_OP_READ,
			.units = pieces[i].bytes / KVSWAP_UNIT,
			.store = pieces[i].store / KVSWAP_UNIT,
			.arena = pieces[i].arena / KVSWAP_UNIT,
			.user_data = i,
		};
	__atomic_store_n(&side->sq->tail, tail, __ATOMIC_RELEASE);
	while (ioctl(side->fd, KVSWAP_IOC_ENTER, &enter))
		if (errno != EINTR)
			die("ENTER");
	if (enter.available != n)
		die("ENTER: completions missing");
	for (tail = __atomic_load_n(&side->cq->tail, __ATOMIC_ACQUIRE); head != tail; head++)
		if (side->cq->cqes[head & mask].result)
			die("read");
	__atomic_store_n(&side->sq->cq_head, head, __ATOMIC_RELEASE);
}

static void *map(int fd, uint64_t bytes, int prot, uint64_t offset)
{
	void *p = mmap(NULL, bytes, prot, MAP_SHARED, fd, offset);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void module_open(struct side *side, const char *path)
{
	struct kvswap_setup *s = &side->setup;
	int store = open_store(path);

	*side = (struct side){ .name = "module",
			       .batch = module_batch,
			       .fd = open("/dev/kvswap", O_RDWR) };
	*s = (struct kvswap_setup){
		.size = sizeof(*s), .fd = store, .entries = DEPTH, .arena_bytes = ARENA
	};
	if (side->fd < 0 || ioctl(side->fd, KVSWAP_IOC_SETUP, s))
		die("/dev/kvswap");
	close(store);
	side->sq = map(side->fd, s->sq_bytes, PROT_READ | PROT_WRITE, s->sq_offset);
	side->cq = map(side->fd, s->cq_bytes, PROT_READ, s->cq_offset);
	side->arena = map(side->fd, s->arena_bytes, PROT_READ | PROT_WRITE, s->arena_offset);
}

static void module_close(struct side *side)
{
	munmap(side->sq, side->setup.sq_bytes);
	munmap((void *)side->cq, side->setup.cq_bytes);
	munmap(side->arena, side->setup.arena_bytes);
	close(side->fd);
}

static void uring_batch(struct side *side, const struct piece *pieces, uint32_t n)
{
	struct io_uring_cqe *cqe;
	uint32_t done = 0;
	unsigned int head;

	for (uint32_t i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&side->ring);

		io_uring_prep_read_fixed(sqe, 0, side->arena + pieces[i].arena, pieces[i].bytes,
					 pieces[i].store, 0);
		io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
		sqe->user_data = pieces[i].bytes;
	}
	if (io_uring_submit_and_wait(&side->ring, n) != (int)n)
		die("io_uring");
	io_uring_for_each_cqe(&side->ring, head, cqe)
	{
		if (cqe->res != (int)cqe->user_data)
			die("read");
		done++;
	}
	io_uring_cq_advance(&side->ring, done);
	if (done != n)
		die("io_uring: completions missing");
}

static void uring_open(struct side *side, const char *path)
{
	struct io_uring_params p = { .flags = IORING_SETUP_SINGLE_ISSUER |
					      IORING_SETUP_DEFER_TASKRUN };
	struct iovec vec;

	*side = (struct side){ .name = "io_uring", .batch = uring_batch, .fd = open_store(path) };
	side->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (side->arena == MAP_FAILED)
		die("huge pages");
	vec = (struct iovec){ side->arena, ARENA };
	if (io_uring_queue_init_params(DEPTH, &side->ring, &p) ||
	    io_uring_register_buffers(&side->ring, &vec, 1) ||
	    io_uring_register_files(&side->ring, &side->fd, 1))
		die("io_uring");
}

static void uring_close(struct side *side)
{
	io_uring_queue_exit(&side->ring);
	munmap(side->arena, ARENA);
	close(side->fd);
}

static uint64_t word_of(uint64_t place, bool patterned)
{
	return patterned ? place * 0x9e3779b97f4a7c15ull + 1 : 0;
}

static void verify(struct side *side, const struct piece *pieces, uint32_t n, bool patterned)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t *p = (const uint64_t *)(side->arena + pieces[i].arena);

		for (uint32_t w = 0; w < pieces[i].bytes / 8; w++)
			if (p[w] != word_of(pieces[i].store / 8 + w, patterned)) {
				printf("BAD %s: store %llu\n", side->name,
				       (unsigned long long)pieces[i].store + w * 8);
				exit(1);
			}
	}
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/*
 * Runs of neighbours begin at even multiples of their length plus a gap, in random order, so that
 * two runs never touch; a run goes into neighbouring slots. joined: the application has put
 * neighbours together itself.
 */
static uint32_t lay_out(struct piece *pieces, uint32_t bytes, uint32_t depth, uint32_t run,
			bool joined, uint64_t *seed)
{
	uint32_t order[DEPTH], runs = depth / run, n = 0;

	for (uint32_t i = 0; i < runs; i++) {
		uint32_t j = random_next(seed) % (i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (uint32_t i = 0; i < runs; i++)
		for (uint32_t k = 0; k < (joined ? 1 : run); k++, n++)
			pieces[n] = (struct piece){
				.store = ((uint64_t)order[i] * (run + 1) + k) * bytes,
				.arena = (i * run + k) * bytes,
				.bytes = joined ? run * bytes : bytes,
			};
	return n;
}

static void phase(struct side *side, const char *kind, uint32_t bytes, uint32_t depth, uint32_t run,
		  bool joined, bool patterned)
{
	struct piece pieces[DEPTH];
	uint64_t seed = 88172645463325252ull;
	int batches = depth == 1 ? 8 * BATCHES : BATCHES;

	for (int i = 0; i < WARM + batches; i++) {
		uint32_t n = lay_out(pieces, bytes, depth, run, joined, &seed);

		memset(side->arena, 0xcc, (size_t)depth * bytes);
		if (i >= WARM)
			mark_on();
		side->batch(side, pieces, n);
		mark_off();
		verify(side, pieces, n, patterned);
	}
	mark_dump();
	printf("PHASE %s%s %s %u %u %u %u\n", side->name, joined ? "_joined" : "", kind, bytes,
	       depth, run, batches * depth);
	fflush(stdout);
}

static void phases(struct side *side, const char *kind, bool patterned)
{
	static const uint32_t sizes[] = { 4096, 16384, 65536 };
	bool uring = !strcmp(side->name, "io_uring");

	for (int i = 0; i < 3; i++)
		phase(side, kind, sizes[i], 32, 1, false, patterned);
	phase(side, kind, 4096, 1, 1, false, patterned);
	phase(side, kind, 4096, 32, 4, false, patterned);
	phase(side, kind, 16384, 32, 4, false, patterned);
	if (uring) {
		phase(side, kind, 4096, 32, 4, true, patterned);
		phase(side, kind, 16384, 32, 4, true, patterned);
	}
}

static void write_pattern(const char *path)
{
	size_t bytes = 1 << 20;
	uint64_t *buf = NULL;
	int fd = open_store(path);

	if (posix_memalign((void **)&buf, 4096, bytes))
		die("memory");
	for (uint64_t at = 0; at < 8; at++) {
		for (size_t i = 0; i < bytes / 8; i++)
			buf[i] = word_of(at * bytes / 8 + i, true);
		if (pwrite(fd, buf, bytes, at * bytes) != (ssize_t)bytes)
			die("write");
	}
	free(buf);
	close(fd);
}

int main(int argc, char **argv)
{
	struct side side;
	bool patterned;

	if (argc != 4) {
		fprintf(stderr, "usage: records STORE KIND PATTERNED\n");
		return 2;
	}
	patterned = atoi(argv[3]);
	if (patterned)
		write_pattern(argv[1]);
	uring_open(&side, argv[1]);
	phases(&side, argv[2], patterned);
	uring_close(&side);
	module_open(&side, argv[1]);
	phases(&side, argv[2], patterned);
	module_close(&side);
	return 0;
}
