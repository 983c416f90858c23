/* SPDX-License-Identifier: MIT */
/*
 * Elementwise functions and small products.
 */

/*
 * Added to a number below 2^22, it leaves in the low bits the nearest integer and a float's bias.
 */
#define V_ROUNDING (0x1.8p23f + 127)
#define EXP_LOWEST -87.0f /* below, exp() is 0: no denormal is ever made */

/*
 * e^x for x <= 0, within 2 units in the last place; 0 below EXP_LOWEST, exactly 1 of 0, NaN of NaN.
 * x = n ln 2 + r; e^r = 1 + r + r^2 P(r), P minimax for the relative error on |r| <= ln 2 / 2.
 */
V_INLINE v_f32 v_exp(v_f32 x)
{
	v_f32 shifted = v_fma(x, v_set(0x1.715476p+0f), v_set(V_ROUNDING));
	v_f32 n = v_sub(shifted, v_set(V_ROUNDING));
	v_f32 r = v_fma(n, v_set(-0x1.62e4p-1f), x);
	v_f32 p = v_set(0.008312501276280452f);

	r = v_fma(n, v_set(-0x1.7f7d1cp-20f), r);
	p = v_fma(p, r, v_set(0.04189033162196635f));
	p = v_fma(p, r, v_set(0.16667115389021647f));
	p = v_fma(p, r, v_set(0.4999923030860296f));
	p = v_add(v_fma(p, v_mul(r, r), r), v_set(1.0f));
	return v_scale_from(p, shifted, x, v_set(EXP_LOWEST));
}

static void to_f16(const float *in, uint16_t *out, uint32_t n)
{
	float rest[V_WIDTH] = { 0 };
	uint16_t half[V_WIDTH];
	uint32_t i;

	for (i = 0; i + V_WIDTH <= n; i += V_WIDTH)
		v_store_half(out + i, v_load(in + i));
	if (i == n)
		return;
	memcpy(rest, in + i, (n - i) * sizeof(*in));
	v_store_half(half, v_load(rest));
	memcpy(out + i, half, (n - i) * sizeof(*out));
}

static void from_f16(const uint16_t *in, float *out, uint32_t n)
{
	uint16_t rest[V_WIDTH] = { 0 };
	float full[V_WIDTH];
	uint32_t i;

	for (i = 0; i + V_WIDTH <= n; i += V_WIDTH)
		v_store(out + i, v_load_half(in + i));
	if (i == n)
		return;
	memcpy(rest, in + i, (n - i) * sizeof(*in));
	v_store(full, v_load_half(rest));
	memcpy(out + i, full, (n - i) * sizeof(*out));
}

static float exp_sum(float *x, uint32_t n, float m)
{
	v_f32 base = v_set(m), sum = v_set(0.0f);
	float rest[V_WIDTH];
	uint32_t i;

	for (i = 0; i + V_WIDTH <= n; i += V_WIDTH) {
		v_f32 e = v_exp(v_sub(v_load(x + i), base));

		v_store(x + i, e);
		sum = v_add(sum, e);
	}
	if (i < n) {
		v_store(rest, v_set(-INFINITY));
		memcpy(rest, x + i, (n - i) * sizeof(*x));
		v_f32 e = v_exp(v_sub(v_load(rest), base));

		v_store(rest, e);
		memcpy(x + i, rest, (n - i) * sizeof(*x));
		memset(rest + n - i, 0, (V_WIDTH - (n - i)) * sizeof(*x));
		sum = v_add(sum, v_load(rest));
	}
	return v_sum(sum);
}

static float largest(const float *x, uint32_t n)
{
	v_f32 m[4] = { v_set(-INFINITY), v_set(-INFINITY), v_set(-INFINITY), v_set(-INFINITY) };
	float rest[V_WIDTH];
	uint32_t i = 0;

	for (; i + 4 * V_WIDTH <= n; i += 4 * V_WIDTH)
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			m[j] = v_max(v_load(x + i + j * V_WIDTH), m[j]);
	for (; i + V_WIDTH <= n; i += V_WIDTH)
		m[0] = v_max(v_load(x + i), m[0]);
	if (i < n) {
		v_store(rest, v_set(-INFINITY));
		memcpy(rest, x + i, (n - i) * sizeof(*x));
		m[0] = v_max(v_load(rest), m[0]);
	}
	return v_largest(v_max(v_max(m[0], m[1]), v_max(m[2], m[3])));
}

static uint32_t reaching(const float *x, uint32_t n, float limit, uint32_t *out)
{
	uint32_t found = 0, i = 0;

	for (; i + V_WIDTH <= n; i += V_WIDTH)
		for (uint32_t lanes = v_reach(v_load(x + i), v_set(limit)); lanes;
		     lanes &= lanes - 1)
			out[found++] = i + (uint32_t)__builtin_ctz(lanes);
	for (; i < n; i++)
		if (x[i] >= limit)
			out[found++] = i;
	return found;
}

V_INLINE void combine_step(const float *w, const float *x, uint32_t ldx, uint32_t m, float *out,
			   const int vectors)
{
	v_f32 sum[4];

#pragma GCC unroll 4
	for (int j = 0; j < vectors; j++)
		sum[j] = v_set(0.0f);
	for (uint32_t r = 0; r < m; r++, x += ldx)
#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			sum[j] = v_fma(v_set(w[r]), v_load(x + j * V_WIDTH), sum[j]);
#pragma GCC unroll 4
	for (int j = 0; j < vectors; j++)
		v_store(out + j * V_WIDTH, sum[j]);
}

static void combine(const float *w, const float *x, uint32_t ldx, uint32_t m, float *out,
		    uint32_t n)
{
	uint32_t i = 0;

	for (; i + 4 * V_WIDTH <= n; i += 4 * V_WIDTH)
		combine_step(w, x + i, ldx, m, out + i, 4);
	for (; i + V_WIDTH <= n; i += V_WIDTH)
		combine_step(w, x + i, ldx, m, out + i, 1);
	for (; i < n; i++) {
		float sum = 0;

		for (uint32_t r = 0; r < m; r++)
			sum += w[r] * x[(size_t)r * ldx + i];
		out[i] = sum;
	}
}
