// SPDX-License-Identifier: MIT
/*
 * Chooses the kernel set.
 */
#include "attend.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "kernels/kernels.h"

static bool yes(void)
{
	return true;
}

#ifdef __x86_64__
/* Of F16C not every compiler's __builtin_cpu_supports() knows. */
static bool runs_avx2(void)
{
	unsigned int a, b, c, d;

	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool runs_avx512(void)
{
	return runs_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq");
}

static bool runs_avx512vnni(void)
{
	return runs_avx512() && __builtin_cpu_supports("avx512vnni");
}

static bool runs_avx512bf16(void)
{
	return runs_avx512vnni() && __builtin_cpu_supports("avx512bf16");
}

/*
 * Intel's BF16 products are no faster than f32's (measured on Emerald Rapids: a quarter of the
 * instructions a cycle).
 */
static bool gains_bf16(void)
{
	return __builtin_cpu_is("amd");
}
#endif

static const struct {
	const struct kvs_kernels *kernels;
	bool (*runs)(void);
	bool (*gains)(void); /* faster here than the next; else it is taken only by name */
} sets[] = {
/* best first */
#ifdef __x86_64__
	{ &kvs_kernels_avx512bf16, runs_avx512bf16, gains_bf16 },
	{ &kvs_kernels_avx512vnni, runs_avx512vnni, yes },
	{ &kvs_kernels_avx512, runs_avx512, yes },
	{ &kvs_kernels_avx2, runs_avx2, yes },
#elif defined(__aarch64__)
	{ &kvs_kernels_neon, yes, yes },
#endif
	{ &kvs_kernels_generic, yes, yes },
};

const struct kvs_kernels *kvs_kernels_get(void)
{
	const char *name = getenv("KVSWAP_KERNELS");
	bool any = !name || !*name;

	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
		if ((any ? sets[i].gains() : !strcmp(name, sets[i].kernels->name)) &&
		    sets[i].runs())
			return sets[i].kernels;
	return NULL;
}

/* K and V of a block in f32, a row of K, and what aligning them takes. */
size_t kvs_prefill_scratch(const struct kvs_geom *g, uint32_t n_rows)
{
	(void)n_rows;
	return (2 * KVS_BLOCK + 1) * (size_t)g->head_dim * sizeof(float) + 64;
}
