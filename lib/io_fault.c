// SPDX-License-Identifier: MIT
/*
 * For tests: a backend around another one in which chosen requests go wrong, as struct kvs_io_fault
 * says.
 */
#include "io_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* What came of a request that is to go wrong; `tag` is the caller's. */
struct victim {
	bool used;
	struct kvs_io_request req;
	uint64_t since_ns;
};

struct fault {
	struct kvs_io io;
	struct kvs_io_ops ops;
	struct kvs_io *inner;
	struct kvs_io_params params;
	struct kvs_io_fault fault;
	uint64_t seen;		/* requests of the op so far */
	struct victim *victims; /* [capacity] */
	uint32_t capacity;
};

static bool hits(struct fault *f, const struct kvs_io_request *req)
{
	uint64_t number;

	if (req->op != f->fault.op)
		return false;
	number = f->seen++;
	return number >= f->fault.first && number - f->fault.first < f->fault.count;
}

static struct victim *victim_new(struct fault *f, const struct kvs_io_request *req)
{
	for (uint32_t i = 0; i < f->capacity; i++) {
		struct victim *victim = &f->victims[i];

		if (victim->used)
			continue;
		victim->used = true;
		victim->req = *req;
		victim->since_ns = kvs_now_ns();
		return victim;
	}
	return NULL;
}

/* The neighbouring place of the same length. */
static uint64_t astray(const struct fault *f, const struct kvs_io_request *req)
{
	uint64_t end = f->params.store_bytes / KVS_SECTOR;

	if (req->store + 2 * (uint64_t)req->sectors <= end)
		return req->store + req->sectors;
	return req->store >= req->sectors ? req->store - req->sectors : req->store;
}

/* Errors and stalls never reach the inner backend; FLIP is done when the read completes. */
static int submit_one(struct fault *f, const struct kvs_io_request *req)
{
	struct kvs_io_request changed = *req;
	uint32_t taken;

	if (f->io.in_flight == f->capacity)
		return -EAGAIN;
	if (!hits(f, req))
		return f->inner->ops->submit(f->inner, req, 1, &taken);
	if (f->fault.kind == KVS_FAULT_ASTRAY)
		changed.store = astray(f, req);
	else
		victim_new(f, req);
	if (f->fault.kind == KVS_FAULT_ERROR || f->fault.kind == KVS_FAULT_STALL)
		return 0;
	return f->inner->ops->submit(f->inner, &changed, 1, &taken);
}

static int fault_submit(struct kvs_io *io, const struct kvs_io_request *reqs, uint32_t n,
			uint32_t *taken)
{
	struct fault *f = (struct fault *)io;
	int ret = 0;

	for (*taken = 0; *taken < n; ++*taken) {
		ret = submit_one(f, &reqs[*taken]);
		if (ret)
			break;
		io->in_flight++;
	}
	return ret;
}

/* Hands out the requests that are to fail. */
static uint32_t take_errors(struct fault *f, struct kvs_io_completion *out, uint32_t max)
{
	uint32_t n = 0;

	if (f->fault.kind != KVS_FAULT_ERROR)
		return 0;
	for (uint32_t i = 0; i < f->capacity && n < max; i++) {
		if (!f->victims[i].used)
			continue;
		out[n].tag = f->victims[i].req.tag;
		out[n].result = f->fault.error;
		n++;
		f->victims[i].used = false;
	}
	return n;
}

static void flip(struct fault *f, const struct kvs_io_completion *done)
{
	for (uint32_t i = 0; i < f->capacity; i++) {
		struct victim *victim = &f->victims[i];
		uint64_t middle;

		if (!victim->used || victim->req.tag != done->tag)
			continue;
		middle = victim->req.arena * KVS_SECTOR + victim->req.sectors * KVS_SECTOR / 2;
		((uint8_t *)f->io.arena)[middle] ^= 0x10;
		victim->used = false;
		return;
	}
}

/* Only stalled requests are left: sleep as a backend would, then say so. */
static int stall(struct fault *f)
{
	uint64_t since = UINT64_MAX, until;
	struct timespec ts;

	for (uint32_t i = 0; i < f->capacity; i++)
		if (f->victims[i].used && f->victims[i].since_ns < since)
			since = f->victims[i].since_ns;
	until = since + (uint64_t)f->params.timeout_ms * 1000000u;
	ts.tv_sec = (time_t)(until / 1000000000u);
	ts.tv_nsec = (long)(until % 1000000000u);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
	return -ETIMEDOUT;
}

static int fault_wait(struct kvs_io *io, struct kvs_io_completion *out, uint32_t min, uint32_t max)
{
	struct fault *f = (struct fault *)io;
	uint32_t failed =
		f->fault.kind == KVS_FAULT_ERROR ? io->in_flight - f->inner->in_flight : 0;
	uint32_t need;
	int ret;

	if (min > max)
		min = max;
	if (min > io->in_flight)
		min = io->in_flight;
	need = min > failed ? min - failed : 0;
	if (need > f->inner->in_flight)
		return stall(f);
	ret = f->inner->ops->wait(f->inner, out, need, max);
	if (ret < 0)
		return ret;
	if (f->fault.kind == KVS_FAULT_FLIP)
		for (int i = 0; i < ret; i++)
			flip(f, &out[i]);
	ret += (int)take_errors(f, out + ret, max - (uint32_t)ret);
	io->in_flight -= (uint32_t)ret;
	return ret;
}

static int fault_flush(struct kvs_io *io)
{
	struct fault *f = (struct fault *)io;

	return io->in_flight ? -EBUSY : f->inner->ops->flush(f->inner);
}

static void fault_close(struct kvs_io *io)
{
	struct fault *f = (struct fault *)io;

	f->inner->ops->close(f->inner);
	free(f->victims);
	free(f);
}

int kvs_io_fault_wrap(struct kvs_io *inner, const struct kvs_io_params *params, struct kvs_io **out)
{
	struct fault *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->capacity = 2 * params->depth;
	f->victims = calloc(f->capacity, sizeof(*f->victims));
	if (!f->victims) {
		free(f);
		return -ENOMEM;
	}
	f->ops = (struct kvs_io_ops){
		.name = inner->ops->name,
		.open = inner->ops->open,
		.submit = fault_submit,
		.wait = fault_wait,
		.flush = fault_flush,
		.close = fault_close,
	};
	f->io = *inner;
	f->io.ops = &f->ops;
	f->inner = inner;
	f->params = *params;
	f->fault = *params->fault;
	*out = &f->io;
	return 0;
}
