// SPDX-License-Identifier: MIT
/* See target.h. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kvswap.h"
#include "kvswap/report.h"
#include "placement.h"

#define FILE_LEAST (1 << 20) /* a shorter file tells nothing of the storage */
#define FILE_ENOUGH ((off_t)256 << 20)
#define FILES_SEEN 100000

static const char *what_is(mode_t mode)
{
	return S_ISCHR(mode)	? "a character device"
	       : S_ISFIFO(mode) ? "a fifo"
	       : S_ISSOCK(mode) ? "a socket"
				: "neither";
}

int target_look(struct target *t, const char *path)
{
	char real[PATH_MAX];
	struct stat st;
	int err;

	memset(t, 0, sizeof(*t));
	t->fd = t->scratch.fd = -1;
	if (!realpath(path, real) || stat(real, &st))
		return report_fail("%s: %s", path, strerror(errno));
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return report_fail("%s is %s: give a file, a directory or a block device", path,
				   what_is(st.st_mode));
	err = S_ISBLK(st.st_mode)
		      ? device_of_number("", major(st.st_rdev), minor(st.st_rdev), &t->device)
		      : device_of_path("", real, &t->device);
	return err ? report_fail("%s: cannot tell what it stands on: %s", path, strerror(-err))
		   : DONE;
}

static uint64_t size_of(int fd, const struct stat *st)
{
	uint64_t bytes = 0;

	if (S_ISREG(st->st_mode))
		return (uint64_t)st->st_size;
	return ioctl(fd, BLKGETSIZE64, &bytes) ? 0 : bytes;
}

/* -errno, or 0 with t->fd open; a file system without O_DIRECT is read through its cache. */
static int open_read(struct target *t, const char *path)
{
	struct kvs_placement placement;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT | O_NONBLOCK);

	t->direct = fd >= 0;
	if (fd < 0 && errno == EINVAL)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || kvs_placement_look(fd, &placement)) {
		close(fd);
		return -EIO;
	}
	t->fd = fd;
	t->block = placement.block_bytes;
	t->bytes = size_of(fd, &st);
	t->direct = t->direct && placement.direct;
	snprintf(t->direct_why, sizeof(t->direct_why), "%s",
		 t->direct	    ? ""
		 : placement.why[0] ? placement.why
				    : "the file system does no direct I/O");
	snprintf(t->measured, sizeof(t->measured), "%s", path);
	return 0;
}

/* A file without holes, or nearly: what is not on the device would be read for nothing. */
static bool is_solid(const FTSENT *entry)
{
	return entry->fts_info == FTS_F && entry->fts_statp->st_size >= FILE_LEAST &&
	       (uint64_t)entry->fts_statp->st_blocks * 512 >=
		       (uint64_t)entry->fts_statp->st_size / 10 * 9;
}

/* The largest readable file below a directory on the same file system, for who may not read the device. */
static bool largest_file(const char *dir, char path[PATH_MAX])
{
	char *const roots[] = { (char *)(uintptr_t)dir, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	FTSENT *entry;
	off_t largest = 0;
	int seen = 0;

	path[0] = '\0';
	while (tree && largest < FILE_ENOUGH && seen++ < FILES_SEEN && (entry = fts_read(tree)))
		if (is_solid(entry) && entry->fts_statp->st_size > largest &&
		    !access(entry->fts_path, R_OK)) {
			largest = entry->fts_statp->st_size;
			snprintf(path, PATH_MAX, "%s", entry->fts_path);
		}
	if (tree)
		fts_close(tree);
	return path[0];
}

static int open_beneath(struct target *t, const char *dir)
{
	char file[PATH_MAX];
	int err = t->device.path[0] ? open_read(t, t->device.path) : -ENODEV;

	if (!err)
		return DONE;
	if (largest_file(dir, file) && !open_read(t, file))
		return DONE;
	if (!t->device.path[0])
		return report_fail(
			"%s (%s) has no device below it to measure: give a large file on it, or --scratch",
			dir, t->device.file_system);
	return report_fail(
		"%s cannot be read (%s): run as root, give a large file on it, or --scratch %s",
		t->device.path, strerror(-err), dir);
}

static int open_scratch(struct target *t, const char *path, uint64_t bytes, bool force)
{
	char message[KVS_MESSAGE_BYTES] = "";

	if (kvs_store_open(path, bytes, force, &t->scratch, message)) {
		t->scratch.fd = -1;
		return report_fail("%s", message);
	}
	t->fd = t->scratch.fd;
	t->direct = t->scratch.direct;
	t->block = t->scratch.block_bytes;
	t->bytes = t->scratch.bytes;
	snprintf(t->direct_why, sizeof(t->direct_why), "%s",
		 t->direct ? "" : t->scratch.direct_why);
	snprintf(t->measured, sizeof(t->measured), "%s", path);
	return DONE;
}

int target_open(struct target *t, const char *path, const char *scratch, uint64_t scratch_bytes,
		bool force)
{
	struct stat st;
	int err;

	if (scratch)
		return open_scratch(t, scratch, scratch_bytes, force);
	if (stat(path, &st))
		return report_fail("%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return open_beneath(t, path);
	err = open_read(t, path);
	if (err)
		return report_fail("%s cannot be read: %s", path, strerror(-err));
	if (t->bytes < t->block)
		return report_fail(
			"%s has %llu bytes, too few to measure: give a larger file, or --scratch",
			path, (unsigned long long)t->bytes);
	return DONE;
}

void target_close(struct target *t)
{
	if (t->scratch.fd >= 0)
		kvs_store_close(&t->scratch);
	else if (t->fd >= 0)
		close(t->fd);
	t->fd = t->scratch.fd = -1;
}
