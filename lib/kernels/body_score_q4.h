/* SPDX-License-Identifier: MIT */
/*
 * Tiles of int4 metadata over integer words: v_i32 of V_WIDTH lanes, v_set_i32, v_digits_load (four
 * bytes a lane), v_digits_low and v_digits_high (the low or high four bits of each byte, as bytes),
 * v_dot16 (sum + products of 16 components), v_to_f32, v_store_first (the first n lanes).
 */

/* V_WIDTH lanes of a tile: the largest of each lane's steps, out [heads][ld]. */
V_INLINE void tile_q4_lanes(const uint8_t *digits, const uint16_t *scales, uint32_t steps,
			    uint32_t rank, const struct kvs_q8 *q, const float *base, uint32_t h,
			    float *out, uint32_t ld, uint32_t n, const int heads)
{
	v_f32 best[8];

#pragma GCC unroll 8
	for (int i = 0; i < heads; i++)
		best[i] = v_set(-INFINITY);
	for (uint32_t s = 0; s < steps; s++, scales += KVS_TILE) {
		v_f32 scale = v_load_half(scales);
		const int8_t *x = q->q + 16 * (size_t)h;
		v_i32 sum[8];

#pragma GCC unroll 8
		for (int i = 0; i < heads; i++)
			sum[i] = v_set_i32(-8 * q->sum[h + i]);
		for (uint32_t r = 0; r < rank; r += 16, digits += 8 * KVS_TILE, x += q->stride) {
			v_i32 a = v_digits_load(digits), b = v_digits_load(digits + 4 * KVS_TILE);
			v_i32 z[4] = { v_digits_low(a), v_digits_high(a), v_digits_low(b),
				       v_digits_high(b) };

#pragma GCC unroll 8
			for (int i = 0; i < heads; i++)
				sum[i] = v_dot16(sum[i], z, x + 16 * i);
		}
#pragma GCC unroll 8
		for (int i = 0; i < heads; i++)
			best[i] = v_max(best[i], v_mul(v_to_f32(sum[i]), scale));
	}
#pragma GCC unroll 8
	for (int i = 0; i < heads; i++, out += ld)
		v_store_first(out,
			      v_add(v_mul(best[i], v_set(q->scale[h + i])), v_set(base[h + i])), n);
}

V_INLINE void tile_q4(const uint8_t *digits, const uint16_t *scales, uint32_t steps, uint32_t rank,
		      const struct kvs_q8 *q, const float *base, uint32_t h, float *out,
		      uint32_t ld, uint32_t n, const int heads)
{
	for (uint32_t lane = 0; lane < n; lane += V_WIDTH)
		tile_q4_lanes(digits + 4 * lane, scales + lane, steps, rank, q, base, h, out + lane,
			      ld, n - lane < V_WIDTH ? n - lane : V_WIDTH, heads);
}

/* The first n lanes of a tile for all heads. */
static void tile_q4_heads(const uint8_t *digits, const uint16_t *scales, uint32_t steps,
			  uint32_t rank, const struct kvs_q8 *q, const float *base, float *out,
			  uint32_t ld, uint32_t n)
{
	uint32_t h = 0;

#if V_WIDTH > 8 /* with fewer registers, eight sums and eight maxima would not stay in them */
	for (; h + 8 <= q->n_heads; h += 8)
		tile_q4(digits, scales, steps, rank, q, base, h, out + (size_t)h * ld, ld, n, 8);
#endif
	for (; h + 4 <= q->n_heads; h += 4)
		tile_q4(digits, scales, steps, rank, q, base, h, out + (size_t)h * ld, ld, n, 4);
	for (; h + 2 <= q->n_heads; h += 2)
		tile_q4(digits, scales, steps, rank, q, base, h, out + (size_t)h * ld, ld, n, 2);
	for (; h < q->n_heads; h++)
		tile_q4(digits, scales, steps, rank, q, base, h, out + (size_t)h * ld, ld, n, 1);
}
