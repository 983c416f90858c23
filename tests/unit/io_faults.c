// SPDX-License-Identifier: MIT
/*
 * What goes wrong below the I/O backends: made-up faults, and real ones where the machine allows.
 */
#include "disk.h"
#include "io_rig.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 8

static struct rig rig;
static struct kvs_io_fault fault;

static void setup(void)
{
	disk_enter();
	rig_init(&rig);
}

static void teardown(void)
{
	disk_leave();
}

static void open_faulty(int backend, enum kvs_io_fault_kind kind, enum kvs_io_op op, int error,
			uint64_t first, uint64_t count)
{
	fault = (struct kvs_io_fault){ .kind = (uint8_t)kind,
				       .op = (uint8_t)op,
				       .error = error,
				       .first = first,
				       .count = count };
	rig.params.fault = &fault;
	rig_open(&rig, backend);
}

/* N requests in a row; their results by tag. */
static void run(enum kvs_io_op op, int32_t *results)
{
	struct kvs_io_request reqs[N];
	struct kvs_io_completion done[N];

	for (uint32_t i = 0; i < N; i++) {
		reqs[i] = (struct kvs_io_request){
			.op = (uint8_t)op, .sectors = 8, .arena = 8 * i, .store = 8 * i, .tag = i
		};
		if (op == KVS_IO_WRITE)
			rig_fill(&rig, &reqs[i], 0);
	}
	rig_submit(&rig, reqs, N);
	rig_wait(&rig, done, N);
	memset(results, 0xcc, N * sizeof(*results));
	for (uint32_t i = 0; i < N; i++)
		results[done[i].tag] = done[i].result;
}

static int same_as_store(uint32_t i)
{
	const uint8_t *at = (const uint8_t *)rig.io->arena + i * 8 * KVS_SECTOR;
	int wrong = 0;

	for (uint32_t j = 0; j < 8 * KVS_SECTOR; j++)
		wrong += at[j] != rig_byte(i * 8 * KVS_SECTOR + j);
	return wrong;
}

START_TEST(errors_hit_the_chosen_ones)
{
	const enum kvs_io_op op = _i & 2 ? KVS_IO_WRITE : KVS_IO_READ;
	const int error = _i & 2 ? -ENOSPC : -EIO;
	int32_t results[N];

	rig.delay_us = _i & 4 ? 200 : 0;
	open_faulty(_i & 1, KVS_FAULT_ERROR, op, error, 2, 3);
	run(op, results);
	for (int i = 0; i < N; i++)
		ck_assert_int_eq(results[i], i >= 2 && i < 5 ? error : 0);
	run(op == KVS_IO_READ ? KVS_IO_WRITE : KVS_IO_READ, results);
	for (int i = 0; i < N; i++)
		ck_assert_int_eq(results[i], 0);
	rig_close(&rig);
}
END_TEST

START_TEST(one_bit_is_flipped)
{
	int32_t results[N];

	open_faulty(_i, KVS_FAULT_FLIP, KVS_IO_READ, 0, 3, 1);
	run(KVS_IO_READ, results);
	for (uint32_t i = 0; i < N; i++) {
		ck_assert_int_eq(results[i], 0);
		ck_assert_int_eq(same_as_store(i), i == 3);
	}
	rig_close(&rig);
}
END_TEST

START_TEST(read_goes_astray)
{
	int32_t results[N];

	open_faulty(_i, KVS_FAULT_ASTRAY, KVS_IO_READ, 0, 3, 1);
	run(KVS_IO_READ, results);
	for (uint32_t i = 0; i < N; i++) {
		ck_assert_int_eq(results[i], 0);
		ck_assert_int_eq(same_as_store(i) > 0, i == 3);
	}
	ck_assert_int_eq(memcmp((uint8_t *)rig.io->arena + 3 * 4096,
				(uint8_t *)rig.io->arena + 4 * 4096, 4096),
			 0);
	rig_close(&rig);
}
END_TEST

/* Bounded: not before the timeout, not long after; what was done is still handed out. */
static void expect_timeout(uint32_t done_before)
{
	struct kvs_io_completion done[N];
	double start = rig_seconds(), seconds;

	if (done_before)
		rig_wait(&rig, done, done_before);
	ck_assert_int_eq(rig.io->ops->wait(rig.io, done, 1, N), -ETIMEDOUT);
	seconds = rig_seconds() - start;
	ck_assert_msg(seconds > 0.25 && seconds < 5, "%.2f s", seconds);
	start = rig_seconds();
	ck_assert_int_eq(rig.io->ops->wait(rig.io, done, 1, N), -ETIMEDOUT);
	ck_assert_double_lt(rig_seconds() - start, 2);
}

START_TEST(stalled_read_times_out)
{
	struct kvs_io_request reqs[N];

	rig.params.timeout_ms = 300;
	open_faulty(_i, KVS_FAULT_STALL, KVS_IO_READ, 0, 1, 1);
	for (uint32_t i = 0; i < N; i++)
		reqs[i] = (struct kvs_io_request){ .sectors = 8, .arena = 8 * i, .store = 8 * i };
	rig_submit(&rig, reqs, N);
	expect_timeout(N - 1);
	rig.io->ops->close(rig.io);
}
END_TEST

