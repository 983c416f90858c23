// SPDX-License-Identifier: MIT
/*
 * For tests: a backend around another one that holds every completion back for a random time, so
 * that they change places. The data is in place all along; only the news of it is late.
 */
#include "io_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct held {
	struct kvs_io_completion completion;
	uint64_t due_ns;
};

struct delay {
	struct kvs_io io;
	struct kvs_io_ops ops;
	struct kvs_io *inner;
	struct held *held;
	uint32_t n_held, capacity;
	uint64_t delay_ns;
	uint64_t random;
};

/* xorshift64 (Marsaglia 2003). */
static uint64_t random_next(struct delay *d)
{
	d->random ^= d->random << 13;
	d->random ^= d->random >> 7;
	d->random ^= d->random << 17;
	return d->random;
}

static int delay_submit(struct kvs_io *io, const struct kvs_io_request *reqs, uint32_t n,
			uint32_t *taken)
{
	struct delay *d = (struct delay *)io;
	uint32_t room = d->capacity - io->in_flight;
	int ret = d->inner->ops->submit(d->inner, reqs, n < room ? n : room, taken);

	io->in_flight += *taken;
	return !ret && *taken < n ? -EAGAIN : ret;
}

/* Moves what the inner backend has, at least min, to those held. */
static int delay_collect(struct delay *d, uint32_t min)
{
	uint64_t now = kvs_now_ns();
	struct kvs_io_completion got;
	int ret;

	for (;;) {
		ret = d->inner->ops->wait(d->inner, &got, min, 1);
		if (ret <= 0)
			return ret;
		d->held[d->n_held].completion = got;
		d->held[d->n_held].due_ns = now + random_next(d) % d->delay_ns;
		d->n_held++;
		min = 0;
	}
}

static uint32_t count_due(const struct delay *d, uint64_t now)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->n_held; i++)
		n += d->held[i].due_ns <= now;
	return n;
}

/* Nothing more to wait for inside: sleep until the next one is due. */
static void sleep_until_due(const struct delay *d)
{
	uint64_t next = UINT64_MAX;
	struct timespec ts;

	for (uint32_t i = 0; i < d->n_held; i++)
		if (d->held[i].due_ns < next)
			next = d->held[i].due_ns;
	ts.tv_sec = (time_t)(next / 1000000000u);
	ts.tv_nsec = (long)(next % 1000000000u);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static int delay_wait(struct kvs_io *io, struct kvs_io_completion *out, uint32_t min, uint32_t max)
{
	struct delay *d = (struct delay *)io;
	uint64_t now;
	uint32_t n = 0;

	if (min > max)
		min = max;
	if (min > io->in_flight)
		min = io->in_flight;
	for (;;) {
		int ret = delay_collect(d, d->n_held < min ? 1 : 0);

		if (ret < 0)
			return ret;
		now = kvs_now_ns();
		if (count_due(d, now) >= min)
			break;
		if (d->n_held >= min)
			sleep_until_due(d);
	}
	for (uint32_t i = d->n_held; i-- > 0 && n < max;) {
		if (d->held[i].due_ns > now)
			continue;
		out[n++] = d->held[i].completion;
		d->held[i] = d->held[--d->n_held];
	}
	io->in_flight -= n;
	return (int)n;
}

static int delay_flush(struct kvs_io *io)
{
	struct delay *d = (struct delay *)io;

	return io->in_flight ? -EBUSY : d->inner->ops->flush(d->inner);
}

static void delay_close(struct kvs_io *io)
{
	struct delay *d = (struct delay *)io;

	d->inner->ops->close(d->inner);
	free(d->held);
	free(d);
}

int kvs_io_delay_wrap(struct kvs_io *inner, const struct kvs_io_params *params, uint32_t delay_us,
		      struct kvs_io **out)
{
	struct delay *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->capacity = 2 * params->depth;
	d->held = calloc(d->capacity, sizeof(*d->held));
	if (!d->held) {
		free(d);
		return -ENOMEM;
	}
	d->ops = (struct kvs_io_ops){
		.name = inner->ops->name,
		.open = inner->ops->open,
		.submit = delay_submit,
		.wait = delay_wait,
		.flush = delay_flush,
		.close = delay_close,
	};
	d->io = *inner;
	d->io.ops = &d->ops;
	d->inner = inner;
	d->delay_ns = (uint64_t)delay_us * 1000u;
	d->random = 0x9e3779b97f4a7c15u;
	*out = &d->io;
	return 0;
}
