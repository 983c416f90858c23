// SPDX-License-Identifier: MIT
/*
 * The I/O backends on a real file: data, order, limits, waiting. Each test runs over each backend.
 */
#include "disk.h"
#include "io_rig.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORE_SECTORS (RIG_STORE_BYTES / KVS_SECTOR)
#define PIECES_MAX 1024

static struct rig rig;

static void setup(void)
{
	disk_enter();
	rig_init(&rig);
}

static void teardown(void)
{
	rig_close(&rig);
	disk_leave();
}

/*
 * The whole store cut into pieces of 1 to 16 sectors, in random order; the arena place is set
 * later.
 */
static uint32_t cut(struct kvs_io_request *pieces, uint8_t op, uint64_t seed)
{
	uint64_t at = 0;
	uint32_t n = 0;

	while (at < STORE_SECTORS) {
		uint32_t sectors = 1 + (uint32_t)(rig_random(&seed) % 16);

		if (sectors > STORE_SECTORS - at)
			sectors = (uint32_t)(STORE_SECTORS - at);
		ck_assert_uint_lt(n, PIECES_MAX);
		pieces[n] = (struct kvs_io_request){
			.op = op,
			.urgency = (uint8_t)(rig_random(&seed) % 3),
			.layer = (uint16_t)n,
			.sectors = sectors,
			.store = at,
			.tag = n,
		};
		n++;
		at += sectors;
	}
	for (uint32_t i = n - 1; i > 0; i--) {
		uint32_t j = (uint32_t)(rig_random(&seed) % (i + 1));
		struct kvs_io_request swap = pieces[i];

		pieces[i] = pieces[j];
		pieces[j] = swap;
	}
	return n;
}

/* Runs all pieces through a window of arena places; reads are verified, writes carry `change`. */
static void run_pieces(struct kvs_io_request *pieces, uint32_t n, uint8_t change)
{
	const uint32_t room = 2 * rig.params.depth;
	uint32_t sent = 0, got = 0, place_of[PIECES_MAX], owner[64];
	bool seen[PIECES_MAX] = { false };

	ck_assert_uint_le(room, 64);
	memset(owner, 0xff, sizeof(owner));
	while (got < n) {
		struct kvs_io_completion done[64];
		int ret;

		for (uint32_t place = 0; place < room && sent < n; place++) {
			if (owner[place] != UINT32_MAX)
				continue;
			pieces[sent].arena = place * 16;
			owner[place] = sent;
			place_of[pieces[sent].tag] = place;
			if (pieces[sent].op == KVS_IO_WRITE)
				rig_fill(&rig, &pieces[sent], change);
			rig_submit(&rig, &pieces[sent++], 1);
		}
		ret = rig.io->ops->wait(rig.io, done, 1, 64);
		ck_assert_int_ge(ret, 1);
		for (int i = 0; i < ret; i++) {
			uint32_t place = place_of[done[i].tag];

			ck_assert_int_eq(done[i].result, 0);
			ck_assert_msg(!seen[done[i].tag], "completed twice");
			seen[done[i].tag] = true;
			if (pieces[owner[place]].op == KVS_IO_READ)
				rig_verify(&rig, &pieces[owner[place]]);
			owner[place] = UINT32_MAX;
			got++;
		}
	}
}

/* Every byte is read and verified, written anew, and read again. */
static void round_trip(int backend)
{
	struct kvs_io_request pieces[PIECES_MAX];
	uint32_t n;

	rig_open(&rig, backend);
	n = cut(pieces, KVS_IO_READ, 1);
	run_pieces(pieces, n, 0);
	n = cut(pieces, KVS_IO_WRITE, 2);
	run_pieces(pieces, n, 1);
	n = cut(pieces, KVS_IO_WRITE, 3);
	run_pieces(pieces, n, 0);
	memset(rig.io->arena, 0xcc, rig.io->arena_bytes);
	n = cut(pieces, KVS_IO_READ, 4);
	run_pieces(pieces, n, 0);
	ck_assert_int_eq(rig.io->ops->flush(rig.io), 0);
}

START_TEST(all_data)
{
	round_trip(_i);
}
END_TEST

START_TEST(all_data_buffered)
{
	ck_assert_int_eq(fcntl(rig.params.fd, F_SETFL, 0), 0);
	rig.params.direct = false;
	round_trip(_i);
}
END_TEST

START_TEST(all_data_delayed)
{
	rig.delay_us = 300;
	round_trip(_i);
}
END_TEST

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

START_TEST(all_data_under_signals)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval every = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };

	rig.delay_us = 300;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	round_trip(_i);
	setitimer(ITIMER_REAL, &never, NULL);
	ck_assert_int_gt(alarms, 0);
}
END_TEST

