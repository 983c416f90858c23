// SPDX-License-Identifier: MIT
/* See measure.h. Slots of the arena are tags of the requests: one request each at a time. */
#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kvswap/clock.h"
#include "kvswap/interrupt.h"

#define IOS_LEAST 16u
#define OVERTIME 4     /* a slow device may take this many times a cell's time for IOS_LEAST */
#define WRITE_EVERY 8u /* of a mixture */
#define TIMEOUT_MS 20000u

int measure_open(struct measure *m, int fd, bool direct, uint32_t block, uint64_t bytes)
{
	struct kvs_io_params params = {
		.fd = fd,
		.direct = direct,
		.arena_bytes = (uint64_t)MEASURE_DEPTH_MAX * MEASURE_BYTES_MAX,
		.store_bytes = bytes / block * block,
		.block_bytes = block,
		.depth = MEASURE_DEPTH_MAX,
		.timeout_ms = TIMEOUT_MS,
	};
	int err;

	memset(m, 0, sizeof(*m));
	m->block = block;
	m->bytes = params.store_bytes;
	m->started = calloc(MEASURE_DEPTH_MAX, sizeof(*m->started));
	m->samples = calloc(MEASURE_SAMPLES, sizeof(*m->samples));
	if (getrandom(&m->random, sizeof(m->random), GRND_NONBLOCK) != sizeof(m->random))
		m->random = clock_ns();
	m->random |= 1;
	if (!m->started || !m->samples) {
		snprintf(m->message, sizeof(m->message), "out of memory");
		measure_close(m);
		return -ENOMEM;
	}
	err = kvs_io_open("io_uring", &params, 0, &m->io, m->message);
	if (err)
		err = kvs_io_open("threads", &params, 0, &m->io, m->message);
	if (err)
		measure_close(m);
	return err;
}

void measure_close(struct measure *m)
{
	if (m->io)
		m->io->ops->close(m->io);
	free(m->started);
	free(m->samples);
	m->io = NULL;
	m->started = NULL;
	m->samples = NULL;
}

