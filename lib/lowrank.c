// SPDX-License-Identifier: MIT
/*
 * Low-rank bases: the leading eigenvectors of the second moment of K, by LAPACK.
 */
#include <cblas.h>
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