/* 2 * depth are taken at once, no more, and nothing of what did not fit is lost or done. */
START_TEST(full_queue_takes_no_more)
{
	struct kvs_io_request reqs[40];
	struct kvs_io_completion done[40];
	uint32_t taken = 0xcccccccc;

	rig_open(&rig, _i);
	for (uint32_t i = 0; i < 40; i++)
		reqs[i] = (struct kvs_io_request){
			.sectors = 8, .arena = 8 * i, .store = 8 * ((i * 37) % 100), .tag = i
		};
	ck_assert_int_eq(rig.io->ops->submit(rig.io, reqs, 40, &taken), -EAGAIN);
	ck_assert_uint_eq(taken, 32);
	ck_assert_uint_eq(rig.io->in_flight, 32);
	ck_assert_int_eq(rig.io->ops->submit(rig.io, reqs + 32, 1, &taken), -EAGAIN);
	ck_assert_uint_eq(taken, 0);
	rig_wait(&rig, done, 20);
	ck_assert_int_eq(rig.io->ops->submit(rig.io, reqs + 32, 8, &taken), 0);
	rig_wait(&rig, done + 20, 20);
	for (uint32_t i = 0; i < 40; i++) {
		ck_assert_int_eq(done[i].result, 0);
		rig_verify(&rig, &reqs[done[i].tag]);
	}
}
END_TEST

START_TEST(bad_requests_are_refused)
{
	const uint64_t arena = RIG_ARENA_BYTES / KVS_SECTOR;
	const struct kvs_io_request good = { .sectors = 8, .tag = 7 }, bad[] = {
		{ .sectors = 0 },
		{ .sectors = 8, .op = 2 },
		{ .sectors = 8, .op = 255 },
		{ .sectors = 8, .urgency = 3 },
		{ .sectors = 8, .arena = arena - 7 },
		{ .sectors = 8, .arena = UINT64_MAX },
		{ .sectors = 8, .arena = UINT64_MAX - 7 },
		{ .sectors = 8, .store = STORE_SECTORS - 7 },
		{ .sectors = 8, .store = UINT64_MAX - 7 },
		{ .sectors = UINT32_MAX },
		{ .sectors = 7 },
		{ .sectors = 8, .store = 1 },
	};
	struct kvs_io_completion done;

	rig.params.block_bytes = 4096;
	rig_open(&rig, _i);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct kvs_io_request both[] = { good, bad[i] };
		uint32_t taken = 0xcccccccc;

		ck_assert_msg(rig.io->ops->submit(rig.io, both, 2, &taken) == -EINVAL,
			      "bad request %zu", i);
		ck_assert_uint_eq(taken, 1);
		rig_wait(&rig, &done, 1);
		ck_assert_int_eq(done.result, 0);
		rig_verify(&rig, &good);
	}
}
END_TEST

static void urgencies(const uint8_t *urgency, const uint64_t *order, uint32_t n)
{
	struct kvs_io_request reqs[6];
	struct kvs_io_completion done[6];

	for (uint32_t i = 0; i < n; i++)
		reqs[i] = (struct kvs_io_request){ .urgency = urgency[i],
						   .sectors = 8,
						   .arena = 8 * i,
						   .store = 8 * i,
						   .tag = i };
	rig_submit(&rig, reqs, n);
	rig_wait(&rig, done, n);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(done[i].tag, order[i]);
}

/* With one request in flight at a time, those that wait go by urgency and then in order. */
START_TEST(urgent_goes_first)
{
	const uint8_t late = KVS_IO_LATE, ahead = KVS_IO_AHEAD, behind = KVS_IO_BEHIND;

	rig.params.depth = 1;
	rig_open(&rig, _i);
	urgencies((uint8_t[]){ behind, late }, (uint64_t[]){ 1, 0 }, 2);
	urgencies((uint8_t[]){ behind, ahead }, (uint64_t[]){ 1, 0 }, 2);
	urgencies((uint8_t[]){ ahead, late }, (uint64_t[]){ 1, 0 }, 2);
	urgencies((uint8_t[]){ late, behind }, (uint64_t[]){ 0, 1 }, 2);
}
END_TEST

START_TEST(urgent_goes_first_of_many)
{
	const uint8_t late = KVS_IO_LATE, ahead = KVS_IO_AHEAD, behind = KVS_IO_BEHIND;

	rig.params.threads = 1;
	rig_open(&rig, 1);
	urgencies((uint8_t[]){ behind, ahead, late, behind, ahead, late },
		  (uint64_t[]){ 2, 5, 1, 4, 0, 3 }, 6);
}
END_TEST

