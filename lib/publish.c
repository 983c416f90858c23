// SPDX-License-Identifier: MIT
/*
 * See publish.h. One thread writes, any number of processes read: a sequence number that is odd during a
 * write. Each counter is stored with release, so that who sees it sees the odd number before it too, and loaded
 * with acquire, so that the number is looked at again after it.
 */
#include "publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "kvswap1"
#define NAMES_MAX 256 /* sessions of one process */
#define READ_TRIES 1000

struct kvs_page {
	char magic[8];
	uint32_t bytes;
	uint32_t seq;
	struct kvs_page_head head;
	uint8_t room[2048 - 16 - sizeof(struct kvs_page_head)];
	uint64_t counters[KVS_PAGE_COUNTERS];
	uint8_t rest[KVS_PAGE_BYTES - 2048 - KVS_PAGE_COUNTERS * sizeof(uint64_t)];
};

_Static_assert(sizeof(struct kvs_page) == KVS_PAGE_BYTES, "one page");
_Static_assert(offsetof(struct kvs_page, counters) == 2048, "the table of publish.h");
_Static_assert((int)KVS_COUNT_N <= (int)KVS_PAGE_COUNTERS, "room for the counters");

struct kvs_publisher {
	struct kvs_page *page;
	int fd; /* holds the lock */
	char path[PATH_MAX];
};

static bool is_dir(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* The directory that a session of this process goes to. */
static int own_name(char *dir, size_t bytes)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char user[64];

	snprintf(user, sizeof(user), "/run/user/%u", (unsigned int)geteuid());
	if (!runtime || runtime[0] != '/')
		runtime = is_dir(user) ? user : "/run";
	return snprintf(dir, bytes, "%s/kvswap", runtime) >= (int)bytes ? -ENAMETOOLONG : 0;
}

static int own_dir(char *dir, size_t bytes)
{
	int err = own_name(dir, bytes);

	if (err)
		return err;
	return mkdir(dir, 0700) && errno != EEXIST ? -errno : 0;
}

/* What dead processes left. */
static void sweep(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		fd = openat(dirfd(d), entry->d_name,
			    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (!flock(fd, LOCK_EX | LOCK_NB))
			unlinkat(dirfd(d), entry->d_name, 0);
		close(fd);
	}
	if (d)
		closedir(d);
}

static void fill(struct kvs_page *page, const struct kvs_page_head *head)
{
	FILE *f = fopen("/proc/self/comm", "re");

	memcpy(page->magic, MAGIC, sizeof(page->magic));
	page->bytes = sizeof(*page);
	page->head = *head;
	page->head.pid = (uint32_t)getpid();
	page->head.started_s = (uint64_t)time(NULL);
	memset(page->head.program, 0, sizeof(page->head.program));
	if (!f)
		return;
	if (fgets(page->head.program, sizeof(page->head.program), f))
		page->head.program[strcspn(page->head.program, "\n")] = '\0';
	fclose(f);
}

