// SPDX-License-Identifier: MIT
/* The kernels, each set against arithmetic in double, and each result against itself under other cuts of the calls. */
#include <errno.h>

#include "kernel_sets.h"

static const struct kvs_kernels *set_of(int i)
{
	random_state = 7;
	return kernel_sets[i];
}

static int rounds_to_bf16(const struct kvs_kernels *kernels)
{
	return !strcmp(kernels->name, "avx512bf16");
}

START_TEST(choice)
{
	const struct kvs_kernels *best;

	unsetenv("KVSWAP_KERNELS");
	best = kvs_kernels_get();
	ck_assert_ptr_nonnull(best);
	setenv("KVSWAP_KERNELS", "", 1);
	ck_assert_ptr_eq(kvs_kernels_get(), best);
	setenv("KVSWAP_KERNELS", best->name, 1);
	ck_assert_ptr_eq(kvs_kernels_get(), best);
	setenv("KVSWAP_KERNELS", "generic", 1);
	ck_assert_str_eq(kvs_kernels_get()->name, "generic");
	setenv("KVSWAP_KERNELS", "none", 1);
	ck_assert_ptr_null(kvs_kernels_get());
}
END_TEST

START_TEST(halves_widen)
{
	const struct kvs_kernels *kernels = set_of(_i);
	static uint16_t in[1 << 16];
	static float out[1 << 16];
	static uint16_t back[1 << 16];

	for (uint32_t i = 0; i < 1 << 16; i++)
		in[i] = (uint16_t)i;
	kernels->from_f16(in, out, 1 << 16);
	kernels->to_f16(out, back, 1 << 16);
	for (uint32_t i = 0; i < 1 << 16; i++) {
		double x = half_value((uint16_t)i);

		if (isnan(x)) {
			ck_assert_msg(isnan(out[i]), "%04x widens to %g", i, (double)out[i]);
			ck_assert_msg(isnan(half_value(back[i])), "%04x comes back as %04x", i, back[i]);
			continue;
		}
		ck_assert_msg((double)out[i] == x && !signbit(out[i]) == !signbit(x), "%04x widens to %g", i, (double)out[i]);
		ck_assert_msg(back[i] == i, "%04x comes back as %04x", i, back[i]);
	}
}
END_TEST

START_TEST(floats_narrow)
{
	const struct kvs_kernels *kernels = set_of(_i);
	float in[64];
	uint16_t out[65];

	for (int round = 0; round < 1000; round++) {
		uint32_t n = 1 + random_below(64);

		for (uint32_t i = 0; i < n; i++) {
			double a = half_value((uint16_t)random_below(0x7bff));

			in[i] = random_normal() * ldexpf(1, (int)random_below(50) - 30);
			if (random_below(2))	/* half way between two neighbours */
				in[i] = (float)((a + half_value(half_nearest(a) + 1)) / 2);
		}
		out[n] = 0xcccc;
		kernels->to_f16(in, out, n);
		for (uint32_t i = 0; i < n; i++)
			ck_assert_msg(out[i] == half_nearest((double)in[i]), "%a narrows to %04x, not %04x", (double)in[i],
				      out[i], half_nearest((double)in[i]));
		ck_assert_uint_eq(out[n], 0xcccc);
	}
}
END_TEST

START_TEST(exponentials)
{
	const struct kvs_kernels *kernels = set_of(_i);
	float x[100], y[101];

	for (int round = 0; round < 2000; round++) {
		uint32_t n = 1 + random_below(100);
		float m = random_normal() * 20, sum;
		double want = 0;

		for (uint32_t i = 0; i < n; i++)
			x[i] = m - (float)random_below(1 << 24) / (1 << 24) * 95 + 5;
		x[0] = m;
		memcpy(y, x, sizeof(x));
		y[n] = 12345;
		sum = kernels->exp_sum(y, n, m);
		for (uint32_t i = 0; i < n; i++) {
			double e = exp((double)(x[i] - m));

			if (x[i] - m < -87)
				e = 0;
			want += e;
			ck_assert_msg(fabs((double)y[i] - e) <= 2.5e-7 * e, "exp(%.9g) = %.9g", (double)(x[i] - m), (double)y[i]);
		}
		ck_assert_float_eq(y[0], 1);
		ck_assert_float_eq(y[n], 12345);
		ck_assert_double_eq_tol((double)sum, want, want * 2e-6);
	}
}
END_TEST

