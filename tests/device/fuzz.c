/* SPDX-License-Identifier: MIT */
/*
 * fuzz [OPERATIONS [SEED]]: random sequences of open, SETUP, mmap, scribbling, ENTER, STATS,
 * munmap, poll, dup, fork and close from several processes, made to be nearly right. It passes when
 * nobody dies of anything but its own kill -9; what the kernel thinks of it is in its log.
 */
#include "dev.h"

#define PROCESSES 4
#define FILES 6
#define MAPS 12

struct map {
	void *at;
	size_t bytes;
	uint64_t offset;
};

static uint64_t seed;
static int files[FILES];
static struct kvswap_setup setups[FILES];
static struct map maps[MAPS];
static const char *stores[4];
static int nr_stores;

static uint64_t below(uint64_t n)
{
	return dev_random(&seed) % n;
}

/* A number of the kind that borders are made of. */
static uint64_t odd(uint64_t usual)
{
	switch (below(12)) {
	case 0:
		return dev_random(&seed);
	case 1:
		return ~0ull - below(16);
	case 2:
		return 1ull << below(64);
	case 3:
		return usual + below(3) - 1;
	default:
		return usual;
	}
}

static void do_open(int i)
{
	if (files[i] >= 0)
		close(files[i]);
	files[i] = open("/dev/kvswap", O_RDWR | (below(2) ? O_CLOEXEC : 0));
	memset(&setups[i], 0, sizeof(setups[i]));
}

static void do_setup(int i)
{
	static const int flags[] = { O_RDWR | O_DIRECT, O_RDWR | O_DIRECT, O_RDONLY | O_DIRECT,
				     O_RDWR };
	int fd = open(stores[below(nr_stores)], flags[below(4)]);
	struct kvswap_setup s = {
		.size = below(20) ? sizeof(s) : odd(sizeof(s)),
		.flags = below(8) ? 0 : odd(KVSWAP_SETUP_RDONLY),
		.fd = below(16) ? fd : (int)odd(fd),
		.entries = odd(1 + below(32)),
		.store_offset = below(4) ? 0 : odd(4096 * below(64)),
		.store_bytes = below(2) ? 0 : odd(4096 * below(1024)),
		.arena_bytes = odd(4096 * (1 + below(512))),
		.write_depth = below(2) ? 0 : odd(below(4)),
	};

	if (!ioctl(files[i], KVSWAP_IOC_SETUP, &s))
		setups[i] = s;
	if (fd >= 0)
		close(fd);
}

static void do_map(int i)
{
	struct map *m = &maps[below(MAPS)];
	struct kvswap_setup *s = &setups[i];
	uint64_t offsets[3] = { s->sq_offset, s->cq_offset, s->arena_offset };
	uint64_t sizes[3] = { s->sq_bytes, s->cq_bytes, s->arena_bytes };
	int kind = below(3);
	void *at;

	if (m->at)
		munmap(m->at, m->bytes);
	m->at = NULL;
	m->bytes = odd(sizes[kind]) & 0xfffffff;
	m->offset = odd(offsets[kind]) & ~4095ull;
	at = mmap(NULL, m->bytes, kind == 1 && below(8) ? PROT_READ : PROT_READ | PROT_WRITE,
		  below(16) ? MAP_SHARED : MAP_PRIVATE, files[i], m->offset);
	if (at != MAP_FAILED)
		m->at = at;
}

static struct kvswap_sqe a_submission(const struct kvswap_setup *s)
{
	uint32_t block = s->block_bytes / KVSWAP_UNIT ?: 1;
	struct kvswap_sqe sqe = {
		.op = below(20) ? below(KVSWAP_OP_END) : odd(1),
		.flags = below(10) ? 0 : odd(1),
		.ioprio = below(10) ? 0 : odd(below(4) << 13),
	};
	bool data = sqe.op == KVSWAP_OP_READ || sqe.op == KVSWAP_OP_WRITE;

	if (data || sqe.op == KVSWAP_OP_DISCARD || sqe.op == KVSWAP_OP_WRITE_ZEROES) {
		sqe.units = odd(block << below(6));
		sqe.store = odd(below(s->store_bytes / KVSWAP_UNIT + 1) & ~(uint64_t)(block - 1));
	}
	if (data)
		sqe.arena = odd(below(s->arena_bytes / KVSWAP_UNIT + 1));
	if (!below(30))
		sqe.__reserved = odd(1);
	sqe.user_data = below(8);
	return sqe;
}

