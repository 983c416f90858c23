/* SPDX-License-Identifier: MIT */
/*
 * The rings: full, wrapping, impossible indices, and a second thread that scribbles over them all
 * the while.
 */
#include "dev.h"

static void full(const char *path)
{
	struct kvswap_enter enter;
	struct kvswap_cqe cqe;
	struct dev d;
	int n = 0;

	dev_start(&d, path, 8, 1 << 20);
	for (uint64_t i = 0; i < 8; i++)
		dev_push(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_NOP, .user_data = i });
	CHECK(!dev_enter(&d, 100, 0, 0, &enter));
	CHECK_EQ(enter.submitted, 8);
	CHECK_EQ(enter.available, 8);
	/* All completions are spoken for. */
	dev_push(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_NOP, .user_data = 8 });
	CHECK_ERR(dev_enter(&d, 1, 1, 0, &enter), EAGAIN);
	CHECK_EQ(enter.submitted, 0);
	CHECK_EQ(enter.available, 8);
	CHECK(dev_reap(&d, &cqe));
	CHECK_EQ(cqe.user_data, 0);
	CHECK(!dev_enter(&d, 1, 8, 0, &enter));
	CHECK_EQ(enter.submitted, 1);
	while (dev_reap(&d, &cqe))
		CHECK_EQ(cqe.user_data, ++n);
	CHECK_EQ(n, 8);
	/* More than room for, in one call: as many as there is room for. */
	for (uint64_t i = 0; i < 5; i++)
		dev_push(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_NOP });
	CHECK(!dev_enter(&d, 5, 0, 0, NULL));
	for (uint64_t i = 0; i < 5; i++)
		dev_push(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_NOP });
	CHECK(!dev_enter(&d, 5, 0, 0, &enter));
	CHECK_EQ(enter.submitted, 3);
	CHECK_EQ(enter.available, 8);
	dev_stop(&d);
}

static void wrap(const char *path)
{
	struct dev d;

	dev_start(&d, path, 2, 65536);
	for (uint64_t i = 0; i < 5000; i++)
		CHECK_EQ(dev_do(&d, &(struct kvswap_sqe){ .op = KVSWAP_OP_NOP, .user_data = i }),
			 0);
	CHECK(!dev_enter(&d, 0, 0, 0, NULL));
	CHECK(!dev_enter(&d, 7, 0, 0, NULL));
	/* Nothing under way: nothing to wait for. */
	CHECK(!dev_enter(&d, 0, 2, 0, NULL));
	dev_stop(&d);
}

static void impossible(const char *path)
{
	struct dev d;

	dev_start(&d, path, 8, 65536);
	d.sq->tail = 9;
	CHECK_ERR(dev_enter(&d, 1, 0, 0, NULL), EBADFD);
	d.sq->tail = -1;
	CHECK_ERR(dev_enter(&d, 1, 0, 0, NULL), EBADFD);
	d.sq->tail = 1;
	d.sq->cq_head = 1;
	CHECK_ERR(dev_enter(&d, 1, 0, 0, NULL), EBADFD);
	CHECK_ERR(dev_enter(&d, 0, 1, 0, NULL), EBADFD);
	d.sq->cq_head = -9;
	CHECK_ERR(dev_enter(&d, 1, 0, 0, NULL), EBADFD);
	d.sq->cq_head = 0;
	CHECK(!dev_enter(&d, 1, 1, 0, NULL));
	dev_stop(&d);
}

static struct dev shared;
static bool stop;

static void *scribble(void *arg)
{
	uint32_t *words = (uint32_t *)shared.sq;
	uint64_t seed = (uintptr_t)arg + 1;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		words[dev_random(&seed) % (shared.setup.sq_bytes / 4)] =
			dev_random(&seed) % 3 ? dev_random(&seed) % 40 : dev_random(&seed);
	return NULL;
}

static void *enter(void *arg)
{
	uint64_t seed = (uintptr_t)arg + 99;

	for (int i = 0; i < 2000; i++) {
		uint64_t tail = __atomic_load_n(&shared.cq->sq_head, __ATOMIC_ACQUIRE) +
				dev_random(&seed) % 9;

		shared.sq->cq_head = __atomic_load_n(&shared.cq->tail, __ATOMIC_ACQUIRE);
		shared.sq->tail = tail;
		dev_enter(&shared, dev_random(&seed) % 10, dev_random(&seed) % 4,
			  dev_now_ns() + 1000000, NULL);
	}
	return NULL;
}

/*
 * Whatever is in the rings, only the ranges that SETUP named are touched: a second context on
 * another store stays as it is.
 */
static void scribbled(const char *path)
{
	pthread_t threads[4];

	dev_start(&shared, path, 8, 1 << 20);
	CHECK(!pthread_create(&threads[0], NULL, scribble, (void *)1));
	CHECK(!pthread_create(&threads[1], NULL, scribble, (void *)2));
	CHECK(!pthread_create(&threads[2], NULL, enter, (void *)3));
	CHECK(!pthread_create(&threads[3], NULL, enter, (void *)4));
	pthread_join(threads[2], NULL);
	pthread_join(threads[3], NULL);
	stop = true;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	dev_stop(&shared);
}

int main(void)
{
	full(dev_store("KV_512"));
	wrap(dev_store("KV_512"));
	impossible(dev_store("KV_512"));
	scribbled(dev_store("KV_512"));
	return 0;
}
