/* SPDX-License-Identifier: MIT */
/* The cost model: between what was measured, at the ends, and what binds. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "kvswapctl/cost.h"

/* A device of 100 us a read that works on 8 at a time, and moves 1 GiB a second. */
static struct cells device(void)
{
	static const uint32_t sizes[] = { 4096, 16384, 65536 }, depths[] = { 1, 4, 16, 64 };
	struct cells cells = { .n = 0 };

	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 4; k++) {
			double iops = fmin(1e4 * fmin(depths[k], 8), 1073741824.0 / sizes[i]);

			cells.cell[cells.n++] = (struct cell){
				.bytes = sizes[i], .depth = depths[k], .ios = 100, .iops = iops
			};
		}
	return cells;
}

START_TEST(between_the_cells)
{
	struct cells cells = device(), none = { .n = 0 };

	ck_assert_double_eq_tol(cells_iops(&cells, 4096, 1), 1e4, 1);
	ck_assert_double_eq_tol(cells_iops(&cells, 4096, 2), 2e4, 1);
	ck_assert_double_eq_tol(cells_iops(&cells, 8192, 1), 1e4, 1);
	ck_assert_double_eq_tol(cells_iops(&cells, 4096, 500), 8e4, 1);
	ck_assert_double_eq_tol(cells_iops(&cells, 512, 1), 1e4, 1);
	ck_assert_double_eq_tol(cells_iops(&cells, 131072, 64), 8192, 1);
	ck_assert_double_eq(cells_iops(&none, 4096, 1), 0);
	ck_assert_uint_eq(cells_depth(&cells, 4096, .9), 16);
	ck_assert_uint_eq(cells_depth(&cells, 65536, .9), 4);
	ck_assert_uint_eq(cells_depth(&none, 4096, .9), 0);
}
END_TEST

START_TEST(shares)
{
	double last = 0;

	ck_assert_double_eq(cost_hit_rate(0), 0);
	for (double r = 0; r < 50; r += .25) {
		ck_assert_double_ge(cost_hit_rate(r), last);
		last = cost_hit_rate(r);
	}
	ck_assert_double_lt(last, 1);
	last = 1;
	for (uint32_t p = 0; p < 500; p += 10) {
		ck_assert_double_le(cost_missed_share(p), last + 1e-12);
		last = cost_missed_share(p);
	}
	ck_assert_double_gt(last, 0);
	ck_assert_uint_eq(cost_select_for(400, 4), 400);
	ck_assert_uint_eq(cost_select_for(400, 1), 400);
	ck_assert_uint_gt(cost_select_for(400, 8), 450);
	ck_assert_uint_lt(cost_select_for(400, 8), 550);
	ck_assert_uint_eq(cost_select_for(400, 32) % 32, 0);
}
END_TEST

static struct cells reads, writes;

static struct cost_input input(void)
{
	reads = device();
	memset(&writes, 0, sizeof(writes));
	return (struct cost_input){
		.reads = &reads,
		.writes = &writes,
		.cpu_us = 1,
		.n_disk = 10,
		.n_seqs = 1,
		.compute_ms = 20,
		.estimate_ms = 1,
		.append_us = 2,
		.score_us = 10,
		.attend_us = 50,
		.record_bytes = 16384,
		.group = 4,
		.groups_selected = 100,
		.groups_all = 8192,
		.slots = 200,
		.ahead_percent = 100,
		.depth = 64,
	};
}

static struct cost cost_of(const struct cost_input *in)
{
	struct cost c;
	double sum = 0;

	memset(&c, 0xcc, sizeof(c));
	cost_work_out(in, &c);
	for (int k = 0; k < COST_STAGES; k++) {
		ck_assert_msg(c.ms[k] >= 0, "%s is %g", cost_stage_name((enum cost_stage)k),
			      c.ms[k]);
		sum += c.ms[k];
	}
	ck_assert_double_eq_tol(sum, c.total_ms, 1e-9);
	ck_assert_double_eq_tol(c.tokens_per_s, 1e3 * in->n_seqs / sum, 1e-6);
	return c;
}

START_TEST(computing_hides_reads)
{
	struct cost_input in = input();
	struct cost c = cost_of(&in);

	ck_assert_double_eq(c.ms[COST_AHEAD], 0);
	ck_assert_double_gt(c.ms[COST_LATE], 0);
	ck_assert_double_eq(c.ms[COST_COMPUTE], 20);
	ck_assert_double_eq_tol(c.ms[COST_ATTEND], .5, 1e-9);
	ck_assert_str_eq(c.binding, "compute");
	in.compute_ms = in.estimate_ms = .01;
	ck_assert_double_gt(cost_of(&in).ms[COST_AHEAD], 0);
}
END_TEST

START_TEST(everything_in_slots_reads_nothing)
{
	struct cost_input in = input();
	struct cost c;

	in.slots = in.groups_all;
	c = cost_of(&in);
	ck_assert_double_eq(c.hit_rate, 1);
	ck_assert_double_eq(c.ms[COST_LATE] + c.ms[COST_AHEAD], 0);
	ck_assert_double_eq_tol(c.ms[COST_SUBMIT], .0025, 1e-9);
	ck_assert_double_eq(c.read_bytes_s, 0);
}
END_TEST

START_TEST(what_binds)
{
	struct cost_input in = input();

	in.attend_us = 1e5;
	ck_assert_str_eq(cost_of(&in).binding, "attention");
	in = input();
	for (int i = 0; i < reads.n; i++)
		reads.cell[i].iops /= 1000;
	ck_assert_str_eq(cost_of(&in).binding, "storage bandwidth");
	in.slots = 50;
	ck_assert_str_eq(cost_of(&in).binding, "memory");
	in.slots = 200;
	in.groups_selected = 8;
	in.slots = 16;
	ck_assert_str_eq(cost_of(&in).binding, "storage latency");
}
END_TEST

START_TEST(write_that_is_waited_for)
{
	struct cost_input in = input();
	double behind = cost_of(&in).total_ms;

	in.write_sync = true;
	writes.cell[writes.n++] =
		(struct cell){ .bytes = 16384, .depth = 1, .ios = 1, .iops = 100 };
	/* 10 layers, a group every 4 tokens, 10 ms a write. */
	ck_assert_double_eq_tol(cost_of(&in).total_ms - behind, 25, 1e-6);
}
END_TEST

START_TEST(slower_with_less_memory_and_slower_storage)
{
	double last = 0;

	for (uint32_t slots = 400; slots >= 100; slots /= 2) {
		struct cost_input in = input();

		in.slots = slots;
		ck_assert_double_gt(cost_of(&in).total_ms, last);
		last = cost_of(&in).total_ms;
		for (int i = 0; i < reads.n; i++)
			reads.cell[i].iops /= 2;
		ck_assert_double_gt(cost_of(&in).total_ms, last);
	}
}
END_TEST

Suite *suite_ctl_cost(void);

Suite *suite_ctl_cost(void)
{
	Suite *suite = suite_create("ctl_cost");
	TCase *t = tcase_create("model");

	tcase_add_test(t, between_the_cells);
	tcase_add_test(t, shares);
	tcase_add_test(t, computing_hides_reads);
	tcase_add_test(t, everything_in_slots_reads_nothing);
	tcase_add_test(t, what_binds);
	tcase_add_test(t, write_that_is_waited_for);
	tcase_add_test(t, slower_with_less_memory_and_slower_storage);
	suite_add_tcase(suite, t);
	return suite;
}