START_TEST(wait_counts)
{
	struct kvs_io_request reqs[6];
	struct kvs_io_completion done[6];
	int n;

	rig_open(&rig, _i);
	ck_assert_int_eq(rig.io->ops->wait(rig.io, done, 0, 6), 0);
	ck_assert_int_eq(rig.io->ops->wait(rig.io, done, 1, 6), 0);
	for (uint32_t i = 0; i < 6; i++)
		reqs[i] = (struct kvs_io_request){ .sectors = 8, .arena = 8 * i, .store = 8 * i };
	rig_submit(&rig, reqs, 6);
	ck_assert_int_eq(rig.io->ops->wait(rig.io, done, 1, 2) & ~3, 0);
	ck_assert_int_eq(rig.io->ops->flush(rig.io), -EBUSY);
	n = (int)rig.io->in_flight;
	ck_assert_int_ge(n, 4);
	ck_assert_int_eq(rig.io->ops->wait(rig.io, done, 100, 6), n);
	ck_assert_uint_eq(rig.io->in_flight, 0);
	/* A look never waits, and sees what is done in the end. */
	rig_submit(&rig, reqs, 1);
	for (n = 0; !n;)
		n = rig.io->ops->wait(rig.io, done, 0, 6);
	ck_assert_int_eq(n, 1);
}
END_TEST

static void *submitter(void *arg)
{
	rig_submit(&rig, arg, 16);
	return NULL;
}

/* A session passes from a thread that ends to another one, with requests in flight. */
START_TEST(session_changes_thread)
{
	struct kvs_io_request reqs[16];
	struct kvs_io_completion done[16];
	pthread_t thread;

	rig_open(&rig, _i);
	for (int round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 16; i++) {
			reqs[i] = (struct kvs_io_request){
				.op = (uint8_t)(round % 2),
				.sectors = 16,
				.arena = 16 * i,
				.store = 16 * ((i * 29 + (uint32_t)round) % 500),
				.tag = i,
			};
			if (reqs[i].op == KVS_IO_WRITE)
				rig_fill(&rig, &reqs[i], 0);
		}
		ck_assert_int_eq(pthread_create(&thread, NULL, submitter, reqs), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		rig_wait(&rig, done, 16);
		for (uint32_t i = 0; i < 16; i++) {
			ck_assert_int_eq(done[i].result, 0);
			rig_verify(&rig, &reqs[done[i].tag]);
		}
	}
}
END_TEST

/* The delay changes the order of completions, and nothing else. */
START_TEST(delay_changes_order)
{
	struct kvs_io_request reqs[32];
	struct kvs_io_completion done[32];
	uint32_t inversions = 0;

	rig.delay_us = 2000;
	rig.params.threads = 1;
	rig_open(&rig, _i);
	for (uint32_t i = 0; i < 32; i++)
		reqs[i] = (struct kvs_io_request){
			.sectors = 8, .arena = 8 * i, .store = 8 * i, .tag = i
		};
	rig_submit(&rig, reqs, 32);
	for (uint32_t i = 0; i < 32; i++) {
		rig_wait(&rig, &done[i], 1);
		rig_verify(&rig, &reqs[done[i].tag]);
		inversions += i && done[i].tag < done[i - 1].tag;
	}
	ck_assert_uint_gt(inversions, 4);
}
END_TEST

START_TEST(bad_params_are_refused)
{
	const struct kvs_io_params good = rig.params;
	struct kvs_io *io = NULL;
	struct {
		struct kvs_io_params params;
		const char *name;
		int result;
	} bad[] = {
		{ good, "nvme", -EINVAL },	     { good, rig_backends[_i], -EINVAL },
		{ good, rig_backends[_i], -EINVAL }, { good, rig_backends[_i], -EINVAL },
		{ good, rig_backends[_i], -EINVAL }, { good, rig_backends[_i], -EINVAL },
		{ good, rig_backends[_i], -EINVAL },
	};

	bad[1].params.arena_bytes = 0;
	bad[2].params.arena_bytes = 4097;
	bad[3].params.depth = 0;
	bad[4].params.depth = KVS_IO_DEPTH_MAX + 1;
	bad[5].params.block_bytes = 1000;
	bad[6].params.timeout_ms = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char why[KVS_MESSAGE_BYTES];

		memset(why, 0xcc, sizeof(why));
		ck_assert_msg(kvs_io_open(bad[i].name, &bad[i].params, 0, &io, why) ==
				      bad[i].result,
			      "bad parameters %zu", i);
		ck_assert_uint_gt(strnlen(why, sizeof(why)), 0);
		ck_assert_ptr_null(memchr(why, '\n', strlen(why)));
		ck_assert_ptr_null(io);
	}
	rig_open(&rig, _i);
}
END_TEST