/* The file is cut short while it is in use: what is gone is an error, what is left is read. */
START_TEST(truncated_file)
{
	const uint64_t left = RIG_STORE_BYTES / 2;
	struct kvs_io_request req = { .sectors = 16, .store = left / KVS_SECTOR - 16 };

	rig_open(&rig, _i);
	ck_assert_int_eq(ftruncate(rig.params.fd, (off_t)left), 0);
	rig_one(&rig, req, 0);
	rig_verify(&rig, &req);
	req.store += 8;
	rig_one(&rig, req, -EIO);
	req.store += 8;
	rig_one(&rig, req, -EIO);
	req.store = 0;
	rig_one(&rig, req, 0);
	rig_verify(&rig, &req);
	rig_close(&rig);
}
END_TEST

/* What the kernel refuses arrives as it said it. */
START_TEST(read_only_file)
{
	int fd = open("store", O_RDONLY | O_CLOEXEC);

	close(rig.params.fd);
	rig.params.fd = fd;
	rig_open(&rig, _i);
	rig_one(&rig, (struct kvs_io_request){ .sectors = 8 }, 0);
	rig_one(&rig, (struct kvs_io_request){ .op = KVS_IO_WRITE, .sectors = 8 }, -EBADF);
	rig_one(&rig, (struct kvs_io_request){ .sectors = 8 }, 0);
	rig_close(&rig);
}
END_TEST

/* A loop device whose file was cut short fails reads as a disk with bad sectors does. */
START_TEST(bad_sectors)
{
	struct kvs_io_request req = { .sectors = 8, .store = 4096 };
	char path[32];
	int loop;

	disk_file("disk", RIG_STORE_BYTES);
	loop = disk_loop(__func__, "disk", 512, false, path);
	if (loop < 0)
		return;
	close(rig.params.fd);
	rig.params.fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	ck_assert_int_ge(rig.params.fd, 0);
	rig_open(&rig, _i);
	rig_one(&rig, req, 0);
	ck_assert_int_eq(truncate("disk", RIG_STORE_BYTES / 4), 0);
	rig_one(&rig, req, -EIO);
	req.store = 0;
	rig_one(&rig, req, 0);
	rig_close(&rig);
	close(loop);
}
END_TEST

/* A file system that is full when a write-back comes: a file with holes on a small tmpfs. */
START_TEST(no_space_in_the_middle)
{
	struct kvs_io_request req = { .op = KVS_IO_WRITE, .sectors = 256 };
	int error = 0;

	if (!disk_private(__func__) ||
	    !disk_mount(__func__, "none", "small", "tmpfs", 0, "size=1m"))
		return;
	close(rig.params.fd);
	disk_file("small/store", RIG_STORE_BYTES);
	rig.params.fd = open("small/store", O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(rig.params.fd, 0);
	rig_open(&rig, _i);
	for (int i = 0; i < 16 && !error; i++, req.store += 256) {
		struct kvs_io_completion done;

		rig_submit(&rig, &req, 1);
		rig_wait(&rig, &done, 1);
		error = done.result;
	}
	ck_assert_msg(error == -ENOSPC || error == -EIO, "%s", strerror(-error));
	rig_close(&rig);
}
END_TEST

/* Nobody may stay behind in a write that never ends: thaws after a while whatever happens. */
static pid_t thaw_guard(int fs)
{
	pid_t child = fork();

	if (child)
		return child;
	setsid();
	alarm(0);
	sleep(15);
	ioctl(fs, FITHAW, 0);
	_exit(0);
}

/*
 * A device that really never answers: a write to a frozen file system. wait(), flush() and close()
 * come back in time; the process can go on, and ends once the file system has thawed.
 */
START_TEST(frozen_file_system)
{
	struct kvs_io_request req = { .op = KVS_IO_WRITE, .sectors = 8, .arena = 8 };
	char path[32];
	double start;
	int loop, fs;
	pid_t guard;

	disk_file("disk", (uint64_t)16 << 20);
	if (!disk_run(__func__, "mkfs.ext4 -qF disk") || !disk_private(__func__))
		return;
	loop = disk_loop(__func__, "disk", 512, false, path);
	if (loop < 0 || !disk_mount(__func__, path, "frozen", "ext4", 0, NULL))
		return;
	close(rig.params.fd);
	disk_file("frozen/store", RIG_STORE_BYTES);
	rig.params.fd = open("frozen/store", O_RDWR | O_CLOEXEC | (_i & 2 ? O_DIRECT : 0));
	rig.params.timeout_ms = 300;
	rig_open(&rig, _i & 1);
	rig_one(&rig, req, 0);
	fs = open("frozen", O_RDONLY | O_CLOEXEC);
	guard = thaw_guard(fs);
	ck_assert_int_eq(ioctl(fs, FIFREEZE, 0), 0);
	rig_submit(&rig, &req, 1);
	expect_timeout(0);
	start = rig_seconds();
	rig.io->ops->close(rig.io);
	ck_assert_double_lt(rig_seconds() - start, 5);
	ck_assert_int_eq(ioctl(fs, FITHAW, 0), 0);
	kill(guard, SIGKILL);
	waitpid(guard, NULL, 0);
	close(rig.params.fd);
	close(fs);
	close(loop);
}
END_TEST

Suite *suite_io_faults(void)
{
	Suite *suite = suite_create("io_faults");
	TCase *tc = tcase_create("io_faults");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, errors_hit_the_chosen_ones, 0, 8);
	tcase_add_loop_test(tc, one_bit_is_flipped, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, read_goes_astray, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, stalled_read_times_out, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, truncated_file, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, read_only_file, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, bad_sectors, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, no_space_in_the_middle, 0, RIG_BACKENDS);
	tcase_add_loop_test(tc, frozen_file_system, 0, 2 * RIG_BACKENDS);
	suite_add_tcase(suite, tc);
	return suite;
}
