// SPDX-License-Identifier: MIT
/* Bases from the second moment of K. */
#include <errno.h>

#include "../../lib/predict.h"
#include "kernel_sets.h"

struct problem {
	uint32_t n, rank;
	double *gram, *copy, *energy;
	float *basis;
};

/* The workspace is followed by a mark that must stay. */
static struct problem problem_new(uint32_t n, uint32_t rank)
{
	struct problem p = { n,
			     rank,
			     poisoned((kvs_lowrank_doubles(n) + 1) * sizeof(double)),
			     poisoned(n * n * sizeof(double)),
			     poisoned(n * sizeof(double)),
			     poisoned(n * rank * sizeof(float)) };

	p.gram[kvs_lowrank_doubles(n)] = 12345;
	return p;
}

static int problem_solve(struct problem *p)
{
	int err;

	memcpy(p->copy, p->gram, (size_t)p->n * p->n * sizeof(double));
	err = kvs_lowrank_basis(p->gram, p->n, p->rank, p->basis, p->energy);
	ck_assert_double_eq(p->gram[kvs_lowrank_doubles(p->n)], 12345);
	return err;
}

static void problem_free(struct problem *p)
{
	free(p->gram);
	free(p->copy);
	free(p->energy);
	free(p->basis);
}

/* Second moment of `tokens` vectors whose channels differ in size. */
static void random_gram(struct problem *p, uint32_t tokens)
{
	float *x = poisoned(p->n * sizeof(*x));

	memset(p->gram, 0, (size_t)p->n * p->n * sizeof(double));
	for (uint32_t t = 0; t < tokens; t++) {
		random_fill(x, p->n, 1);
		for (uint32_t i = 0; i < p->n; i++)
			x[i] = x[i] / (float)(1 + i) + x[0];
		for (uint32_t i = 0; i < p->n; i++)
			for (uint32_t j = 0; j < p->n; j++)
				p->gram[i * p->n + j] += (double)x[i] * (double)x[j];
	}
	free(x);
}

static void check_orthonormal(const struct problem *p)
{
	for (uint32_t a = 0; a < p->rank; a++)
		for (uint32_t b = 0; b <= a; b++) {
			double sum = 0;

			for (uint32_t i = 0; i < p->n; i++)
				sum += (double)p->basis[i * p->rank + a] *
				       (double)p->basis[i * p->rank + b];
			ck_assert_double_eq_tol(sum, a == b, 1e-5);
		}
}

/* Columns are eigenvectors, the energies are what they capture, and their signs are fixed. */
START_TEST(eigenvectors)
{
	static const uint32_t sizes[][2] = {
		{ 1, 1 }, { 16, 16 }, { 17, 5 }, { 128, 32 }, { 192, 48 }
	};

	random_state = 3;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct problem p = problem_new(sizes[i][0], sizes[i][1]);
		double all = 0, captured = 0;

		random_gram(&p, 300);
		ck_assert_int_eq(problem_solve(&p), 0);
		check_orthonormal(&p);
		for (uint32_t x = 0; x < p.n; x++)
			all += p.copy[x * p.n + x];
		for (uint32_t r = 0; r < p.rank; r++) {
			double value = 0, rest = 0, most = 0;

			for (uint32_t x = 0; x < p.n; x++)
				for (uint32_t y = 0; y < p.n; y++)
					value += (double)p.basis[x * p.rank + r] *
						 p.copy[x * p.n + y] *
						 (double)p.basis[y * p.rank + r];
			for (uint32_t x = 0; x < p.n; x++) {
				double along = 0;

				for (uint32_t y = 0; y < p.n; y++)
					along += p.copy[x * p.n + y] *
						 (double)p.basis[y * p.rank + r];
				along -= value * (double)p.basis[x * p.rank + r];
				rest += along * along;
				if (fabs((double)p.basis[x * p.rank + r]) > fabs(most) + 1e-6)
					most = (double)p.basis[x * p.rank + r];
			}
			ck_assert_double_le(sqrt(rest), 1e-5 * all);
			ck_assert_double_gt(most, 0);
			captured += value;
			ck_assert_double_eq_tol(p.energy[r], captured / all, 1e-5);
			ck_assert(r == 0 || p.energy[r] >= p.energy[r - 1]);
		}
		ck_assert_double_eq_tol(p.energy[p.n - 1], 1, 1e-9);
		problem_free(&p);
	}
}
END_TEST

