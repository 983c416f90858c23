// SPDX-License-Identifier: MIT
/*
 * The store as a file: where it comes to be, who is kept out, what is left, what is refused and how
 * that is said.
 */
#include "disk.h"
#include "kvswap.h"
#include "store.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES ((uint64_t)1 << 20)

static struct kvs_store store;
static char message[KVS_MESSAGE_BYTES];

static void setup(void)
{
	disk_enter();
	ck_assert_int_eq(mkdir("cache", 0755), 0);
	ck_assert_int_eq(mkdir("home", 0755), 0);
	memset(&store, 0xcc, sizeof(store));
	memset(message, 0xcc, sizeof(message));
}

static void teardown(void)
{
	disk_leave();
}

static void open_store(const char *path)
{
	int ret = kvs_store_open(path, BYTES, false, &store, message);

	ck_assert_msg(!ret, "%s: %.200s", path ? path : "default", message);
	ck_assert_int_ge(store.fd, 0);
	ck_assert_uint_ge(store.bytes, BYTES);
	ck_assert_uint_ge(store.block_bytes, 512);
	ck_assert_uint_ge(store.whole_bytes, store.block_bytes);
	ck_assert_int_eq(store.direct, store.direct_why[0] == '\0');
}

/* The message is one line that names what it is about. */
static void expect_said(int ret, int want, const char *about)
{
	ck_assert_msg(ret == want, "%d instead of %d: %.200s", ret, want, message);
	ck_assert_uint_gt(strnlen(message, sizeof(message)), 0);
	ck_assert_uint_lt(strnlen(message, sizeof(message)), sizeof(message));
	ck_assert_ptr_null(strchr(message, '\n'));
	ck_assert_msg(strstr(message, about) != NULL, "nothing of \"%s\" in: %s", about, message);
}

static void expect_refused(const char *path, int want, const char *about)
{
	expect_said(kvs_store_open(path, BYTES, false, &store, message), want, about);
	ck_assert_int_eq(store.fd, -1);
	kvs_store_close(&store);
}

