// SPDX-License-Identifier: MIT
/*
 * The threads backend: a few threads that pread and pwrite, most urgent request first. Works
 * everywhere.
 *
 * `lock` guards the queue, wanted, idle, alive and closing. Workers hold it but for the system
 * call, during which the running entry is theirs. in_flight is the caller's alone.
 */
#include "io_queue.h"
#include "kvswap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_DEFAULT 8u
#define THREADS_MAX 64u
#define STACK_BYTES ((size_t)256 << 10)

struct threads {
	struct kvs_io io;
	struct kvs_io_params params;
	pthread_mutex_t lock;
	pthread_cond_t work; /* something waits, or closing */
	pthread_cond_t done; /* `wanted` are done, or a worker is gone */
	struct kvs_io_queue queue;
	uint32_t wanted; /* completions that the caller sleeps for; 0: it does not */
	uint32_t idle;	 /* workers that sleep on `work` */
	uint32_t alive;
	bool closing;
	bool abandoned; /* the caller has left: the last worker frees */
	uint32_t n_workers;
	pthread_t workers[THREADS_MAX];
};

static void threads_free(struct threads *t)
{
	close(t->params.fd);
	kvs_io_queue_destroy(&t->queue);
	kvs_arena_unmap(t->io.arena, t->io.arena_bytes);
	pthread_cond_destroy(&t->work);
	pthread_cond_destroy(&t->done);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static int64_t transfer(const struct threads *t, const struct kvs_io_entry *entry)
{
	const struct kvs_io_request *req = &entry->req;
	char *buf = (char *)t->io.arena + req->arena * KVS_SECTOR + entry->moved;
	size_t bytes = (size_t)req->sectors * KVS_SECTOR - entry->moved;
	off_t offset = (off_t)(req->store * KVS_SECTOR + entry->moved);
	ssize_t ret;

	if (req->op == KVS_IO_FLUSH)
		ret = fdatasync(t->params.fd);
	else if (req->op == KVS_IO_READ)
		ret = pread(t->params.fd, buf, bytes, offset);
	else
		ret = pwrite(t->params.fd, buf, bytes, offset);
	return ret < 0 ? -errno : ret;
}

/* Takes the lock and leaves with it, letting go of it for the system call. */
static void work_one(struct threads *t)
{
	struct kvs_io_entry *entry = kvs_io_queue_start(&t->queue, kvs_now_ns());
	bool finished;

	pthread_mutex_unlock(&t->lock);
	finished = kvs_io_entry_step(entry, &t->params, transfer(t, entry));
	pthread_mutex_lock(&t->lock);
	if (!finished) {
		kvs_io_queue_again(&t->queue, entry);
		return;
	}
	kvs_io_queue_finish(&t->queue, entry);
	if (t->wanted && t->queue.done.n >= t->wanted)
		pthread_cond_signal(&t->done);
}

static void *worker(void *arg)
{
	struct threads *t = arg;
	bool last;

	pthread_mutex_lock(&t->lock);
	while (!t->closing) {
		if (kvs_io_queue_waiting(&t->queue)) {
			work_one(t);
			continue;
		}
		t->idle++;
		pthread_cond_wait(&t->work, &t->lock);
		t->idle--;
	}
	last = --t->alive == 0 && t->abandoned;
	pthread_cond_signal(&t->done);
	pthread_mutex_unlock(&t->lock);
	if (last)
		threads_free(t);
	return NULL;
}

static int locks_init(struct threads *t)
{
	pthread_condattr_t attr;
	int ret = pthread_condattr_init(&attr);

	if (ret)
		return -ret;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	pthread_cond_init(&t->done, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

/* Signals go to the program's own threads. Fewer threads than asked for will do. */
static int workers_start(struct threads *t, uint32_t n)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int ret = pthread_attr_init(&attr);

	if (ret)
		return -ret;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&t->lock);
	while (t->n_workers < n) {
		ret = pthread_create(&t->workers[t->n_workers], &attr, worker, t);
		if (ret)
			break;
		t->n_workers++;
	}
	t->alive = t->n_workers;
	pthread_mutex_unlock(&t->lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return t->n_workers ? 0 : -ret;
}

static int parts_init(struct threads *t)
{
	int ret = -ENOMEM;

	/* A file descriptor of our own: the caller may close his while a thread is stuck in it. */
	t->params.fd = fcntl(t->params.fd, F_DUPFD_CLOEXEC, 0);
	if (t->params.fd < 0)
		return -errno;
	t->io.arena = kvs_arena_map(t->io.arena_bytes);
	if (!t->io.arena)
		goto close_fd;
	ret = kvs_io_queue_init(&t->queue, t->params.depth);
	if (ret)
		goto unmap_arena;
	ret = locks_init(t);
	if (!ret)
		return 0;
	kvs_io_queue_destroy(&t->queue);
unmap_arena:
	kvs_arena_unmap(t->io.arena, t->io.arena_bytes);
close_fd:
	close(t->params.fd);
	return ret;
}

static int threads_open(const struct kvs_io_params *params, struct kvs_io **out, char *why)
{
	struct threads *t = calloc(1, sizeof(*t));
	uint32_t n = params->threads ? params->threads : THREADS_DEFAULT;
	int ret;

	if (!t)
		return -ENOMEM;
	t->io.ops = &kvs_io_threads_ops;
	t->io.arena_bytes = params->arena_bytes;
	t->params = *params;
	ret = parts_init(t);
	if (ret) {
		free(t);
		return ret;
	}
	if (n > params->depth)
		n = params->depth;
	ret = workers_start(t, n < THREADS_MAX ? n : THREADS_MAX);
	if (ret) {
		snprintf(why, KVS_MESSAGE_BYTES, "no thread: %s", strerror(-ret));
		threads_free(t);
		return ret;
	}
	*out = &t->io;
	return 0;
}

/* With the lock held: as many workers as there is work. */
static void workers_wake(struct threads *t, uint32_t n)
{
	if (n > t->idle)
		n = t->idle;
	while (n--)
		pthread_cond_signal(&t->work);
}

static int threads_submit(struct kvs_io *io, const struct kvs_io_request *reqs, uint32_t n,
			  uint32_t *taken)
{
	struct threads *t = (struct threads *)io;
	uint32_t i;
	int ret = 0;

	pthread_mutex_lock(&t->lock);
	for (i = 0; i < n; i++) {
		ret = kvs_io_check(&t->params, &reqs[i]);
		if (!ret)
			ret = kvs_io_queue_put(&t->queue, &reqs[i]);
		if (ret)
			break;
	}
	workers_wake(t, i);
	pthread_mutex_unlock(&t->lock);
	io->in_flight += i;
	*taken = i;
	return ret;
}

/* With the lock held: sleeps until woken, or the oldest running request is too old. */
static int threads_block(struct threads *t)
{
	uint64_t now = kvs_now_ns(), limit = (uint64_t)t->params.timeout_ms * 1000000u;
	uint64_t until =
		(t->queue.running.first ? t->queue.running.first->started_ns : now) + limit;
	struct timespec ts;

	if (now >= until)
		return -ETIMEDOUT;
	ts.tv_sec = (time_t)(until / 1000000000u);
	ts.tv_nsec = (long)(until % 1000000000u);
	pthread_cond_timedwait(&t->done, &t->lock, &ts);
	return 0;
}

static int threads_gather(struct threads *t, uint32_t min)
{
	int ret = 0;

	t->wanted = min;
	while (t->queue.done.n < min && !ret)
		ret = threads_block(t);
	t->wanted = 0;
	return ret;
}

static int threads_wait(struct kvs_io *io, struct kvs_io_completion *out, uint32_t min,
			uint32_t max)
{
	struct threads *t = (struct threads *)io;
	uint32_t n = 0;
	int ret;

	if (min > max)
		min = max;
	if (min > io->in_flight)
		min = io->in_flight;
	pthread_mutex_lock(&t->lock);
	ret = threads_gather(t, min);
	if (!ret)
		n = kvs_io_queue_take(&t->queue, out, max);
	pthread_mutex_unlock(&t->lock);
	io->in_flight -= n;
	return ret ? ret : (int)n;
}

static int threads_flush(struct kvs_io *io)
{
	struct threads *t = (struct threads *)io;
	struct kvs_io_request req = { .op = KVS_IO_FLUSH, .urgency = KVS_IO_LATE };
	struct kvs_io_completion done = { 0 };
	int ret;

	if (io->in_flight)
		return -EBUSY;
	pthread_mutex_lock(&t->lock);
	ret = kvs_io_queue_put(&t->queue, &req);
	workers_wake(t, 1);
	if (!ret)
		ret = threads_gather(t, 1);
	if (!ret)
		kvs_io_queue_take(&t->queue, &done, 1);
	pthread_mutex_unlock(&t->lock);
	return ret ? ret : done.result;
}

/*
 * A thread that the kernel does not give back cannot be waited for: it is detached, and what it may
 * still touch, the arena too, is freed by the last one to come back, if ever.
 */
static void threads_close(struct kvs_io *io)
{
	struct threads *t = (struct threads *)io;
	int ret = 0;

	pthread_mutex_lock(&t->lock);
	t->closing = true;
	pthread_cond_broadcast(&t->work);
	while (t->alive && !ret)
		ret = threads_block(t);
	t->abandoned = t->alive > 0;
	if (t->abandoned) {
		for (uint32_t i = 0; i < t->n_workers; i++)
			pthread_detach(t->workers[i]);
		pthread_mutex_unlock(&t->lock);
		return;
	}
	pthread_mutex_unlock(&t->lock);
	for (uint32_t i = 0; i < t->n_workers; i++)
		pthread_join(t->workers[i], NULL);
	threads_free(t);
}

const struct kvs_io_ops kvs_io_threads_ops = {
	.name = "threads",
	.open = threads_open,
	.submit = threads_submit,
	.wait = threads_wait,
	.flush = threads_flush,
	.close = threads_close,
};