START_TEST(exponentials_at_the_edges)
{
	const struct kvs_kernels *kernels = set_of(_i);
	float x[] = { -INFINITY, -1e30f, -87.5f, -87.0f, 0, 88, 1e30f, INFINITY, NAN, -0.0f, 1e-40f };

	kernels->exp_sum(x, sizeof(x) / sizeof(*x), 0);
	ck_assert_float_eq(x[0], 0);
	ck_assert_float_eq(x[1], 0);
	ck_assert_float_eq(x[2], 0);
	ck_assert_float_gt(x[3], 1.1754944e-38f);
	ck_assert_float_eq(x[4], 1);
	ck_assert_float_eq(x[6], x[5]);
	ck_assert_float_eq(x[7], x[5]);
	ck_assert(isfinite(x[5]) && x[5] > 1e38f);
	ck_assert(isnan(x[8]));
	ck_assert_float_eq(x[9], 1);
	ck_assert_float_eq(x[10], 1);
}
END_TEST

START_TEST(small_products)
{
	const struct kvs_kernels *kernels = set_of(_i);
	enum { MOST = 70 };
	static float a[12 * MOST], b[MOST * MOST], c[12 * MOST], w[12];
	static uint16_t half[64 * 96];
	static float wide[12 * 96];

	for (int round = 0; round < 100; round++) {
		uint32_t m = 1 + random_below(12), n = 1 + random_below(MOST), k = 1 + random_below(MOST);
		uint32_t columns = 16 * (1 + random_below(6)), depth = 1 + random_below(64);

		random_fill(a, sizeof(a) / sizeof(*a), 1);
		random_fill(b, sizeof(b) / sizeof(*b), 1);
		random_fill(w, 12, 1);
		for (uint32_t i = 0; i < 64 * 96; i++)
			half[i] = half_nearest((double)random_normal());
		memset(c, 0xcc, sizeof(c));
		kernels->matmul_nt(a, MOST, b, MOST, c, MOST, m, n, k);
		for (uint32_t i = 0; i < m; i++)
			for (uint32_t j = 0; j < n; j++) {
				double sum = 0;

				for (uint32_t x = 0; x < k; x++)
					sum += (double)a[i * MOST + x] * (double)b[j * MOST + x];
				ck_assert_double_eq_tol((double)c[i * MOST + j], sum, 1e-4);
			}
		memset(wide, 0xcc, sizeof(wide));
		kernels->project(a, MOST, half, 96, wide, 96, m, columns, depth);
		for (uint32_t i = 0; i < m; i++)
			for (uint32_t j = 0; j < columns; j++) {
				double sum = 0;

				for (uint32_t x = 0; x < depth; x++)
					sum += (double)a[i * MOST + x] * half_value(half[x * 96 + j]);
				ck_assert_double_eq_tol((double)wide[i * 96 + j], sum, 1e-4);
			}
		kernels->combine(w, a, MOST, m, c, n);
		for (uint32_t j = 0; j < n; j++) {
			double sum = 0;

			for (uint32_t i = 0; i < m; i++)
				sum += (double)w[i] * (double)a[i * MOST + j];
			ck_assert_double_eq_tol((double)c[j], sum, 1e-4);
		}
		ck_assert_float_eq(kernels->max(a, n), ({
			float most = a[0];

			for (uint32_t i = 1; i < n; i++)
				most = fmaxf(most, a[i]);
			most;
		}));
	}
}
END_TEST

