// SPDX-License-Identifier: MIT
/*
 * Finds the way from a file to its disks through statx, statfs, /proc/self/mountinfo and sysfs.
 */
#include "placement.h"
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define BLOCK_DEFAULT 4096u
#define CHAIN_MAX 32 /* disks below disks: loop on ext4 on dm on md on ... */
#define MOUNTS_MAX 8 /* overlayfs on overlayfs on ... */

/* What is found on the way down. */
struct chain {
	dev_t disks[CHAIN_MAX]; /* the first n_walked were looked at */
	int n_disks, n_walked;
	bool slow;
	uint32_t logical, physical; /* of the uppermost disk; 0: not known */
	char cached_by[32];	    /* a loop device that reads its file through the page cache */
};

struct file_system {
	long magic;
	bool o_direct;
	const char *why;
};

/* File systems on which an O_DIRECT open that succeeds proves nothing. */
static const struct file_system dubious[] = {
	{ 0x01021994, false, "tmpfs keeps files in memory" },
	{ 0x858458f6, false, "ramfs keeps files in memory" },
	{ 0x958458f6, false, "hugetlbfs keeps files in memory" },
	{ 0x794c7630, true, "overlayfs does not say whether direct I/O reaches the disk" },
	{ 0x2fc12fc1, true, "zfs may keep data in its own cache" },
	{ 0x65735546, true, "a FUSE server may cache" },
	{ 0x01021997, true, "a 9p server may cache" },
	{ 0xf15f, false, "ecryptfs does no direct I/O" },
};

static const struct file_system *dubious_find(long magic)
{
	for (size_t i = 0; i < sizeof(dubious) / sizeof(dubious[0]); i++)
		if (dubious[i].magic == magic)
			return &dubious[i];
	return NULL;
}

/* The first line of a file, without its newline. */
static int read_line(const char *path, char *line, int bytes)
{
	FILE *f = fopen(path, "re");
	char *got;

	if (!f)
		return -errno;
	got = fgets(line, bytes, f);
	fclose(f);
	if (!got)
		return -ENODATA;
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

static uint32_t read_number(const char *dir, const char *name)
{
	char path[PATH_MAX + 64], line[32];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return read_line(path, line, sizeof(line)) ? 0 : (uint32_t)strtoul(line, NULL, 10);
}

/* One line of /proc/self/mountinfo, cut up in place: see proc(5). */
struct mount {
	unsigned int id, major, minor;
	const char *point, *type, *source, *options;
};

static bool mount_parse(char *line, struct mount *out)
{
	char *save, *word = strtok_r(line, " \n", &save);
	const char *words[64];
	int n = 0, dash = 0;

	for (; word && n < 64; word = strtok_r(NULL, " \n", &save)) {
		if (!dash && n >= 6 && !strcmp(word, "-"))
			dash = n;
		words[n++] = word;
	}
	if (!dash || n < dash + 4)
		return false;
	out->id = (unsigned int)strtoul(words[0], NULL, 10);
	out->point = words[4];
	out->type = words[dash + 1];
	out->source = words[dash + 2];
	out->options = words[dash + 3];
	return sscanf(words[2], "%u:%u", &out->major, &out->minor) == 2;
}

/* Calls fn on each mount until it returns true. */
static void mounts_each(bool (*fn)(const struct mount *mount, void *arg), void *arg)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	struct mount mount;
	char *line = NULL;
	size_t room = 0;

	if (!f)
		return;
	while (getline(&line, &room, f) > 0)
		if (mount_parse(line, &mount) && fn(&mount, arg))
			break;
	free(line);
	fclose(f);
}

struct mount_query {
	unsigned int id; /* mount wanted; 0: by device */
	dev_t dev;
	char *text;
	uint32_t bytes;
};

static bool mount_point(const struct mount *mount, void *arg)
{
	struct mount_query *query = arg;

	if (makedev(mount->major, mount->minor) != query->dev)
		return false;
	snprintf(query->text, query->bytes, "%s", mount->point);
	return true;
}

