/* SPDX-License-Identifier: MIT */
/*
 * score_q4 over integer words: v_i32 of V_WIDTH items, v_digits_load (four bytes an item),
 * v_digits_low and v_digits_high (the low or high four bits of each byte, as bytes), v_dot16 (sum +
 * products of 16 components), v_to_f32, v_store_first (the first n lanes).
 */

#define Q4_HEADS 8

V_INLINE void score_q4_vector(const uint8_t *tile, v_f32 scale, const struct kvs_q8 *q,
			      const float *base, uint32_t h, float *out, uint32_t ld, uint32_t n,
			      const int heads)
{
	const int8_t *x = q->q + (size_t)h * q->rank;
	v_i32 sum[Q4_HEADS];

#pragma GCC unroll 8
	for (int i = 0; i < heads; i++)
		sum[i] = v_set_i32(-8 * q->sum[h + i]);
	for (uint32_t r = 0; r < q->rank; r += 16) {
		v_i32 a = v_digits_load(tile + (size_t)r / 2 * KVS_TILE);
		v_i32 b = v_digits_load(tile + (size_t)(r + 8) / 2 * KVS_TILE);
		v_i32 z[4] = { v_digits_low(a), v_digits_high(a), v_digits_low(b),
			       v_digits_high(b) };

#pragma GCC unroll 8
		for (int i = 0; i < heads; i++)
			sum[i] = v_dot16(sum[i], z, x + (size_t)i * q->rank + r);
	}
#pragma GCC unroll 8
	for (int i = 0; i < heads; i++) {
		v_f32 product = v_mul(v_mul(v_to_f32(sum[i]), scale), v_set(q->scale[h + i]));

		v_store_first(out + (size_t)i * ld, v_add(product, v_set(base[h + i])), n);
	}
}

static void score_q4(const uint8_t *tiles, const uint16_t *scales, uint32_t n,
		     const struct kvs_q8 *q, const float *base, float *out, uint32_t ld)
{
	for (uint32_t i = 0; i < n; i += V_WIDTH) {
		const uint8_t *tile = tiles + (size_t)(i / KVS_TILE) * KVS_TILE * q->rank / 2 +
				      4 * (i % KVS_TILE);
		uint32_t h = 0, items = n - i < V_WIDTH ? n - i : V_WIDTH;
		v_f32 scale = v_load_half(scales + i);

		for (; h + 8 <= q->n_heads; h += 8)
			score_q4_vector(tile, scale, q, base, h, out + (size_t)h * ld + i, ld,
					items, 8);
		for (; h + 4 <= q->n_heads; h += 4)
			score_q4_vector(tile, scale, q, base, h, out + (size_t)h * ld + i, ld,
					items, 4);
		for (; h < q->n_heads; h++)
			score_q4_vector(tile, scale, q, base, h, out + (size_t)h * ld + i, ld,
					items, 1);
	}
}