/* Attention in double over the tokens of spans, as m, l and acc / l. */
static void attend_exactly(const struct kvs_geom *g, uint32_t h, const float *q, const struct kvs_span *spans,
			   uint32_t n_spans, double *m, double *l, double *out)
{
	static double logit[4096];
	uint32_t n = 0, dim = g->head_dim;

	*m = -(double)INFINITY;
	*l = 0;
	memset(out, 0, dim * sizeof(*out));
	for (uint32_t i = 0; i < n_spans; i++)
		for (uint32_t t = 0; t < spans[i].n; t++, n++) {
			const uint16_t *k = (const uint16_t *)spans[i].record + ((size_t)h * g->group + spans[i].first + t) * dim;

			logit[n] = 0;
			for (uint32_t d = 0; d < dim; d++)
				logit[n] += (double)q[d] * half_value(k[d]);
			*m = fmax(*m, logit[n]);
		}
	n = 0;
	for (uint32_t i = 0; i < n_spans; i++)
		for (uint32_t t = 0; t < spans[i].n; t++, n++) {
			const uint16_t *v = (const uint16_t *)spans[i].record + g->n_kv_heads * (size_t)g->group * dim +
					    ((size_t)h * g->group + spans[i].first + t) * dim;
			double p = exp(logit[n] - *m);

			*l += p;
			for (uint32_t d = 0; d < dim; d++)
				out[d] += p * half_value(v[d]);
		}
	for (uint32_t d = 0; d < dim && n; d++)
		out[d] /= *l;
}

struct state {
	struct kvs_softmax s;
	uint32_t rows, dim;
};

static struct state state_new(uint32_t rows, uint32_t dim)
{
	struct state s = { { poisoned(rows * sizeof(float)), calloc(rows, sizeof(float)),
			     calloc((size_t)rows * dim, sizeof(float)) }, rows, dim };

	for (uint32_t i = 0; i < rows; i++)
		s.s.m[i] = -INFINITY;
	return s;
}

static void state_free(struct state *s)
{
	free(s->s.m);
	free(s->s.l);
	free(s->s.acc);
}

static int state_equal(const struct state *a, const struct state *b)
{
	return !memcmp(a->s.m, b->s.m, a->rows * sizeof(float)) && !memcmp(a->s.l, b->s.l, a->rows * sizeof(float)) &&
	       !memcmp(a->s.acc, b->s.acc, (size_t)a->rows * a->dim * sizeof(float));
}

/* Parts of randomly chosen records, each up to the whole group. */
static uint32_t random_spans(const struct kvs_geom *g, const uint16_t *records, uint32_t n_records,
			     struct kvs_span *spans, uint32_t n)
{
	uint32_t tokens = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t record = random_below(n_records), first = random_below(2) ? 0 : random_below(g->group);

		spans[i] = (struct kvs_span){ records + record * record_words(g), (uint16_t)first,
					      (uint16_t)(random_below(2) ? g->group - first :
									   1 + random_below(g->group - first)),
					      record * g->group + first };
		tokens += spans[i].n;
	}
	return tokens;
}

static struct kvs_geom random_geom(uint32_t most_rows)
{
	static const uint32_t dims[] = { 16, 32, 48, 64, 80, 96, 128, 256, 512 };
	uint32_t kv = 1 + random_below(3), dim = dims[random_below(9)];

	return (struct kvs_geom){ 1u << random_below(dim > 128 ? 4 : 7), kv * (1 + random_below(most_rows)), kv, dim };
}

static void check_rows(const struct kvs_geom *g, uint32_t h, const float *q, const struct kvs_span *spans, uint32_t n,
		       const struct kvs_softmax *s, double tolerance)
{
	double m, l, want[512];

	for (uint32_t r = 0; r < g->n_heads / g->n_kv_heads; r++) {
		attend_exactly(g, h, q + r * g->head_dim, spans, n, &m, &l, want);
		ck_assert_double_eq_tol((double)s->m[r], m, 1e-4 + 1e-6 * fabs(m));
		ck_assert_double_eq_tol((double)s->l[r], l, 1e-4 * l);
		for (uint32_t d = 0; d < g->head_dim; d++)
			ck_assert_double_eq_tol((double)(s->acc[r * g->head_dim + d] / s->l[r]), want[d], tolerance);
	}
}

