/* SPDX-License-Identifier: MIT */
/*
 * What kind of storage a file, directory or block device is on, asked of the kernel: file system,
 * disks below it, alignment, whether direct I/O is real. Changes nothing.
 */
#ifndef KVS_PLACEMENT_H
#define KVS_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kvs_placement {
	bool direct;	      /* direct I/O reaches the disk, as far as the kernel tells */
	bool o_direct;	      /* worth opening with O_DIRECT, even if it may not */
	bool slow;	      /* an eMMC or SD card is below */
	uint32_t block_bytes; /* logical block */
	uint32_t whole_bytes; /* block of the file system, or physical block */
	char why[160];	      /* when !direct */
};

/* fd: of a regular file (best), directory or block device; O_PATH will do but for a device. */
int kvs_placement_look(int fd, struct kvs_placement *out);

/* Where a block device is mounted, or "". */
void kvs_placement_mounted(dev_t dev, char *where, uint32_t bytes);

#endif
