/* SPDX-License-Identifier: MIT */
/*
 * What the tests of kernels and predictors share: the kernel sets that run here, repeatable random
 * numbers, and binary16 by arithmetic that shares nothing with the kernels'.
 */
#ifndef KERNEL_SETS_H
#define KERNEL_SETS_H

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/attend.h"

#define MOST_SETS 8

static const struct kvs_kernels *kernel_sets[MOST_SETS];
static int n_kernel_sets;
static uint64_t random_state = 1;

/* Which sets run is the machine's affair; generic is always among them. */
static inline void kernel_sets_find(void)
{
	static const char *const names[] = { "generic",	   "avx2",	 "avx512",
					     "avx512vnni", "avx512bf16", "neon" };
	const char *was = getenv("KVSWAP_KERNELS");
	char *keep = was ? strdup(was) : NULL;

	n_kernel_sets = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		setenv("KVSWAP_KERNELS", names[i], 1);
		if (kvs_kernels_get())
			kernel_sets[n_kernel_sets++] = kvs_kernels_get();
	}
	if (keep)
		setenv("KVSWAP_KERNELS", keep, 1);
	else
		unsetenv("KVSWAP_KERNELS");
	free(keep);
}

/* Set i, and the same numbers for each. */
static inline const struct kvs_kernels *set_of(int i)
{
	random_state = 7;
	return kernel_sets[i];
}

static inline uint32_t random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((random_state >> 33) % n);
}

/* Bell-shaped, of variance 1: the sum of three uniform ones. */
static inline float random_normal(void)
{
	float sum = 0;

	for (int i = 0; i < 3; i++)
		sum += (float)random_below(1 << 20) / (1 << 19) - 1;
	return sum;
}

static inline void random_fill(float *x, size_t n, float scale)
{
	for (size_t i = 0; i < n; i++)
		x[i] = random_normal() * scale;
}

static inline double half_value(uint16_t h)
{
	int exponent = h >> 10 & 31, mantissa = h & 1023;
	double x = exponent ? (1024 + mantissa) * (double)(1u << exponent) / (1 << 25)
			    : mantissa / (double)(1 << 24);

	if (exponent == 31)
		x = mantissa ? (double)NAN : (double)INFINITY;
	return h >> 15 ? -x : x;
}

/* Nearest of all finite halves to x, ties to the even one; by search. */
static inline uint16_t half_nearest(double x)
{
	uint16_t low = 0, high = 0x7bff, sign = signbit(x) ? 0x8000 : 0;

	x = fabs(x);
	if (x >= 65520)
		return sign | 0x7c00;
	if (x >= 65504)
		return sign | 0x7bff;
	while (high - low > 1) {
		uint16_t middle = (uint16_t)((low + high) / 2);

		if (half_value(middle) <= x)
			low = middle;
		else
			high = middle;
	}
	if (x - half_value(low) > half_value(high) - x ||
	    (x - half_value(low) == half_value(high) - x && low & 1))
		low = high;
	return sign | low;
}

static inline void *poisoned(size_t bytes)
{
	void *p = malloc(bytes);

	ck_assert_ptr_nonnull(p);
	return memset(p, 0xcc, bytes);
}

/* Records of n_tokens tokens with values of the given size; f16. */
static inline uint16_t *random_records(const struct kvs_geom *g, uint32_t n_tokens, float scale)
{
	size_t n = (size_t)2 * g->n_kv_heads * g->head_dim *
		   ((n_tokens + g->group - 1) / g->group * g->group);
	uint16_t *r = poisoned(n * sizeof(*r));

	for (size_t i = 0; i < n; i++)
		r[i] = half_nearest((double)(random_normal() * scale));
	return r;
}

static inline size_t record_words(const struct kvs_geom *g)
{
	return (size_t)2 * g->n_kv_heads * g->group * g->head_dim;
}

#endif
