// SPDX-License-Identifier: MIT
/*
 * Kernels for any processor: four lanes in GCC's vector extension. The reference for the other
 * sets.
 */
#include <string.h>

#include "kernels.h"

#define V_NAME generic
#define V_WIDTH 4
#define V_INLINE static inline __attribute__((always_inline))

#define MATRIX_ROWS 4
#define MATRIX_VECTORS 2

typedef float v_f32 __attribute__((vector_size(16)));
typedef uint32_t v_u32 __attribute__((vector_size(16)));
typedef int32_t v_i32 __attribute__((vector_size(16)));

V_INLINE v_f32 v_load(const float *p)
{
	v_f32 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

V_INLINE void v_store(float *p, v_f32 v)
{
	memcpy(p, &v, sizeof(v));
}

V_INLINE v_f32 v_set(float x)
{
	return (v_f32){ x, x, x, x };
}

V_INLINE v_f32 v_quad_set(const float *p)
{
	return v_set(*p);
}

V_INLINE v_f32 v_quad_load(const float *p)
{
	return v_load(p);
}

V_INLINE v_f32 v_add(v_f32 a, v_f32 b)
{
	return a + b;
}

V_INLINE v_f32 v_sub(v_f32 a, v_f32 b)
{
	return a - b;
}

V_INLINE v_f32 v_mul(v_f32 a, v_f32 b)
{
	return a * b;
}

V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c)
{
	return a * b + c;
}

V_INLINE v_f32 v_choose(v_i32 mask, v_f32 a, v_f32 b)
{
	return (v_f32)(((v_i32)a & mask) | ((v_i32)b & ~mask));
}

V_INLINE v_f32 v_max(v_f32 a, v_f32 b)
{
	return v_choose(a > b, a, b);
}

V_INLINE v_f32 v_min(v_f32 a, v_f32 b)
{
	return v_choose(a < b, a, b);
}

V_INLINE int v_differ(v_f32 a, v_f32 b)
{
	v_i32 d = a != b;

	return (d[0] | d[1] | d[2] | d[3]) != 0;
}

/* Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa; for |x| < 2^22. */
V_INLINE v_f32 v_round(v_f32 x)
{
	v_f32 magic = v_set(0x1.8p23f);

	return x + magic - magic;
}

V_INLINE v_f32 v_scale_from(v_f32 v, v_f32 n, v_f32 x, v_f32 limit)
{
	v_f32 scaled = v * (v_f32)((v_u32)n << 23);

	return (v_f32)((v_u32)scaled & ~(v_u32)(x < limit));
}

V_INLINE uint32_t v_reach(v_f32 a, v_f32 b)
{
	v_i32 yes = a >= b;

	return (uint32_t)((yes[0] & 1) | (yes[1] & 2) | (yes[2] & 4) | (yes[3] & 8));
}

V_INLINE float v_sum(v_f32 v)
{
	return (v[0] + v[2]) + (v[1] + v[3]);
}

V_INLINE float v_largest(v_f32 v)
{
	v_f32 a = v_max(v, (v_f32){ v[2], v[3], v[2], v[3] });

	return a[0] > a[1] ? a[0] : a[1];
}

V_INLINE v_f32 v_quad_max(v_f32 v)
{
	v = v_max(v, (v_f32){ v[1], v[0], v[3], v[2] });
	return v_max(v, (v_f32){ v[2], v[3], v[0], v[1] });
}

V_INLINE v_f32 v_quad_sum(v_f32 v)
{
	v = v + (v_f32){ v[1], v[0], v[3], v[2] };
	return v + (v_f32){ v[2], v[3], v[0], v[1] };
}

V_INLINE void v_transpose(v_f32 *r)
{
	for (int i = 0; i < 4; i++) {
		for (int j = i + 1; j < 4; j++) {
			float x = r[i][j];

			r[i][j] = r[j][i];
			r[j][i] = x;
		}
	}
}

V_INLINE v_f32 v_sums(const v_f32 *r)
{
	return (v_f32){ v_sum(r[0]), v_sum(r[1]), v_sum(r[2]), v_sum(r[3]) };
}

/*
 * A half's exponent is 112 less biased than a float's: shifted into place, it is short by a factor
 * of 2^112.
 */
V_INLINE v_f32 v_load_half(const uint16_t *p)
{
	v_u32 h = { p[0], p[1], p[2], p[3] };
	v_u32 magnitude = h & 0x7fff;
	v_u32 special = (v_u32)(magnitude >= 0x7c00) & 0x7f800000;
	v_f32 scaled = (v_f32)(magnitude << 13) * v_set(0x1p112f);

	return (v_f32)((v_u32)scaled | special | (h & 0x8000) << 16);
}

/*
 * Round to nearest even. Below 2^-14 the sum with 0.5 aligns the mantissa to the halves' denormal
 * step.
 */
V_INLINE uint16_t half_from_float(float x)
{
	uint32_t bits, sign, magnitude;
	float aligned;

	memcpy(&bits, &x, sizeof(bits));
	sign = bits >> 16 & 0x8000;
	magnitude = bits & 0x7fffffff;
	if (magnitude > 0x7f800000)
		return sign | 0x7e00;
	if (magnitude >= 0x477ff000)
		return sign | 0x7c00;
	if (magnitude >= 0x38800000)
		return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
	memcpy(&aligned, &magnitude, sizeof(aligned));
	aligned += 0.5f;
	memcpy(&bits, &aligned, sizeof(bits));
	return sign | (bits - 0x3f000000);
}

V_INLINE void v_store_half(uint16_t *p, v_f32 v)
{
	for (int i = 0; i < 4; i++)
		p[i] = half_from_float(v[i]);
}

#include "body.h"
