/* SPDX-License-Identifier: MIT */
/*
 * Prefill: many query rows of one KV head against blocks of KVS_BLOCK tokens. A block's K and V are
 * widened to f32 once a call, K with the tokens side by side; both products are then rank-1 updates
 * of MATRIX_ROWS x MATRIX_VECTORS accumulators.
 */

#ifndef M_STEP
/*
 * Words of the products: M_STEP elements of a row go into one step, here one float. Where they
 * round (M_ROUNDS), K is taken as its distance from a point: channels that hardly change would
 * otherwise cost the others their precision.
 */
#define M_STEP 1
#define M_ROUNDS 0

typedef float m_word;
typedef v_f32 m_vector;

V_INLINE m_vector m_load(const m_word *p)
{
	return v_load(p);
}

V_INLINE m_vector m_set(const m_word *p)
{
	return v_set(*p);
}

V_INLINE v_f32 m_fma(m_vector a, m_vector b, v_f32 c)
{
	return v_fma(a, b, c);
}

V_INLINE void m_put(m_word *p, v_f32 v)
{
	v_store(p, v);
}

V_INLINE void m_put_rows(m_word *p, const v_f32 *rows)
{
	v_store(p, rows[0]);
}
#endif

struct block {
	uint32_t token, n; /* tokens [token, token + n) */
	m_word *k;	   /* [head_dim / M_STEP][KVS_BLOCK][M_STEP], 0 beyond n */
	m_word *v;	   /* [KVS_BLOCK / M_STEP][head_dim][M_STEP], 0 beyond n */
	/*
	 * With M_ROUNDS: [head_dim], what k is the distance from, K of the first token if every row
	 * that sees any token sees that one, else 0.
	 */
	float *point;
	int all_see_first;
};

struct cursor {
	const struct kvs_span *span, *end;
	uint32_t used; /* tokens of *span */
};

struct rows { /* of one call */
	const struct kvs_geom *g;
	const float *q;
	uint32_t q_stride, n, heads; /* n tokens of `heads` rows each */
	uint32_t pos, window;
	float scale;
	struct kvs_softmax *state;
	uint32_t acc_stride;
	float *unused; /* [head_dim]: the accumulator of rows that are none */
};

struct matrix { /* MATRIX_ROWS rows against one block */
	float *acc[MATRIX_ROWS];
	uint32_t index
		[MATRIX_ROWS]; /* in state; UINT32_MAX: not a row, or sees nothing of the block */
	uint32_t low[MATRIX_ROWS], high[MATRIX_ROWS]; /* tokens of the block that the row sees */
	uint32_t first, end;			      /* tokens that any of the rows sees */
	float common[MATRIX_ROWS]; /* with M_ROUNDS, logit of the block's point */
	float factor[MATRIX_ROWS]; /* of acc before the block is added */
	m_word q[MATRIX_ROWS][KVS_MOST_DIM] __attribute__((aligned(64))); /* scaled */
	float s[MATRIX_ROWS][KVS_BLOCK] __attribute__((aligned(64)));	  /* logits */
	m_word p[MATRIX_ROWS][KVS_BLOCK] __attribute__((aligned(64)));	  /* weights */
};

/* Pointers to the next tokens of the cursor; returns how many there were. */
static uint32_t cursor_take(struct cursor *c, const struct kvs_geom *g, uint32_t h,
			    const uint16_t **k, const uint16_t **v)
{
	size_t head = (size_t)h * g->group * g->head_dim;
	size_t values = (size_t)g->n_kv_heads * g->group * g->head_dim;
	uint32_t n = 0;

	while (n < KVS_BLOCK && c->span < c->end) {
		if (c->used == c->span->n) {
			c->span++;
			c->used = 0;
			continue;
		}
		k[n] = (const uint16_t *)c->span->record + head +
		       (size_t)(c->span->first + c->used) * g->head_dim;
		v[n] = k[n] + values;
		c->used++;
		n++;
	}
	return n;
}