START_TEST(decode)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_span spans[60];

	for (int round = 0; round < 80; round++) {
		struct kvs_geom g = random_geom(9);
		uint32_t rows = g.n_heads / g.n_kv_heads, n = 1 + random_below(40);
		uint16_t *records = random_records(&g, 12 * g.group, 1);
		float *q = poisoned(rows * g.head_dim * sizeof(*q));
		struct state s = state_new(rows, g.head_dim);
		uint32_t h = random_below(g.n_kv_heads);

		if (random_spans(&g, records, 12, spans, n) > 4000)
			n = 30;
		random_fill(q, rows * g.head_dim, 2.0f / sqrtf((float)g.head_dim));
		kernels->attend(&g, h, q, spans, n, &s.s);
		check_rows(&g, h, q, spans, n, &s.s, 2e-5);
		state_free(&s);
		free(q);
		free(records);
	}
}
END_TEST

START_TEST(decode_in_two_calls)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_span spans[40];

	for (int round = 0; round < 40; round++) {
		struct kvs_geom g = random_geom(8);
		uint32_t rows = g.n_heads / g.n_kv_heads, n = 1 + random_below(40), cut = random_below(n + 1);
		uint16_t *records = random_records(&g, 12 * g.group, 1);
		float *q = poisoned(rows * g.head_dim * sizeof(*q));
		struct state one = state_new(rows, g.head_dim), two = state_new(rows, g.head_dim);

		random_spans(&g, records, 12, spans, n);
		random_fill(q, rows * g.head_dim, 1);
		kernels->attend(&g, 0, q, spans, n, &one.s);
		kernels->attend(&g, 0, q, spans, cut, &two.s);
		kernels->attend(&g, 0, q, spans + cut, n - cut, &two.s);
		ck_assert(state_equal(&one, &two));
		state_free(&one);
		state_free(&two);
		free(q);
		free(records);
	}
}
END_TEST

/* Rows share registers, not results: one with an infinity in it leaves the others as they were. */
START_TEST(decode_rows_are_apart)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_geom g = { 4, 8, 1, 64 };
	uint16_t *records = random_records(&g, 80, 1);
	float q[8 * 64], bad[8 * 64], logits[8][33], clean[8][33];
	struct kvs_span spans[8];

	random_spans(&g, records, 20, spans, 8);
	random_fill(q, 8 * 64, 1);
	for (uint32_t r = 0; r < 8; r++) {
		struct state a = state_new(8, 64), b = state_new(8, 64);
		float values[] = { INFINITY, -INFINITY, NAN, 3e38f };

		memcpy(bad, q, sizeof(q));
		bad[r * 64 + random_below(64)] = values[r % 4];
		kernels->attend(&g, 0, q, spans, 8, &a.s);
		kernels->attend(&g, 0, bad, spans, 8, &b.s);
		kernels->logits(&g, 0, q, spans, 8, clean[0], 33);
		kernels->logits(&g, 0, bad, spans, 8, logits[0], 33);
		for (uint32_t i = 0; i < 8; i++) {
			if (i == r)
				continue;
			ck_assert(a.s.m[i] == b.s.m[i] && a.s.l[i] == b.s.l[i]);
			ck_assert(!memcmp(a.s.acc + i * 64, b.s.acc + i * 64, 64 * sizeof(float)));
			ck_assert(!memcmp(clean[i], logits[i], spans[0].n * sizeof(float)));
		}
		state_free(&a);
		state_free(&b);
	}
	free(records);
}
END_TEST