START_TEST(the_largest_first)
{
	struct problem p = problem_new(20, 3);

	memset(p.gram, 0, 20 * 20 * sizeof(double));
	for (uint32_t i = 0; i < 20; i++)
		p.gram[i * 21] = i == 7 ? 100 : i == 2 ? 50 : i == 19 ? 25 : 1e-3;
	ck_assert_int_eq(problem_solve(&p), 0);
	ck_assert_float_eq_tol(p.basis[7 * 3 + 0], 1, 1e-6);
	ck_assert_float_eq_tol(p.basis[2 * 3 + 1], 1, 1e-6);
	ck_assert_float_eq_tol(p.basis[19 * 3 + 2], 1, 1e-6);
	ck_assert_double_eq_tol(p.energy[0], 100 / 175.017, 1e-9);
	problem_free(&p);
}
END_TEST

START_TEST(the_same_twice)
{
	struct problem a = problem_new(96, 24), b = problem_new(96, 24);

	random_state = 9;
	random_gram(&a,
		    40); /* fewer tokens than channels: many eigenvalues are nothing but rounding */
	memcpy(b.gram, a.gram, 96 * 96 * sizeof(double));
	ck_assert_int_eq(problem_solve(&a), 0);
	ck_assert_int_eq(problem_solve(&b), 0);
	check_orthonormal(&a);
	ck_assert(!memcmp(a.basis, b.basis, 96 * 24 * sizeof(float)));
	problem_free(&a);
	problem_free(&b);
}
END_TEST

START_TEST(no_k_at_all)
{
	struct problem p = problem_new(32, 16);

	memset(p.gram, 0, 32 * 32 * sizeof(double));
	ck_assert_int_eq(problem_solve(&p), 0);
	check_orthonormal(&p);
	ck_assert_double_eq(p.energy[0], 1);
	ck_assert_int_eq(kvs_lowrank_basis(memset(p.gram, 0, 32 * 32 * sizeof(double)), 32, 16,
					   p.basis, NULL),
			 0);
	problem_free(&p);
}
END_TEST

START_TEST(not_finite)
{
	static const double bad[] = { (double)NAN, (double)INFINITY, -(double)INFINITY };

	for (int i = 0; i < 3; i++) {
		struct problem p = problem_new(32, 16);

		random_gram(&p, 10);
		p.gram[5 * 32 + 9] = bad[i];
		ck_assert_int_eq(problem_solve(&p), -EDOM);
		problem_free(&p);
	}
}
END_TEST

/* x turned by `tokens` positions. */
static void turn(const struct kvs_geom *g, const struct kvs_rope *rope, uint32_t tokens,
		 const double *x, double *out)
{
	memcpy(out, x, g->n_kv_heads * g->head_dim * sizeof(*x));
	for (uint32_t h = 0; h < g->n_kv_heads; h++)
		for (uint32_t i = 0; i < rope->dims / 2; i++) {
			uint32_t a = h * g->head_dim + (rope->halves ? i : 2 * i);
			uint32_t b = a + (rope->halves ? rope->dims / 2 : 1);
			double c = cos((double)rope->turn[i] * tokens),
			       s = sin((double)rope->turn[i] * tokens);

			out[a] = x[a] * c - x[b] * s;
			out[b] = x[a] * s + x[b] * c;
		}
}

static void add_square(double *gram, uint32_t n, const double *x, double weight)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < n; j++)
			gram[i * n + j] += x[i] * x[j] * weight;
}

