// SPDX-License-Identifier: MIT
#include "io_rig.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const rig_backends[RIG_BACKENDS] = { "io_uring", "threads" };

uint8_t rig_byte(uint64_t offset)
{
	uint64_t sector = offset / KVS_SECTOR * 0x9e3779b97f4a7c15u;

	return (uint8_t)((sector >> 32) + offset * 7);
}

void rig_init(struct rig *rig)
{
	uint8_t *bytes = malloc(RIG_STORE_BYTES);
	int fd = open("store", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	for (uint64_t i = 0; i < RIG_STORE_BYTES; i++)
		bytes[i] = rig_byte(i);
	ck_assert_int_eq(write(fd, bytes, RIG_STORE_BYTES), (ssize_t)RIG_STORE_BYTES);
	ck_assert_int_eq(fsync(fd), 0);
	free(bytes);
	*rig = (struct rig){
		.params = {
			.fd = fd,
			.arena_bytes = RIG_ARENA_BYTES,
			.store_bytes = RIG_STORE_BYTES,
			.block_bytes = KVS_SECTOR,
			.depth = 16,
			.timeout_ms = 20000,
		},
	};
	/* Where sectors of 4096 bytes are below, direct I/O would refuse what the tests ask for. */
	rig->params.direct = !fcntl(fd, F_SETFL, O_DIRECT);
	bytes = aligned_alloc(4096, 4096);
	if (rig->params.direct && pread(fd, bytes, KVS_SECTOR, KVS_SECTOR) != KVS_SECTOR)
		rig->params.direct = fcntl(fd, F_SETFL, 0) != 0;
	free(bytes);
}

void rig_open(struct rig *rig, int backend)
{
	int ret =
		kvs_io_open(rig_backends[backend], &rig->params, rig->delay_us, &rig->io, rig->why);

	ck_assert_msg(!ret, "%s: %s: %s", rig_backends[backend], strerror(-ret), rig->why);
	ck_assert_str_eq(rig->io->ops->name, rig_backends[backend]);
	memset(rig->io->arena, 0xcc, rig->io->arena_bytes);
}

void rig_close(struct rig *rig)
{
	ck_assert_uint_eq(rig->io->in_flight, 0);
	rig->io->ops->close(rig->io);
	close(rig->params.fd);
}

void rig_submit(struct rig *rig, const struct kvs_io_request *reqs, uint32_t n)
{
	uint32_t taken = 0xcccccccc;

	ck_assert_int_eq(rig->io->ops->submit(rig->io, reqs, n, &taken), 0);
	ck_assert_uint_eq(taken, n);
}

void rig_wait(struct rig *rig, struct kvs_io_completion *out, uint32_t n)
{
	memset(out, 0xcc, n * sizeof(*out));
	ck_assert_int_eq(rig->io->ops->wait(rig->io, out, n, n), (int)n);
}

void rig_one(struct rig *rig, struct kvs_io_request req, int result)
{
	struct kvs_io_completion done;

	rig_submit(rig, &req, 1);
	rig_wait(rig, &done, 1);
	ck_assert_uint_eq(done.tag, req.tag);
	ck_assert_int_eq(done.result, result);
}

void rig_verify(const struct rig *rig, const struct kvs_io_request *req)
{
	const uint8_t *at = (const uint8_t *)rig->io->arena + req->arena * KVS_SECTOR;

	for (uint64_t i = 0; i < (uint64_t)req->sectors * KVS_SECTOR; i++)
		if (at[i] != rig_byte(req->store * KVS_SECTOR + i))
			ck_abort_msg("sector %llu, byte %llu: %02x instead of %02x",
				     (unsigned long long)req->store, (unsigned long long)i, at[i],
				     rig_byte(req->store * KVS_SECTOR + i));
}

void rig_fill(const struct rig *rig, const struct kvs_io_request *req, uint8_t change)
{
	uint8_t *at = (uint8_t *)rig->io->arena + req->arena * KVS_SECTOR;

	for (uint64_t i = 0; i < (uint64_t)req->sectors * KVS_SECTOR; i++)
		at[i] = (uint8_t)(rig_byte(req->store * KVS_SECTOR + i) + change);
}

uint64_t rig_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

double rig_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}
