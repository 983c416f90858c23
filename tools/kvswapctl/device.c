// SPDX-License-Identifier: MIT
/* The way from a file system down to its disks; what kind they are is disk.c's. */
#include "device.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"
#include "mounts.h"
#include "sysfile.h"

#define MOUNTS_MAX 8 /* overlayfs on overlayfs on ... */

/* File systems without a disk of this machine below. */
static const struct {
	const char *type;
	enum device_kind kind;
} diskless[] = {
	{ "tmpfs", KIND_MEMORY },      { "ramfs", KIND_MEMORY },       { "rootfs", KIND_MEMORY },
	{ "hugetlbfs", KIND_MEMORY },  { "nfs", KIND_NETWORK },	       { "nfs4", KIND_NETWORK },
	{ "cifs", KIND_NETWORK },      { "smb3", KIND_NETWORK },       { "ceph", KIND_NETWORK },
	{ "glusterfs", KIND_NETWORK }, { "fuse.sshfs", KIND_NETWORK }, { "9p", KIND_VIRTUAL },
	{ "virtiofs", KIND_VIRTUAL },
};

static enum device_kind kind_without_disk(const char *type)
{
	for (size_t i = 0; i < sizeof(diskless) / sizeof(diskless[0]); i++)
		if (!strcmp(type, diskless[i].type))
			return diskless[i].kind;
	return KIND_UNKNOWN;
}

static bool add_layer(struct device *d, unsigned int major, unsigned int minor)
{
	struct device_layer *l = &d->layers[d->n_layers];

	for (int i = 0; i < d->n_layers; i++)
		if (d->layers[i].major == major && d->layers[i].minor == minor)
			return true;
	if (d->n_layers == DEVICE_LAYERS)
		return false;
	memset(l, 0, sizeof(*l));
	l->major = major;
	l->minor = minor;
	d->n_layers++;
	return true;
}

static bool add_by_name(const char *root, const char *name, struct device *d)
{
	unsigned int major, minor;
	char line[32];

	return sys_line(line, sizeof(line), "%s/sys/class/block/%s/dev", root, name) &&
	       sscanf(line, "%u:%u", &major, &minor) == 2 && add_layer(d, major, minor);
}

static int add_slaves(const char *root, const char *dir, struct device *d)
{
	char path[2 * PATH_MAX];
	struct dirent *entry;
	DIR *slaves;
	int n = 0;

	snprintf(path, sizeof(path), "%s/slaves", dir);
	slaves = opendir(path);
	while (slaves && (entry = readdir(slaves)))
		n += entry->d_name[0] != '.' && add_by_name(root, entry->d_name, d);
	if (slaves)
		closedir(slaves);
	return n;
}

/* The device that a mount names as its source: btrfs, for one, has device numbers of its own. */
static bool add_source(const char *root, const char *source, struct device *d)
{
	char real[PATH_MAX];

	if (strncmp(source, "/dev/", 5))
		return false;
	if (*root || !realpath(source, real))
		snprintf(real, sizeof(real), "%s", source);
	return add_by_name(root, strrchr(real, '/') + 1, d);
}

static bool add_mounted(const char *root, const char *path, struct device *d, struct mount *m)
{
	char at[PATH_MAX];

	snprintf(at, sizeof(at), "%s", path);
	for (int i = 0; i < MOUNTS_MAX; i++) {
		if (mount_of_path(root, at, m))
			return false;
		if (kind_without_disk(m->type) != KIND_UNKNOWN) {
			d->kind = kind_without_disk(m->type);
			return false;
		}
		if (m->major)
			return add_layer(d, m->major, m->minor);
		if (!m->upper[0])
			return add_source(root, m->source, d);
		snprintf(at, sizeof(at), "%s", m->upper);
	}
	return false;
}

static void look_loop(const char *root, const char *dir, struct device *d, struct device_layer *l)
{
	struct mount *m = malloc(sizeof(*m));
	char file[PATH_MAX];

	snprintf(l->what, sizeof(l->what), "loop");
	l->leaf = true;
	if (sys_line(file, sizeof(file), "%s/loop/backing_file", dir)) {
		snprintf(l->label, sizeof(l->label), "%.63s", file);
		if (!sys_number(0, "%s/loop/dio", dir))
			d->loop_cached = true;
		if (m && add_mounted(root, file, d, m))
			l->leaf = false;
	}
	free(m);
}

static void look_stacked(const char *root, const char *dir, struct device *d,
			 struct device_layer *l)
{
	bool dm = sys_exists("%s/dm", dir);
	char uuid[128];

	snprintf(l->what, sizeof(l->what), dm ? "dm" : sys_exists("%s/md", dir) ? "md" : "disk");
	if (dm) {
		sys_line(l->label, sizeof(l->label), "%s/dm/name", dir);
		if (sys_line(uuid, sizeof(uuid), "%s/dm/uuid", dir) && !strncmp(uuid, "CRYPT-", 6))
			d->dm_crypt = true;
	}
	/* The paths of a native NVMe multipath device are no devices of its own kind. */
	l->leaf = add_slaves(root, dir, d) == 0;
}

