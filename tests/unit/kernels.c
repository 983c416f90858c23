// SPDX-License-Identifier: MIT
/* The choice of a kernel set, and what all of its kernels are made of. */
#include "kernel_sets.h"

START_TEST(choice)
{
	const struct kvs_kernels *best;

	unsetenv("KVSWAP_KERNELS");
	best = kvs_kernels_get();
	ck_assert_ptr_nonnull(best);
	setenv("KVSWAP_KERNELS", "", 1);
	ck_assert_ptr_eq(kvs_kernels_get(), best);
	setenv("KVSWAP_KERNELS", best->name, 1);
	ck_assert_ptr_eq(kvs_kernels_get(), best);
	setenv("KVSWAP_KERNELS", "generic", 1);
	ck_assert_str_eq(kvs_kernels_get()->name, "generic");
	setenv("KVSWAP_KERNELS", "none", 1);
	ck_assert_ptr_null(kvs_kernels_get());
}
END_TEST

START_TEST(halves_widen)
{
	const struct kvs_kernels *kernels = set_of(_i);
	static uint16_t in[1 << 16];
	static float out[1 << 16];
	static uint16_t back[1 << 16];

	for (uint32_t i = 0; i < 1 << 16; i++)
		in[i] = (uint16_t)i;
	kernels->from_f16(in, out, 1 << 16);
	kernels->to_f16(out, back, 1 << 16);
	for (uint32_t i = 0; i < 1 << 16; i++) {
		double x = half_value((uint16_t)i);

		if (isnan(x)) {
			ck_assert_msg(isnan(out[i]), "%04x widens to %g", i, (double)out[i]);
			ck_assert_msg(isnan(half_value(back[i])), "%04x comes back as %04x", i,
				      back[i]);
			continue;
		}
		ck_assert_msg((double)out[i] == x && !signbit(out[i]) == !signbit(x),
			      "%04x widens to %g", i, (double)out[i]);
		ck_assert_msg(back[i] == i, "%04x comes back as %04x", i, back[i]);
	}
}
END_TEST

START_TEST(floats_narrow)
{
	const struct kvs_kernels *kernels = set_of(_i);
	float in[64];
	uint16_t out[65];

	for (int round = 0; round < 1000; round++) {
		uint32_t n = 1 + random_below(64);

		for (uint32_t i = 0; i < n; i++) {
			double a = half_value((uint16_t)random_below(0x7bff));

			in[i] = random_normal() * ldexpf(1, (int)random_below(50) - 30);
			if (random_below(2)) /* half way between two neighbours */
				in[i] = (float)((a + half_value(half_nearest(a) + 1)) / 2);
		}
		out[n] = 0xcccc;
		kernels->to_f16(in, out, n);
		for (uint32_t i = 0; i < n; i++)
			ck_assert_msg(out[i] == half_nearest((double)in[i]),
				      "%a narrows to %04x, not %04x", (double)in[i], out[i],
				      half_nearest((double)in[i]));
		ck_assert_uint_eq(out[n], 0xcccc);
	}
}
END_TEST

START_TEST(exponentials)
{
	const struct kvs_kernels *kernels = set_of(_i);
	float x[100], y[101];

	for (int round = 0; round < 2000; round++) {
		uint32_t n = 1 + random_below(100);
		float m = random_normal() * 20, sum;
		double want = 0;

		for (uint32_t i = 0; i < n; i++)
			x[i] = m - (float)random_below(1 << 24) / (1 << 24) * 95;
		x[0] = m;
		memcpy(y, x, sizeof(x));
		y[n] = 12345;
		sum = kernels->exp_sum(y, n, m);
		for (uint32_t i = 0; i < n; i++) {
			double e = exp((double)(x[i] - m));

			if (x[i] - m < -87)
				e = 0;
			want += e;
			ck_assert_msg(fabs((double)y[i] - e) <= 2.5e-7 * e, "exp(%.9g) = %.9g",
				      (double)(x[i] - m), (double)y[i]);
		}
		ck_assert_float_eq(y[0], 1);
		ck_assert_float_eq(y[n], 12345);
		ck_assert_double_eq_tol((double)sum, want, want * 2e-6);
	}
}
END_TEST

START_TEST(exponentials_at_the_edges)
{
	const struct kvs_kernels *kernels = set_of(_i);
	float x[] = {
		-INFINITY, -3e38f, -1e30f, -4e9f, -87.5f, -87.0f, -1e-40f, 0, -0.0f, NAN, 0, 0
	};
	uint32_t nan[] = { 0x7fc00001, 0xffc12345 };

	memcpy(x + 10, nan, sizeof(nan));
	kernels->exp_sum(x, sizeof(x) / sizeof(*x), 0);
	for (int i = 0; i < 5; i++)
		ck_assert_float_eq(x[i], 0);
	ck_assert_float_gt(x[5], 1.1754944e-38f);
	for (int i = 6; i < 9; i++)
		ck_assert_float_eq(x[i], 1);
	for (int i = 9; i < 12; i++)
		ck_assert(isnan(x[i]));
}
END_TEST

