// SPDX-License-Identifier: MIT
/*
 * Low-rank bases: the leading eigenvectors of the second moment of K, by LAPACK.
 */
#include <cblas.h>
#include <complex.h>
#include <errno.h>
#include <lapacke.h>
#include <math.h>

#include "predict.h"

/*
 * The matrix, its eigenvalues, and dsyevd's workspace: 1 + 6 n + 2 n^2 doubles, 3 + 5 n integers.
 */
size_t kvs_lowrank_doubles(uint32_t kv_dim)
{
	size_t n = kv_dim;

	return 3 * n * n + 7 * n + 1 +
	       ((3 + 5 * n) * sizeof(lapack_int) + sizeof(double) - 1) / sizeof(double);
}

/*
 * Eigenvectors have no sign of their own: the component of the largest magnitude, the first of
 * equals, is positive.
 */
static double sign_of(const double *v, uint32_t n)
{
	double most = 0;

	for (uint32_t i = 0; i < n; i++)
		most = fabs(v[i]) > fabs(most) ? v[i] : most;
	return most < 0 ? -1 : 1;
}

/* values: ascending. */
static void captured(const double *values, uint32_t n, double *energy)
{
	double all = 0, sum = 0;

	for (uint32_t i = 0; i < n; i++)
		all += fmax(values[i], 0);
	for (uint32_t i = 0; i < n; i++) {
		sum += fmax(values[n - 1 - i], 0);
		energy[i] = all > 0 ? sum / all : 1;
	}
}

/*
 * OpenBLAS's threads spin for a while after each call, beside the engine's; these products are
 * small. Its thread count is the process's: it is put back.
 */
void kvs_lowrank_gram(double *gram, uint32_t kv_dim, const double *rows, uint32_t n_rows)
{
	int threads = openblas_get_num_threads();

	openblas_set_num_threads(1);
	cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, (int)kv_dim, (int)n_rows, 1.0, rows,
		    (int)kv_dim, 1.0, gram, (int)kv_dim);
	openblas_set_num_threads(threads);
}

static double *element(double *gram, size_t n, size_t a, size_t b)
{
	return a > b ? &gram[b * n + a] : &gram[a * n + b];
}

/* Mean of exp(i * angle * t) over t = 0 .. tokens - 1. */
static double complex mean_turn(double angle, uint32_t tokens)
{
	double half = sin(angle / 2);

	if (fabs(half) < 1e-12)
		return 1;
	return cexp(I * angle * (tokens - 1) / 2) * sin(tokens * angle / 2) / (tokens * half);
}

struct pair { /* two channels of a head that turn together */
	size_t x, y;
	double angle;
};

static struct pair pair_of(const struct kvs_rope *rope, uint32_t i)
{
	if (i >= rope->dims / 2)
		return (struct pair){ 2 * i, 2 * i + 1, 0 };
	if (rope->halves)
		return (struct pair){ i, i + rope->dims / 2, (double)rope->turn[i] };
	return (struct pair){ 2 * i, 2 * i + 1, (double)rope->turn[i] };
}

/*
 * The mean over t of R(a t) M R(b t)', M the 2 x 2 block of pairs that turn by a and b: what of M
 * is a rotation turns by a - b, what of it is a reflection by a + b.
 */
static void spread_block(double *gram, size_t n, struct pair a, struct pair b, double complex apart,
			 double complex together)
{
	double *xx = element(gram, n, a.x, b.x), *yy = element(gram, n, a.y, b.y);
	double *xy = element(gram, n, a.x, b.y), *yx = element(gram, n, a.y, b.x);
	double complex rotation = (*xx + *yy + I * (*yx - *xy)) / 2 * apart;
	double complex reflection = (*xx - *yy + I * (*yx + *xy)) / 2 * together;

	*xx = creal(rotation) + creal(reflection);
	*yy = creal(rotation) - creal(reflection);
	*yx = cimag(rotation) + cimag(reflection);
	*xy = cimag(reflection) - cimag(rotation);
}

void kvs_lowrank_spread(double *gram, const struct kvs_geom *g, const struct kvs_rope *rope,
			uint32_t tokens)
{
	uint32_t dim = g->head_dim, heads = g->n_kv_heads;
	size_t n = (size_t)heads * dim;

	for (uint32_t i = 0; i < dim / 2; i++)
		for (uint32_t j = 0; j < dim / 2; j++) {
			struct pair a = pair_of(rope, i), b = pair_of(rope, j);
			double complex apart = mean_turn(a.angle - b.angle, tokens);
			double complex together = mean_turn(a.angle + b.angle, tokens);

			for (uint32_t u = 0; u < heads; u++)
				for (uint32_t v = 0; v < heads; v++) {
					struct pair c = { u * dim + a.x, u * dim + a.y, a.angle };
					struct pair d = { v * dim + b.x, v * dim + b.y, b.angle };

					if (c.x <= d.x)
						spread_block(gram, n, c, d, apart, together);
				}
		}
}

static lapack_int eigen(double *gram, size_t n)
{
	lapack_int n_work = (lapack_int)(1 + 6 * n + 2 * n * n), n_iwork = (lapack_int)(3 + 5 * n),
		   info;
	double *values = gram + n * n, *work = values + n;
	int threads = openblas_get_num_threads();

	openblas_set_num_threads(1);
	info = LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'L', (lapack_int)n, gram, (lapack_int)n,
				   values, work, n_work, (lapack_int *)(work + n_work), n_iwork);
	openblas_set_num_threads(threads);
	return info;
}

int kvs_lowrank_basis(double *gram, uint32_t kv_dim, uint32_t rank, float *basis, double *energy)
{
	size_t n = kv_dim;
	double *values = gram + n * n;

	for (size_t i = 0; i < n * n; i++)
		if (!isfinite(gram[i]))
			return -EDOM;
	if (eigen(gram, n))
		return -EDOM;
	for (uint32_t r = 0; r < rank; r++) {
		const double *vector = gram + (n - 1 - r) * n;
		double sign = sign_of(vector, kv_dim);

		for (uint32_t i = 0; i < kv_dim; i++)
			basis[(size_t)i * rank + r] = (float)(sign * vector[i]);
	}
	if (energy)
		captured(values, kv_dim, energy);
	return 0;
}