static void block_pack(struct block *b, uint32_t dim, const uint16_t **k, const uint16_t **v)
{
	static const uint16_t zeros[KVS_MOST_DIM];

	for (uint32_t t = b->n; t < KVS_BLOCK; t++)
		k[t] = v[t] = zeros;
	for (uint32_t d = 0; M_ROUNDS && d < dim; d += V_WIDTH)
		v_store(b->point + d, v_load_half((b->all_see_first ? k[0] : zeros) + d));
	for (uint32_t t = 0; t < KVS_BLOCK; t += V_WIDTH) {
		for (uint32_t d = 0; d < dim; d += V_WIDTH) {
			v_f32 r[V_WIDTH];

#pragma GCC unroll 16
			for (int i = 0; i < V_WIDTH; i++)
				r[i] = M_ROUNDS ? v_sub(v_load_half(k[t + i] + d),
							v_load(b->point + d))
						: v_load_half(k[t + i] + d);
			v_transpose(r);
#pragma GCC unroll 16
			for (int i = 0; i < V_WIDTH; i += M_STEP)
				m_put_rows(b->k + (size_t)(d + i) * KVS_BLOCK + t * M_STEP, r + i);
		}
	}
	for (uint32_t t = 0; t < KVS_BLOCK; t += M_STEP) {
		for (uint32_t d = 0; d < dim; d += V_WIDTH) {
			v_f32 r[M_STEP];

			for (int i = 0; i < M_STEP; i++)
				r[i] = v_load_half(v[t + i] + d);
			m_put_rows(b->v + (size_t)t * dim + d * M_STEP, r);
		}
	}
}

/* Tokens of the block that the token `at` sees: from *low, below *high. */
static void rows_visible(const struct rows *r, const struct block *b, uint32_t at, uint32_t *low,
			 uint32_t *high)
{
	uint32_t from = r->window && at + 1 > r->window ? at + 1 - r->window : 0;

	*low = from > b->token ? from - b->token : 0;
	*high = at < b->token ? 0 : at - b->token < b->n ? at - b->token + 1 : b->n;
	if (*low >= *high)
		*low = *high = 0;
}

/* A row's query, scaled; returns its product with the block's point. */
V_INLINE float row_put(m_word *to, const float *q, float scale, const float *point, uint32_t dim)
{
	v_f32 sum = v_set(0.0f);

	for (uint32_t d = 0; d < dim; d += V_WIDTH) {
		v_f32 scaled = v_mul(v_load(q + d), v_set(scale));

		m_put(to + d, scaled);
		if (M_ROUNDS)
			sum = v_fma(scaled, v_load(point + d), sum);
	}
	return M_ROUNDS ? v_sum(sum) : 0.0f;
}

/* The rows from `first` on; false when none of them sees the block. */
static int matrix_set(struct matrix *x, const struct rows *r, const struct block *b, uint32_t first)
{
	uint32_t dim = r->g->head_dim, n = r->n * r->heads;

	x->first = KVS_BLOCK;
	x->end = 0;
	for (uint32_t i = 0; i < MATRIX_ROWS; i++) {
		uint32_t index = first + i < n ? first + i : n - 1;
		uint32_t token = index / r->heads, head = index % r->heads;
		const float *q = r->q + (size_t)token * r->q_stride + (size_t)head * dim;

		rows_visible(r, b, r->pos + token, &x->low[i], &x->high[i]);
		x->acc[i] = r->state->acc + (size_t)token * r->acc_stride + (size_t)head * dim;
		x->index[i] = index;
		if (first + i >= n || x->low[i] == x->high[i]) {
			x->acc[i] = r->unused;
			x->index[i] = UINT32_MAX;
			x->low[i] = x->high[i] = 0;
			continue;
		}
		x->common[i] = row_put(x->q[i], q, r->scale, b->point, dim);
		x->first = x->low[i] < x->first ? x->low[i] : x->first;
		x->end = x->high[i] > x->end ? x->high[i] : x->end;
	}
	return x->end != 0;
}