START_TEST(bytes)
{
	const struct kvs_kernels *kernels = set_of(_i);
	float x[96], scale;
	int8_t q[6 * 48 + 16];
	int32_t sum;

	for (int round = 0; round < 500; round++) {
		uint32_t n = 16 * (1 + random_below(6)), stride = 16 * (1 + random_below(3));
		int32_t want = 0;

		random_fill(x, n, ldexpf(1, (int)random_below(60) - 30));
		memset(q, 99, sizeof(q));
		kernels->to_q8(x, n, q, stride, &scale, &sum);
		for (uint32_t i = 0; i < n; i++) {
			int8_t got = q[i / 16 * stride + i % 16];

			ck_assert_float_le(fabsf(x[i] - scale * got), scale * 0.501f);
			ck_assert(abs(got) <= 127);
			want += got;
		}
		ck_assert_int_eq(sum, want);
		ck_assert_int_eq(q[(n / 16 - 1) * stride + 16], 99);
		ck_assert(stride == 16 || q[16] == 99);
	}
	memset(x, 0, sizeof(x));
	kernels->to_q8(x, 16, q, 16, &scale, &sum);
	ck_assert(scale == 0 && sum == 0 && q[0] == 0);
	x[3] = INFINITY;
	x[4] = 1;
	kernels->to_q8(x, 16, q, 16, &scale, &sum);
	ck_assert(!isfinite(scale) && sum == 0 && q[3] == 0 && q[4] == 0);
	x[3] = NAN;
	kernels->to_q8(x, 16, q, 16, &scale, &sum);
	ck_assert(!isfinite(scale) && sum == 0 && q[3] == 0 && q[4] == 0);
}
END_TEST

START_TEST(small_products)
{
	const struct kvs_kernels *kernels = set_of(_i);
	enum { MOST = 70 };
	static float a[12 * MOST], c[MOST], w[12];
	static uint16_t half[64 * 96];
	static float wide[12 * 96];

	for (int round = 0; round < 100; round++) {
		uint32_t m = 1 + random_below(12), n = 1 + random_below(MOST);
		uint32_t columns = 16 * (1 + random_below(6)), depth = 1 + random_below(64);

		random_fill(a, sizeof(a) / sizeof(*a), 1);
		random_fill(w, 12, 1);
		for (uint32_t i = 0; i < 64 * 96; i++)
			half[i] = half_nearest((double)random_normal());
		memset(wide, 0xcc, sizeof(wide));
		kernels->project(a, MOST, half, 96, wide, 96, m, columns, depth);
		for (uint32_t i = 0; i < m; i++)
			for (uint32_t j = 0; j < columns; j++) {
				double sum = 0;

				for (uint32_t x = 0; x < depth; x++)
					sum += (double)a[i * MOST + x] *
					       half_value(half[x * 96 + j]);
				ck_assert_double_eq_tol((double)wide[i * 96 + j], sum, 1e-4);
			}
		kernels->combine(w, a, MOST, m, c, n);
		for (uint32_t j = 0; j < n; j++) {
			double sum = 0;

			for (uint32_t i = 0; i < m; i++)
				sum += (double)w[i] * (double)a[i * MOST + j];
			ck_assert_double_eq_tol((double)c[j], sum, 1e-4);
		}
		ck_assert_float_eq(kernels->max(a, n), ({
					   float most = a[0];

					   for (uint32_t i = 1; i < n; i++)
						   most = fmaxf(most, a[i]);
					   most;
				   }));
	}
}
END_TEST

Suite *suite_kernels(void)
{
	Suite *suite = suite_create("kernels");
	TCase *c = tcase_create("words");

	kernel_sets_find();
	tcase_set_timeout(c, 120);
	tcase_add_test(c, choice);
	tcase_add_loop_test(c, halves_widen, 0, n_kernel_sets);
	tcase_add_loop_test(c, floats_narrow, 0, n_kernel_sets);
	tcase_add_loop_test(c, exponentials, 0, n_kernel_sets);
	tcase_add_loop_test(c, exponentials_at_the_edges, 0, n_kernel_sets);
	tcase_add_loop_test(c, bytes, 0, n_kernel_sets);
	tcase_add_loop_test(c, small_products, 0, n_kernel_sets);
	suite_add_tcase(suite, c);
	return suite;
}
