/* SPDX-License-Identifier: MIT */
/*
 * Waiting: deadlines, signals, several threads, poll and epoll. The store is slow (dm-delay) where
 * it has to be.
 */
#include <sys/epoll.h>

#include "dev.h"
#include "dm.h"

#define DELAY_MS 150

static struct kvswap_sqe read_at(uint32_t i)
{
	return (struct kvswap_sqe){
		.op = KVSWAP_OP_READ, .store = 8 * i, .arena = 8 * i, .units = 8, .user_data = i
	};
}

static void submit(struct dev *d, uint32_t i)
{
	struct kvswap_sqe sqe = read_at(i);

	dev_push(d, &sqe);
	CHECK(!dev_enter(d, 1, 0, 0, NULL));
}

static void reap_all(struct dev *d, uint32_t n)
{
	struct kvswap_cqe cqe;

	CHECK(!dev_enter(d, 0, n, 0, NULL));
	for (uint32_t i = 0; i < n; i++) {
		CHECK(dev_reap(d, &cqe));
		CHECK_EQ(cqe.result, 0);
		CHECK(cqe.latency_ns > DELAY_MS * 500000u);
	}
	CHECK(!dev_reap(d, &cqe));
}

static void deadlines(struct dev *d)
{
	struct kvswap_enter enter;
	uint64_t t;

	submit(d, 0);
	CHECK_ERR(dev_enter(d, 0, 1, 1, &enter), ETIME);
	CHECK_EQ(enter.available, 0);
	t = dev_now_ns();
	CHECK_ERR(dev_enter(d, 0, 1, t + 20000000, &enter), ETIME);
	CHECK(dev_now_ns() - t >= 20000000);
	CHECK(!dev_enter(d, 0, 1, UINT64_MAX, &enter));
	CHECK_EQ(enter.available, 1);
	reap_all(d, 1);
	/* Submitting counts even when the deadline has passed. */
	dev_push(d, &(struct kvswap_sqe){ .op = KVSWAP_OP_READ, .units = 8 });
	CHECK_ERR(dev_enter(d, 1, 1, 1, &enter), ETIME);
	CHECK_EQ(enter.submitted, 1);
	reap_all(d, 1);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void signals(struct dev *d)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct kvswap_enter enter;

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	dev_push(d, &(struct kvswap_sqe){ .op = KVSWAP_OP_READ, .units = 8 });
	ualarm(DELAY_MS * 300, 0);
	CHECK_ERR(dev_enter(d, 1, 1, 0, &enter), EINTR);
	CHECK_EQ(enter.submitted, 1);
	reap_all(d, 1);
}

struct waiter {
	pthread_t thread;
	struct dev *d;
	uint32_t want;
	int ret;
	uint32_t available;
};

static void *wait_for(void *arg)
{
	struct waiter *w = arg;
	struct kvswap_enter enter;

	w->ret = dev_enter(w->d, 0, w->want, 0, &enter);
	w->available = enter.available;
	return NULL;
}

/* Each thread is woken at its own count. */
static void threads(struct dev *d)
{
	struct waiter waiters[6];

	for (uint32_t i = 0; i < 6; i++)
		submit(d, i);
	for (uint32_t i = 0; i < 6; i++) {
		waiters[i] = (struct waiter){ .d = d, .want = 6 - i };
		CHECK(!pthread_create(&waiters[i].thread, NULL, wait_for, &waiters[i]));
	}
	for (uint32_t i = 0; i < 6; i++) {
		pthread_join(waiters[i].thread, NULL);
		CHECK(!waiters[i].ret && waiters[i].available >= 6 - i);
	}
	reap_all(d, 6);
}

static void polling(struct dev *d)
{
	struct pollfd p = { .fd = d->fd, .events = POLLIN };
	int fresh = dev_open();

	CHECK(poll(&(struct pollfd){ .fd = fresh, .events = POLLIN }, 1, 0) == 1);
	close(fresh);
	CHECK_EQ(poll(&p, 1, 0), 0);
	submit(d, 0);
	CHECK_EQ(poll(&p, 1, 5000), 1);
	CHECK(p.revents == POLLIN);
	reap_all(d, 1);
	CHECK_EQ(poll(&p, 1, 0), 0);
}

static void edges(struct dev *d)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(0);

	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, d->fd, &e));
	for (uint32_t i = 0; i < 3; i++) {
		submit(d, i);
		CHECK_EQ(epoll_wait(ep, &e, 1, 5000), 1);
		CHECK_EQ(epoll_wait(ep, &e, 1, 0), 0);
	}
	close(ep);
	reap_all(d, 3);
}

int main(void)
{
	struct dev d;
	char slow[64];

	dm_delay(dev_store("KV_512"), DELAY_MS, DELAY_MS, slow, sizeof(slow));
	dev_start(&d, slow, 16, 1 << 20);
	deadlines(&d);
	signals(&d);
	threads(&d);
	polling(&d);
	edges(&d);
	dev_stop(&d);
	dm_remove(slow);
	return 0;
}