static void set_record(const struct kvs_geom *g, uint16_t *record, uint32_t channel, float k, float v)
{
	size_t half = record_words(g) / 2;

	for (size_t i = 0; i < half; i++) {
		if (channel == UINT32_MAX || i % g->head_dim == channel)
			record[i] = half_nearest((double)k);
		record[half + i] = half_nearest((double)v * (double)(i % 7));
	}
}

/* Equal scores, values at the ends of binary16, one channel that outweighs all others, a lone token, nothing at all. */
START_TEST(decode_odd_data)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_geom g = { 4, 3, 1, 64 };
	uint16_t *records = random_records(&g, 16, 1);
	struct { float q, k; uint32_t channel; float v; } odd[] = {
		{ 0, 1, UINT32_MAX, 1 }, { 1, 0, UINT32_MAX, 1 }, { 1, 6e-8f, UINT32_MAX, 6e-8f },
		{ 1e-40f, 1, UINT32_MAX, 1 }, { 0.1f, 60000, UINT32_MAX, 9000 }, { 0.01f, 3000, 5, 1 },
		{ 0.01f, -60000, 5, 1 },
	};
	struct kvs_span spans[4];
	float q[3 * 64];

	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
		for (uint32_t j = 0; j < 4; j++) {
			set_record(&g, records + j * record_words(&g), odd[i].channel, odd[i].k, odd[i].v);
			spans[j] = (struct kvs_span){ records + j * record_words(&g), 0, 4, j * 4 };
		}
		for (uint32_t j = 0; j < 3 * 64; j++)
			q[j] = odd[i].q * (float)(j % 3 + 1);
		for (uint32_t n = 0; n <= 4; n++) {
			struct state s = state_new(3, 64);

			spans[0].n = n == 1 ? 1 : 4;
			kernels->attend(&g, 0, q, spans, n, &s.s);
			if (n)
				check_rows(&g, 0, q, spans, n, &s.s, 1e-5 * (1 + fabs((double)odd[i].v) * 6));
			for (uint32_t r = 0; r < 3 && !n; r++)
				ck_assert(s.s.m[r] == -INFINITY && s.s.l[r] == 0);
			state_free(&s);
		}
	}
	free(records);
}
END_TEST

START_TEST(logits)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_span spans[30];

	for (int round = 0; round < 40; round++) {
		struct kvs_geom g = random_geom(8);
		uint32_t rows = g.n_heads / g.n_kv_heads, n = 1 + random_below(30), at = 0, ld, poison;
		uint16_t *records = random_records(&g, 12 * g.group, 1);
		float *q = poisoned(rows * g.head_dim * sizeof(*q)), *out;
		uint32_t tokens = random_spans(&g, records, 12, spans, n), h = random_below(g.n_kv_heads);

		ld = tokens + random_below(3);
		out = poisoned(rows * ld * sizeof(*out) + 4);
		random_fill(q, rows * g.head_dim, 1);
		kernels->logits(&g, h, q, spans, n, out, ld);
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t t = 0; t < spans[i].n; t++, at++)
				for (uint32_t r = 0; r < rows; r++) {
					double m, l, unused[512];
					struct kvs_span one = { spans[i].record, (uint16_t)(spans[i].first + t), 1, 0 };

					attend_exactly(&g, h, q + r * g.head_dim, &one, 1, &m, &l, unused);
					ck_assert_double_eq_tol((double)out[r * ld + at], m, 1e-4);
				}
		for (uint32_t r = 0; r < rows; r++)
			for (uint32_t i = tokens; i < ld + (r == rows - 1); i++) {
				memcpy(&poison, &out[r * ld + i], sizeof(poison));
				ck_assert_uint_eq(poison, 0xcccccccc);
			}
		free(out);
		free(q);
		free(records);
	}
}
END_TEST

struct prompt {				/* a prefill of one KV head and what it is made from */
	struct kvs_geom g;
	uint32_t h, pos, n, window, q_stride, from, n_spans;
	float scale;
	uint16_t *records;
	float *q;
	struct kvs_span spans[600];
	void *scratch;
};

