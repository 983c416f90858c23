// SPDX-License-Identifier: MIT
/*
 * The lists that requests of a backend move along. The caller serialises (the threads backend by
 * its lock, io_uring by having one caller).
 */
#include "io_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void list_init(struct kvs_io_list *list)
{
	list->first = NULL;
	list->last = &list->first;
	list->n = 0;
}

static void list_append(struct kvs_io_list *list, struct kvs_io_entry *entry)
{
	entry->next = NULL;
	entry->link = list->last;
	*list->last = entry;
	list->last = &entry->next;
	list->n++;
}

static void list_prepend(struct kvs_io_list *list, struct kvs_io_entry *entry)
{
	entry->next = list->first;
	entry->link = &list->first;
	if (list->first)
		list->first->link = &entry->next;
	else
		list->last = &entry->next;
	list->first = entry;
	list->n++;
}

static void list_remove(struct kvs_io_list *list, struct kvs_io_entry *entry)
{
	*entry->link = entry->next;
	if (entry->next)
		entry->next->link = entry->link;
	else
		list->last = entry->link;
	list->n--;
}

int kvs_io_queue_init(struct kvs_io_queue *queue, uint32_t depth)
{
	queue->capacity = 2 * depth;
	queue->entries = calloc(queue->capacity, sizeof(*queue->entries));
	if (!queue->entries)
		return -ENOMEM;
	list_init(&queue->free);
	list_init(&queue->running);
	list_init(&queue->done);
	for (int i = 0; i < KVS_IO_URGENCIES; i++)
		list_init(&queue->waiting[i]);
	for (uint32_t i = 0; i < queue->capacity; i++)
		list_append(&queue->free, &queue->entries[i]);
	return 0;
}

void kvs_io_queue_destroy(struct kvs_io_queue *queue)
{
	free(queue->entries);
	queue->entries = NULL;
}

int kvs_io_queue_put(struct kvs_io_queue *queue, const struct kvs_io_request *req)
{
	struct kvs_io_entry *entry = queue->free.first;

	if (!entry)
		return -EAGAIN;
	list_remove(&queue->free, entry);
	entry->req = *req;
	entry->moved = 0;
	entry->started_ns = 0;
	entry->result = 0;
	list_append(&queue->waiting[req->urgency], entry);
	return 0;
}

struct kvs_io_entry *kvs_io_queue_start(struct kvs_io_queue *queue, uint64_t now_ns)
{
	for (int i = 0; i < KVS_IO_URGENCIES; i++) {
		struct kvs_io_entry *entry = queue->waiting[i].first;

		if (!entry)
			continue;
		list_remove(&queue->waiting[i], entry);
		list_append(&queue->running, entry);
		if (!entry->started_ns)
			entry->started_ns = now_ns;
		return entry;
	}
	return NULL;
}

bool kvs_io_entry_step(struct kvs_io_entry *entry, const struct kvs_io_params *params,
		       int64_t moved)
{
	uint64_t bytes = (uint64_t)entry->req.sectors * KVS_SECTOR;

	/* The last: io_uring, when the thread that had sent it has ended meanwhile. */
	if (moved == -EAGAIN || moved == -EINTR || moved == -ECANCELED)
		return false;
	if (moved < 0) {
		entry->result = (int32_t)moved;
		return true;
	}
	if (entry->req.op == KVS_IO_FLUSH)
		return true;
	entry->moved += (uint64_t)moved;
	if (entry->moved >= bytes)
		return true;
	/* Past the end of the store, or stopped where direct I/O cannot go on. */
	if (!moved || entry->moved % params->block_bytes) {
		entry->result = -EIO;
		return true;
	}
	return false;
}

void kvs_io_queue_finish(struct kvs_io_queue *queue, struct kvs_io_entry *entry)
{
	list_remove(&queue->running, entry);
	list_append(&queue->done, entry);
}

void kvs_io_queue_again(struct kvs_io_queue *queue, struct kvs_io_entry *entry)
{
	list_remove(&queue->running, entry);
	list_prepend(&queue->waiting[entry->req.urgency], entry);
}

uint32_t kvs_io_queue_take(struct kvs_io_queue *queue, struct kvs_io_completion *out, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && queue->done.first) {
		struct kvs_io_entry *entry = queue->done.first;

		out[n].tag = entry->req.tag;
		out[n].result = entry->result;
		n++;
		list_remove(&queue->done, entry);
		list_prepend(&queue->free, entry);
	}
	return n;
}

uint32_t kvs_io_queue_waiting(const struct kvs_io_queue *queue)
{
	uint32_t n = 0;

	for (int i = 0; i < KVS_IO_URGENCIES; i++)
		n += queue->waiting[i].n;
	return n;
}

int kvs_io_check(const struct kvs_io_params *params, const struct kvs_io_request *req)
{
	uint64_t arena = params->arena_bytes / KVS_SECTOR;
	uint64_t store = params->store_bytes / KVS_SECTOR;
	uint32_t block = params->block_bytes / KVS_SECTOR;

	if (req->op > KVS_IO_WRITE || req->urgency >= KVS_IO_URGENCIES || !req->sectors)
		return -EINVAL;
	if (req->sectors > arena || req->arena > arena - req->sectors)
		return -EINVAL;
	if (req->sectors > store || req->store > store - req->sectors)
		return -EINVAL;
	return req->sectors % block || req->store % block ? -EINVAL : 0;
}

uint64_t kvs_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint32_t kvs_io_queue_stride(const struct kvs_io_queue *queue, uint32_t depth, uint32_t min)
{
	uint32_t most = queue->running.n, need = min - queue->done.n;

	if (kvs_io_queue_waiting(queue))
		most = depth / 4;
	if (need > most)
		need = most;
	return need ? need : 1;
}