void kvs_placement_mounted(dev_t dev, char *where, uint32_t bytes)
{
	struct mount_query query = { .dev = dev, .text = where, .bytes = bytes };

	where[0] = '\0';
	mounts_each(mount_point, &query);
}

/*
 * What a mount without a device of its own stands on: btrfs names its disk, overlayfs its upper
 * directory.
 */
static bool mount_below(const struct mount *mount, void *arg)
{
	static const char upper[] = "upperdir=";
	struct mount_query *query = arg;
	const char *at = mount->source;
	size_t n;

	if (query->id ? mount->id != query->id : makedev(mount->major, mount->minor) != query->dev)
		return false;
	if (!strcmp(mount->type, "overlay")) {
		at = strstr(mount->options, upper);
		at = at ? at + strlen(upper) : "";
	}
	n = strcspn(at, ",");
	if (*at == '/' && n < query->bytes) {
		memcpy(query->text, at, n);
		query->text[n] = '\0';
	}
	return true;
}

/* The disk, as far as there is one, below a file system that has an anonymous device number. */
static dev_t dev_below(dev_t dev, unsigned int mount_id)
{
	for (int i = 0; i < MOUNTS_MAX && !major(dev); i++, mount_id = 0) {
		char path[PATH_MAX] = "";
		struct mount_query query = { mount_id, dev, path, sizeof(path) };
		struct stat st;

		mounts_each(mount_below, &query);
		if (!path[0] || stat(path, &st))
			break;
		dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	}
	return dev;
}

static void chain_add(struct chain *chain, dev_t dev)
{
	for (int i = 0; i < chain->n_disks; i++)
		if (chain->disks[i] == dev)
			return;
	if (chain->n_disks < CHAIN_MAX)
		chain->disks[chain->n_disks++] = dev;
}

/* dm and md: the disks that it is made of. */
static void chain_slaves(struct chain *chain, const char *disk)
{
	char path[PATH_MAX + 320], line[32];
	struct dirent *entry;
	unsigned int major, minor;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/slaves", disk);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/slaves/%s/dev", disk, entry->d_name);
		if (entry->d_name[0] != '.' && !read_line(path, line, sizeof(line)) &&
		    sscanf(line, "%u:%u", &major, &minor) == 2)
			chain_add(chain, makedev(major, minor));
	}
	closedir(dir);
}