/* n rows at pos, over the tokens from `from`, a multiple of KVS_BLOCK, to the last row's. */
static struct prompt prompt_new(struct kvs_geom g, uint32_t pos, uint32_t n, uint32_t window, uint32_t from)
{
	struct prompt p = { .g = g, .h = random_below(g.n_kv_heads), .pos = pos, .n = n, .window = window, .from = from };
	uint32_t end = pos + n;

	p.scale = 1.5f / sqrtf((float)g.head_dim);
	p.q_stride = g.n_heads * g.head_dim + random_below(3) * 5;
	p.records = random_records(&g, end + g.group, 1);
	p.q = poisoned((size_t)n * p.q_stride * sizeof(float));
	random_fill(p.q, (size_t)n * p.q_stride, 1);
	p.scratch = poisoned(kvs_prefill_scratch(&g, n));
	for (uint32_t t = from, take; t < end; t += take) {
		uint32_t first = t % g.group;

		take = g.group - first;
		if (take > 1 && random_below(3) == 0)
			take = 1 + random_below(take);
		take = take < end - t ? take : end - t;
		ck_assert_uint_lt(p.n_spans, 600);
		p.spans[p.n_spans++] = (struct kvs_span){ p.records + t / g.group * record_words(&g), (uint16_t)first,
							  (uint16_t)take, t };
	}
	return p;
}

static void prompt_free(struct prompt *p)
{
	free(p->records);
	free(p->q);
	free(p->scratch);
}

/* Rows [row, row + n) over the spans that lie in tokens [from, to). acc has the stride of its own rows. */
static void prompt_run(const struct kvs_kernels *kernels, const struct prompt *p, uint32_t row, uint32_t n, uint32_t from,
		       uint32_t to, struct state *s)
{
	uint32_t rows = p->g.n_heads / p->g.n_kv_heads, first = 0, end;
	struct kvs_softmax at = { s->s.m + row * rows, s->s.l + row * rows,
				  s->s.acc + (size_t)row * rows * p->g.head_dim };

	while (first < p->n_spans && p->spans[first].token < from)
		first++;
	for (end = first; end < p->n_spans && p->spans[end].token < to; end++)
		;
	kernels->prefill(&p->g, p->h, p->q + (size_t)row * p->q_stride, p->q_stride, n, p->pos + row, p->window, p->scale,
			 p->spans + first, end - first, &at, rows * p->g.head_dim, p->scratch);
}

/* What one row sees, as spans. */
static uint32_t visible(const struct prompt *p, uint32_t row, struct kvs_span *out)
{
	uint32_t end = p->pos + row + 1, from = p->window && end > p->window ? end - p->window : 0, n = 0;

	for (uint32_t i = 0; i < p->n_spans; i++) {
		struct kvs_span s = p->spans[i];
		uint32_t last = s.token + s.n < end ? s.token + s.n : end, first = s.token > from ? s.token : from;

		if (first >= last)
			continue;
		out[n++] = (struct kvs_span){ s.record, (uint16_t)(s.first + first - s.token), (uint16_t)(last - first), first };
	}
	return n;
}

static void check_prompt(const struct kvs_kernels *kernels, const struct prompt *p, const struct state *s)
{
	uint32_t rows = p->g.n_heads / p->g.n_kv_heads, dim = p->g.head_dim;
	double tolerance = rounds_to_bf16(kernels) ? 0.15 : 3e-5;
	struct kvs_span seen[600];
	double m, l, want[512], worst = 0;
	float q[512];

	for (uint32_t r = 0; r < p->n * rows; r++) {
		uint32_t n = visible(p, r / rows, seen);

		for (uint32_t d = 0; d < dim; d++)
			q[d] = p->q[(size_t)(r / rows) * p->q_stride + r % rows * dim + d] * p->scale;
		attend_exactly(&p->g, p->h, q, seen, n, &m, &l, want);
		if (!n) {
			ck_assert(s->s.m[r] == -INFINITY && s->s.l[r] == 0 && s->s.acc[(size_t)r * dim] == 0);
			continue;
		}
		for (uint32_t d = 0; d < dim; d++)
			worst = fmax(worst, fabs((double)(s->s.acc[(size_t)r * dim + d] / s->s.l[r]) - want[d]));
		ck_assert_msg(worst <= tolerance, "row %u of %u at %u, window %u, head_dim %u: off by %g", r, p->n * rows, p->pos,
			      p->window, dim, worst);
	}
}

