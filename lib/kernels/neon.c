// SPDX-License-Identifier: MIT
/*
 * Kernels for arm64: Advanced SIMD as every ARMv8 processor has it.
 */
#include <arm_neon.h>
#include <string.h>

#include "kernels.h"

#define V_NAME neon
#define V_WIDTH 4
#define V_INLINE static inline __attribute__((always_inline))

#define MATRIX_ROWS 6
#define MATRIX_VECTORS 4

typedef float32x4_t v_f32;

V_INLINE v_f32 v_load(const float *p)
{
	return vld1q_f32(p);
}

V_INLINE void v_store(float *p, v_f32 v)
{
	vst1q_f32(p, v);
}

V_INLINE v_f32 v_set(float x)
{
	return vdupq_n_f32(x);
}

V_INLINE v_f32 v_quad_set(const float *p)
{
	return vld1q_dup_f32(p);
}

V_INLINE v_f32 v_quad_load(const float *p)
{
	return vld1q_f32(p);
}

V_INLINE v_f32 v_add(v_f32 a, v_f32 b)
{
	return vaddq_f32(a, b);
}

V_INLINE v_f32 v_sub(v_f32 a, v_f32 b)
{
	return vsubq_f32(a, b);
}

V_INLINE v_f32 v_mul(v_f32 a, v_f32 b)
{
	return vmulq_f32(a, b);
}

V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c)
{
	return vfmaq_f32(c, a, b);
}

/* FMAX and FMIN give NaN where either is; the words' b is asked for. */
V_INLINE v_f32 v_max(v_f32 a, v_f32 b)
{
	return vbslq_f32(vcgtq_f32(a, b), a, b);
}

V_INLINE v_f32 v_min(v_f32 a, v_f32 b)
{
	return vbslq_f32(vcltq_f32(a, b), a, b);
}

V_INLINE int v_differ(v_f32 a, v_f32 b)
{
	return vminvq_u32(vceqq_f32(a, b)) == 0;
}

V_INLINE uint32_t v_reach(v_f32 a, v_f32 b)
{
	const uint32_t bits[4] = { 1, 2, 4, 8 };

	return vaddvq_u32(vandq_u32(vcgeq_f32(a, b), vld1q_u32(bits)));
}

V_INLINE v_f32 v_round(v_f32 x)
{
	return vrndnq_f32(x);
}

V_INLINE v_f32 v_scale_from(v_f32 v, v_f32 n, v_f32 x, v_f32 limit)
{
	v_f32 power = vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(n), 23));
	uint32x4_t scaled = vreinterpretq_u32_f32(vmulq_f32(v, power));

	return vreinterpretq_f32_u32(vbicq_u32(scaled, vcltq_f32(x, limit)));
}

V_INLINE float v_sum(v_f32 v)
{
	return vaddvq_f32(v);
}

V_INLINE float v_largest(v_f32 v)
{
	return vmaxvq_f32(v);
}

V_INLINE v_f32 v_quad_max(v_f32 v)
{
	v = v_max(v, vrev64q_f32(v));
	return v_max(v, vextq_f32(v, v, 2));
}

V_INLINE v_f32 v_quad_sum(v_f32 v)
{
	v = vpaddq_f32(v, v);
	return vpaddq_f32(v, v);
}

V_INLINE void v_transpose(v_f32 *r)
{
	float32x4x2_t a = vtrnq_f32(r[0], r[1]), b = vtrnq_f32(r[2], r[3]);

	r[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
	r[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
	r[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
	r[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

V_INLINE v_f32 v_sums(const v_f32 *r)
{
	return vpaddq_f32(vpaddq_f32(r[0], r[1]), vpaddq_f32(r[2], r[3]));
}

V_INLINE v_f32 v_load_half(const uint16_t *p)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

V_INLINE void v_store_half(uint16_t *p, v_f32 v)
{
	vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

#define V_DIGITS

typedef int32x4_t v_i32;

V_INLINE v_i32 v_set_i32(int32_t x)
{
	return vdupq_n_s32(x);
}

V_INLINE v_i32 v_digits_load(const uint8_t *p)
{
	return vreinterpretq_s32_u8(vld1q_u8(p));
}

V_INLINE v_i32 v_digits_low(v_i32 v)
{
	return vreinterpretq_s32_u8(vandq_u8(vreinterpretq_u8_s32(v), vdupq_n_u8(15)));
}

V_INLINE v_i32 v_digits_high(v_i32 v)
{
	return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(v), 4));
}

V_INLINE int8x8_t v_four(const int8_t *p)
{
	int32_t x;

	memcpy(&x, p, sizeof(x));
	return vreinterpret_s8_s32(vdup_n_s32(x));
}

/* Sums of four products of at most 15 * 127 stay within 16 bits. */
V_INLINE v_i32 v_dot16(v_i32 sum, const v_i32 *z, const int8_t *x)
{
	int16x8_t low = vdupq_n_s16(0), high = vdupq_n_s16(0);

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		int8x16_t bytes = vreinterpretq_s8_s32(z[i]);
		int8x8_t four = v_four(x + 4 * i);

		low = vmlal_s8(low, vget_low_s8(bytes), four);
		high = vmlal_s8(high, vget_high_s8(bytes), four);
	}
	return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

V_INLINE v_f32 v_to_f32(v_i32 v)
{
	return vcvtq_f32_s32(v);
}

V_INLINE void v_store_first(float *p, v_f32 v, uint32_t n)
{
	float lanes[4];

	if (n == 4) {
		vst1q_f32(p, v);
		return;
	}
	vst1q_f32(lanes, v);
	memcpy(p, lanes, n * sizeof(*p));
}

#include "body.h"
