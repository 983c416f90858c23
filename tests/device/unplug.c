/* SPDX-License-Identifier: MIT */
/*
 * The device goes away under I/O: everything under way ends, with an error or not, later requests fail, the context
 * closes. Whoever runs the guest takes the disk KV_HOT out when it reads "UNPLUG NOW".
 */
#include "dev.h"

#define BATCH 16

static int batch(struct dev *d, uint64_t *seed)
{
	struct kvswap_enter enter;
	struct kvswap_cqe cqe;
	int failed = 0, n = 0;

	for (uint32_t i = 0; i < BATCH; i++) {
		struct kvswap_sqe sqe = { .op = dev_random(seed) % 4 ? KVSWAP_OP_READ
								     : KVSWAP_OP_WRITE,
					  .units = 8,
					  .store = 8 * (dev_random(seed) % 1000),
					  .arena = 16 * i };

		dev_push(d, &sqe);
	}
	CHECK(!dev_enter(d, BATCH, BATCH, dev_now_ns() + 60000000000ull, &enter));
	CHECK_EQ(enter.submitted, BATCH);
	for (; dev_reap(d, &cqe); n++)
		failed += cqe.result < 0;
	CHECK_EQ(n, BATCH);
	return failed;
}

int main(void)
{
	uint64_t seed = 3, until;
	struct dev d;
	int failed = 0;

	dev_start(&d, dev_store("KV_HOT"), 32, 1 << 20);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(batch(&d, &seed), 0);
	fprintf(stderr, "UNPLUG NOW\n");
	until = dev_now_ns() + 60000000000ull;
	while (failed < 10 * BATCH && dev_now_ns() < until)
		failed += batch(&d, &seed);
	CHECK(failed >= 10 * BATCH);
	CHECK_EQ(batch(&d, &seed), BATCH);
	dev_stop(&d);
	return 0;
}
