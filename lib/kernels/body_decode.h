/* SPDX-License-Identifier: MIT */
/*
 * Decode: a few query rows of one KV head against spans of a few tokens. A step takes V_ROWS rows and four tokens, so
 * that their logits fill one vector: lane 4 * row + token.
 */

#define V_ROWS (V_WIDTH / 4)

struct tile {
	const uint16_t *k[4], *v[4]; /* beyond n: the last token again */
	v_f32 visible;		     /* +INFINITY for a token, -INFINITY beyond n */
};

V_INLINE v_f32 tile_visible(uint32_t n)
{
	static const float edge[8] = {
		INFINITY, INFINITY, INFINITY, INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
	};
	float lanes[V_WIDTH];

	for (int i = 0; i < V_WIDTH; i += 4)
		memcpy(lanes + i, edge + 4 - n, 4 * sizeof(*lanes));
	return v_load(lanes);
}

V_INLINE void tile_set(struct tile *t, const struct kvs_geom *g, uint32_t h,
		       const struct kvs_span *span, uint32_t i)
{
	const uint16_t *k = (const uint16_t *)span->record + (size_t)h * g->group * g->head_dim;
	size_t v = (size_t)g->n_kv_heads * g->group * g->head_dim;
	uint32_t n = span->n - i < 4 ? span->n - i : 4;

	for (uint32_t j = 0; j < 4; j++) {
		t->k[j] = k + (size_t)(span->first + i + (j < n ? j : n - 1)) * g->head_dim;
		t->v[j] = t->k[j] + v;
	}
	t->visible = tile_visible(n);
}

V_INLINE v_f32 tile_logits(const struct tile *t, const float *q, uint32_t dim, const int rows)
{
	v_f32 sum[V_WIDTH];

#pragma GCC unroll 16
	for (int i = 0; i < V_WIDTH; i++)
		sum[i] = v_set(0.0f);
	for (uint32_t d = 0; d < dim; d += V_WIDTH) {
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) {
			v_f32 k = v_load_half(t->k[j] + d);

#pragma GCC unroll 4
			for (int r = 0; r < rows; r++)
				sum[4 * r + j] =
					v_fma(v_load(q + (size_t)r * dim + d), k, sum[4 * r + j]);
		}
	}
	return v_min(v_sums(sum), t->visible);
}

V_INLINE void tile_add(const struct tile *t, v_f32 weights, float *acc, uint32_t dim,
		       const int rows)
{
	float lanes[V_WIDTH];
	v_f32 p[V_WIDTH];

	v_store(lanes, weights);
#pragma GCC unroll 16
	for (int i = 0; i < 4 * rows; i++)
		p[i] = v_set(lanes[i]);
	for (uint32_t d = 0; d < dim; d += V_WIDTH) {
		v_f32 sum[V_ROWS];

#pragma GCC unroll 4
		for (int r = 0; r < rows; r++)
			sum[r] = v_load(acc + (size_t)r * dim + d);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) {
			v_f32 v = v_load_half(t->v[j] + d);

#pragma GCC unroll 4
			for (int r = 0; r < rows; r++)
				sum[r] = v_fma(p[4 * r + j], v, sum[r]);
		}
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++)
			v_store(acc + (size_t)r * dim + d, sum[r]);
	}
}

V_INLINE void rows_rescale(float *acc, v_f32 factors, uint32_t dim, const int rows)
{
	float lanes[V_WIDTH];

	v_store(lanes, factors);
	for (int r = 0; r < rows; r++) {
		v_f32 factor = v_set(lanes[4 * r]);

		for (uint32_t d = 0; d < dim; d += V_WIDTH)
			v_store(acc + (size_t)r * dim + d,
				v_mul(v_load(acc + (size_t)r * dim + d), factor));
	}
}

