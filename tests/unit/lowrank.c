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
	suite_add_tcase(suite, c);
	return suite;
}