/* c [MATRIX_ROWS][vectors] += a [MATRIX_ROWS][lda] * b [steps][ldb], M_STEP products a step */
V_INLINE void matrix_add(v_f32 c[MATRIX_ROWS][MATRIX_VECTORS], const m_word *a, size_t lda,
			 const m_word *b, size_t ldb, uint32_t steps, const int vectors)
{
	for (uint32_t k = 0; k < steps; k++, a += M_STEP, b += ldb) {
		m_vector row[MATRIX_VECTORS];

#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			row[j] = m_load(b + j * V_WIDTH * M_STEP);
#pragma GCC unroll 8
		for (int i = 0; i < MATRIX_ROWS; i++) {
			m_vector x = m_set(a + i * lda);

#pragma GCC unroll 4
			for (int j = 0; j < vectors; j++)
				c[i][j] = m_fma(x, row[j], c[i][j]);
		}
	}
}

V_INLINE void matrix_logits(struct matrix *x, const struct block *b, uint32_t dim, uint32_t t,
			    const int vectors)
{
	v_f32 c[MATRIX_ROWS][MATRIX_VECTORS];

#pragma GCC unroll 8
	for (int i = 0; i < MATRIX_ROWS; i++)
#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			c[i][j] = v_set(0.0f);
	matrix_add(c, x->q[0], KVS_MOST_DIM, b->k + t * M_STEP, KVS_BLOCK * M_STEP, dim / M_STEP,
		   vectors);
#pragma GCC unroll 8
	for (int i = 0; i < MATRIX_ROWS; i++)
#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			v_store(x->s[i] + t + j * V_WIDTH, c[i][j]);
}

V_INLINE void matrix_values(struct matrix *x, const struct block *b, uint32_t dim, uint32_t d,
			    const int vectors)
{
	uint32_t first = x->first / M_STEP, steps = (x->end + M_STEP - 1) / M_STEP - first;
	v_f32 c[MATRIX_ROWS][MATRIX_VECTORS];

#pragma GCC unroll 8
	for (int i = 0; i < MATRIX_ROWS; i++) {
		v_f32 factor = v_set(x->factor[i]);

#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			c[i][j] = v_mul(v_load(x->acc[i] + d + j * V_WIDTH), factor);
	}
	matrix_add(c, x->p[0] + first * M_STEP, KVS_BLOCK,
		   b->v + ((size_t)first * dim + d) * M_STEP, (size_t)dim * M_STEP, steps, vectors);
#pragma GCC unroll 8
	for (int i = 0; i < MATRIX_ROWS; i++)
#pragma GCC unroll 4
		for (int j = 0; j < vectors; j++)
			v_store(x->acc[i] + d + j * V_WIDTH, c[i][j]);
}

/* Logits of row i to weights; updates the row's running maximum and sum. */
V_INLINE void matrix_softmax(struct matrix *x, uint32_t i, const struct rows *r)
{
	static const float edge[3 * KVS_BLOCK] __attribute__((aligned(64))) = {
#define HIDE4 -INFINITY, -INFINITY, -INFINITY, -INFINITY
#define SHOW4 INFINITY, INFINITY, INFINITY, INFINITY
#define FOUR(x) x, x, x, x
		FOUR(FOUR(HIDE4)),
		FOUR(FOUR(SHOW4)),
		FOUR(FOUR(HIDE4)),
	};
	uint32_t n = (x->end + V_WIDTH - 1) / V_WIDTH;
	float *m = &r->state->m[x->index[i]], *l = &r->state->l[x->index[i]], *s = x->s[i];
	const float *low = edge + KVS_BLOCK - x->low[i], *high = edge + 2 * KVS_BLOCK - x->high[i];
	v_f32 max = v_set(-INFINITY), sum = v_set(0.0f), base;
	float new_max, lanes[V_WIDTH];

	for (uint32_t j = 0; j < n; j++) {
		v_f32 seen = v_min(v_load(low + j * V_WIDTH), v_load(high + j * V_WIDTH));
		v_f32 logit = v_load(s + j * V_WIDTH);

		logit = v_min(M_ROUNDS ? v_add(logit, v_set(x->common[i])) : logit, seen);

		max = v_max(logit, max);
		v_store(s + j * V_WIDTH, logit);
	}
	new_max = v_largest(max);
	new_max = *m > new_max ? *m : new_max;
	base = v_max(v_set(-FLT_MAX), v_set(new_max));
	for (uint32_t j = 0; j < n; j++) {
		v_f32 e = v_exp(v_sub(v_load(s + j * V_WIDTH), base));

		sum = v_add(sum, e);
		m_put(x->p[i] + j * V_WIDTH, e);
	}
	v_store(lanes, v_exp(v_sub(v_set(*m), base)));
	x->factor[i] = lanes[0];
	*l = *l * lanes[0] + v_sum(sum);
	*m = new_max;
}