/* Children neither see the arena nor make it copy-on-write. */
START_TEST(arena_is_not_inherited)
{
	unsigned char resident;
	int status;
	pid_t child;

	rig_open(&rig, _i);
	child = fork();
	if (!child)
		_exit(mincore(rig.io->arena, 4096, &resident) && errno == ENOMEM ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	rig_one(&rig, (struct kvs_io_request){ .sectors = 8 }, 0);
}
END_TEST

/* KiB that the kernel holds pinned for us. */
static long pinned(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	long kib = -1;

	ck_assert_ptr_nonnull(f);
	while (kib < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %ld", &kib);
	fclose(f);
	return kib;
}

START_TEST(arena_is_fixed_where_allowed)
{
	if (geteuid()) {
		rig_open(&rig, 0);
		disk_skip("not root");
		return;
	}
	rig_open(&rig, 0);
	ck_assert_int_ge(pinned(), (long)(RIG_ARENA_BYTES >> 10));
}
END_TEST

/* Without the right to lock memory all works, with plain reads and writes. */
START_TEST(all_data_without_fixed_arena)
{
	const struct rlimit little = { 65536, 65536 };
	bool root = !geteuid();

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &little), 0);
	if (root)
		ck_assert_int_eq(seteuid(65534), 0);
	round_trip(_i);
	ck_assert_int_lt(pinned(), (long)(RIG_ARENA_BYTES >> 10));
	if (root)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* Requests beyond the first GiB of the arena, and across it: fixed buffers come in pieces. */
START_TEST(arena_beyond_a_gib)
{
	const uint64_t piece = (uint64_t)1 << 30, sector = piece / KVS_SECTOR;
	const uint64_t places[] = { 0, sector - 16, sector - 8, sector, sector + 16 };

	if ((uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) < 3 * piece) {
		rig_open(&rig, _i);
		disk_skip("less than 3 GiB of memory free");
		return;
	}
	rig.params.arena_bytes = piece + (1 << 20);
	ck_assert_int_eq(kvs_io_open(rig_backends[_i], &rig.params, 0, &rig.io, rig.why), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct kvs_io_request req = { .sectors = 16, .arena = places[i], .store = 16 * i };

		rig_one(&rig, req, 0);
		rig_verify(&rig, &req);
		req.op = KVS_IO_WRITE;
		rig_one(&rig, req, 0);
	}
}
END_TEST

/* From now on io_uring_setup(2) fails with `error` in this process. */
static void forbid_io_uring(int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { .len = 4, .filter = code };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

/* Where io_uring is not to be had, auto takes threads and says why. */
START_TEST(auto_falls_back)
{
	static const int errors[] = { 0, ENOSYS, EPERM };
	struct kvs_io *io = NULL;

	if (errors[_i])
		forbid_io_uring(errors[_i]);
	ck_assert_int_eq(kvs_io_open("auto", &rig.params, 0, &rig.io, rig.why), 0);
	if (!strcmp(rig.io->ops->name, "module")) {
		disk_skip("the kernel module is loaded");
		return;
	}
	ck_assert_str_eq(rig.io->ops->name, errors[_i] ? "threads" : "io_uring");
	ck_assert_int_eq(strstr(rig.why, "io_uring: ") != NULL, errors[_i] != 0);
	rig_one(&rig, (struct kvs_io_request){ .sectors = 8 }, 0);
	if (!errors[_i])
		return;
	ck_assert_int_eq(kvs_io_open("io_uring", &rig.params, 0, &io, rig.why), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(rig.why, errors[_i] == EPERM ? "forbidden" : "kernel"));
}
END_TEST

Suite *suite_io(void)
{
	Suite *suite = suite_create("io");
	TCase *tc = tcase_create("io");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, all_data, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, all_data_buffered, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, all_data_delayed, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, all_data_under_signals, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, full_queue_takes_no_more, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, bad_requests_are_refused, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, urgent_goes_first, 0, RIG_BACKENDS);
	tcase_add_test(tc, urgent_goes_first_of_many);
	tcase_add_loop_test(tc, wait_counts, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, session_changes_thread, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, delay_changes_order, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, bad_params_are_refused, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, arena_is_not_inherited, 0, RIG_BACKENDS);
	tcase_add_test(tc, arena_is_fixed_where_allowed);
	tcase_add_loop_test(tc, all_data_without_fixed_arena, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, arena_beyond_a_gib, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, auto_falls_back, 0, 3);
	suite_add_tcase(suite, tc);
	return suite;
}
