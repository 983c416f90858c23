// SPDX-License-Identifier: MIT
/*
 * A block device as the store: taken for ourselves alone, and only when nothing of anybody else is
 * on it.
 */
#include "store_parts.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DISCARD_STEP ((uint64_t)1 << 30)
#define DISCARD_SECONDS 5
#define LOCK_TRIES 10 /* of 100 ms: udev holds the lock while it looks at a device */

static int say_in_use(const struct kvs_store *store, dev_t dev, char *message)
{
	char where[256];

	kvs_placement_mounted(dev, where, sizeof(where));
	if (where[0])
		return kvs_store_fail(message, -EBUSY,
				      "%s is mounted on %s: unmount it, or force its use "
				      "(what is on it is lost)",
				      store->path, where);
	return kvs_store_fail(message, -EBUSY,
			      "%s is in use: by another session, as swap, by a mounted "
			      "partition, or by device mapper",
			      store->path);
}

/* libblkid reads in its own way, so it gets an fd without O_DIRECT. */
static int signature_check(const struct kvs_store *store, char *message)
{
	int fd = open(store->path, O_RDONLY | O_CLOEXEC);
	blkid_probe probe = blkid_new_probe();
	const char *type = NULL;
	int found = -1, ret = 0;

	if (fd >= 0 && probe && !blkid_probe_set_device(probe, fd, 0, 0)) {
		blkid_probe_enable_superblocks(probe, 1);
		blkid_probe_enable_partitions(probe, 1);
		found = blkid_do_safeprobe(probe);
	}
	if (found == 0 && blkid_probe_lookup_value(probe, "TYPE", &type, NULL))
		blkid_probe_lookup_value(probe, "PTTYPE", &type, NULL);
	if (found == 0 || found == -2)
		ret = kvs_store_fail(message, -EBUSY,
				     "%s carries a signature (%s): wipe it with wipefs, or force "
				     "its use (what is on it is lost)",
				     store->path,
				     found  ? "several"
				     : type ? type
					    : "unknown");
	else if (found != 1)
		ret = kvs_store_fail(message, -EIO, "%s: cannot be searched for signatures",
				     store->path);
	blkid_free_probe(probe);
	if (fd >= 0)
		close(fd);
	return ret;
}

static int lock(const struct kvs_store *store, char *message)
{
	const struct timespec pause = { .tv_nsec = 100000000 };

	for (int i = 0; flock(store->fd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EWOULDBLOCK)
			return kvs_store_fail(message, -errno, "%s: cannot be locked: %s",
					      store->path, strerror(errno));
		if (i == LOCK_TRIES)
			return kvs_store_fail(message, -EBUSY, "%s is in use by another session",
					      store->path);
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* A session that has ended keeps its hold a little longer, until the kernel has taken down its ring. */
static int exclusive_fd(const struct kvs_store *store, int flags)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	char where[256] = "";
	struct stat st;
	int fd = open(store->path, flags | O_EXCL);

	if (fd >= 0 || errno != EBUSY || stat(store->path, &st))
		return fd;
	kvs_placement_mounted(st.st_rdev, where, sizeof(where));
	for (int i = 0; fd < 0 && !where[0] && i < LOCK_TRIES; i++) {
		nanosleep(&pause, NULL);
		fd = open(store->path, flags | O_EXCL);
	}
	errno = EBUSY;
	return fd;
}

static int device_fd(const struct kvs_store *store, bool force, char *message)
{
	const int flags = O_RDWR | O_DIRECT | O_CLOEXEC;
	struct stat st;
	int fd = exclusive_fd(store, flags);

	if (fd < 0 && errno == EBUSY && force)
		fd = open(store->path, flags);
	if (fd >= 0)
		return fd;
	if (errno == EBUSY && !stat(store->path, &st))
		return say_in_use(store, st.st_rdev, message);
	return kvs_store_fail(message, -errno, "%s cannot be opened for writing: %s", store->path,
			      strerror(errno));
}

static int device_look(struct kvs_store *store, int fd, char *message)
{
	struct kvs_placement placement;
	uint64_t bytes = 0;
	int ret = kvs_placement_look(fd, &placement);

	if (!ret && ioctl(fd, BLKGETSIZE64, &bytes))
		ret = -errno;
	if (ret)
		return kvs_store_fail(message, ret, "%s: %s", store->path, strerror(-ret));
	store->device = true;
	kvs_store_placed(store, &placement);
	store->bytes = bytes - bytes % store->block_bytes;
	return 0;
}

static int device_claim(struct kvs_store *store, uint64_t bytes, bool force, char *message)
{
	char need[KVS_SIZE_TEXT], have[KVS_SIZE_TEXT], missing[KVS_SIZE_TEXT];
	int ret = device_look(store, store->fd, message), read_only = 0;

	if (ret)
		return ret;
	/* Newer kernels open it all the same, and fail the first write. */
	if (!ioctl(store->fd, BLKROGET, &read_only) && read_only)
		return kvs_store_fail(message, -EROFS, "%s is set read-only", store->path);
	ret = lock(store, message);
	if (ret)
		return ret;
	if (!force) {
		ret = signature_check(store, message);
		if (ret)
			return ret;
	}
	if (bytes > store->bytes)
		return kvs_store_fail(message, -ENOSPC,
				      "%s holds %s, the store needs %s: %s missing", store->path,
				      kvs_size_text(store->bytes, have), kvs_size_text(bytes, need),
				      kvs_size_text(bytes - store->bytes, missing));
	store->bytes = bytes + -bytes % store->block_bytes;
	return 0;
}

int kvs_store_device_open(struct kvs_store *store, uint64_t bytes, bool force, char *message)
{
	int ret;

	store->fd = device_fd(store, force, message);
	if (store->fd < 0)
		return store->fd;
	ret = device_claim(store, bytes, force, message);
	if (ret)
		close(store->fd);
	return ret;
}

int kvs_store_device_probe(struct kvs_store *store, char *message)
{
	int fd = open(store->path, O_RDONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return kvs_store_fail(message, -errno, "%s cannot be opened: %s", store->path,
				      strerror(errno));
	ret = device_look(store, fd, message);
	close(fd);
	return ret;
}

static time_t seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/*
 * As far as the device can and it is quick: a discard cannot be interrupted, so it goes in steps.
 */
void kvs_store_device_release(struct kvs_store *store)
{
	uint64_t range[2] = { 0, 0 };
	time_t until = seconds() + DISCARD_SECONDS;

	for (; range[0] < store->bytes && seconds() <= until; range[0] += range[1]) {
		range[1] = store->bytes - range[0];
		if (range[1] > DISCARD_STEP)
			range[1] = DISCARD_STEP;
		if (ioctl(store->fd, BLKDISCARD, range))
			return;
	}
}
