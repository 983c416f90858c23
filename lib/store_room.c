// SPDX-License-Identifier: MIT
/*
 * Room for a file: what limits it, and taking it all at once, so that a write-back cannot run out
 * of it later.
 */
#include "store_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ZEROS_BYTES ((size_t)1 << 20)

uint64_t kvs_store_room_free(int fd)
{
	struct statvfs vfs;

	if (fstatvfs(fd, &vfs))
		return 0;
	return (uint64_t)vfs.f_bavail * vfs.f_frsize;
}

static int say_full(const struct kvs_store *store, uint64_t bytes, char *message)
{
	char need[KVS_SIZE_TEXT], have[KVS_SIZE_TEXT], missing[KVS_SIZE_TEXT];
	uint64_t room = kvs_store_room_free(store->fd);

	kvs_size_text(bytes, need);
	kvs_size_text(room, have);
	if (room >= bytes)
		return kvs_store_fail(message, -ENOSPC,
				      "%s: no room for a store of %s, although the file system "
				      "says it has %s free",
				      store->path, need, have);
	return kvs_store_fail(message, -ENOSPC,
			      "%s: no room for a store of %s: %s free, %s missing", store->path,
			      need, have, kvs_size_text(bytes - room, missing));
}

static int say_limit(const struct kvs_store *store, uint64_t bytes, uint64_t limit, char *message)
{
	char need[KVS_SIZE_TEXT], most[KVS_SIZE_TEXT];

	kvs_size_text(bytes, need);
	if (limit)
		return kvs_store_fail(message, -EFBIG,
				      "%s: the store needs a file of %s, the limit is %s "
				      "(ulimit -f)",
				      store->path, need, kvs_size_text(limit, most));
	return kvs_store_fail(message, -EFBIG, "%s: the file system takes no file of %s",
			      store->path, need);
}

static int say_failed(const struct kvs_store *store, uint64_t bytes, int error, char *message)
{
	if (error == ENOSPC)
		return say_full(store, bytes, message);
	if (error == EFBIG)
		return say_limit(store, bytes, 0, message);
	if (error == EDQUOT)
		return kvs_store_fail(message, -EDQUOT,
				      "%s: the disk quota has no room for a store of this size",
				      store->path);
	return kvs_store_fail(message, -error, "%s: no room could be taken: %s", store->path,
			      strerror(error));
}

/* A file system without fallocate: zeros, written and then dropped from the page cache. */
static int zeros_write(int fd, uint64_t bytes)
{
	char *zeros = calloc(1, ZEROS_BYTES);
	uint64_t at = 0;
	int error = zeros ? 0 : ENOMEM;

	while (at < bytes && !error) {
		size_t n = bytes - at < ZEROS_BYTES ? (size_t)(bytes - at) : ZEROS_BYTES;
		ssize_t ret = pwrite(fd, zeros, n, (off_t)at);

		if (ret > 0)
			at += (uint64_t)ret;
		else if (!ret || errno != EINTR)
			error = ret ? errno : EIO;
	}
	free(zeros);
	if (!error && fdatasync(fd))
		error = errno;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return error;
}

int kvs_store_room_check(const struct kvs_store *store, uint64_t bytes, char *message)
{
	struct rlimit limit;

	/* Beyond this limit the kernel sends SIGXFSZ, which would end the program. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    bytes > limit.rlim_cur)
		return say_limit(store, bytes, limit.rlim_cur, message);
	if (bytes > INT64_MAX - 2 * KVS_STORE_BLOCK_MAX)
		return say_limit(store, bytes, 0, message);
	/* Not found out by filling the file system to the brim, which would hit others. */
	if (bytes > kvs_store_room_free(store->fd))
		return say_full(store, bytes, message);
	return 0;
}

int kvs_store_room_take(const struct kvs_store *store, uint64_t bytes, char *message)
{
	int error;

	do
		error = fallocate(store->fd, 0, 0, (off_t)bytes) ? errno : 0;
	while (error == EINTR);
	if (error == EOPNOTSUPP || error == ENOSYS)
		error = zeros_write(store->fd, bytes);
	if (!error)
		return 0;
	if (ftruncate(store->fd, 0))
		return kvs_store_fail(message, -errno, "%s: %s", store->path, strerror(errno));
	return say_failed(store, bytes, error, message);
}
