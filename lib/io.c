// SPDX-License-Identifier: MIT
/*
 * Chooses the I/O backend and maps its arena.
 */
#include "io_queue.h"
#include "kvswap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((uint64_t)2 << 20)

/* In order of preference. */
static const struct kvs_io_ops *const backends[] = { &kvs_io_module_ops, &kvs_io_uring_ops,
						     &kvs_io_threads_ops };

#define N_BACKENDS (sizeof(backends) / sizeof(backends[0]))

void *kvs_arena_map(uint64_t bytes)
{
	uint64_t slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
	char *map, *arena;

	map = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	/* Begin where a huge page can. */
	arena = slack ? map + (-(uintptr_t)map & (slack - 1)) : map;
	if (arena > map)
		munmap(map, (size_t)(arena - map));
	if (map + slack > arena)
		munmap(arena + bytes, (size_t)(map + slack - arena));
	if (slack)
		madvise(arena, bytes, MADV_HUGEPAGE);
	madvise(arena, bytes, MADV_DONTFORK);
	madvise(arena, bytes, MADV_DONTDUMP);
	return arena;
}

void kvs_arena_unmap(void *arena, uint64_t bytes)
{
	munmap(arena, bytes);
}

static int params_check(const struct kvs_io_params *params, char *why)
{
	const char *wrong = NULL;
	uint32_t block = params->block_bytes;

	if (!params->arena_bytes || params->arena_bytes % 4096)
		wrong = "arena size is not a multiple of 4096";
	else if (block < KVS_SECTOR || (block & (block - 1)))
		wrong = "logical block is not a power of two of at least 512";
	else if (!params->depth || params->depth > KVS_IO_DEPTH_MAX)
		wrong = "depth out of range";
	else if (!params->timeout_ms)
		wrong = "no timeout";
	if (!wrong)
		return 0;
	snprintf(why, KVS_MESSAGE_BYTES, "I/O: %s", wrong);
	return -EINVAL;
}

/* Appends "name: reason" to why. */
static void why_add(char *why, const char *name, const char *reason)
{
	size_t used = strlen(why);

	snprintf(why + used, KVS_MESSAGE_BYTES - used, "%s%s: %s", used ? "; " : "", name, reason);
}

static int backend_open(const char *name, const struct kvs_io_params *params, struct kvs_io **out,
			char *why)
{
	bool any = !strcmp(name, "auto"), found = false;
	int ret = -EINVAL;

	for (size_t i = 0; i < N_BACKENDS; i++) {
		char reason[KVS_MESSAGE_BYTES] = "";

		if (!any && strcmp(name, backends[i]->name))
			continue;
		found = true;
		ret = backends[i]->open(params, out, reason);
		if (!ret)
			return 0;
		why_add(why, backends[i]->name, reason[0] ? reason : strerror(-ret));
		if (ret != -ENOTSUP)
			return ret;
	}
	if (found)
		return ret;
	why_add(why, name, "no such I/O backend; there are auto, module, io_uring, threads");
	return -EINVAL;
}

int kvs_io_open(const char *name, const struct kvs_io_params *params, uint32_t delay_us,
		struct kvs_io **out, char *why)
{
	struct kvs_io *io;
	int ret;

	why[0] = '\0';
	ret = params_check(params, why);
	if (ret)
		return ret;
	ret = backend_open(name ? name : "auto", params, &io, why);
	if (ret)
		return ret;
	if (params->fault)
		ret = kvs_io_fault_wrap(io, params, &io);
	if (!ret && delay_us)
		ret = kvs_io_delay_wrap(io, params, delay_us, &io);
	if (ret) {
		io->ops->close(io);
		snprintf(why, KVS_MESSAGE_BYTES, "I/O: %s", strerror(-ret));
		return ret;
	}
	*out = io;
	return 0;
}
