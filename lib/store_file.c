// SPDX-License-Identifier: MIT
/*
 * A regular file as the store, unnamed in a directory or named. A named one ends in a trailer,
 * beyond what the session sees, by which a later run knows it as a store and not somebody's data.
 * The last 4096 bytes of the file:
 *
 *   offset size, little endian
 *   0	16	"kvswap store v1\0"
 *   16	8	size of the whole file, bytes
 *   24	4	flags: 1 the library made the file, and removes it
 *   28	4068	zero
 */
#include "store_parts.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define TRAILER_BYTES 4096u
#define TRAILER_MADE 1u
#define PROBE_BYTES ((uint64_t)2 * KVS_STORE_BLOCK_MAX)
#define OPEN_TRIES 50	 /* another session may remove the file between our open and our lock */
#define BUSY_NS 20000000 /* before the next try */

static const char trailer_magic[16] = "kvswap store v1";

struct trailer {
	char magic[16];
	uint64_t file_bytes;
	uint32_t flags;
	uint8_t zero[TRAILER_BYTES - 28];
};

_Static_assert(sizeof(struct trailer) == TRAILER_BYTES, "the trailer has no holes");

static bool trailer_read(int fd, uint64_t file_bytes, struct trailer *out)
{
	if (file_bytes < TRAILER_BYTES ||
	    pread(fd, out, TRAILER_BYTES, (off_t)(file_bytes - TRAILER_BYTES)) != TRAILER_BYTES)
		return false;
	return !memcmp(out->magic, trailer_magic, sizeof(trailer_magic)) &&
	       le64toh(out->file_bytes) == file_bytes;
}

static int trailer_write(const struct kvs_store *store, uint64_t file_bytes, char *message)
{
	struct trailer trailer = {
		.file_bytes = htole64(file_bytes),
		.flags = htole32(store->created ? TRAILER_MADE : 0),
	};
	ssize_t ret;

	memcpy(trailer.magic, trailer_magic, sizeof(trailer_magic));
	ret = pwrite(store->fd, &trailer, TRAILER_BYTES, (off_t)(file_bytes - TRAILER_BYTES));
	if (ret == TRAILER_BYTES)
		return 0;
	ret = ret < 0 ? -errno : -EIO;
	return kvs_store_fail(message, (int)ret, "%s cannot be written: %s", store->path,
			      strerror((int)-ret));
}

static int direct_set(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT))
		return -errno;
	return 0;
}

/* Whether the first page of the file is in the page cache. */
static bool first_page_cached(int fd)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
	unsigned char resident = 0;

	if (map == MAP_FAILED)
		return false;
	if (mincore(map, page, &resident))
		resident = 0;
	munmap(map, page);
	return resident & 1;
}

/*
 * Writes and reads back the second block of a file that is ours by direct I/O, then looks whether
 * the page cache took part. 0, -EXDEV it did, else what the kernel said.
 */
static int direct_try(int fd, uint32_t block)
{
	void *buf = NULL;
	int ret = 0;

	if (posix_memalign(&buf, KVS_STORE_BLOCK_MAX, block))
		return -ENOMEM;
	memset(buf, 0, block);
	if (pwrite(fd, buf, block, block) != block || pread(fd, buf, block, block) != block ||
	    pwrite(fd, buf, block, 0) != block)
		ret = -errno;
	else if (first_page_cached(fd))
		ret = -EXDEV;
	free(buf);
	return ret;
}

static void not_direct(struct kvs_store *store, const char *why)
{
	if (!store->direct)
		return;
	store->direct = false;
	snprintf(store->direct_why, sizeof(store->direct_why), "the file system %s", why);
}

/* Finds out alignment and whether direct I/O is real, on a file that is ours and has two blocks. */
static int direct_settle(struct kvs_store *store, char *message)
{
	struct kvs_placement placement;
	int ret = kvs_placement_look(store->fd, &placement);

	if (ret)
		return kvs_store_fail(message, ret, "%s: %s", store->path, strerror(-ret));
	kvs_store_placed(store, &placement);
	if (!placement.o_direct)
		return 0;
	ret = direct_set(store->fd, true);
	if (!ret)
		ret = direct_try(store->fd, store->block_bytes);
	if (ret == -EXDEV) {
		not_direct(store, "takes direct I/O but sends it through the page cache");
		return 0;
	}
	if (ret == -EINVAL) {
		not_direct(store, "refuses direct I/O on this file");
		ret = direct_set(store->fd, false);
	}
	if (!ret)
		return 0;
	return kvs_store_fail(message, ret, "%s: a first write failed: %s", store->path,
			      strerror(-ret));
}