/* Locked and filled before it gets a name that readers look at. */
static int make_page(struct kvs_publisher *p, const char *path, const struct kvs_page_head *head)
{
	void *map;

	p->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (p->fd < 0)
		return -errno;
	if (flock(p->fd, LOCK_EX | LOCK_NB) || ftruncate(p->fd, KVS_PAGE_BYTES))
		return -errno;
	map = mmap(NULL, KVS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	p->page = map;
	fill(p->page, head);
	return 0;
}

static int give_name(struct kvs_publisher *p, const char *dir, const char *temporary)
{
	for (int i = 0; i < NAMES_MAX; i++) {
		char suffix[16] = "";

		if (i)
			snprintf(suffix, sizeof(suffix), ".%d", i);
		if (snprintf(p->path, sizeof(p->path), "%s/%ld%s", dir, (long)getpid(), suffix) >=
		    (int)sizeof(p->path))
			return -ENAMETOOLONG;
		if (!link(temporary, p->path))
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int publish(struct kvs_publisher *p, const char *dir, const struct kvs_page_head *head)
{
	char temporary[PATH_MAX];
	int err;

	if (snprintf(temporary, sizeof(temporary), "%s/.%ld-%p", dir, (long)getpid(), (void *)p) >=
	    (int)sizeof(temporary))
		return -ENAMETOOLONG;
	err = make_page(p, temporary, head);
	if (!err)
		err = give_name(p, dir, temporary);
	if (err)
		p->path[0] = '\0';
	if (p->fd >= 0)
		unlink(temporary);
	return err;
}

int kvs_publish_open(const char *dir, const struct kvs_page_head *head, struct kvs_publisher **out)
{
	struct kvs_publisher *p = calloc(1, sizeof(*p));
	char own[PATH_MAX];
	int err;

	*out = NULL;
	if (!p)
		return -ENOMEM;
	p->fd = -1;
	err = dir ? 0 : own_dir(own, sizeof(own));
	if (!err) {
		sweep(dir ? dir : own);
		err = publish(p, dir ? dir : own, head);
	}
	if (err) {
		kvs_publish_close(p);
		return err;
	}
	*out = p;
	return 0;
}

static void set(struct kvs_page *page, enum kvs_counter which, uint64_t value)
{
	__atomic_store_n(&page->counters[which], value, __ATOMIC_RELEASE);
}

static void set_counters(struct kvs_page *page, const struct kvs_stats *s)
{
	set(page, KVS_COUNT_RESIDENT_BYTES, s->resident_bytes);
	set(page, KVS_COUNT_RESIDENT_PEAK_BYTES, s->resident_peak_bytes);
	set(page, KVS_COUNT_RECORDS_READ, s->records_read);
	set(page, KVS_COUNT_BYTES_READ, s->bytes_read);
	set(page, KVS_COUNT_RECORDS_WRITTEN, s->records_written);
	set(page, KVS_COUNT_BYTES_WRITTEN, s->bytes_written);
	set(page, KVS_COUNT_RECORDS_LATE, s->records_late);
	set(page, KVS_COUNT_WAIT_NS, s->wait_ns);
	set(page, KVS_COUNT_GROUPS_SELECTED, s->groups_selected);
	set(page, KVS_COUNT_GROUPS_HIT, s->groups_hit);
	set(page, KVS_COUNT_GROUPS_PREDICTED, s->groups_predicted);
	set(page, KVS_COUNT_SELECTIONS, s->selections);
	set(page, KVS_COUNT_TOKENS_SELECTED, s->tokens_selected);
	set(page, KVS_COUNT_COVERAGE_MILLIONTHS, (uint64_t)(s->coverage_sum * 1e6));
	set(page, KVS_COUNT_APPEND_NS, s->append_ns);
	set(page, KVS_COUNT_PREFETCH_NS, s->prefetch_ns);
	set(page, KVS_COUNT_SCORE_NS, s->score_ns);
	set(page, KVS_COUNT_ATTEND_NS, s->attend_ns);
	set(page, KVS_COUNT_TRAIN_NS, s->train_ns);
	set(page, KVS_COUNT_PREFILL_ATTEND_NS, s->prefill_attend_ns);
}

void kvs_publish_update(struct kvs_publisher *p, const struct kvs_stats *stats, uint64_t steps,
			uint32_t sequences, uint64_t tokens)
{
	struct timespec now;
	uint32_t seq;

	if (!p)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	seq = __atomic_load_n(&p->page->seq, __ATOMIC_RELAXED);
	__atomic_store_n(&p->page->seq, seq + 1, __ATOMIC_RELAXED);
	set(p->page, KVS_COUNT_UPDATED_NS,
	    (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	set(p->page, KVS_COUNT_STEPS, steps);
	set(p->page, KVS_COUNT_SEQUENCES, sequences);
	set(p->page, KVS_COUNT_TOKENS, tokens);
	set_counters(p->page, stats);
	__atomic_store_n(&p->page->seq, seq + 2, __ATOMIC_RELEASE);
}

void kvs_publish_close(struct kvs_publisher *p)
{
	if (!p)
		return;
	if (p->path[0])
		unlink(p->path);
	if (p->page)
		munmap(p->page, KVS_PAGE_BYTES);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

/* Locked by its writer: alive. */
static bool is_alive(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return false;
}

static void terminate(struct kvs_page_head *h)
{
	h->program[sizeof(h->program) - 1] = '\0';
	h->backend[sizeof(h->backend) - 1] = '\0';
	h->predictor[sizeof(h->predictor) - 1] = '\0';
	h->kernels[sizeof(h->kernels) - 1] = '\0';
	h->direct_why[sizeof(h->direct_why) - 1] = '\0';
	h->store[sizeof(h->store) - 1] = '\0';
}

static bool read_page(const struct kvs_page *page, struct kvs_published *out)
{
	if (memcmp(page->magic, MAGIC, sizeof(page->magic)) || page->bytes != sizeof(*page))
		return false;
	out->head = page->head;
	terminate(&out->head);
	for (int i = 0; i < READ_TRIES; i++) {
		uint32_t seq = __atomic_load_n(&page->seq, __ATOMIC_ACQUIRE);

		for (uint32_t k = 0; k < KVS_PAGE_COUNTERS; k++)
			out->counters[k] = __atomic_load_n(&page->counters[k], __ATOMIC_ACQUIRE);
		if (!(seq & 1) && __atomic_load_n(&page->seq, __ATOMIC_RELAXED) == seq)
			return true;
	}
	return false;
}

static bool read_file(int fd, struct kvs_published *out)
{
	struct stat st;
	void *map;
	bool ok;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != KVS_PAGE_BYTES || !is_alive(fd))
		return false;
	map = mmap(NULL, KVS_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return false;
	ok = read_page(map, out);
	munmap(map, KVS_PAGE_BYTES);
	return ok;
}

static int each_in(const char *dir, void (*fn)(const struct kvs_published *session, void *arg),
		   void *arg, struct kvs_published *room)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(d))) {
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		fd = openat(dirfd(d), entry->d_name,
			    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		snprintf(room->path, sizeof(room->path), "%.3000s/%s", dir, entry->d_name);
		if (read_file(fd, room))
			fn(room, arg);
		close(fd);
	}
	closedir(d);
	return 0;
}

/* Users that are logged in, as root sees them. */
static void each_user(const char *own, void (*fn)(const struct kvs_published *session, void *arg),
		      void *arg, struct kvs_published *room)
{
	DIR *users = opendir("/run/user");
	struct dirent *entry;
	char dir[PATH_MAX];

	while (users && (entry = readdir(users))) {
		snprintf(dir, sizeof(dir), "/run/user/%.200s/kvswap", entry->d_name);
		if (entry->d_name[0] != '.' && strcmp(dir, own))
			each_in(dir, fn, arg, room);
	}
	if (users)
		closedir(users);
	if (strcmp(own, "/run/kvswap"))
		each_in("/run/kvswap", fn, arg, room);
}

int kvs_published_each(const char *dir, void (*fn)(const struct kvs_published *session, void *arg),
		       void *arg)
{
	struct kvs_published *room = calloc(1, sizeof(*room));
	char own[PATH_MAX] = "";
	int err;

	if (!room)
		return -ENOMEM;
	if (!dir)
		own_name(own, sizeof(own));
	err = each_in(dir ? dir : own, fn, arg, room);
	if (!dir && geteuid() == 0)
		each_user(own, fn, arg, room);
	free(room);
	return err;
}
