/* SPDX-License-Identifier: MIT */
/*
 * Where the store is: finds, checks, opens, locks and preallocates one file or block device.
 * What lies where inside it is the session's affair (geometry.c, chunk.c).
 */
#ifndef KVS_STORE_H
#define KVS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvs_store {
	int fd;
	bool direct;		/* I/O bypasses the page cache, as far as the kernel tells */
	bool device;		/* a block device */
	bool slow;		/* eMMC or SD: synchronous write-back, larger groups */
	uint32_t block_bytes;	/* logical block for direct I/O, 512 to 65536 */
	/*
	 * What the file system or the disk writes whole: smaller or unaligned writes work, but are slower (read first,
	 * or one after the other). A power of two, >= block_bytes, at most 64 KiB.
	 */
	uint32_t whole_bytes;
	uint64_t bytes;		/* preallocated or available */
	char path[4096];	/* as messages name it */
	char direct_why[160];	/* when !direct: why */
};

/*
 * path as in kvs_config.store. Looks at the kind of storage without changing anything; kvs_store_probe() serves
 * the planner (block_bytes, slow, direct) and leaves nothing behind; kvs_store_open() then takes `bytes`.
 * message: KVS_MESSAGE_BYTES. -EBUSY: in use by another session, mounted, or signed (libblkid) without force.
 * -ENOSPC: message says how much is missing.
 */
int kvs_store_probe(const char *path, struct kvs_store *out, char *message);
int kvs_store_open(const char *path, uint64_t bytes, bool force, struct kvs_store *out, char *message);
void kvs_store_close(struct kvs_store *store);

/* CRC-32C of a record, seeded so that no other place, layer, generation or run matches. */
uint32_t kvs_record_crc(uint64_t store_id, uint64_t record, uint32_t layer, uint32_t generation, const void *data,
			size_t bytes);

#endif
