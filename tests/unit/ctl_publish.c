/* SPDX-License-Identifier: MIT */
/* Published counters: read whole while they are written, gone with the session, not taken for alive after a kill. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "publish.h"

static char dir[] = "/tmp/kvswap-publish-XXXXXX";

static void set_up(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static const struct kvs_page_head head = {
	.direct_io = 1,
	.budget_bytes = 1000,
	.n_layers = 24,
	.group = 8,
	.select = 400,
	.backend = "io_uring",
	.store = "/x",
};

struct seen {
	int n;
	struct kvs_published last;
};

static void note(const struct kvs_published *session, void *arg)
{
	struct seen *seen = arg;

	seen->n++;
	seen->last = *session;
}

static struct seen look(void)
{
	struct seen seen;

	memset(&seen, 0xcc, sizeof(seen));
	seen.n = 0;
	ck_assert_int_eq(kvs_published_each(dir, note, &seen), 0);
	return seen;
}

/* All counters equal, so that a mixture of two updates shows. */
static struct kvs_stats stats_of(uint64_t x)
{
	return (struct kvs_stats){
		.size = sizeof(struct kvs_stats),
		.resident_bytes = x,
		.resident_peak_bytes = x,
		.records_read = x,
		.bytes_read = x,
		.records_written = x,
		.bytes_written = x,
		.records_late = x,
		.wait_ns = x,
		.groups_selected = x,
		.groups_hit = x,
		.groups_predicted = x,
		.selections = x,
		.tokens_selected = x,
		.coverage_sum = (double)x / 1e6,
		.append_ns = x,
		.prefetch_ns = x,
		.score_ns = x,
		.attend_ns = x,
		.train_ns = x,
		.prefill_attend_ns = x,
	};
}

START_TEST(what_is_written_is_read)
{
	struct kvs_publisher *p;
	struct kvs_stats stats = stats_of(1 << 20);
	struct seen seen;

	ck_assert_int_eq(kvs_publish_open(dir, &head, &p), 0);
	kvs_publish_update(p, &stats, 7, 2, 99);
	seen = look();
	ck_assert_int_eq(seen.n, 1);
	ck_assert_uint_eq(seen.last.head.pid, (uint32_t)getpid());
	ck_assert_str_eq(seen.last.head.backend, "io_uring");
	ck_assert_str_eq(seen.last.head.store, "/x");
	ck_assert_uint_eq(seen.last.head.budget_bytes, 1000);
	ck_assert_uint_ne(seen.last.head.started_s, 0);
	ck_assert_uint_eq(seen.last.counters[KVS_COUNT_STEPS], 7);
	ck_assert_uint_eq(seen.last.counters[KVS_COUNT_SEQUENCES], 2);
	ck_assert_uint_eq(seen.last.counters[KVS_COUNT_TOKENS], 99);
	for (int k = KVS_COUNT_RESIDENT_BYTES; k < KVS_COUNT_N; k++)
		ck_assert_msg(seen.last.counters[k] == 1 << 20, "counter %d", k);
	for (uint32_t k = KVS_COUNT_N; k < KVS_PAGE_COUNTERS; k++)
		ck_assert_uint_eq(seen.last.counters[k], 0);
	kvs_publish_close(p);
	ck_assert_int_eq(look().n, 0);
}
END_TEST

START_TEST(sessions_of_a_process_have_names_of_their_own)
{
	struct kvs_publisher *a, *b;
	struct stat st;
	char path[128];

	ck_assert_int_eq(kvs_publish_open(dir, &head, &a), 0);
	ck_assert_int_eq(kvs_publish_open(dir, &head, &b), 0);
	ck_assert_int_eq(look().n, 2);
	snprintf(path, sizeof(path), "%s/%d.1", dir, getpid());
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	kvs_publish_close(a);
	ck_assert_int_eq(look().n, 1);
	kvs_publish_close(b);
	ck_assert_int_eq(look().n, 0);
	ck_assert_int_eq(rmdir(dir), 0);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
}
END_TEST

START_TEST(a_killed_session_is_not_shown_and_swept)
{
	struct kvs_publisher *p;
	char path[128];
	pid_t child = fork();

	if (child == 0) {
		kvs_publish_open(dir, &head, &p);
		pause();
	}
	snprintf(path, sizeof(path), "%s/%d", dir, child);
	for (int i = 0; i < 5000 && look().n == 0; i++)
		usleep(1000);
	ck_assert_int_eq(look().n, 1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ck_assert_int_eq(look().n, 0);
	ck_assert_int_eq(access(path, F_OK), 0);
	ck_assert_int_eq(kvs_publish_open(dir, &head, &p), 0);
	ck_assert_int_ne(access(path, F_OK), 0);
	kvs_publish_close(p);
}
END_TEST

START_TEST(strange_files_are_passed_over)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/1", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(look().n, 0);
	ck_assert_int_eq(ftruncate(fd, KVS_PAGE_BYTES), 0);
	ck_assert_int_eq(look().n, 0);
	close(fd);
	snprintf(path, sizeof(path), "%s/2", dir);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	snprintf(path, sizeof(path), "%s/3", dir);
	ck_assert_int_eq(symlink("/etc/passwd", path), 0);
	ck_assert_int_eq(look().n, 0);
}
END_TEST

START_TEST(no_directory_is_no_failure_of_a_session)
{
	struct kvs_publisher *p = (void *)&p;

	ck_assert_int_lt(kvs_publish_open("/proc/none", &head, &p), 0);
	ck_assert_ptr_null(p);
	kvs_publish_update(p, NULL, 0, 0, 0);
	kvs_publish_close(p);
}
END_TEST

static void *hammer(void *arg)
{
	struct kvs_publisher *p = arg;

	for (uint64_t i = 0; i < 200000; i++) {
		struct kvs_stats stats = stats_of(i);

		kvs_publish_update(p, &stats, i, (uint32_t)i, i);
	}
	return NULL;
}

START_TEST(updates_are_read_whole)
{
	struct kvs_publisher *p;
	pthread_t thread;
	uint64_t last = 0;

	ck_assert_int_eq(kvs_publish_open(dir, &head, &p), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, hammer, p), 0);
	for (int i = 0; i < 500; i++) {
		struct seen seen = look();

		if (!seen.n)
			continue;
		ck_assert_uint_ge(seen.last.counters[KVS_COUNT_STEPS], last);
		last = seen.last.counters[KVS_COUNT_STEPS];
		for (int k = KVS_COUNT_STEPS; k < KVS_COUNT_N; k++)
			if (k != KVS_COUNT_COVERAGE_MILLIONTHS)
				ck_assert_uint_eq(seen.last.counters[k], last);
	}
	ck_assert_uint_ne(last, 0);
	pthread_join(thread, NULL);
	kvs_publish_close(p);
}
END_TEST

Suite *suite_ctl_publish(void);

Suite *suite_ctl_publish(void)
{
	Suite *suite = suite_create("ctl_publish");
	TCase *t = tcase_create("page");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, what_is_written_is_read);
	tcase_add_test(t, sessions_of_a_process_have_names_of_their_own);
	tcase_add_test(t, a_killed_session_is_not_shown_and_swept);
	tcase_add_test(t, strange_files_are_passed_over);
	tcase_add_test(t, no_directory_is_no_failure_of_a_session);
	tcase_add_test(t, updates_are_read_whole);
	suite_add_tcase(suite, t);
	return suite;
}