static int entries(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static struct stat stat_of(const char *path)
{
	struct stat st;

	ck_assert_msg(!stat(path, &st), "%s: %s", path, strerror(errno));
	return st;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* A block at both ends can be written and read: the fd is of the kind that the store says. */
static void touch_ends(void)
{
	uint8_t *buf = NULL;
	const off_t at[] = { 0, (off_t)(store.bytes - store.block_bytes) };

	ck_assert_int_eq(posix_memalign((void **)&buf, 4096, store.block_bytes), 0);
	for (int i = 0; i < 2; i++) {
		memset(buf, 0x5a, store.block_bytes);
		ck_assert_int_eq(pwrite(store.fd, buf, store.block_bytes, at[i]),
				 (int)store.block_bytes);
		memset(buf, 0xcc, store.block_bytes);
		ck_assert_int_eq(pread(store.fd, buf, store.block_bytes, at[i]),
				 (int)store.block_bytes);
		ck_assert_uint_eq(buf[store.block_bytes - 1], 0x5a);
	}
	free(buf);
}

/* An unnamed file: no name, mode 0600, all its room taken. */
static void expect_unnamed(const char *dir)
{
	struct stat st;

	ck_assert_int_eq(fstat(store.fd, &st), 0);
	ck_assert_uint_eq(st.st_nlink, 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	ck_assert_uint_ge((uint64_t)st.st_blocks * 512, store.bytes);
	ck_assert_int_eq(entries(dir), 0);
	touch_ends();
	kvs_store_close(&store);
	ck_assert_int_eq(store.fd, -1);
	ck_assert_int_eq(entries(dir), 0);
}

START_TEST(default_is_the_cache_directory)
{
	char dir[PATH_MAX];

	ck_assert_ptr_nonnull(realpath("cache", dir));
	setenv("XDG_CACHE_HOME", dir, 1);
	open_store(NULL);
	ck_assert_uint_eq(stat_of("cache/kvswap").st_mode & 07777, 0700);
	expect_unnamed("cache/kvswap");

	/* A relative one does not count. */
	ck_assert_ptr_nonnull(realpath("home", dir));
	setenv("HOME", dir, 1);
	setenv("XDG_CACHE_HOME", "cache", 1);
	open_store(NULL);
	ck_assert_uint_eq(stat_of("home/.cache").st_mode & 07777, 0700);
	expect_unnamed("home/.cache/kvswap");

	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	expect_refused(NULL, -ENOENT, "HOME");
}
END_TEST

START_TEST(probe_leaves_nothing_behind)
{
	static const char *const paths[] = { NULL, ".", "name", "there", "cache/new" };
	char dir[PATH_MAX];
	int before;

	ck_assert_ptr_nonnull(realpath("cache", dir));
	strcat(dir, "/not/yet");
	setenv("XDG_CACHE_HOME", dir, 1);
	write_file("there", "something", 0644);
	before = entries(".");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int ret = kvs_store_probe(paths[i], &store, message);

		ck_assert_msg(!ret, "%.200s", message);
		ck_assert_int_eq(store.fd, -1);
		ck_assert_uint_ge(store.block_bytes, 512);
		ck_assert_uint_gt(store.bytes, 0);
		ck_assert_int_eq(store.device, false);
		ck_assert_int_eq(entries("."), before);
		ck_assert_int_eq(entries("cache"), 0);
	}
	ck_assert_int_eq(stat_of("there").st_size, 9);
	expect_said(kvs_store_probe("none/name", &store, message), -ENOENT, "none");
	expect_said(kvs_store_probe("/dev/null", &store, message), -EINVAL, "character device");
}
END_TEST

/* What the planner was told is what the session gets. */
START_TEST(probe_agrees_with_open)
{
	static const char *const paths[] = { ".", "name", "cache" };
	struct kvs_store probed;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		ck_assert_int_eq(kvs_store_probe(paths[i], &probed, message), 0);
		open_store(paths[i]);
		ck_assert_int_eq(probed.direct, store.direct);
		ck_assert_int_eq(probed.slow, store.slow);
		ck_assert_uint_eq(probed.block_bytes, store.block_bytes);
		ck_assert_uint_eq(probed.whole_bytes, store.whole_bytes);
		kvs_store_close(&store);
	}
}
END_TEST

START_TEST(named_file_comes_and_goes)
{
	static const char *const paths[] = { "name", "./cache/../name", "cache/name" };

	umask(0);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		open_store(paths[i]);
		ck_assert_uint_eq(stat_of(paths[i]).st_mode & 07777, 0600);
		ck_assert_uint_ge((uint64_t)stat_of(paths[i]).st_blocks * 512, store.bytes);
		touch_ends();
		kvs_store_close(&store);
		ck_assert_int_ne(access(paths[i], F_OK), 0);
	}
}
END_TEST