/* The directory of layer i in sysfs, of its whole disk in the case of a partition. */
static bool layer_dir(const char *root, const struct device_layer *l, char dir[PATH_MAX])
{
	char link[PATH_MAX + 64];

	snprintf(link, sizeof(link), "%s/sys/dev/block/%u:%u", root, l->major, l->minor);
	return realpath(link, dir);
}

static void look_layer(const char *root, struct device *d, int i)
{
	struct device_layer *l = &d->layers[i];
	char dir[PATH_MAX];

	if (!layer_dir(root, l, dir)) {
		snprintf(l->what, sizeof(l->what), "unknown");
		l->leaf = true;
		return;
	}
	snprintf(l->name, sizeof(l->name), "%.63s", strrchr(dir, '/') + 1);
	if (i == 0)
		d->bytes = 512 * sys_number(0, "%s/size", dir);
	if (sys_exists("%s/partition", dir)) {
		snprintf(l->what, sizeof(l->what), "partition");
		*strrchr(dir, '/') = '\0';
		l->leaf = !add_by_name(root, strrchr(dir, '/') + 1, d);
	} else if (sys_exists("%s/loop", dir)) {
		look_loop(root, dir, d, l);
	} else {
		look_stacked(root, dir, d, l);
	}
	if (d->limits.logical_block == 0)
		disk_limits(dir, &d->limits);
	if (l->leaf)
		disk_look(dir, d);
}

static int walk(const char *root, struct device *d)
{
	for (int i = 0; i < d->n_layers; i++)
		look_layer(root, d, i);
	if (d->n_layers && d->layers[0].name[0])
		snprintf(d->path, sizeof(d->path), "/dev/%.58s", d->layers[0].name);
	/* sysfs writes ! where a name has a slash (cciss!c0d0). */
	for (char *c = d->path; *c; c++)
		if (*c == '!')
			*c = '/';
	return d->n_layers && !d->layers[0].name[0] ? -ENODEV : 0;
}

static void start(struct device *d)
{
	memset(d, 0, sizeof(*d));
	d->life_percent = -1;
}

int device_of_path(const char *root, const char *path, struct device *out)
{
	struct mount *m = malloc(sizeof(*m));
	int err = m ? 0 : -ENOMEM;

	start(out);
	if (!err)
		err = mount_of_path(root, path, m);
	if (!err) {
		snprintf(out->file_system, sizeof(out->file_system), "%s", m->type);
		snprintf(out->mount_point, sizeof(out->mount_point), "%s", m->point);
		add_mounted(root, path, out, m);
		err = walk(root, out);
	}
	free(m);
	return err;
}

int device_of_number(const char *root, unsigned int major, unsigned int minor, struct device *out)
{
	start(out);
	add_layer(out, major, minor);
	return walk(root, out);
}

void device_warn(const struct device *d, struct warnings *w)
{
	const struct device_limits *l = &d->limits;

	if (d->loop_cached)
		warn(w,
		     "a loop device below reads its file through the page cache: losetup --direct-io=on");
	if (d->dm_crypt)
		warn(w,
		     "dm-crypt is in between: every record is decrypted, and its workqueues add latency (cryptsetup --perf-no_read_workqueue)");
	if (l->rotational && d->kind != KIND_VIRTUAL)
		warn(w, "%s is a rotating disk: a seek a record is far too slow for KV", d->disk);
	if (d->kind == KIND_NETWORK)
		warn(w, "the storage is on the network: its latency is added to every layer");
	if (d->kind == KIND_MEMORY)
		warn(w, "%s is memory, not storage: nothing is saved by keeping KV there",
		     d->file_system[0] ? d->file_system : d->disk);
	if (d->kind == KIND_USB)
		warn(w, "%s is behind USB: expect a tenth of NVMe's requests a second", d->disk);
	if (l->scheduler[0] && strcmp(l->scheduler, "none") &&
	    (!l->rotational || d->kind == KIND_VIRTUAL) && !d->slow)
		warn(w,
		     "scheduler of %s is %s: 'none' costs less per read (echo none > /sys/block/%s/queue/scheduler)",
		     d->path, l->scheduler,
		     d->n_layers > 1 && !strcmp(d->layers[0].what, "partition")
			     ? d->layers[1].name
			     : d->layers[0].name);
	if (l->max_transfer && l->max_transfer < 65536)
		warn(w, "requests of %s are cut at %u bytes", d->path, l->max_transfer);
	if (l->read_only)
		warn(w, "%s is read-only: no store can be made on it", d->path);
	if (d->life_percent >= 80)
		warn(w, "%s has used %d %% of its life time", d->disk, d->life_percent);
	if (d->pre_eol[0] && strcmp(d->pre_eol, "normal"))
		warn(w, "%s reports %s wear of its reserved blocks", d->disk, d->pre_eol);
	if (d->slow && l->write_cache[0] && strcmp(l->write_cache, "write back"))
		warn(w, "the write cache of %s is off: every write-back waits for the flash",
		     d->path);
}