/* The closed form against turning every vector to every position. */
START_TEST(spread)
{
	static const struct kvs_geom shapes[] = { { 4, 2, 2, 16 }, { 4, 3, 3, 32 } };
	float turns[8] = { 1, 0.7f, 0.1f, 0.03f, 0, 3.14159265f, 6.2831853f, 1e-4f };

	random_state = 4;
	for (uint32_t round = 0; round < 8; round++) {
		const struct kvs_geom *g = &shapes[round / 4];
		struct kvs_rope rope = { round / 2 % 2 ? 16 : 12, round % 2, turns };
		uint32_t n = g->n_kv_heads * g->head_dim, tokens = 50;
		double *gram = calloc(n * n, sizeof(*gram)), *want = calloc(n * n, sizeof(*want));
		double x[96], turned[96];

		for (uint32_t v = 0; v < 5; v++) {
			for (uint32_t i = 0; i < n; i++)
				x[i] = (double)random_normal();
			add_square(gram, n, x, 1);
			for (uint32_t t = 0; t < tokens; t++) {
				turn(g, &rope, t, x, turned);
				add_square(want, n, turned, 1.0 / tokens);
			}
		}
		for (uint32_t i = 0; i < n;
		     i++) /* only the lower triangle, by columns, is looked at */
			for (uint32_t j = 0; j < i; j++)
				gram[i * n + j] = 1e9;
		kvs_lowrank_spread(gram, g, &rope, tokens);
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = i; j < n; j++)
				ck_assert_double_eq_tol(gram[i * n + j], want[i * n + j], 1e-6);
		free(gram);
		free(want);
	}
}
END_TEST

/* Share of x that a basis holds. */
static double held(const struct problem *p, const double *x)
{
	double all = 0, in = 0;

	for (uint32_t i = 0; i < p->n; i++)
		all += x[i] * x[i];
	for (uint32_t r = 0; r < p->rank; r++) {
		double along = 0;

		for (uint32_t i = 0; i < p->n; i++)
			along += x[i] * (double)p->basis[i * p->rank + r];
		in += along * along;
	}
	return in / all;
}

/* A basis from the first 64 tokens of 4,096 holds the last ones only when it is spread. */
START_TEST(spread_holds_later_tokens)
{
	struct kvs_geom g = { 4, 1, 1, 32 };
	float turns[16];
	struct kvs_rope rope = { 32, 1, turns };
	double held_by[2] = { 0, 0 };

	for (int i = 0; i < 16; i++)
		turns[i] = powf(10000, -(float)i / 16);
	for (int is_spread = 0; is_spread < 2; is_spread++) {
		struct problem p = problem_new(32, 16);
		double x[32], turned[32];

		random_state = 6;
		memset(p.gram, 0, 32 * 32 * sizeof(double));
		for (uint32_t t = 0; t < 4096; t++) {
			for (uint32_t i = 0; i < 32; i++)
				x[i] = 3.0 * (i % 16 > 8) + (double)random_normal() * 0.1;
			turn(&g, &rope, t, x, turned);
			if (t < 64)
				add_square(p.gram, 32, turned, 1);
			if (t == 64 && is_spread)
				kvs_lowrank_spread(p.gram, &g, &rope, 4096);
			if (t == 64)
				ck_assert_int_eq(problem_solve(&p), 0);
			if (t >= 3000)
				held_by[is_spread] += held(&p, turned) / 1096;
		}
		problem_free(&p);
	}
	ck_assert_msg(held_by[1] > 0.98 && held_by[0] < 0.8, "%g, spread %g", held_by[0],
		      held_by[1]);
}
END_TEST

Suite *suite_lowrank(void)
{
	Suite *suite = suite_create("lowrank");
	TCase *c = tcase_create("bases");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, eigenvectors);
	tcase_add_test(c, the_largest_first);
	tcase_add_test(c, the_same_twice);
	tcase_add_test(c, no_k_at_all);
	tcase_add_test(c, not_finite);
	tcase_add_test(c, spread);
	tcase_add_test(c, spread_holds_later_tokens);
	suite_add_tcase(suite, c);
	return suite;
}