static void chain_loop(struct chain *chain, const char *disk, const char *name)
{
	char path[PATH_MAX + 64], backing[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/loop/backing_file", disk);
	if (read_line(path, backing, sizeof(backing)))
		return;
	if (!read_number(disk, "loop/dio"))
		snprintf(chain->cached_by, sizeof(chain->cached_by), "%.31s", name);
	if (!stat(backing, &st))
		chain_add(chain, S_ISBLK(st.st_mode) ? st.st_rdev : dev_below(st.st_dev, 0));
}

static void chain_disk(struct chain *chain, dev_t dev)
{
	char link[64], disk[PATH_MAX], path[PATH_MAX + 64];
	const char *name;

	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	if (!realpath(link, disk))
		return;
	snprintf(path, sizeof(path), "%s/partition", disk);
	if (!access(path, F_OK))
		*strrchr(disk, '/') = '\0';
	name = strrchr(disk, '/') + 1;
	if (!chain->logical) {
		chain->logical = read_number(disk, "queue/logical_block_size");
		chain->physical = read_number(disk, "queue/physical_block_size");
	}
	if (!strncmp(name, "mmcblk", 6))
		chain->slow = true;
	if (!strncmp(name, "loop", 4))
		chain_loop(chain, disk, name);
	else
		chain_slaves(chain, disk);
}

static void chain_walk(struct chain *chain, dev_t dev)
{
	chain_add(chain, dev);
	while (chain->n_walked < chain->n_disks)
		chain_disk(chain, chain->disks[chain->n_walked++]);
}

static bool power_of_two(uint32_t x)
{
	return x && !(x & (x - 1));
}

static void blocks_choose(struct kvs_placement *out, uint32_t block, uint32_t whole)
{
	if (!power_of_two(block) || block > KVS_STORE_BLOCK_MAX)
		block = BLOCK_DEFAULT;
	if (block < 512)
		block = 512;
	if (!power_of_two(whole) || whole > KVS_STORE_BLOCK_MAX)
		whole = BLOCK_DEFAULT;
	out->block_bytes = block;
	out->whole_bytes = whole > block ? whole : block;
}

/*
 * Alignment that direct I/O needs; 0: the kernel does not tell; *none: there is no direct I/O on
 * this file.
 */
static uint32_t dio_align(const struct statx *stx, bool *none)
{
	*none = false;
#ifdef STATX_DIOALIGN
	if (!(stx->stx_mask & STATX_DIOALIGN))
		return 0;
	*none = !stx->stx_dio_offset_align;
	return stx->stx_dio_offset_align > stx->stx_dio_mem_align ? stx->stx_dio_offset_align
								  : stx->stx_dio_mem_align;
#else
	(void)stx;
	return 0;
#endif
}

static void look_device(int fd, const struct chain *chain, struct kvs_placement *out)
{
	unsigned int physical = 0;
	int logical = 0;

	if (ioctl(fd, BLKSSZGET, &logical) || logical <= 0)
		logical = (int)chain->logical;
	if (ioctl(fd, BLKPBSZGET, &physical))
		physical = chain->physical;
	blocks_choose(out, (uint32_t)logical, physical);
	out->direct = out->o_direct = true;
}

static void look_file(int fd, const struct statx *stx, const struct chain *chain,
		      struct kvs_placement *out)
{
	const struct file_system *fs;
	struct statfs sfs;
	bool none;
	uint32_t align = dio_align(stx, &none);

	if (fstatfs(fd, &sfs))
		memset(&sfs, 0, sizeof(sfs));
	fs = dubious_find((long)(sfs.f_type & 0xffffffff));
	if (fs && !fs->o_direct)
		align = 512;
	blocks_choose(out, align ? align : chain->logical, (uint32_t)sfs.f_bsize);
	out->direct = !fs && !none;
	out->o_direct = !none && (!fs || fs->o_direct);
	if (!out->direct)
		snprintf(out->why, sizeof(out->why), "%s",
			 fs ? fs->why : "the file system does no direct I/O on this file");
}

static dev_t dev_of(const struct statx *stx)
{
	dev_t dev = makedev(stx->stx_dev_major, stx->stx_dev_minor);

	if (S_ISBLK(stx->stx_mode))
		return makedev(stx->stx_rdev_major, stx->stx_rdev_minor);
	return dev_below(dev, stx->stx_mask & STATX_MNT_ID ? (unsigned int)stx->stx_mnt_id : 0);
}

int kvs_placement_look(int fd, struct kvs_placement *out)
{
	struct chain chain = { 0 };
	unsigned int mask = STATX_BASIC_STATS | STATX_MNT_ID;
	struct statx stx;

	memset(out, 0, sizeof(*out));
#ifdef STATX_DIOALIGN
	mask |= STATX_DIOALIGN;
#endif
	if (statx(fd, "", AT_EMPTY_PATH, mask, &stx))
		return -errno;
	chain_walk(&chain, dev_of(&stx));
	out->slow = chain.slow;
	if (S_ISBLK(stx.stx_mode))
		look_device(fd, &chain, out);
	else
		look_file(fd, &stx, &chain, out);
	if (!out->direct || !chain.cached_by[0])
		return 0;
	out->direct = false;
	snprintf(out->why, sizeof(out->why),
		 "%s reads its file through the page cache (losetup --direct-io=on)",
		 chain.cached_by);
	return 0;
}
