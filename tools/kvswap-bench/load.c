// SPDX-License-Identifier: MIT
/* See load.h. Slot i of the arena and tag i of the requests are the same. */
#include "load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kvswap/clock.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "store.h"

#define TIMEOUT_MS 20000u
#define WRITE_BYTES (1u << 20) /* of one write when the file is filled */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint32_t checksum(const struct load_file *f, uint64_t record, const void *data)
{
	return kvs_record_crc(0, record, 0, 0, data, f->record_bytes);
}

/* Data that no storage makes less of. */
static void fill_buffer(const struct load_file *f, uint8_t *buffer, uint64_t first, uint64_t n)
{
	uint64_t *words = (uint64_t *)(void *)buffer, state = first * 0x9e3779b97f4a7c15u + 1;

	for (uint64_t i = 0; i < n * f->record_bytes / sizeof(*words); i++)
		words[i] = next_random(&state);
	for (uint64_t i = 0; i < n; i++)
		f->crc[first + i] = checksum(f, first + i, buffer + i * f->record_bytes);
}

static int write_all(int fd, const uint8_t *buffer, size_t bytes, off_t at)
{
	while (bytes) {
		ssize_t n = pwrite(fd, buffer, bytes, at);

		if (n <= 0)
			return report_fail("cannot write the file that is to be read: %s",
					   n ? strerror(errno) : "nothing written");
		buffer += n;
		bytes -= (size_t)n;
		at += n;
	}
	return DONE;
}

int load_write(struct load_file *f)
{
	uint64_t batch = WRITE_BYTES / f->record_bytes ? WRITE_BYTES / f->record_bytes : 1, n;
	uint8_t *buffer = aligned_alloc(4096, batch * f->record_bytes);
	int rc = DONE;

	f->crc = calloc(f->n_records, sizeof(*f->crc));
	if (!buffer || !f->crc)
		rc = report_fail("out of memory");
	for (uint64_t first = 0; !rc && first < f->n_records; first += n) {
		n = f->n_records - first < batch ? f->n_records - first : batch;
		fill_buffer(f, buffer, first, n);
		rc = write_all(f->fd, buffer, n * f->record_bytes,
			       (off_t)(first * f->record_bytes));
		if (!rc)
			rc = interrupt_check();
	}
	if (!rc && fdatasync(f->fd))
		rc = report_fail("cannot write the file that is to be read: %s", strerror(errno));
	free(buffer);
	return rc;
}

void load_clear(struct load_file *f)
{
	free(f->crc);
	f->crc = NULL;
}

int load_open(const struct load_file *f, const char *backend, uint32_t depth, struct kvs_io **io,
	      char *why)
{
	struct kvs_io_params params = {
		.fd = f->fd,
		.direct = f->direct,
		.arena_bytes = ((uint64_t)depth * f->record_bytes + 4095) / 4096 * 4096,
		.store_bytes = (uint64_t)f->n_records * f->record_bytes,
		.block_bytes = f->block_bytes,
		.depth = depth,
		.timeout_ms = TIMEOUT_MS,
	};
	int err = kvs_io_open(backend, &params, 0, io, why);

	if (err == -ENOTSUP)
		*io = NULL;
	return !err || err == -ENOTSUP ? DONE : report_fail("%s: %s", backend, why);
}

struct run {
	const struct load_file *f;
	struct kvs_io *io;
	uint64_t random;
	uint64_t *record; /* [depth] that a slot is for */
	uint64_t done;
};

static int ask(struct run *r, const uint32_t *slots, uint32_t n, struct kvs_io_request *reqs)
{
	uint32_t sectors = r->f->record_bytes / KVS_SECTOR, taken;
	int err;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t record = next_random(&r->random) % r->f->n_records;

		r->record[slots[i]] = record;
		reqs[i] = (struct kvs_io_request){
			.op = KVS_IO_READ,
			.urgency = KVS_IO_LATE,
			.sectors = sectors,
			.arena = (uint64_t)slots[i] * sectors,
			.store = record * sectors,
			.tag = slots[i],
		};
	}
	err = r->io->ops->submit(r->io, reqs, n, &taken);
	return err ? report_fail("%s: submit: %s", r->io->ops->name, strerror(-err)) : DONE;
}

static int take(struct run *r, const struct kvs_io_completion *c)
{
	uint64_t record = r->record[c->tag];
	const uint8_t *data = (const uint8_t *)r->io->arena + c->tag * r->f->record_bytes;

	r->done++;
	if (c->result)
		return report_fail("%s: record %llu: %s", r->io->ops->name,
				   (unsigned long long)record, strerror(-c->result));
	if (!r->f->unchecked && checksum(r->f, record, data) != r->f->crc[record])
		return report_fail("%s: record %llu does not match its checksum", r->io->ops->name,
				   (unsigned long long)record);
	return DONE;
}

/* Keeps depth reads in flight until the time is up, then waits for them. */
static int loop(struct run *r, uint32_t depth, uint64_t end, void *memory)
{
	struct kvs_io_request *reqs = memory;
	struct kvs_io_completion *done = (void *)(reqs + depth);
	uint32_t *slots = (void *)(done + depth);
	bool more = true;
	int rc, n = 0;

	for (uint32_t i = 0; i < depth; i++)
		slots[i] = i;
	rc = ask(r, slots, depth, reqs);
	while (!rc && (more || r->io->in_flight)) {
		n = r->io->ops->wait(r->io, done, 1, depth);
		if (n < 0)
			rc = report_fail("%s: wait: %s", r->io->ops->name, strerror(-n));
		for (int i = 0; !rc && i < n; i++) {
			rc = take(r, &done[i]);
			slots[i] = (uint32_t)done[i].tag;
		}
		more = clock_ns() < end && !interrupt_check();
		if (!rc && more)
			rc = ask(r, slots, (uint32_t)n, reqs);
	}
	return rc ? rc : interrupt_check();
}

static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

int load_run(const struct load_file *f, struct kvs_io *io, uint32_t depth, uint32_t ms,
	     struct load_result *out)
{
	uint64_t start = clock_ns();
	struct run r = { .f = f, .io = io, .random = start | 1 };
	void *memory = calloc(depth, sizeof(struct kvs_io_request) +
					     sizeof(struct kvs_io_completion) + sizeof(uint32_t));
	double cpu;
	int rc;

	r.record = calloc(depth, sizeof(*r.record));
	if (!memory || !r.record) {
		rc = report_fail("out of memory");
	} else {
		cpu = cpu_ms();
		start = clock_ns();
		rc = loop(&r, depth, start + (uint64_t)ms * 1000000, memory);
		out->bytes_per_s =
			(double)r.done * f->record_bytes / ((double)(clock_ns() - start) / 1e9);
		out->cpu_ms = r.done ? (cpu_ms() - cpu) / (double)r.done : 0;
	}
	free(memory);
	free(r.record);
	return rc;
}