/* The queries are read from their KV head's first on: those of the tests start there. */
static struct prompt random_prompt(void)
{
	static const uint32_t windows[] = { 0, 0, 0, 1, 5, 64, 100, 1000 };
	struct kvs_geom g = random_geom(8);
	uint32_t pos = random_below(3) ? random_below(300) : 0, window = windows[random_below(8)];
	uint32_t blocks = pos / KVS_BLOCK;

	return prompt_new(g, pos, 1 + random_below(70), window, window && blocks ? random_below(blocks + 1) * KVS_BLOCK : 0);
}

START_TEST(prefill)
{
	const struct kvs_kernels *kernels = set_of(_i);

	for (int round = 0; round < 24; round++) {
		struct prompt p = random_prompt();
		struct state s = state_new(p.n * (p.g.n_heads / p.g.n_kv_heads), p.g.head_dim);

		prompt_run(kernels, &p, 0, p.n, 0, UINT32_MAX, &s);
		check_prompt(kernels, &p, &s);
		state_free(&s);
		prompt_free(&p);
	}
}
END_TEST

START_TEST(prefill_in_parts)
{
	const struct kvs_kernels *kernels = set_of(_i);

	for (int round = 0; round < 24; round++) {
		struct prompt p = random_prompt();
		uint32_t rows = p.g.n_heads / p.g.n_kv_heads, row = random_below(p.n + 1);
		uint32_t cut = p.from + random_below((p.pos + p.n - p.from) / KVS_BLOCK + 1) * KVS_BLOCK;
		struct state one = state_new(p.n * rows, p.g.head_dim), parts = state_new(p.n * rows, p.g.head_dim);

		/* a span may not cross the cut */
		for (uint32_t i = 0; i < p.n_spans; i++)
			if (p.spans[i].token < cut && p.spans[i].token + p.spans[i].n > cut)
				cut = p.from;
		prompt_run(kernels, &p, 0, p.n, 0, UINT32_MAX, &one);
		if (row) {
			prompt_run(kernels, &p, 0, row, 0, cut, &parts);
			prompt_run(kernels, &p, 0, row, cut, UINT32_MAX, &parts);
		}
		if (row < p.n) {
			prompt_run(kernels, &p, row, p.n - row, 0, cut, &parts);
			prompt_run(kernels, &p, row, p.n - row, cut, UINT32_MAX, &parts);
		}
		ck_assert_msg(state_equal(&one, &parts), "rows cut at %u of %u, tokens at %u", row, p.n, cut);
		state_free(&one);
		state_free(&parts);
		prompt_free(&p);
	}
}
END_TEST

