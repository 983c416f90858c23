/* SPDX-License-Identifier: MIT */
/*
 * Decode: a few query rows of one KV head against spans of a few tokens. A step takes V_ROWS rows
 * and four tokens, so that their logits fill one vector: lane 4 * row + token.
 */

#define V_ROWS (V_WIDTH / 4)

#define TILES 16u /* worked on together: first all logits, then all weights, then all values */

struct tile {
	const uint16_t *k[4]; /* beyond n: the last token again */
	uint32_t n;
};

struct weights {
	float p[TILES][V_WIDTH], factor[TILES][V_WIDTH];
	int rescale[TILES]; /* whether the factors are not all 1 */
};

struct walk {
	const struct kvs_span *span, *end;
	uint32_t used; /* tokens of *span */
};

/* The next tiles of the spans; returns how many. */
static uint32_t walk_take(struct walk *w, const struct kvs_geom *g, uint32_t h, struct tile *t)
{
	size_t head = (size_t)h * g->group * g->head_dim;
	uint32_t n = 0;

	while (n < TILES && w->span < w->end) {
		const uint16_t *k = (const uint16_t *)w->span->record + head;
		uint32_t left = w->span->n - w->used, take = left < 4 ? left : 4;

		for (uint32_t j = 0; j < 4 && take; j++)
			t[n].k[j] =
				k + (size_t)(w->span->first + w->used + (j < take ? j : take - 1)) *
					    g->head_dim;
		t[n].n = take;
		n += take != 0;
		w->used += take;
		if (w->used < w->span->n)
			continue;
		w->span++;
		w->used = 0;
	}
	return n;
}

/* +INFINITY for a token, -INFINITY beyond n. */
V_INLINE v_f32 tile_visible(uint32_t n)
{
	static const float edge[8] = {
		INFINITY, INFINITY, INFINITY, INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
	};

	return v_quad_load(edge + 4 - n);
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
	return t->n == 4 ? v_sums(sum) : v_min(v_sums(sum), tile_visible(t->n));
}

/* One vector's worth of columns of `count` vectors: acc += weights of each tile * its values. */
V_INLINE void tiles_add(const struct tile *t, const struct weights *w, uint32_t n, size_t values,
			float *acc, uint32_t dim, uint32_t d, const int rows, const int vectors)
{
	v_f32 sum[V_ROWS][2];

#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
		for (int c = 0; c < vectors; c++)
			sum[r][c] = v_load(acc + (size_t)r * dim + d + c * V_WIDTH);
	for (uint32_t i = 0; i < n; i++) {
		if (w->rescale[i]) {
#pragma GCC unroll 4
			for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
				for (int c = 0; c < vectors; c++)
					sum[r][c] = v_mul(sum[r][c], v_set(w->factor[i][4 * r]));
		}
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) {
			v_f32 v[2];

#pragma GCC unroll 2
			for (int c = 0; c < vectors; c++)
				v[c] = v_load_half(t[i].k[j] + values + d + c * V_WIDTH);
#pragma GCC unroll 4
			for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
				for (int c = 0; c < vectors; c++)
					sum[r][c] =
						v_fma(v_set(w->p[i][4 * r + j]), v[c], sum[r][c]);
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
		for (int c = 0; c < vectors; c++)
			v_store(acc + (size_t)r * dim + d + c * V_WIDTH, sum[r][c]);
}

/*
 * Logits of n tiles to weights, one tile after the other; what the sums before a tile are to be
 * multiplied by.
 */
V_INLINE void tiles_softmax(const v_f32 *s, uint32_t n, struct weights *w, v_f32 *max, v_f32 *sum)
{
	for (uint32_t i = 0; i < n; i++) {
		v_f32 new_max = v_max(*max, v_quad_max(s[i])),
		      base = v_max(v_set(-FLT_MAX), new_max);
		v_f32 p = v_exp(v_sub(s[i], base));

		w->rescale[i] = v_differ(*max, new_max);
		if (w->rescale[i]) {
			v_f32 factor = v_exp(v_sub(*max, base));

			*sum = v_mul(*sum, factor);
			v_store(w->factor[i], factor);
		}
		*max = new_max;
		*sum = v_add(*sum, v_quad_sum(p));
		v_store(w->p[i], p);
	}
}

V_INLINE void attend_rows(const struct kvs_geom *g, uint32_t h, const float *q,
			  const struct kvs_span *spans, uint32_t n_spans, float *m, float *l,
			  float *acc, const int rows)
{
	size_t values = (size_t)g->n_kv_heads * g->group * g->head_dim;
	struct walk walk = { spans, spans + n_spans, 0 };
	float most[4] = { 0 }, sums[4] = { 0 }, lanes[V_WIDTH];
	uint32_t dim = g->head_dim, n;
	struct tile t[TILES];
	v_f32 s[TILES], max, sum;
	struct weights w;

	memcpy(most, m, rows * sizeof(*m));
	memcpy(sums, l, rows * sizeof(*l));
	max = v_quad_set(most);
	sum = v_quad_set(sums);
	while ((n = walk_take(&walk, g, h, t))) {
		uint32_t d = 0;

		for (uint32_t i = 0; i < n; i++)
			s[i] = tile_logits(&t[i], q, dim, rows);
		tiles_softmax(s, n, &w, &max, &sum);
		for (; d + 2 * V_WIDTH <= dim; d += 2 * V_WIDTH)
			tiles_add(t, &w, n, values, acc, dim, d, rows, 2);
		if (d < dim)
			tiles_add(t, &w, n, values, acc, dim, d, rows, 1);
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
	struct walk walk = { spans, spans + n_spans, 0 };
	float lanes[V_WIDTH];
	struct tile t[TILES];
	uint32_t n;

	while ((n = walk_take(&walk, g, h, t)))
		for (uint32_t i = 0; i < n; i++) {
			v_store(lanes, tile_logits(&t[i], q, g->head_dim, rows));
			for (int r = 0; r < rows; r++)
				memcpy(out + (size_t)r * ld, lanes + 4 * r, t[i].n * sizeof(*out));
			out += t[i].n;
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