V_INLINE void attend_rows(const struct kvs_geom *g, uint32_t h, const float *q,
			  const struct kvs_span *spans, uint32_t n_spans, float *m, float *l,
			  float *acc, const int rows)
{
	uint32_t dim = g->head_dim;
	float most[4] = { 0 }, sums[4] = { 0 }, lanes[V_WIDTH];
	v_f32 max, sum;
	struct tile t;

	memcpy(most, m, rows * sizeof(*m));
	memcpy(sums, l, rows * sizeof(*l));
	max = v_quad_set(most);
	sum = v_quad_set(sums);
	for (uint32_t i = 0; i < n_spans; i++) {
		for (uint32_t j = 0; j < spans[i].n; j += 4) {
			v_f32 s, p, new_max, base;

			tile_set(&t, g, h, &spans[i], j);
			s = tile_logits(&t, q, dim, rows);
			new_max = v_max(max, v_quad_max(s));
			base = v_max(v_set(-FLT_MAX), new_max);
			p = v_exp(v_sub(s, base));
			if (v_differ(max, new_max)) {
				v_f32 factors = v_exp(v_sub(max, base));

				sum = v_mul(sum, factors);
				rows_rescale(acc, factors, dim, rows);
			}
			max = new_max;
			sum = v_add(sum, v_quad_sum(p));
			tile_add(&t, p, acc, dim, rows);
		}
	}
	v_store(lanes, max);
	for (int r = 0; r < rows; r++)
		m[r] = lanes[4 * r];
	v_store(lanes, sum);
	for (int r = 0; r < rows; r++)
		l[r] = lanes[4 * r];
}

static void attend(const struct kvs_geom *g, uint32_t h, const float *q,
		   const struct kvs_span *spans, uint32_t n_spans, struct kvs_softmax *state)
{
	uint32_t rows = g->n_heads / g->n_kv_heads;

	for (uint32_t r = 0; r < rows; r += V_ROWS) {
		size_t at = (size_t)r * g->head_dim;
		float *m = state->m + r, *l = state->l + r, *acc = state->acc + at;

		switch (rows - r < V_ROWS ? rows - r : V_ROWS) {
		case 1:
			attend_rows(g, h, q + at, spans, n_spans, m, l, acc, 1);
			break;
#if V_ROWS > 1
		case 2:
			attend_rows(g, h, q + at, spans, n_spans, m, l, acc, 2);
			break;
#endif
#if V_ROWS > 2
		case 3:
			attend_rows(g, h, q + at, spans, n_spans, m, l, acc, 3);
			break;
		case 4:
			attend_rows(g, h, q + at, spans, n_spans, m, l, acc, 4);
			break;
#endif
		}
	}
}

V_INLINE void logits_rows(const struct kvs_geom *g, uint32_t h, const float *q,
			  const struct kvs_span *spans, uint32_t n_spans, float *out, uint32_t ld,
			  const int rows)
{
	float lanes[V_WIDTH];
	struct tile t;

	for (uint32_t i = 0; i < n_spans; i++) {
		for (uint32_t j = 0; j < spans[i].n; j += 4) {
			uint32_t n = spans[i].n - j < 4 ? spans[i].n - j : 4;

			tile_set(&t, g, h, &spans[i], j);
			v_store(lanes, tile_logits(&t, q, g->head_dim, rows));
			for (int r = 0; r < rows; r++)
				memcpy(out + (size_t)r * ld, lanes + 4 * r, n * sizeof(*out));
			out += n;
		}
	}
}

static void logits(const struct kvs_geom *g, uint32_t h, const float *q,
		   const struct kvs_span *spans, uint32_t n_spans, float *out, uint32_t ld)
{
	uint32_t rows = g->n_heads / g->n_kv_heads;

	for (uint32_t r = 0; r < rows; r += V_ROWS) {
		const float *at = q + (size_t)r * g->head_dim;
		float *to = out + (size_t)r * ld;

		switch (rows - r < V_ROWS ? rows - r : V_ROWS) {
		case 1:
			logits_rows(g, h, at, spans, n_spans, to, ld, 1);
			break;
#if V_ROWS > 1
		case 2:
			logits_rows(g, h, at, spans, n_spans, to, ld, 2);
			break;
#endif
#if V_ROWS > 2
		case 3:
			logits_rows(g, h, at, spans, n_spans, to, ld, 3);
			break;
		case 4:
			logits_rows(g, h, at, spans, n_spans, to, ld, 4);
			break;
#endif
		}
	}
}
