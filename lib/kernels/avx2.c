// SPDX-License-Identifier: MIT
/*
 * Kernels for AVX2 with FMA and F16C.
 */
#include <immintrin.h>
#include <string.h>

#include "kernels.h"

#define V_NAME avx2
#define V_WIDTH 8
#define V_INLINE static inline __attribute__((always_inline))

#define MATRIX_ROWS 6
#define MATRIX_VECTORS 2

typedef __m256 v_f32;

V_INLINE v_f32 v_load(const float *p)
{
	return _mm256_loadu_ps(p);
}

V_INLINE void v_store(float *p, v_f32 v)
{
	_mm256_storeu_ps(p, v);
}

V_INLINE v_f32 v_set(float x)
{
	return _mm256_set1_ps(x);
}

V_INLINE v_f32 v_quad_set(const float *p)
{
	return _mm256_insertf128_ps(_mm256_set1_ps(p[0]), _mm_set1_ps(p[1]), 1);
}

V_INLINE v_f32 v_quad_load(const float *p)
{
	return _mm256_broadcast_ps((const __m128 *)p);
}

V_INLINE v_f32 v_add(v_f32 a, v_f32 b)
{
	return _mm256_add_ps(a, b);
}

V_INLINE v_f32 v_sub(v_f32 a, v_f32 b)
{
	return _mm256_sub_ps(a, b);
}

V_INLINE v_f32 v_mul(v_f32 a, v_f32 b)
{
	return _mm256_mul_ps(a, b);
}

V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c)
{
	return _mm256_fmadd_ps(a, b, c);
}

V_INLINE v_f32 v_max(v_f32 a, v_f32 b)
{
	return _mm256_max_ps(a, b);
}

V_INLINE v_f32 v_min(v_f32 a, v_f32 b)
{
	return _mm256_min_ps(a, b);
}

V_INLINE int v_differ(v_f32 a, v_f32 b)
{
	return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ)) != 0;
}

V_INLINE v_f32 v_round(v_f32 x)
{
	return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

V_INLINE v_f32 v_scale_from(v_f32 v, v_f32 n, v_f32 x, v_f32 limit)
{
	v_f32 power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(n), 23));

	return _mm256_and_ps(_mm256_mul_ps(v, power), _mm256_cmp_ps(x, limit, _CMP_NLT_UQ));
}

V_INLINE uint32_t v_reach(v_f32 a, v_f32 b)
{
	return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ));
}

V_INLINE float v_sum(v_f32 v)
{
	__m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	x = _mm_add_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

V_INLINE float v_largest(v_f32 v)
{
	__m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	x = _mm_max_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

V_INLINE v_f32 v_quad_max(v_f32 v)
{
	v = _mm256_max_ps(v, _mm256_permute_ps(v, 0xb1));
	return _mm256_max_ps(v, _mm256_permute_ps(v, 0x4e));
}

V_INLINE v_f32 v_quad_sum(v_f32 v)
{
	v = _mm256_add_ps(v, _mm256_permute_ps(v, 0xb1));
	return _mm256_add_ps(v, _mm256_permute_ps(v, 0x4e));
}

/* Transposes the two 4 x 4 blocks that lie side by side in four vectors. */
V_INLINE void v_transpose_quads(v_f32 *r)
{
	v_f32 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
	v_f32 c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);

	r[0] = _mm256_shuffle_ps(a, c, 0x44);
	r[1] = _mm256_shuffle_ps(a, c, 0xee);
	r[2] = _mm256_shuffle_ps(b, d, 0x44);
	r[3] = _mm256_shuffle_ps(b, d, 0xee);
}

V_INLINE void v_transpose(v_f32 *r)
{
	v_transpose_quads(r);
	v_transpose_quads(r + 4);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		v_f32 low = _mm256_permute2f128_ps(r[i], r[4 + i], 0x20);

		r[4 + i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x31);
		r[i] = low;
	}
}

/* Lane i of each half: the sum of that half of r[i]. */
V_INLINE v_f32 v_quad_sums(const v_f32 *r)
{
	v_f32 a = _mm256_add_ps(_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]));
	v_f32 b = _mm256_add_ps(_mm256_unpacklo_ps(r[2], r[3]), _mm256_unpackhi_ps(r[2], r[3]));

	return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
}

V_INLINE v_f32 v_sums(const v_f32 *r)
{
	v_f32 a = v_quad_sums(r), b = v_quad_sums(r + 4);

	return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20),
			     _mm256_permute2f128_ps(a, b, 0x31));
}

V_INLINE v_f32 v_load_half(const uint16_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

V_INLINE void v_store_half(uint16_t *p, v_f32 v)
{
	_mm_storeu_si128((__m128i *)p,
			 _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#define V_DIGITS

typedef __m256i v_i32;

V_INLINE v_i32 v_set_i32(int32_t x)
{
	return _mm256_set1_epi32(x);
}

V_INLINE v_i32 v_digits_load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

V_INLINE v_i32 v_digits_low(v_i32 v)
{
	return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

V_INLINE v_i32 v_digits_high(v_i32 v)
{
	return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
}

V_INLINE v_i32 v_four(const int8_t *p)
{
	int32_t x;

	memcpy(&x, p, sizeof(x));
	return _mm256_set1_epi32(x);
}

/* 16 products of at most 15 * 127 in pairs: no sum of eight leaves 16 bits. */
V_INLINE v_i32 v_dot16(v_i32 sum, const v_i32 *z, const int8_t *x)
{
	v_i32 a = _mm256_add_epi16(_mm256_maddubs_epi16(z[0], v_four(x)),
				   _mm256_maddubs_epi16(z[1], v_four(x + 4)));
	v_i32 b = _mm256_add_epi16(_mm256_maddubs_epi16(z[2], v_four(x + 8)),
				   _mm256_maddubs_epi16(z[3], v_four(x + 12)));

	return _mm256_add_epi32(sum,
				_mm256_madd_epi16(_mm256_add_epi16(a, b), _mm256_set1_epi16(1)));
}

V_INLINE v_f32 v_to_f32(v_i32 v)
{
	return _mm256_cvtepi32_ps(v);
}

V_INLINE void v_store_first(float *p, v_f32 v, uint32_t n)
{
	__m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);

	_mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane), v);
}

#include "body.h"