V_INLINE void matrix_block(struct matrix *x, const struct rows *r, const struct block *b)
{
	uint32_t dim = r->g->head_dim;

	for (uint32_t t = 0; t < x->end; t += MATRIX_VECTORS * V_WIDTH) {
		switch ((x->end - t + V_WIDTH - 1) / V_WIDTH) {
		case 1:
			matrix_logits(x, b, dim, t, 1);
			break;
#if MATRIX_VECTORS > 2
		case 2:
			matrix_logits(x, b, dim, t, 2);
			break;
		case 3:
			matrix_logits(x, b, dim, t, 3);
			break;
#endif
		default:
			matrix_logits(x, b, dim, t, MATRIX_VECTORS);
		}
	}
	for (uint32_t i = 0; i < MATRIX_ROWS; i++) {
		x->factor[i] = 0.0f;
		if (x->index[i] == UINT32_MAX)
			memset(x->p[i], 0, sizeof(x->p[i]));
		else
			matrix_softmax(x, i, r);
	}
	for (uint32_t d = 0; d < dim; d += MATRIX_VECTORS * V_WIDTH) {
		switch ((dim - d) / V_WIDTH) {
		case 1:
			matrix_values(x, b, dim, d, 1);
			break;
#if MATRIX_VECTORS > 2
		case 2:
			matrix_values(x, b, dim, d, 2);
			break;
		case 3:
			matrix_values(x, b, dim, d, 3);
			break;
#endif
		default:
			matrix_values(x, b, dim, d, MATRIX_VECTORS);
		}
	}
}

static void prefill(const struct kvs_geom *g, uint32_t h, const float *q, uint32_t q_stride,
		    uint32_t n_rows, uint32_t pos, uint32_t window, float scale,
		    const struct kvs_span *spans, uint32_t n_spans, struct kvs_softmax *state,
		    uint32_t acc_stride, void *scratch)
{
	m_word *aligned = (m_word *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
	float unused[KVS_MOST_DIM] = { 0 };
	struct rows r = {
		.g = g,
		.q = q,
		.q_stride = q_stride,
		.n = n_rows,
		.heads = g->n_heads / g->n_kv_heads,
		.pos = pos,
		.window = window,
		.scale = scale,
		.state = state,
		.acc_stride = acc_stride,
		.unused = unused,
	};
	struct block b = { .k = aligned,
			   .v = aligned + (size_t)KVS_BLOCK * g->head_dim,
			   .point = (float *)(aligned + (size_t)2 * KVS_BLOCK * g->head_dim),
			   .all_see_first = !window };
	struct cursor c = { spans, spans + n_spans, 0 };
	const uint16_t *k[KVS_BLOCK], *v[KVS_BLOCK];
	struct matrix x;

	for (b.token = n_spans ? spans[0].token : 0;; b.token += KVS_BLOCK) {
		b.n = cursor_take(&c, g, h, k, v);
		if (!b.n || b.token >= pos + n_rows)
			return;
		if (window && b.token + b.n + window <= pos + 1)
			continue;
		block_pack(&b, g->head_dim, k, v);
		for (uint32_t i = 0; i < n_rows * r.heads; i += MATRIX_ROWS)
			if (matrix_set(&x, &r, &b, i))
				matrix_block(&x, &r, &b);
	}
}
