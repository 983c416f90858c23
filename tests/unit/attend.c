// SPDX-License-Identifier: MIT
/* Decode: each kernel set against arithmetic in double, and against itself under other cuts of the
 * calls. */
#include "reference.h"

/* Parts of randomly chosen records, each up to the whole group. */
static uint32_t random_spans(const struct kvs_geom *g, const uint16_t *records, uint32_t n_records,
			     struct kvs_span *spans, uint32_t n)
{
	uint32_t tokens = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t record = random_below(n_records),
			 first = random_below(2) ? 0 : random_below(g->group);

		spans[i] =
			(struct kvs_span){ records + record * record_words(g), (uint16_t)first,
					   (uint16_t)(random_below(2)
							      ? g->group - first
							      : 1 + random_below(g->group - first)),
					   record * g->group + first };
		tokens += spans[i].n;
	}
	return tokens;
}

static void check_rows(const struct kvs_geom *g, uint32_t h, const float *q,
		       const struct kvs_span *spans, uint32_t n, const struct kvs_softmax *s,
		       double tolerance)
{
	double m, l, want[512];

	for (uint32_t r = 0; r < g->n_heads / g->n_kv_heads; r++) {
		attend_exactly(g, h, q + r * g->head_dim, spans, n, &m, &l, want);
		ck_assert_double_eq_tol((double)s->m[r], m, 1e-4 + 1e-6 * fabs(m));
		ck_assert_double_eq_tol((double)s->l[r], l, 1e-4 * l);
		for (uint32_t d = 0; d < g->head_dim; d++)
			ck_assert_double_eq_tol((double)(s->acc[r * g->head_dim + d] / s->l[r]),
						want[d], tolerance);
	}
}

START_TEST(decode)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_span spans[60];

	for (int round = 0; round < 80; round++) {
		struct kvs_geom g = random_geom(9);
		uint32_t rows = g.n_heads / g.n_kv_heads, n = 1 + random_below(40);
		uint16_t *records = random_records(&g, 12 * g.group, 1);
		float *q = poisoned(rows * g.head_dim * sizeof(*q));
		struct state s = state_new(rows, g.head_dim);
		uint32_t h = random_below(g.n_kv_heads);

		if (random_spans(&g, records, 12, spans, n) > 4000)
			n = 30;
		random_fill(q, rows * g.head_dim, 2.0f / sqrtf((float)g.head_dim));
		kernels->attend(&g, h, q, spans, n, &s.s);
		check_rows(&g, h, q, spans, n, &s.s, 2e-5);
		state_free(&s);
		free(q);
		free(records);
	}
}
END_TEST

START_TEST(decode_in_two_calls)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_span spans[40];

	for (int round = 0; round < 40; round++) {
		struct kvs_geom g = random_geom(8);
		uint32_t rows = g.n_heads / g.n_kv_heads, n = 1 + random_below(40),
			 cut = random_below(n + 1);
		uint16_t *records = random_records(&g, 12 * g.group, 1);
		float *q = poisoned(rows * g.head_dim * sizeof(*q));
		struct state one = state_new(rows, g.head_dim), two = state_new(rows, g.head_dim);

		random_spans(&g, records, 12, spans, n);
		random_fill(q, rows * g.head_dim, 1);
		kernels->attend(&g, 0, q, spans, n, &one.s);
		kernels->attend(&g, 0, q, spans, cut, &two.s);
		kernels->attend(&g, 0, q, spans + cut, n - cut, &two.s);
		ck_assert(state_equal(&one, &two));
		state_free(&one);
		state_free(&two);
		free(q);
		free(records);
	}
}
END_TEST

/* Rows share registers, not results: one with an infinity in it leaves the others as they were. */
START_TEST(decode_rows_are_apart)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_geom g = { 4, 8, 1, 64 };
	uint16_t *records = random_records(&g, 80, 1);
	float q[8 * 64], bad[8 * 64], logits[8][33], clean[8][33];
	struct kvs_span spans[8];

	random_spans(&g, records, 20, spans, 8);
	random_fill(q, 8 * 64, 1);
	for (uint32_t r = 0; r < 8; r++) {
		struct state a = state_new(8, 64), b = state_new(8, 64);
		float values[] = { INFINITY, -INFINITY, NAN, 3e38f };

		memcpy(bad, q, sizeof(q));
		bad[r * 64 + random_below(64)] = values[r % 4];
		kernels->attend(&g, 0, q, spans, 8, &a.s);
		kernels->attend(&g, 0, bad, spans, 8, &b.s);
		kernels->logits(&g, 0, q, spans, 8, clean[0], 33);
		kernels->logits(&g, 0, bad, spans, 8, logits[0], 33);
		for (uint32_t i = 0; i < 8; i++) {
			if (i == r)
				continue;
			ck_assert(a.s.m[i] == b.s.m[i] && a.s.l[i] == b.s.l[i]);
			ck_assert(!memcmp(a.s.acc + i * 64, b.s.acc + i * 64, 64 * sizeof(float)));
			ck_assert(!memcmp(clean[i], logits[i], spans[0].n * sizeof(float)));
		}
		state_free(&a);
		state_free(&b);
	}
	free(records);
}
END_TEST

