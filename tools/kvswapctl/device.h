/* SPDX-License-Identifier: MIT */
/*
 * What storage a path stands on: from the file system through partitions, dm, md and loop to the disks,
 * all by sysfs and mountinfo below a root, which is "" or the top of a made-up tree. Changes nothing, prints nothing.
 */
#ifndef KVSWAPCTL_DEVICE_H
#define KVSWAPCTL_DEVICE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "warnings.h"

#define DEVICE_LAYERS 24

enum device_kind {
	KIND_UNKNOWN,
	KIND_NVME,
	KIND_UFS,
	KIND_EMMC,
	KIND_SD,
	KIND_SATA,
	KIND_SCSI,
	KIND_USB,
	KIND_VIRTUAL, /* a disk that a hypervisor makes */
	KIND_NETWORK,
	KIND_MEMORY,
};

/* One block device on the way down, the uppermost first. */
struct device_layer {
	char name[64];	/* as in /sys/class/block */
	char what[16];	/* "disk", "partition", "dm", "md", "loop" */
	char label[64]; /* of dm: its name; of a loop device: its file */
	unsigned int major, minor;
	bool leaf; /* nothing below it */
};

/* Limits of the uppermost whole device; 0 and "": not told. */
struct device_limits {
	uint32_t logical_block, physical_block, minimum_io, optimal_io;
	uint32_t max_transfer; /* of one request as the kernel cuts it, bytes */
	uint32_t max_hw_transfer, max_segments, requests, read_ahead_bytes;
	uint64_t discard_max;
	bool rotational, read_only;
	char scheduler[32], write_cache[32];
};

struct device {
	enum device_kind kind; /* of the first disk at the bottom */
	bool slow;	       /* an eMMC or SD card is at the bottom of one of its parts */
	char path[64];	       /* /dev/NAME of the uppermost layer, "" when there is no device */
	char file_system[64], mount_point[PATH_MAX]; /* "" for a device given by name */
	char disk[64];				     /* the first at the bottom */
	char model[64], firmware[32], transport[32];
	uint64_t bytes; /* of the uppermost layer */
	struct device_limits limits;
	struct device_layer layers[DEVICE_LAYERS];
	int n_layers;
	int life_percent; /* used of eMMC's or UFS's life time; -1: not told */
	char pre_eol[16]; /* eMMC, UFS: "normal", "warning", "urgent", or "" */
	bool loop_cached; /* a loop device in between goes through the page cache */
	bool dm_crypt;
};

const char *device_kind_name(enum device_kind kind);

/* path: absolute, without links, of a file or directory. 0 or -errno. */
int device_of_path(const char *root, const char *path, struct device *out);
int device_of_number(const char *root, unsigned int major, unsigned int minor, struct device *out);

/* What of it hurts a KV cache. */
void device_warn(const struct device *d, struct warnings *w);

#endif
