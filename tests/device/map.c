/* SPDX-License-Identifier: MIT */
/*
 * The mappings: who may map what, what fork and core dumps see, unmapping while requests are under
 * way.
 */
#include "dev.h"
#include "dm.h"

static void refuse(struct dev *d, size_t bytes, int prot, int flags, uint64_t offset, int err)
{
	errno = 0;
	CHECK(mmap(NULL, bytes, prot, flags, d->fd, offset) == MAP_FAILED);
	CHECK_EQ(errno, err);
}

static void rules(const char *path)
{
	struct dev d, fresh = { .fd = dev_open() };
	void *p;

	refuse(&fresh, 4096, PROT_READ, MAP_SHARED, 0, ENXIO);
	close(fresh.fd);
	dev_start(&d, path, 64, 4 << 20);
	refuse(&d, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, d.setup.sq_offset, EINVAL);
	refuse(&d, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, d.setup.arena_offset, EINVAL);
	refuse(&d, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, d.setup.cq_offset, EACCES);
	refuse(&d, d.setup.arena_bytes + 65536, PROT_READ, MAP_SHARED, d.setup.arena_offset,
	       EINVAL);
	refuse(&d, d.setup.sq_bytes + 65536, PROT_READ, MAP_SHARED, d.setup.sq_offset, EINVAL);
	refuse(&d, d.setup.cq_bytes + 65536, PROT_READ, MAP_SHARED, d.setup.cq_offset, EINVAL);
	refuse(&d, 65536, PROT_READ, MAP_SHARED, d.setup.arena_offset + 65536, EINVAL);
	refuse(&d, 65536, PROT_READ, MAP_SHARED, 1ull << 40, EINVAL);
	CHECK_ERR(mprotect((void *)d.cq, d.setup.cq_bytes, PROT_READ | PROT_WRITE), EACCES);
	CHECK(mremap(d.arena, d.setup.arena_bytes, d.setup.arena_bytes * 2, MREMAP_MAYMOVE) ==
	      MAP_FAILED);
	/* A second mapping shows the same memory. */
	p = mmap(NULL, 65536, PROT_READ, MAP_SHARED, d.fd, d.setup.arena_offset);
	CHECK(p != MAP_FAILED);
	dev_fill(d.arena, 65536, 1, 2);
	CHECK(dev_is(p, 65536, 1, 2));
	CHECK(!munmap(p, 65536));
	dev_stop(&d);
}

/* VmFlags of the mapping that begins at p: dc not over fork, dd not in dumps, de not expandable. */
static void flags_of(const void *p)
{
	char line[512], start[32];
	FILE *f = fopen("/proc/self/smaps", "r");
	bool in = false, seen = false;

	snprintf(start, sizeof(start), "%lx-", (unsigned long)p);
	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, start, strlen(start)))
			in = true;
		if (in && !strncmp(line, "VmFlags:", 8)) {
			CHECK(strstr(line, " dc") && strstr(line, " dd") && strstr(line, " de"));
			seen = true;
			break;
		}
	}
	CHECK(seen);
	fclose(f);
}

static void forked(const char *path)
{
	struct dev d;
	int status;
	pid_t pid;

	dev_start(&d, path, 8, 1 << 20);
	flags_of(d.arena);
	flags_of(d.sq);
	flags_of((const void *)d.cq);
	pid = fork();
	if (!pid) {
		unsigned char vec;

		_exit(mincore(d.arena, 4096, &vec) == -1 && errno == ENOMEM ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	dev_stop(&d);
}

/* Other drivers can pin the pages in their turn: here the block layer, for direct I/O from them. */
static void pinned_by_others(const char *path)
{
	char file[200];
	struct dev d;
	int fd;

	dev_temp_file(file, sizeof(file), 65536);
	fd = dev_open_store(file);
	dev_start(&d, path, 8, 1 << 20);
	dev_fill(d.arena, 65536, 3, 4);
	CHECK(pwrite(fd, d.arena, 65536, 0) == 65536);
	CHECK(pread(fd, d.arena + 131072, 65536, 0) == 65536);
	CHECK(dev_is(d.arena + 131072, 65536, 3, 4));
	dev_stop(&d);
	close(fd);
	unlink(file);
}

static void unmapped_in_flight(const char *path)
{
	char slow[64];
	struct dev d;

	dm_delay(path, 100, 100, slow, sizeof(slow));
	dev_start(&d, slow, 8, 1 << 20);
	for (uint32_t i = 0; i < 4; i++)
		dev_push(&d, &(struct kvswap_sqe){ .op = i % 2 ? KVSWAP_OP_READ : KVSWAP_OP_WRITE,
						   .units = 64,
						   .store = 64 * i,
						   .arena = 64 * i });
	CHECK(!dev_enter(&d, 4, 0, 0, NULL));
	dev_stop(&d);
	dm_remove(slow);
}

/* Memory that was someone else's before shows nothing of it. */
static void zeroed(const char *path)
{
	struct dev d;

	for (int round = 0; round < 4; round++) {
		dev_start(&d, path, 8, 32 << 20);
		for (size_t i = 0; i < d.setup.arena_bytes / 8; i++)
			CHECK(!((uint64_t *)d.arena)[i]);
		for (size_t i = 128; i < d.setup.sq_bytes; i++)
			CHECK(!((uint8_t *)d.sq)[i]);
		memset(d.arena, 0xa5, d.setup.arena_bytes);
		memset(d.sq, 0xa5, d.setup.sq_bytes);
		dev_stop(&d);
	}
}

int main(void)
{
	rules(dev_store("KV_512"));
	forked(dev_store("KV_512"));
	pinned_by_others(dev_store("KV_512"));
	unmapped_in_flight(dev_store("KV_512"));
	zeroed(dev_store("KV_512"));
	return 0;
}
