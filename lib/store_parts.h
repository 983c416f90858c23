/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the store share: store.c finds out what the path is, store_file.c and
 * store_device.c open that kind.
 */
#ifndef KVS_STORE_PARTS_H
#define KVS_STORE_PARTS_H

#include "placement.h"
#include "store.h"

#include <sys/types.h>

/* Writes a line into message (KVS_MESSAGE_BYTES, may be NULL) and returns ret. */
__attribute__((format(printf, 3, 4))) int kvs_store_fail(char *message, int ret, const char *format,
							 ...);

/* "12.3 GiB". text: KVS_SIZE_TEXT bytes; returned. */
#define KVS_SIZE_TEXT 32
const char *kvs_size_text(uint64_t bytes, char *text);

/* Takes over what was found out about the place. */
void kvs_store_placed(struct kvs_store *store, const struct kvs_placement *placement);

/* Each fills *store (zeroed, path set). On error nothing stays open. */
int kvs_store_file_open(struct kvs_store *store, uint64_t bytes, bool force, char *message);
int kvs_store_unnamed_open(struct kvs_store *store, const char *dir, uint64_t bytes, char *message);
int kvs_store_device_open(struct kvs_store *store, uint64_t bytes, bool force, char *message);

/* Before the fd goes: what a named file or a device holds is given up. */
void kvs_store_file_release(struct kvs_store *store);
void kvs_store_device_release(struct kvs_store *store);

/* Probes: of a directory that is there, an existing file, a device. */
int kvs_store_dir_probe(struct kvs_store *store, const char *dir, char *message);
int kvs_store_file_probe(struct kvs_store *store, char *message);
int kvs_store_device_probe(struct kvs_store *store, char *message);

/* Room in the file system of store->fd, bytes; checking and taking it for a file of `bytes`. */
uint64_t kvs_store_room_free(int fd);
int kvs_store_room_check(const struct kvs_store *store, uint64_t bytes, char *message);
int kvs_store_room_take(const struct kvs_store *store, uint64_t bytes, char *message);

#endif