/*
 * btrfs writes in place, without its checksums, only where this is set on an empty file; ours do
 * instead.
 */
static void cow_avoid(int fd)
{
	struct statfs sfs;
	int flags;

	if (fstatfs(fd, &sfs) || sfs.f_type != BTRFS_SUPER_MAGIC ||
	    ioctl(fd, FS_IOC_GETFLAGS, &flags))
		return;
	flags |= FS_NOCOW_FL;
	ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

/* The room for `bytes` of the session, and a trailer for a file that keeps its name. */
static int file_fill(struct kvs_store *store, uint64_t bytes, char *message)
{
	uint64_t file_bytes = bytes + (-bytes % KVS_STORE_BLOCK_MAX);
	bool named = store->dir_fd >= 0;
	int ret;

	if (bytes > INT64_MAX - 2 * KVS_STORE_BLOCK_MAX)
		return kvs_store_room_check(store, bytes, message);
	if (file_bytes < PROBE_BYTES)
		file_bytes = PROBE_BYTES;
	if (named)
		file_bytes += TRAILER_BYTES;
	cow_avoid(store->fd);
	ret = kvs_store_room_check(store, file_bytes, message);
	if (!ret && named)
		ret = trailer_write(store, file_bytes, message);
	if (!ret)
		ret = kvs_store_room_take(store, file_bytes, message);
	if (!ret && named && fdatasync(store->fd))
		ret = kvs_store_fail(message, -errno, "%s: %s", store->path, strerror(errno));
	if (!ret)
		ret = direct_settle(store, message);
	if (!ret)
		store->bytes = bytes + (-bytes % store->block_bytes);
	return ret;
}

/* A file system without O_TMPFILE: a name that nobody knows, and is gone at once. */
static int fd_without_name(const char *dir)
{
	char path[PATH_MAX];
	uint64_t random;
	int fd = open(dir, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd >= 0 ? fd : -errno;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	if (snprintf(path, sizeof(path), "%s/.kvswap-%016llx", dir, (unsigned long long)random) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

static int unnamed_fd(struct kvs_store *store, const char *dir, char *message)
{
	store->fd = fd_without_name(dir);
	if (store->fd >= 0)
		return 0;
	return kvs_store_fail(message, store->fd, "%s: no file can be made in this directory: %s",
			      dir, strerror(-store->fd));
}

int kvs_store_unnamed_open(struct kvs_store *store, const char *dir, uint64_t bytes, char *message)
{
	int ret = unnamed_fd(store, dir, message);

	if (ret)
		return ret;
	ret = file_fill(store, bytes, message);
	if (ret)
		close(store->fd);
	return ret;
}

int kvs_store_dir_probe(struct kvs_store *store, const char *dir, char *message)
{
	int ret = unnamed_fd(store, dir, message);

	if (ret)
		return ret;
	store->bytes = kvs_store_room_free(store->fd);
	if (ftruncate(store->fd, (off_t)PROBE_BYTES))
		ret = kvs_store_fail(message, -errno, "%s: %s", dir, strerror(errno));
	else
		ret = direct_settle(store, message);
	close(store->fd);
	return ret;
}

/* Of a file with something in it, which may be somebody's: nothing is tried out. */
int kvs_store_file_probe(struct kvs_store *store, char *message)
{
	struct kvs_placement placement;
	struct stat st;
	int fd = open(store->path, O_RDWR | O_CLOEXEC);
	int ret = fd < 0 ? -errno : kvs_placement_look(fd, &placement);

	if (!ret && fstat(fd, &st))
		ret = -errno;
	if (ret) {
		if (fd >= 0)
			close(fd);
		return kvs_store_fail(message, ret, "%s cannot be opened: %s", store->path,
				      strerror(-ret));
	}
	kvs_store_placed(store, &placement);
	store->bytes = kvs_store_room_free(fd) + (uint64_t)st.st_blocks * 512;
	close(fd);
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int dir_open(struct kvs_store *store, char *message)
{
	size_t n = (size_t)(base_name(store->path) - store->path);
	char dir[sizeof(store->path)] = ".";

	if (n) {
		memcpy(dir, store->path, n);
		dir[n] = '\0';
	}
	store->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (store->dir_fd >= 0)
		return 0;
	return kvs_store_fail(message, -errno, "%s: its directory cannot be used: %s", store->path,
			      strerror(errno));
}

/* -EAGAIN: another session has removed it meanwhile. */
static int file_lock(const struct kvs_store *store, struct stat *st, char *message)
{
	struct stat named;

	if (fstat(store->fd, st))
		return kvs_store_fail(message, -errno, "%s: %s", store->path, strerror(errno));
	if (!S_ISREG(st->st_mode))
		return kvs_store_fail(message, -EINVAL, "%s is no regular file", store->path);
	if (flock(store->fd, LOCK_EX | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			return kvs_store_fail(message, -EBUSY, "%s is in use by another session",
					      store->path);
		return kvs_store_fail(message, -errno, "%s cannot be locked: %s", store->path,
				      strerror(errno));
	}
	if (fstatat(store->dir_fd, base_name(store->path), &named, 0) ||
	    named.st_ino != st->st_ino || named.st_dev != st->st_dev)
		return -EAGAIN;
	return fstat(store->fd, st) ? -errno : 0;
}

/*
 * A new file gets its name when it is locked: none else can take it for a file that was there. Where
 * a file system has no such files, the name comes first.
 */
static int file_make(const struct kvs_store *store, const char *name)
{
	int fd = openat(store->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) &&
	    !linkat(AT_FDCWD, link, store->dir_fd, name, AT_SYMLINK_FOLLOW))
		return fd;
	if (fd >= 0)
		close(fd);
	return openat(store->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int file_open_once(struct kvs_store *store, struct stat *st, char *message)
{
	const char *name = base_name(store->path);
	int ret;

	store->fd = file_make(store, name);
	store->created = store->fd >= 0;
	if (store->fd < 0 && errno == EEXIST)
		store->fd = openat(store->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (store->fd < 0) {
		ret = -errno;
		kvs_store_fail(message, ret, "%s cannot be opened for writing: %s", store->path,
			       strerror(-ret));
		return ret == -ENOENT ? -EAGAIN : ret;
	}
	ret = file_lock(store, st, message);
	if (ret)
		close(store->fd);
	return ret;
}

/* A session that was killed keeps its lock a little longer, until the kernel has ended its I/O. */
static int file_open(struct kvs_store *store, struct stat *st, char *message)
{
	const struct timespec pause = { .tv_nsec = BUSY_NS };
	int ret = file_open_once(store, st, message);

	for (int i = 0; i < OPEN_TRIES && (ret == -EAGAIN || ret == -EBUSY); i++) {
		if (ret == -EBUSY)
			nanosleep(&pause, NULL);
		ret = file_open_once(store, st, message);
	}
	return ret == -EAGAIN ? -ENOENT : ret;
}

/* Ours, locked and empty. */
static int file_claim(struct kvs_store *store, bool force, char *message)
{
	struct trailer trailer;
	struct stat st;
	int ret = file_open(store, &st, message);

	if (ret)
		return ret;
	if (st.st_size && trailer_read(store->fd, (uint64_t)st.st_size, &trailer))
		store->created = le32toh(trailer.flags) & TRAILER_MADE;
	else if (st.st_size && !force)
		ret = kvs_store_fail(message, -EEXIST,
				     "%s holds %lld bytes that are no store: name another file, "
				     "or force its use (what is in it is lost)",
				     store->path, (long long)st.st_size);
	if (!ret && ftruncate(store->fd, 0))
		ret = kvs_store_fail(message, -errno, "%s cannot be emptied: %s", store->path,
				     strerror(errno));
	/*
	 * Keys and values are nobody else's to read, whatever umask or an earlier owner of the name
	 * said.
	 */
	if (!ret && fchmod(store->fd, 0600) && errno != EPERM)
		ret = kvs_store_fail(message, -errno, "%s: mode cannot be set: %s", store->path,
				     strerror(errno));
	if (ret)
		close(store->fd);
	return ret;
}

int kvs_store_file_open(struct kvs_store *store, uint64_t bytes, bool force, char *message)
{
	int ret = dir_open(store, message);

	if (ret)
		return ret;
	ret = file_claim(store, force, message);
	if (ret)
		goto close_dir;
	ret = file_fill(store, bytes, message);
	if (!ret)
		return 0;
	kvs_store_file_release(store);
	close(store->fd);
close_dir:
	close(store->dir_fd);
	return ret;
}

void kvs_store_file_release(struct kvs_store *store)
{
	const char *name = base_name(store->path);
	struct stat ours, named;

	/* Emptying waits for I/O that is under way; a name can go at once. */
	if (!store->created) {
		if (!store->stuck && ftruncate(store->fd, 0))
			store->stuck = true;
		return;
	}
	if (!fstat(store->fd, &ours) &&
	    !fstatat(store->dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) &&
	    ours.st_ino == named.st_ino && ours.st_dev == named.st_dev)
		unlinkat(store->dir_fd, name, 0);
}