/* A map that is the submission ring of file i, if there is one. */
static struct map *ring_of(int i)
{
	for (int k = 0; k < MAPS; k++)
		if (maps[k].at && maps[k].bytes == setups[i].sq_bytes &&
		    maps[k].offset == setups[i].sq_offset)
			return &maps[k];
	return NULL;
}

static void do_submit(int i)
{
	struct map *m = ring_of(i);
	struct kvswap_setup *s = &setups[i];
	struct kvswap_sq *sq;

	if (!m || mprotect(m->at, m->bytes, PROT_READ | PROT_WRITE))
		return;
	sq = m->at;
	for (uint64_t n = below(8); n; n--) {
		sq->sqes[sq->tail & (s->entries - 1)] = a_submission(s);
		sq->tail++;
	}
	if (!below(10))
		sq->tail = odd(sq->tail);
	if (!below(3))
		sq->cq_head = odd(sq->cq_head + below(4));
}

static void do_scribble(void)
{
	struct map *m = &maps[below(MAPS)];
	uint32_t *words = m->at;

	if (!m->at || m->bytes < 4 || mprotect(m->at, m->bytes, PROT_READ | PROT_WRITE))
		return;
	for (int n = 0; n < 4; n++)
		words[below(m->bytes / 4)] = odd(below(64));
}

static void do_enter(int i)
{
	struct kvswap_enter e = {
		.size = below(30) ? sizeof(e) : odd(sizeof(e)),
		.flags = below(30) ? 0 : odd(1),
		.to_submit = odd(below(10)),
		.min_complete = below(2) ? 0 : odd(below(6)),
		.deadline_ns = dev_now_ns() + below(2000000),
	};

	ioctl(files[i], KVSWAP_IOC_ENTER, &e);
}

static void do_look(int i)
{
	struct kvswap_stats stats = { .size = sizeof(stats) };
	struct kvswap_info info = { .size = sizeof(info) };
	struct pollfd p = { .fd = files[i], .events = POLLIN };

	ioctl(files[i], KVSWAP_IOC_STATS, &stats);
	ioctl(files[i], KVSWAP_IOC_INFO, &info);
	ioctl(files[i], _IO(KVSWAP_IOC_TYPE, below(6)), odd(0));
	poll(&p, 1, 0);
}

static void do_share(int i)
{
	int k = below(FILES);

	if (files[i] < 0 || k == i)
		return;
	if (files[k] >= 0)
		close(files[k]);
	files[k] = dup(files[i]);
	setups[k] = setups[i];
}

static void do_unmap(void)
{
	struct map *m = &maps[below(MAPS)];

	if (m->at)
		munmap(m->at, m->bytes);
	m->at = NULL;
}

static void do_fork(int i)
{
	pid_t pid = fork();

	if (!pid) {
		do_enter(i);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void step(void)
{
	int i = below(FILES), what = below(100);

	if (files[i] < 0 || what < 2)
		do_open(i);
	else if (what < 7 || !setups[i].entries)
		do_setup(i);
	else if (what < 20)
		do_map(i);
	else if (what < 50)
		do_submit(i);
	else if (what < 80)
		do_enter(i);
	else if (what < 88)
		do_scribble();
	else if (what < 93)
		do_look(i);
	else if (what < 95)
		do_share(i);
	else if (what < 99)
		do_unmap();
	else if (!below(20))
		do_fork(i);
}

static void run(uint64_t operations, uint64_t first)
{
	seed = first;
	for (int i = 0; i < FILES; i++)
		files[i] = -1;
	for (uint64_t n = 0; n < operations; n++)
		step();
	_exit(0);
}

static void add_store(const char *path)
{
	if (path && !access(path, F_OK))
		stores[nr_stores++] = path;
}

int main(int argc, char **argv)
{
	uint64_t operations = argc > 1 ? strtoull(argv[1], NULL, 0) : 20000;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	char file[200] = "";
	int status, failed = 0;

	close(dev_open());
	add_store(getenv("KV_512"));
	add_store(getenv("KV_4K"));
	if (getenv("KV_DIR")) {
		dev_temp_file(file, sizeof(file), 4 << 20);
		add_store(file);
	}
	if (!nr_stores)
		dev_skip("no store");
	for (int p = 0; p < PROCESSES; p++)
		if (!fork())
			run(operations / PROCESSES, first * PROCESSES + p + 1);
	for (int p = 0; p < PROCESSES; p++) {
		CHECK(wait(&status) > 0);
		if (status) {
			fprintf(stderr, "a process ended with status %#x\n", status);
			failed = 1;
		}
	}
	if (*file)
		unlink(file);
	return failed;
}
