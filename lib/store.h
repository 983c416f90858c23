/* SPDX-License-Identifier: MIT */
/*
 * Where the store is: finds, checks, opens, locks and preallocates one file or block device. What
 * lies where inside it is the session's affair (geometry.c, chunk.c).
 *
 * What is protected: a device that is mounted, otherwise in use or carries a signature, and a file
 * that holds anything but an earlier store, are refused without force. An unnamed file is gone with
 * the process, however it ends. A named file is removed at close when the library made it, else
 * emptied; after a kill it stays, mode 0600, until the next run on the same path takes it over. A
 * device is discarded at close, as far as it can.
 */
#ifndef KVS_STORE_H
#define KVS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVS_STORE_BLOCK_MAX 65536u

struct kvs_store {
	int fd;
	bool direct;  /* I/O bypasses the page cache, as far as the kernel tells */
	bool device;  /* a block device */
	bool slow;    /* eMMC or SD: synchronous write-back, larger groups */
	bool created; /* a named file that close() removes */
	/*
	 * The session sets it when I/O never came back: close() then does nothing that waits for
	 * the device. What a named store holds may stay.
	 */
	bool stuck;
	int dir_fd;	      /* of the directory that a named file is in, or -1 */
	uint32_t block_bytes; /* logical block for direct I/O, 512 to KVS_STORE_BLOCK_MAX */
	/*
	 * What the file system or the disk writes whole: smaller or unaligned writes work, but are
	 * slower (read first, or one after the other). A power of two, block_bytes to
	 * KVS_STORE_BLOCK_MAX.
	 */
	uint32_t whole_bytes;
	uint64_t bytes;	      /* probe: room that there is; open: what was asked for, all there */
	char path[4096];      /* as messages name it */
	char direct_why[160]; /* when !direct: why */
};

/*
 * path as in kvs_config.store. message: KVS_MESSAGE_BYTES of text on error, or NULL.
 *
 * kvs_store_probe() serves the planner: looks at the kind of storage (all but fd), changes nothing
 * and leaves nothing behind; it does not say whether open() would refuse. kvs_store_open() takes
 * `bytes`, rounded up to block_bytes. -EBUSY: in use by another session, mounted, in use otherwise,
 * or signed (libblkid). -EEXIST: a file that holds something else. -ENOSPC: message says how much
 * is missing; -EDQUOT; -EFBIG: RLIMIT_FSIZE or the file system's limit; -EINVAL: a fifo, socket or
 * character device; else what open(2) said. On error *out is not open.
 */
int kvs_store_probe(const char *path, struct kvs_store *out, char *message);
int kvs_store_open(const char *path, uint64_t bytes, bool force, struct kvs_store *out,
		   char *message);
void kvs_store_close(struct kvs_store *store);

/* CRC-32C of a record, seeded so that no other place, layer, generation or run matches. */
uint32_t kvs_record_crc(uint64_t store_id, uint64_t record, uint32_t layer, uint32_t generation,
			const void *data, size_t bytes);

#endif