static void set_record(const struct kvs_geom *g, uint16_t *record, uint32_t channel, float k,
		       float v)
{
	size_t half = record_words(g) / 2;

	for (size_t i = 0; i < half; i++) {
		if (channel == UINT32_MAX || i % g->head_dim == channel)
			record[i] = half_nearest((double)k);
		record[half + i] = half_nearest((double)v * (double)(i % 7));
	}
}

/*
 * Equal scores, values at the ends of binary16, one channel that outweighs all others, a lone
 * token, nothing at all.
 */
START_TEST(decode_odd_data)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_geom g = { 4, 3, 1, 64 };
	uint16_t *records = random_records(&g, 16, 1);
	struct {
		float q, k;
		uint32_t channel;
		float v;
	} odd[] = {
		{ 0, 1, UINT32_MAX, 1 },	   { 1, 0, UINT32_MAX, 1 },
		{ 1, 6e-8f, UINT32_MAX, 6e-8f },   { 1e-40f, 1, UINT32_MAX, 1 },
		{ 0.1f, 60000, UINT32_MAX, 9000 }, { 0.01f, 3000, 5, 1 },
		{ 0.01f, -60000, 5, 1 },
	};
	struct kvs_span spans[4];
	float q[3 * 64];

	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
		for (uint32_t j = 0; j < 4; j++) {
			set_record(&g, records + j * record_words(&g), odd[i].channel, odd[i].k,
				   odd[i].v);
			spans[j] = (struct kvs_span){ records + j * record_words(&g), 0, 4, j * 4 };
		}
		for (uint32_t j = 0; j < 3 * 64; j++)
			q[j] = odd[i].q * (float)(j % 3 + 1);
		for (uint32_t n = 0; n <= 4; n++) {
			struct state s = state_new(3, 64);

			spans[0].n = n == 1 ? 1 : 4;
			kernels->attend(&g, 0, q, spans, n, &s.s);
			if (n)
				check_rows(&g, 0, q, spans, n, &s.s,
					   1e-5 * (1 + fabs((double)odd[i].v) * 6));
			for (uint32_t r = 0; r < 3 && !n; r++)
				ck_assert(s.s.m[r] == -INFINITY && s.s.l[r] == 0);
			state_free(&s);
		}
	}
	free(records);
}
END_TEST

START_TEST(logits)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_span spans[30];

	for (int round = 0; round < 40; round++) {
		struct kvs_geom g = random_geom(8);
		uint32_t rows = g.n_heads / g.n_kv_heads, n = 1 + random_below(30), at = 0, ld,
			 poison;
		uint16_t *records = random_records(&g, 12 * g.group, 1);
		float *q = poisoned(rows * g.head_dim * sizeof(*q)), *out;
		uint32_t tokens = random_spans(&g, records, 12, spans, n),
			 h = random_below(g.n_kv_heads);

		ld = tokens + random_below(3);
		out = poisoned(rows * ld * sizeof(*out) + 4);
		random_fill(q, rows * g.head_dim, 1);
		kernels->logits(&g, h, q, spans, n, out, ld);
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t t = 0; t < spans[i].n; t++, at++)
				for (uint32_t r = 0; r < rows; r++) {
					double m, l, unused[512];
					struct kvs_span one = { spans[i].record,
								(uint16_t)(spans[i].first + t), 1,
								0 };

					attend_exactly(&g, h, q + r * g.head_dim, &one, 1, &m, &l,
						       unused);
					ck_assert_double_eq_tol((double)out[r * ld + at], m, 1e-4);
				}
		for (uint32_t r = 0; r < rows; r++)
			for (uint32_t i = tokens; i < ld + (r == rows - 1); i++) {
				memcpy(&poison, &out[r * ld + i], sizeof(poison));
				ck_assert_uint_eq(poison, 0xcccccccc);
			}
		free(out);
		free(q);
		free(records);
	}
}
END_TEST

Suite *suite_attend(void)
{
	Suite *suite = suite_create("attend");
	TCase *c = tcase_create("decode");

	kernel_sets_find();
	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, decode, 0, n_kernel_sets);
	tcase_add_loop_test(c, decode_in_two_calls, 0, n_kernel_sets);
	tcase_add_loop_test(c, decode_rows_are_apart, 0, n_kernel_sets);
	tcase_add_loop_test(c, decode_odd_data, 0, n_kernel_sets);
	tcase_add_loop_test(c, logits, 0, n_kernel_sets);
	suite_add_tcase(suite, c);
	return suite;
}