START_TEST(files_of_others_are_safe)
{
	char text[16] = "";
	int fd;

	write_file("theirs", "my thesis", 0644);
	expect_refused("theirs", -EEXIST, "theirs");
	fd = open("theirs", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(read(fd, text, sizeof(text)), 9);
	ck_assert_str_eq(text, "my thesis");
	close(fd);
	ck_assert_uint_eq(stat_of("theirs").st_mode & 07777, 0644);

	ck_assert_int_eq(kvs_store_open("theirs", BYTES, true, &store, message), 0);
	touch_ends();
	kvs_store_close(&store);
	ck_assert_int_eq(stat_of("theirs").st_size, 0);
}
END_TEST

START_TEST(empty_file_is_taken_and_left_empty)
{
	write_file("empty", "", 0666);
	open_store("empty");
	ck_assert_uint_eq(stat_of("empty").st_mode & 07777, 0600);
	touch_ends();
	kvs_store_close(&store);
	ck_assert_int_eq(stat_of("empty").st_size, 0);

	ck_assert_int_eq(symlink("empty", "link"), 0);
	open_store("link");
	kvs_store_close(&store);
	ck_assert_int_eq(stat_of("link").st_size, 0);
}
END_TEST

/* A child opens the store, says so, and is killed while it has it. */
static void open_and_be_killed(const char *path)
{
	int pipe_fds[2], status;
	char byte;
	pid_t child;

	ck_assert_int_eq(pipe(pipe_fds), 0);
	child = fork();
	if (!child) {
		if (!kvs_store_open(path, BYTES, false, &store, message))
			touch_ends();
		_exit(write(pipe_fds[1], "x", 1) == 1 && !pause());
	}
	ck_assert_int_eq(read(pipe_fds[0], &byte, 1), 1);
	expect_said(strcmp(path, ".") ? kvs_store_open(path, BYTES, true, &store, message) : -EBUSY,
		    -EBUSY, strcmp(path, ".") ? "another session" : "");
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

START_TEST(killed_run_leaves_no_unnamed_file)
{
	strcpy(message, "none yet");
	open_and_be_killed(".");
	ck_assert_int_eq(entries("."), 2);
}
END_TEST

/* Only its owner can read it, the next run takes it over, and then it goes as it would have. */
START_TEST(killed_run_leaves_a_named_file_to_the_next)
{
	open_and_be_killed("name");
	ck_assert_uint_eq(stat_of("name").st_mode & 07777, 0600);
	open_store("name");
	kvs_store_close(&store);
	ck_assert_int_ne(access("name", F_OK), 0);

	write_file("empty", "", 0600);
	open_and_be_killed("empty");
	open_store("empty");
	kvs_store_close(&store);
	ck_assert_int_eq(stat_of("empty").st_size, 0);
}
END_TEST

START_TEST(two_runs_on_one_file)
{
	struct kvs_store second;

	open_store("name");
	for (int force = 0; force < 2; force++) {
		expect_said(kvs_store_open("name", BYTES, force, &second, message), -EBUSY,
			    "another session");
		ck_assert_int_eq(second.fd, -1);
	}
	ck_assert_int_eq(access("name", F_OK), 0);
	kvs_store_close(&store);
	open_store("name");
	kvs_store_close(&store);
}
END_TEST

/* The locks of a process that was killed go a little after it. */
START_TEST(ending_run_is_waited_for)
{
	const struct timespec pause = { .tv_nsec = 300000000 };
	int pipe_fds[2];
	char byte;

	ck_assert_int_eq(pipe(pipe_fds), 0);
	if (!fork()) {
		if (kvs_store_open("name", BYTES, false, &store, message))
			_exit(1);
		if (write(pipe_fds[1], "x", 1) != 1 || nanosleep(&pause, NULL))
			_exit(1);
		_exit(0);
	}
	ck_assert_int_eq(read(pipe_fds[0], &byte, 1), 1);
	open_store("name");
	kvs_store_close(&store);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	while (wait(NULL) > 0)
		continue;
}
END_TEST

/* Many sessions come and go on one name: never two at once, and nobody fails but by -EBUSY. */
START_TEST(many_runs_on_one_file)
{
	int status, failed = 0;

	for (int i = 0; i < 4; i++) {
		if (fork())
			continue;
		for (int round = 0; round < 40; round++) {
			int ret = kvs_store_open("name", BYTES, false, &store, message);

			if (ret && ret != -EBUSY)
				_exit(1);
			if (ret)
				continue;
			/* Only one can hold this. */
			if (mkdir("holder", 0700) || rmdir("holder"))
				_exit(2);
			kvs_store_close(&store);
		}
		_exit(0);
	}
	while (wait(&status) > 0)
		failed += status != 0;
	ck_assert_int_eq(failed, 0);
	ck_assert_int_ne(access("name", F_OK), 0);
}
END_TEST

/*
 * After a device that never answered, close() does not wait: a name still goes, what is in a file
 * stays.
 */
START_TEST(stuck_store_is_closed_without_waiting)
{
	open_store("name");
	store.stuck = true;
	kvs_store_close(&store);
	ck_assert_int_ne(access("name", F_OK), 0);
	write_file("empty", "", 0600);
	open_store("empty");
	store.stuck = true;
	kvs_store_close(&store);
	ck_assert_uint_gt(stat_of("empty").st_size, 0);
	open_store("empty");
	kvs_store_close(&store);
	ck_assert_int_eq(stat_of("empty").st_size, 0);
}
END_TEST

START_TEST(wrong_paths)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
	char path[PATH_MAX + 16];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	ck_assert_int_eq(mkfifo("fifo", 0600), 0);
	ck_assert_int_eq(symlink("loop", "loop"), 0);
	ck_assert_int_eq(symlink("nowhere", "dangling"), 0);
	write_file("file", "", 0600);
	expect_refused("", -EINVAL, "empty");
	expect_refused("none/name", -ENOENT, "none");
	expect_refused("none/", -ENOENT, "none/");
	expect_refused("file/name", -ENOTDIR, "file/name");
	expect_refused("fifo", -EINVAL, "fifo");
	expect_refused("socket", -EINVAL, "socket");
	expect_refused("/dev/null", -EINVAL, "character device");
	expect_refused("loop", -ELOOP, "loop");
	expect_refused("dangling", -ENOENT, "dangling");
	memset(path, 'a', sizeof(path));
	path[300] = '\0';
	expect_refused(path, -ENAMETOOLONG, "aaa");
	path[300] = 'a';
	path[sizeof(path) - 1] = '\0';
	expect_refused(path, -ENAMETOOLONG, "too long");
	ck_assert_int_eq(kvs_store_open("none/name", BYTES, false, &store, NULL), -ENOENT);
}
END_TEST

START_TEST(no_permission)
{
	bool root = !geteuid();

	ck_assert_int_eq(mkdir("closed", 0755), 0);
	write_file("file", "", 0600);
	if (root)
		ck_assert_int_eq(seteuid(65534), 0);
	else
		ck_assert_int_eq(chmod("closed", 0500) | chmod("file", 0400), 0);
	expect_refused("closed/name", -EACCES, "closed/name");
	expect_refused("closed", -EACCES, "closed");
	expect_refused("file", -EACCES, "file");
	expect_said(kvs_store_probe("closed", &store, message), -EACCES, "closed");
	if (root)
		ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(chmod("closed", 0700), 0);
	ck_assert_int_eq(entries("closed"), 0);
}
END_TEST

/* Said before anything is written, and without the signal that the limit brings. */
START_TEST(file_size_limit)
{
	const struct rlimit limit = { BYTES / 2, RLIM_INFINITY };

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	expect_refused("name", -EFBIG, "512.0 KiB");
	expect_refused(".", -EFBIG, "ulimit -f");
	ck_assert_int_ne(access("name", F_OK), 0);
}
END_TEST

START_TEST(absurd_sizes)
{
	static const uint64_t sizes[] = { UINT64_MAX, UINT64_MAX - 4095, (uint64_t)INT64_MAX,
					  (uint64_t)INT64_MAX - 65536, (uint64_t)1 << 60 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int named = 0; named < 2; named++) {
			int ret = kvs_store_open(named ? "name" : ".", sizes[i], false, &store,
						 message);

			ck_assert_msg(ret == -EFBIG || ret == -ENOSPC, "%d: %s", ret, message);
			ck_assert_int_ne(access("name", F_OK), 0);
		}
	expect_said(kvs_store_open(".", 0, false, &store, message), -EINVAL, "0 bytes");
}
END_TEST

START_TEST(odd_sizes)
{
	static const uint64_t sizes[] = { 1, 511, 512, 4097, 65537, 1000001 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int named = 0; named < 2; named++) {
			int ret = kvs_store_open(named ? "name" : ".", sizes[i], false, &store,
						 message);

			ck_assert_msg(!ret, "%.200s", message);
			ck_assert_uint_ge(store.bytes, sizes[i]);
			ck_assert_uint_lt(store.bytes, sizes[i] + store.block_bytes);
			ck_assert_uint_eq(store.bytes % store.block_bytes, 0);
			touch_ends();
			kvs_store_close(&store);
		}
}
END_TEST

Suite *suite_store(void)
{
	Suite *suite = suite_create("store");
	TCase *tc = tcase_create("store");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, default_is_the_cache_directory);
	tcase_add_test(tc, probe_leaves_nothing_behind);
	tcase_add_test(tc, probe_agrees_with_open);
	tcase_add_test(tc, named_file_comes_and_goes);
	tcase_add_test(tc, files_of_others_are_safe);
	tcase_add_test(tc, empty_file_is_taken_and_left_empty);
	tcase_add_test(tc, killed_run_leaves_no_unnamed_file);
	tcase_add_test(tc, killed_run_leaves_a_named_file_to_the_next);
	tcase_add_test(tc, two_runs_on_one_file);
	tcase_add_test(tc, ending_run_is_waited_for);
	tcase_add_test(tc, many_runs_on_one_file);
	tcase_add_test(tc, stuck_store_is_closed_without_waiting);
	tcase_add_test(tc, wrong_paths);
	tcase_add_test(tc, no_permission);
	tcase_add_test(tc, file_size_limit);
	tcase_add_test(tc, absurd_sizes);
	tcase_add_test(tc, odd_sizes);
	suite_add_tcase(suite, tc);
	return suite;
}