/* What a row may not see is not in its result: other tokens after it, or before its window, change no bit. */
START_TEST(prefill_sees_no_more)
{
	const struct kvs_kernels *kernels = set_of(_i);

	for (int round = 0; round < 20; round++) {
		struct kvs_geom g = { 8, 6, 2, 64 };
		struct prompt p = prompt_new(g, 96, 64, round % 2 ? 50 : 0, 0);
		struct state a = state_new(64 * 3, 64), b = state_new(64 * 3, 64);
		uint32_t row = random_below(63), dim = 64;
		uint32_t low = p.window ? 96 + row + 1 - p.window : 0;

		prompt_run(kernels, &p, 0, 64, 0, UINT32_MAX, &a);
		for (uint32_t t = 0; t < 160; t++)
			for (uint32_t i = 0; i < 4 * dim && (t < low || t > 96 + row); i++)
				p.records[t / 8 * record_words(&g) + (i / dim * 8 + t % 8) * dim + i % dim] =
					half_nearest((double)random_normal() * 50);
		prompt_run(kernels, &p, 0, 64, 0, UINT32_MAX, &b);
		ck_assert(!memcmp(a.s.m + row * 3, b.s.m + row * 3, 3 * sizeof(float)));
		ck_assert(!memcmp(a.s.l + row * 3, b.s.l + row * 3, 3 * sizeof(float)));
		ck_assert(!memcmp(a.s.acc + row * 3 * dim, b.s.acc + row * 3 * dim, 3 * dim * sizeof(float)));
		ck_assert(memcmp(a.s.acc, b.s.acc, 64 * 3 * dim * sizeof(float)));
		state_free(&a);
		state_free(&b);
		prompt_free(&p);
	}
}
END_TEST

/* A row without tokens keeps its state; rows with a NaN of their own leave the others alone. */
START_TEST(prefill_odd_rows)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct kvs_geom g = { 16, 4, 2, 32 };
	struct prompt p = prompt_new(g, 50, 40, 0, 64);
	struct state a = state_new(40 * 2, 32), b = state_new(40 * 2, 32);

	prompt_run(kernels, &p, 0, 40, 0, UINT32_MAX, &a);
	check_prompt(kernels, &p, &a);
	for (uint32_t i = 0; i < 32; i++)
		p.q[30 * p.q_stride + i] = NAN;
	prompt_run(kernels, &p, 0, 40, 0, UINT32_MAX, &b);
	for (uint32_t r = 0; r < 40 * 2; r++) {
		if (r == 60)
			continue;
		ck_assert(!memcmp(a.s.acc + r * 32, b.s.acc + r * 32, 32 * sizeof(float)));
		ck_assert(a.s.l[r] == b.s.l[r]);
	}
	ck_assert(isnan(b.s.acc[60 * 32] / b.s.l[60]));
	prompt_run(kernels, &p, 0, 40, UINT32_MAX, UINT32_MAX, &a);
	check_prompt(kernels, &p, &a);
	state_free(&a);
	state_free(&b);
	prompt_free(&p);
}
END_TEST

Suite *suite_attend(void)
{
	Suite *suite = suite_create("attend");
	TCase *c = tcase_create("kernels");

	kernel_sets_find();
	tcase_set_timeout(c, 120);
	tcase_add_test(c, choice);
	tcase_add_loop_test(c, halves_widen, 0, n_kernel_sets);
	tcase_add_loop_test(c, floats_narrow, 0, n_kernel_sets);
	tcase_add_loop_test(c, exponentials, 0, n_kernel_sets);
	tcase_add_loop_test(c, exponentials_at_the_edges, 0, n_kernel_sets);
	tcase_add_loop_test(c, small_products, 0, n_kernel_sets);
	tcase_add_loop_test(c, decode, 0, n_kernel_sets);
	tcase_add_loop_test(c, decode_in_two_calls, 0, n_kernel_sets);
	tcase_add_loop_test(c, decode_rows_are_apart, 0, n_kernel_sets);
	tcase_add_loop_test(c, decode_odd_data, 0, n_kernel_sets);
	tcase_add_loop_test(c, logits, 0, n_kernel_sets);
	tcase_add_loop_test(c, prefill, 0, n_kernel_sets);
	tcase_add_loop_test(c, prefill_in_parts, 0, n_kernel_sets);
	tcase_add_loop_test(c, prefill_sees_no_more, 0, n_kernel_sets);
	tcase_add_loop_test(c, prefill_odd_rows, 0, n_kernel_sets);
	suite_add_tcase(suite, c);
	return suite;
}
