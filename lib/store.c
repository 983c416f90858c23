// SPDX-License-Identifier: MIT
/*
 * Finds out what a store's path names, and hands it to the file or the device that opens it.
 */
#include "store_parts.h"
#include "kvswap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { NEW_FILE, FILE_THERE, DIRECTORY, DEVICE, DEFAULT_DIRECTORY };

int kvs_store_fail(char *message, int ret, const char *format, ...)
{
	va_list args;

	if (!message)
		return ret;
	va_start(args, format);
	vsnprintf(message, KVS_MESSAGE_BYTES, format, args);
	va_end(args);
	return ret;
}

void kvs_store_placed(struct kvs_store *store, const struct kvs_placement *placement)
{
	store->slow = placement->slow;
	store->block_bytes = placement->block_bytes;
	store->whole_bytes = placement->whole_bytes;
	store->direct = placement->direct;
	memcpy(store->direct_why, placement->why, sizeof(store->direct_why));
}

const char *kvs_size_text(uint64_t bytes, char *text)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes / 1024;
	int unit = 0;

	while (value >= 1024 && unit < 5) {
		value /= 1024;
		unit++;
	}
	if (bytes < 1024)
		snprintf(text, KVS_SIZE_TEXT, "%u bytes", (unsigned int)bytes);
	else
		snprintf(text, KVS_SIZE_TEXT, "%.1f %s", value, units[unit]);
	return text;
}

/* The XDG base directory specification ignores a relative XDG_CACHE_HOME. */
static int default_directory(struct kvs_store *store, char *message)
{
	const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	int n = -1;

	if (cache && *cache == '/')
		n = snprintf(store->path, sizeof(store->path), "%s/kvswap", cache);
	else if (home && *home == '/')
		n = snprintf(store->path, sizeof(store->path), "%s/.cache/kvswap", home);
	if (n < 0)
		return kvs_store_fail(message, -ENOENT,
				      "neither XDG_CACHE_HOME nor HOME is set: name a store");
	if (n >= (int)sizeof(store->path))
		return kvs_store_fail(message, -ENAMETOOLONG,
				      "the path of the cache directory is too long");
	return 0;
}

static const char *type_name(mode_t mode)
{
	return S_ISFIFO(mode)	? "a fifo"
	       : S_ISCHR(mode)	? "a character device"
	       : S_ISSOCK(mode) ? "a socket"
				: "nothing that can hold a store";
}

static int say_missing(const struct kvs_store *store, char *message)
{
	char dir[sizeof(store->path)];
	char *slash;
	struct stat st;

	memcpy(dir, store->path, sizeof(dir));
	slash = strrchr(dir, '/');
	if (slash && !slash[1])
		return kvs_store_fail(message, -ENOENT, "%s: no such directory", store->path);
	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	if (!stat(dir, &st))
		return 0;
	return kvs_store_fail(message, -errno, "%s: its directory %s: %s", store->path, dir,
			      strerror(errno));
}

/* -errno, or an enum kind. */
static int path_kind(struct kvs_store *store, const char *path, char *message)
{
	struct stat st;
	int ret;

	if (!path) {
		ret = default_directory(store, message);
		return ret ? ret : DEFAULT_DIRECTORY;
	}
	if (!*path)
		return kvs_store_fail(message, -EINVAL, "the path of the store is empty");
	if (snprintf(store->path, sizeof(store->path), "%s", path) >= (int)sizeof(store->path))
		return kvs_store_fail(message, -ENAMETOOLONG, "the path of the store is too long");
	if (stat(path, &st)) {
		if (errno != ENOENT)
			return kvs_store_fail(message, -errno, "%s: %s", path, strerror(errno));
		ret = say_missing(store, message);
		return ret ? ret : NEW_FILE;
	}
	if (S_ISREG(st.st_mode))
		return FILE_THERE;
	if (S_ISDIR(st.st_mode))
		return DIRECTORY;
	if (S_ISBLK(st.st_mode))
		return DEVICE;
	return kvs_store_fail(message, -EINVAL,
			      "%s is %s: name a directory, a file or a block device", path,
			      type_name(st.st_mode));
}

/* mkdir -p, each 0700. */
static int directories_make(const struct kvs_store *store, char *message)
{
	char dir[sizeof(store->path)];

	memcpy(dir, store->path, sizeof(dir));
	for (char *at = strchr(dir + 1, '/');; at = strchr(at + 1, '/')) {
		if (at)
			*at = '\0';
		if (mkdir(dir, 0700) && errno != EEXIST)
			return kvs_store_fail(message, -errno, "%s cannot be made: %s", dir,
					      strerror(errno));
		if (!at)
			return 0;
		*at = '/';
	}
}

/* The directory that a file would come to be in, as far as it is there. */
static void nearest_directory(const struct kvs_store *store, char *dir)
{
	struct stat st;
	char *slash;

	memcpy(dir, store->path, sizeof(store->path));
	while (stat(dir, &st) || !S_ISDIR(st.st_mode)) {
		slash = strrchr(dir, '/');
		if (!slash) {
			strcpy(dir, ".");
			return;
		}
		slash[slash == dir] = '\0';
	}
}

static void store_init(struct kvs_store *store)
{
	memset(store, 0, sizeof(*store));
	store->fd = -1;
	store->dir_fd = -1;
}

int kvs_store_probe(const char *path, struct kvs_store *out, char *message)
{
	char dir[sizeof(out->path)];
	int kind, ret;

	store_init(out);
	kind = path_kind(out, path, message);
	if (kind < 0)
		return kind;
	nearest_directory(out, dir);
	if (kind == DEVICE)
		ret = kvs_store_device_probe(out, message);
	else if (kind == FILE_THERE)
		ret = kvs_store_file_probe(out, message);
	else
		ret = kvs_store_dir_probe(out, dir, message);
	out->fd = -1;
	return ret;
}

int kvs_store_open(const char *path, uint64_t bytes, bool force, struct kvs_store *out,
		   char *message)
{
	int kind, ret = 0;

	store_init(out);
	if (!bytes)
		return kvs_store_fail(message, -EINVAL, "a store of 0 bytes");
	kind = path_kind(out, path, message);
	if (kind < 0)
		return kind;
	if (kind == DEFAULT_DIRECTORY)
		ret = directories_make(out, message);
	if (ret)
		return ret;
	if (kind == DEVICE)
		ret = kvs_store_device_open(out, bytes, force, message);
	else if (kind == DIRECTORY || kind == DEFAULT_DIRECTORY)
		ret = kvs_store_unnamed_open(out, out->path, bytes, message);
	else
		ret = kvs_store_file_open(out, bytes, force, message);
	if (ret)
		out->fd = out->dir_fd = -1;
	return ret;
}

void kvs_store_close(struct kvs_store *store)
{
	if (store->fd < 0)
		return;
	if (store->dir_fd >= 0)
		kvs_store_file_release(store);
	else if (store->device && !store->stuck)
		kvs_store_device_release(store);
	close(store->fd);
	if (store->dir_fd >= 0)
		close(store->dir_fd);
	store->fd = store->dir_fd = -1;
}