static uint64_t next_random(struct measure *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

/* What is under way, and what to do with it. */
struct cell_run {
	enum measure_kind kind;
	uint32_t bytes, depth;
	uint64_t started, done, reads_done, limit; /* limit: requests of the cell, 0: none */
	uint32_t n_samples;
	uint8_t writing[MEASURE_DEPTH_MAX];
};

static int start(struct measure *m, struct cell_run *r, uint32_t slot)
{
	uint64_t n = m->bytes / r->bytes;
	bool write = r->kind == MEASURE_WRITE ||
		     (r->kind == MEASURE_MIXED && r->started % WRITE_EVERY == 0);
	uint64_t place = write ? m->at++ % n : next_random(m) % n;
	struct kvs_io_request req = {
		.op = write ? KVS_IO_WRITE : KVS_IO_READ,
		.urgency = write ? KVS_IO_BEHIND : KVS_IO_AHEAD,
		.sectors = r->bytes / KVS_SECTOR,
		.arena = (uint64_t)slot * (MEASURE_BYTES_MAX / KVS_SECTOR),
		.store = place * (r->bytes / KVS_SECTOR),
		.tag = slot,
	};
	uint32_t taken;
	int err;

	m->started[slot] = clock_ns();
	r->writing[slot] = write;
	err = m->io->ops->submit(m->io, &req, 1, &taken);
	if (!err)
		r->started++;
	else
		snprintf(m->message, sizeof(m->message), "cannot queue %u bytes: %s", r->bytes,
			 strerror(-err));
	return err;
}

static int finish(struct measure *m, struct cell_run *r, const struct kvs_io_completion *c,
		  uint64_t now)
{
	uint64_t ns = now - m->started[c->tag];

	if (c->result) {
		snprintf(m->message, sizeof(m->message), "%s of %u bytes failed: %s",
			 r->writing[c->tag] ? "write" : "read", r->bytes, strerror(-c->result));
		return c->result;
	}
	r->done++;
	if (r->kind == MEASURE_MIXED && r->writing[c->tag])
		return 0;
	r->reads_done++;
	if (r->n_samples < MEASURE_SAMPLES)
		m->samples[r->n_samples++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
	return 0;
}

static bool goes_on(const struct measure *m, const struct cell_run *r, uint64_t since)
{
	double seconds = (double)(clock_ns() - since) / 1e9;

	if (interrupt_check())
		return false;
	if (r->limit)
		return r->started < r->limit && seconds < m->cell_seconds;
	if (r->started < IOS_LEAST)
		return seconds < m->cell_seconds * OVERTIME;
	/* A coarse clock may not have moved yet. */
	if (seconds <= 0)
		return true;
	return seconds < m->cell_seconds && (r->started + 1) * r->bytes <= m->cell_bytes;
}

static int pump(struct measure *m, struct cell_run *r, uint64_t since)
{
	struct kvs_io_completion done[MEASURE_DEPTH_MAX];
	int n, err = 0;

	for (uint32_t slot = 0; !err && slot < r->depth && goes_on(m, r, since); slot++)
		err = start(m, r, slot);
	while (r->done < r->started && m->io->in_flight) {
		uint64_t now;

		n = m->io->ops->wait(m->io, done, 1, MEASURE_DEPTH_MAX);
		if (n < 0) {
			snprintf(m->message, sizeof(m->message), "waiting for the device: %s",
				 strerror(-n));
			return n;
		}
		now = clock_ns();
		for (int i = 0; i < n; i++) {
			int failed = finish(m, r, &done[i], now);

			if (failed && !err)
				err = failed;
			if (!err && goes_on(m, r, since))
				err = start(m, r, (uint32_t)done[i].tag);
		}
	}
	return err;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Of all threads of this process. */
static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sum_up(struct measure *m, const struct cell_run *r, double seconds, double cpu,
		   struct cell *cell)
{
	double n = (double)r->reads_done;

	*cell = (struct cell){
		.bytes = r->bytes, .depth = r->depth, .ios = r->reads_done, .seconds = seconds
	};
	if (!r->n_samples || seconds <= 0)
		return;
	qsort(m->samples, r->n_samples, sizeof(*m->samples), compare);
	cell->iops = n / seconds;
	cell->cpu_us = cpu * 1e6 / (double)r->done;
	cell->mib_s = n * r->bytes / seconds / (1 << 20);
	cell->p50_us = m->samples[r->n_samples / 2] / 1e3;
	cell->p99_us = m->samples[(uint64_t)r->n_samples * 99 / 100] / 1e3;
}

static int run(struct measure *m, struct cell_run *r, struct cell *cell)
{
	uint64_t since = clock_ns();
	double cpu = cpu_seconds();
	int err;

	if (r->bytes % m->block || r->bytes > MEASURE_BYTES_MAX || r->depth > MEASURE_DEPTH_MAX ||
	    m->bytes < r->bytes) {
		snprintf(m->message, sizeof(m->message),
			 "%u bytes at depth %u cannot be measured here", r->bytes, r->depth);
		return -EINVAL;
	}
	err = pump(m, r, since);
	sum_up(m, r, (double)(clock_ns() - since) / 1e9, cpu_seconds() - cpu, cell);
	return err ? err : interrupt_check() ? -EINTR : 0;
}

int measure_cell(struct measure *m, enum measure_kind kind, uint32_t bytes, uint32_t depth,
		 struct cell *cell)
{
	struct cell_run r = { .kind = kind, .bytes = bytes, .depth = depth };

	return run(m, &r, cell);
}

int measure_fill(struct measure *m, double seconds, struct cell *cell)
{
	struct cell_run r = { .kind = MEASURE_WRITE, .bytes = MEASURE_BYTES_MAX, .depth = 8 };
	double cell_seconds = m->cell_seconds;
	int err;

	r.limit = m->bytes / MEASURE_BYTES_MAX;
	m->cell_seconds = seconds;
	m->at = 0;
	err = run(m, &r, cell);
	m->cell_seconds = cell_seconds;
	if (!err && m->at * MEASURE_BYTES_MAX < m->bytes)
		m->bytes = m->at * MEASURE_BYTES_MAX;
	return err;
}
