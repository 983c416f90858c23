/* SPDX-License-Identifier: MIT */
/*
 * Elementwise functions and small products.
 */

#define EXP_LOWEST -87.0f /* below, exp() is 0: no denormal is ever made */
#define EXP_HIGHEST 88.0f

/*
 * e^x within 2 units in the last place; 0 below EXP_LOWEST, clamped above EXP_HIGHEST, NaN of NaN, and exactly 1 of 0.
 * x = n ln 2 + r; e^r = 1 + r + r^2 P(r), P minimax for the relative error on |r| <= ln 2 / 2.
 */
V_INLINE v_f32 v_exp(v_f32 x)
{
	v_f32 y = v_max(v_set(EXP_LOWEST), v_min(v_set(EXP_HIGHEST), x));
	v_f32 n = v_round(v_mul(y, v_set(0x1.715476p+0f)));
	v_f32 r = v_fma(n, v_set(-0x1.62e4p-1f), y);
	v_f32 p = v_set(0.008312501276280452f);

	r = v_fma(n, v_set(-0x1.7f7d1cp-20f), r);
	p = v_fma(p, r, v_set(0.04189033162196635f));
	p = v_fma(p, r, v_set(0.16667115389021647f));
	p = v_fma(p, r, v_set(0.4999923030860296f));
	p = v_add(v_fma(p, v_mul(r, r), r), v_set(1.0f));
	return v_zero_below(v_scale(p, n), x, v_set(EXP_LOWEST));
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
	v_f32 m = v_set(-INFINITY);
	float rest[V_WIDTH];
	uint32_t i;

	for (i = 0; i + V_WIDTH <= n; i += V_WIDTH)
		m = v_max(v_load(x + i), m);
	if (i < n) {
		v_store(rest, v_set(-INFINITY));
		memcpy(rest, x + i, (n - i) * sizeof(*x));
		m = v_max(v_load(rest), m);
	}
	return v_largest(m);
}

static float dot(const float *a, const float *b, uint32_t n)
{
	v_f32 sum = v_set(0.0f), next = v_set(0.0f);
	float x[V_WIDTH] = { 0 }, y[V_WIDTH] = { 0 };
	uint32_t i;

	for (i = 0; i + 2 * V_WIDTH <= n; i += 2 * V_WIDTH) {
		sum = v_fma(v_load(a + i), v_load(b + i), sum);
		next = v_fma(v_load(a + i + V_WIDTH), v_load(b + i + V_WIDTH), next);
	}
	sum = v_add(sum, next);
	for (; i < n; i += V_WIDTH) {
		uint32_t left = n - i < V_WIDTH ? n - i : V_WIDTH;

		memset(x, 0, sizeof(x));
		memset(y, 0, sizeof(y));
		memcpy(x, a + i, left * sizeof(*a));
		memcpy(y, b + i, left * sizeof(*b));
		sum = v_fma(v_load(x), v_load(y), sum);
	}
	return v_sum(sum);
}

static void matmul_nt(const float *a, uint32_t lda, const float *b, uint32_t ldb, float *c,
		      uint32_t ldc, uint32_t m, uint32_t n, uint32_t k)
{
	for (uint32_t i = 0; i < m; i++)
		for (uint32_t j = 0; j < n; j++)
			c[(size_t)i * ldc + j] = dot(a + (size_t)i * lda, b + (size_t)j * ldb, k);
}

static void combine(const float *w, const float *x, uint32_t ldx, uint32_t m, float *out,
		    uint32_t n)
{
	float rest[V_WIDTH] = { 0 };
	uint32_t i;

	for (i = 0; i + V_WIDTH <= n; i += V_WIDTH) {
		v_f32 sum = v_set(0.0f);

		for (uint32_t r = 0; r < m; r++)
			sum = v_fma(v_set(w[r]), v_load(x + (size_t)r * ldx + i), sum);
		v_store(out + i, sum);
	}
	if (i < n) {
		v_f32 sum = v_set(0.0f);

		for (uint32_t r = 0; r < m; r++) {
			memcpy(rest, x + (size_t)r * ldx + i, (n - i) * sizeof(*x));
			sum = v_fma(v_set(w[r]), v_load(rest), sum);
		}
		v_store(rest, sum);
		memcpy(out + i, rest, (n - i) * sizeof(*x));
	}
}
