/* SPDX-License-Identifier: MIT */
/*
 * Vector words of the AVX-512 sets (F, BW, VL, DQ).
 */
#ifndef KVS_KERNELS_AVX512_H
#define KVS_KERNELS_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define V_WIDTH 16
#define V_INLINE static inline __attribute__((always_inline))

#define MATRIX_ROWS 6
#define MATRIX_VECTORS 4

typedef __m512 v_f32;

V_INLINE v_f32 v_load(const float *p)
{
	return _mm512_loadu_ps(p);
}

V_INLINE void v_store(float *p, v_f32 v)
{
	_mm512_storeu_ps(p, v);
}

V_INLINE v_f32 v_set(float x)
{
	return _mm512_set1_ps(x);
}

V_INLINE v_f32 v_quad_set(const float *p)
{
	__m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);

	return _mm512_permutexvar_ps(lane, _mm512_castps128_ps512(_mm_loadu_ps(p)));
}

V_INLINE v_f32 v_quad_load(const float *p)
{
	return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
}

V_INLINE v_f32 v_add(v_f32 a, v_f32 b)
{
	return _mm512_add_ps(a, b);
}

V_INLINE v_f32 v_sub(v_f32 a, v_f32 b)
{
	return _mm512_sub_ps(a, b);
}

V_INLINE v_f32 v_mul(v_f32 a, v_f32 b)
{
	return _mm512_mul_ps(a, b);
}

V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c)
{
	return _mm512_fmadd_ps(a, b, c);
}

V_INLINE v_f32 v_max(v_f32 a, v_f32 b)
{
	return _mm512_max_ps(a, b);
}

V_INLINE v_f32 v_min(v_f32 a, v_f32 b)
{
	return _mm512_min_ps(a, b);
}

V_INLINE int v_differ(v_f32 a, v_f32 b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ) != 0;
}

V_INLINE v_f32 v_round(v_f32 x)
{
	return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

V_INLINE v_f32 v_scale_from(v_f32 v, v_f32 n, v_f32 x, v_f32 limit)
{
	v_f32 power = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(n), 23));

	return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), v, power);
}

V_INLINE uint32_t v_reach(v_f32 a, v_f32 b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}

V_INLINE float v_sum(v_f32 v)
{
	return _mm512_reduce_add_ps(v);
}

V_INLINE float v_largest(v_f32 v)
{
	return _mm512_reduce_max_ps(v);
}

V_INLINE v_f32 v_quad_max(v_f32 v)
{
	v = _mm512_max_ps(v, _mm512_permute_ps(v, 0xb1));
	return _mm512_max_ps(v, _mm512_permute_ps(v, 0x4e));
}

V_INLINE v_f32 v_quad_sum(v_f32 v)
{
	v = _mm512_add_ps(v, _mm512_permute_ps(v, 0xb1));
	return _mm512_add_ps(v, _mm512_permute_ps(v, 0x4e));
}

/* Transposes the four 4 x 4 blocks that lie side by side in four vectors. */
V_INLINE void v_transpose_quads(v_f32 *r)
{
	__m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1]));
	__m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
	__m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
	__m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));

	r[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
	r[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
	r[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
	r[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
}

V_INLINE void v_transpose(v_f32 *r)
{
#pragma GCC unroll 4
	for (int i = 0; i < 16; i += 4)
		v_transpose_quads(r + i);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		v_f32 a = _mm512_shuffle_f32x4(r[i], r[4 + i], 0x88);
		v_f32 b = _mm512_shuffle_f32x4(r[i], r[4 + i], 0xdd);
		v_f32 c = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0x88);
		v_f32 d = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0xdd);

		r[i] = _mm512_shuffle_f32x4(a, c, 0x88);
		r[4 + i] = _mm512_shuffle_f32x4(b, d, 0x88);
		r[8 + i] = _mm512_shuffle_f32x4(a, c, 0xdd);
		r[12 + i] = _mm512_shuffle_f32x4(b, d, 0xdd);
	}
}

/* Lane i of every quad: the sum of that quad of r[i]. */
V_INLINE v_f32 v_quad_sums(const v_f32 *r)
{
	v_f32 a = _mm512_add_ps(_mm512_unpacklo_ps(r[0], r[1]), _mm512_unpackhi_ps(r[0], r[1]));
	v_f32 b = _mm512_add_ps(_mm512_unpacklo_ps(r[2], r[3]), _mm512_unpackhi_ps(r[2], r[3]));

	return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}

V_INLINE v_f32 v_sums(const v_f32 *r)
{
	v_f32 a = v_quad_sums(r), b = v_quad_sums(r + 4), c = v_quad_sums(r + 8),
	      d = v_quad_sums(r + 12);
	v_f32 ab =
		_mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
	v_f32 cd =
		_mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x88), _mm512_shuffle_f32x4(c, d, 0xdd));

	return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88),
			     _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

V_INLINE v_f32 v_load_half(const uint16_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

V_INLINE void v_store_half(uint16_t *p, v_f32 v)
{
	_mm256_storeu_si256((__m256i *)p,
			    _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#define V_DIGITS

typedef __m512i v_i32;

V_INLINE v_i32 v_set_i32(int32_t x)
{
	return _mm512_set1_epi32(x);
}

V_INLINE v_i32 v_digits_load(const uint8_t *p)
{
	return _mm512_loadu_si512(p);
}

V_INLINE v_i32 v_digits_low(v_i32 v)
{
	return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

V_INLINE v_i32 v_digits_high(v_i32 v)
{
	return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
}

V_INLINE v_i32 v_four(const int8_t *p)
{
	int32_t x;

	memcpy(&x, p, sizeof(x));
	return _mm512_set1_epi32(x);
}

#ifdef __AVX512VNNI__
V_INLINE v_i32 v_dot16(v_i32 sum, const v_i32 *z, const int8_t *x)
{
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		sum = _mm512_dpbusd_epi32(sum, z[i], v_four(x + 4 * i));
	return sum;
}
#else
/* 16 products of at most 15 * 127 in pairs: no sum of eight leaves 16 bits. */
V_INLINE v_i32 v_dot16(v_i32 sum, const v_i32 *z, const int8_t *x)
{
	v_i32 a = _mm512_add_epi16(_mm512_maddubs_epi16(z[0], v_four(x)),
				   _mm512_maddubs_epi16(z[1], v_four(x + 4)));
	v_i32 b = _mm512_add_epi16(_mm512_maddubs_epi16(z[2], v_four(x + 8)),
				   _mm512_maddubs_epi16(z[3], v_four(x + 12)));

	return _mm512_add_epi32(sum,
				_mm512_madd_epi16(_mm512_add_epi16(a, b), _mm512_set1_epi16(1)));
}
#endif

V_INLINE v_f32 v_to_f32(v_i32 v)
{
	return _mm512_cvtepi32_ps(v);
}

V_INLINE void v_store_first(float *p, v_f32 v, uint32_t n)
{
	_mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}

#endif
