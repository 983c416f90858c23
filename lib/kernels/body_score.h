/* SPDX-License-Identifier: MIT */
/*
 * What predictors do: projections into the space of a basis, and scores of metadata in tiles of
 * KVS_TILE items that lie side by side, so that a lane is an item.
 */

#define TILE_VECTORS ((int)KVS_TILE / V_WIDTH)
#define SCORE_HEADS (V_WIDTH / 2)

V_INLINE void project_step(const float *a, uint32_t lda, const uint16_t *b, uint32_t ldb, float *c,
			   uint32_t ldc, uint32_t k, const int rows, const int vectors)
{
	v_f32 sum[4][4];

#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			sum[i][j] = v_set(0.0f);
	for (uint32_t x = 0; x < k; x++) {
		v_f32 row[4];

#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			row[j] = v_load_half(b + (size_t)x * ldb + j * V_WIDTH);
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
			for (int j = 0; j < vectors; j++)
				sum[i][j] = v_fma(v_set(a[(size_t)i * lda + x]), row[j], sum[i][j]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			v_store(c + (size_t)i * ldc + j * V_WIDTH, sum[i][j]);
}

V_INLINE void project_columns(const float *a, uint32_t lda, const uint16_t *b, uint32_t ldb,
			      float *c, uint32_t ldc, uint32_t m, uint32_t k, const int vectors)
{
	uint32_t i = 0;

	for (; i + 4 <= m; i += 4)
		project_step(a + (size_t)i * lda, lda, b, ldb, c + (size_t)i * ldc, ldc, k, 4,
			     vectors);
	for (; i < m; i++)
		project_step(a + (size_t)i * lda, lda, b, ldb, c + (size_t)i * ldc, ldc, k, 1,
			     vectors);
}

static void project(const float *a, uint32_t lda, const uint16_t *b, uint32_t ldb, float *c,
		    uint32_t ldc, uint32_t m, uint32_t n, uint32_t k)
{
	uint32_t j = 0;

#if MATRIX_VECTORS > 2
	for (; j + 4 * V_WIDTH <= n; j += 4 * V_WIDTH)
		project_columns(a, lda, b + j, ldb, c + j, ldc, m, k, 4);
#endif
	for (; j + 2 * V_WIDTH <= n; j += 2 * V_WIDTH)
		project_columns(a, lda, b + j, ldb, c + j, ldc, m, k, 2);
	for (; j < n; j += V_WIDTH)
		project_columns(a, lda, b + j, ldb, c + j, ldc, m, k, 1);
}

/* To 127 steps of the largest magnitude, which need not be finite. */
static void to_q8(const float *x, uint32_t n, int8_t *q, uint32_t stride, float *scale,
		  int32_t *sum)
{
	v_f32 most = v_set(0.0f), odd = v_set(0.0f);
	float largest_x, inverse, part[V_WIDTH];

	for (uint32_t i = 0; i < n; i += V_WIDTH) {
		v_f32 v = v_load(x + i);

		most = v_max(most, v_max(v, v_sub(v_set(0.0f), v)));
		odd = v_fma(v, v_set(0.0f), odd);
	}
	*sum = 0;
	largest_x = v_largest(most);
	*scale = (largest_x + v_sum(odd)) / 127.0f;
	inverse = largest_x > 1e-30f && *scale <= FLT_MAX ? 127.0f / largest_x : 0.0f;
	for (uint32_t i = 0; i < n; i += V_WIDTH) {
		int8_t *at = q + (size_t)(i / 16) * stride + i % 16;

		if (inverse == 0) {
			memset(at, 0, V_WIDTH);
			continue;
		}
		v_store(part, v_round(v_mul(v_load(x + i), v_set(inverse))));
		for (int j = 0; j < V_WIDTH; j++)
			*sum += at[j] = (int8_t)part[j];
	}
}

V_INLINE void score_f16_tile(const uint16_t *tile, uint32_t rank, const float *q, float *out,
			     uint32_t ld, uint32_t n, const int heads)
{
	v_f32 sum[SCORE_HEADS][TILE_VECTORS];
	float items[KVS_TILE];

#pragma GCC unroll 8
	for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
		for (int j = 0; j < TILE_VECTORS; j++)
			sum[h][j] = v_set(0.0f);
	for (uint32_t x = 0; x < rank; x++) {
		v_f32 z[TILE_VECTORS];

#pragma GCC unroll 4
		for (int j = 0; j < TILE_VECTORS; j++)
			z[j] = v_load_half(tile + (size_t)x * KVS_TILE + j * V_WIDTH);
#pragma GCC unroll 8
		for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
			for (int j = 0; j < TILE_VECTORS; j++)
				sum[h][j] = v_fma(v_set(q[(size_t)h * rank + x]), z[j], sum[h][j]);
	}
	for (int h = 0; h < heads; h++) {
#pragma GCC unroll 4
		for (int j = 0; j < TILE_VECTORS; j++)
			v_store(items + j * V_WIDTH, sum[h][j]);
		memcpy(out + (size_t)h * ld, items, n * sizeof(*out));
	}
}

static void score_f16(const uint16_t *tiles, uint32_t n, uint32_t rank, const float *q,
		      uint32_t n_heads, float *out, uint32_t ld)
{
	for (uint32_t i = 0; i < n; i += KVS_TILE) {
		const uint16_t *tile = tiles + (size_t)i * rank;
		uint32_t h = 0, items = n - i < KVS_TILE ? n - i : KVS_TILE;

		for (; h + SCORE_HEADS <= n_heads; h += SCORE_HEADS)
			score_f16_tile(tile, rank, q + (size_t)h * rank, out + (size_t)h * ld + i,
				       ld, items, SCORE_HEADS);
		for (; h < n_heads; h++)
			score_f16_tile(tile, rank, q + (size_t)h * rank, out + (size_t)h * ld + i,
				       ld, items, 1);
	}
}

static void dot_f16(const float *q, uint32_t n_heads, uint32_t rank, const uint16_t *x, float *out)
{
	for (uint32_t h = 0; h < n_heads; h += V_WIDTH) {
		const float *row[V_WIDTH];
		v_f32 sum[V_WIDTH];

		for (uint32_t i = 0; i < V_WIDTH; i++)
			row[i] = q + (size_t)(h + i < n_heads ? h + i : h) * rank;
#pragma GCC unroll 16
		for (int i = 0; i < V_WIDTH; i++)
			sum[i] = v_set(0.0f);
		for (uint32_t r = 0; r < rank; r += V_WIDTH) {
			v_f32 v = v_load_half(x + r);

#pragma GCC unroll 16
			for (int i = 0; i < V_WIDTH; i++)
				sum[i] = v_fma(v_load(row[i] + r), v, sum[i]);
		}
		v_store(out + h, v_sums(sum));
	}
}

#ifdef V_DIGITS
#include "body_score_q4.h"
#else
/* One head of one lane: the largest of its steps. */
static float lane_q4(const uint8_t *digits, const uint16_t *scales, uint32_t steps, uint32_t rank,
		     const int8_t *x, uint32_t stride, int32_t sum)
{
	float best = -INFINITY, scale, product;

	for (uint32_t s = 0; s < steps; s++, scales += KVS_TILE) {
		int32_t total = -8 * sum;

		for (uint32_t r = 0; r < rank; r += 8, digits += 4 * KVS_TILE)
			for (uint32_t c = 0; c < 4; c++)
				total += (digits[c] & 15) *
						 x[(size_t)(r / 16) * stride + r % 16 + c] +
					 (digits[c] >> 4) *
						 x[(size_t)(r / 16) * stride + r % 16 + 4 + c];
		from_f16(scales, &scale, 1);
		product = (float)total * scale;
		best = best > product ? best : product;
	}
	return best;
}

static void tile_q4_heads(const uint8_t *digits, const uint16_t *scales, uint32_t steps,
			  uint32_t rank, const struct kvs_q8 *q, const float *base, float *out,
			  uint32_t ld, uint32_t n)
{
	for (uint32_t h = 0; h < q->n_heads; h++)
		for (uint32_t lane = 0; lane < n; lane++) {
			float best = lane_q4(digits + 4 * lane, scales + lane, steps, rank,
					     q->q + 16 * (size_t)h, q->stride, q->sum[h]);

			out[(size_t)h * ld + lane] = best * q->scale[h] + base[h];
		}
}
#endif

/*
 * Lanes that hold items of the same group to the group: the largest of lanes [n_heads][KVS_TILE].
 */
static void tile_q4_fold(const struct kvs_q4 *z, uint32_t n_heads, const float *lanes, uint32_t n,
			 float *out, uint32_t ld)
{
	for (uint32_t h = 0; h < n_heads; h++, lanes += KVS_TILE, out += ld)
		for (uint32_t g = 0; g < n; g++) {
			float best = lanes[g];

			for (uint32_t i = 1; i < KVS_TILE / z->width && i < z->items; i++)
				best = lanes[i * z->width + g] > best ? lanes[i * z->width + g]
								      : best;
			out[g] = best;
		}
}

/*
 * Narrow tiles: eight heads at a time, by way of their lanes. Lanes without an item are not looked
 * at.
 */
static void tile_q4_narrow(const struct kvs_q4 *z, uint32_t steps, uint32_t n,
			   const struct kvs_q8 *q, const float *base, float *out, uint32_t ld)
{
	float lanes[8 * KVS_TILE];

	for (uint32_t h = 0; h < q->n_heads; h += 8) {
		uint32_t heads = q->n_heads - h < 8 ? q->n_heads - h : 8;
		struct kvs_q8 some = { heads, q->stride, q->q + 16 * (size_t)h, q->scale + h,
				       q->sum + h };

		tile_q4_heads(z->digits, z->scales, steps, z->rank, &some, base + h, lanes,
			      KVS_TILE, KVS_TILE);
		tile_q4_fold(z, heads, lanes, n, out + (size_t)h * ld, ld);
	}
}

static void score_q4(const struct kvs_q4 *z, uint32_t n, const struct kvs_q8 *q, const float *base,
		     float *out, uint32_t ld)
{
	uint32_t beside = KVS_TILE / z->width, steps = (z->items + beside - 1) / beside;
	struct kvs_q4 tile = *z;

	for (uint32_t g = 0; g < n; g += z->width) {
		uint32_t groups = n - g < z->width ? n - g : z->width;

		if (beside == 1)
			tile_q4_heads(tile.digits, tile.scales, steps, z->rank, q, base, out + g,
				      ld, groups);
		else
			tile_q4_narrow(&tile, steps, groups, q, base, out + g, ld);
		tile.digits += (size_t)steps * KVS_TILE * z->rank / 2;
		tile.scales += (size_t)steps * KVS_TILE;
	}
}
