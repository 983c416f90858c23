// SPDX-License-Identifier: MIT
/* Prefill: each kernel set against arithmetic in double, and against itself under other cuts of
 * rows and tokens. */
#include "reference.h"

static int rounds_to_bf16(const struct kvs_kernels *kernels)
{
	return !strcmp(kernels->name, "avx512bf16");
}

struct prompt { /* a prefill of one KV head and what it is made from */
	struct kvs_geom g;
	uint32_t h, pos, n, window, q_stride, from, n_spans;
	float scale;
	uint16_t *records;
	float *q;
	struct kvs_span spans[600];
	void *scratch;
};

/* n rows at pos, over the tokens from `from`, a multiple of KVS_BLOCK, to the last row's. */
static struct prompt prompt_new(struct kvs_geom g, uint32_t pos, uint32_t n, uint32_t window,
				uint32_t from)
{
	struct prompt p = { .g = g,
			    .h = random_below(g.n_kv_heads),
			    .pos = pos,
			    .n = n,
			    .window = window,
			    .from = from };
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
		p.spans[p.n_spans++] =
			(struct kvs_span){ p.records + t / g.group * record_words(&g),
					   (uint16_t)first, (uint16_t)take, t };
	}
	return p;
}

static void prompt_free(struct prompt *p)
{
	free(p->records);
	free(p->q);
	free(p->scratch);
}

/*
 * Rows [row, row + n) over the spans that lie in tokens [from, to). acc has the stride of its own
 * rows.
 */
static void prompt_run(const struct kvs_kernels *kernels, const struct prompt *p, uint32_t row,
		       uint32_t n, uint32_t from, uint32_t to, struct state *s)
{
	uint32_t rows = p->g.n_heads / p->g.n_kv_heads, first = 0, end;
	struct kvs_softmax at = { s->s.m + row * rows, s->s.l + row * rows,
				  s->s.acc + (size_t)row * rows * p->g.head_dim };

	while (first < p->n_spans && p->spans[first].token < from)
		first++;
	for (end = first; end < p->n_spans && p->spans[end].token < to; end++)
		;
	kernels->prefill(&p->g, p->h, p->q + (size_t)row * p->q_stride, p->q_stride, n,
			 p->pos + row, p->window, p->scale, p->spans + first, end - first, &at,
			 rows * p->g.head_dim, p->scratch);
}

/* What one row sees, as spans. */
static uint32_t visible(const struct prompt *p, uint32_t row, struct kvs_span *out)
{
	uint32_t end = p->pos + row + 1, from = p->window && end > p->window ? end - p->window : 0,
		 n = 0;

	for (uint32_t i = 0; i < p->n_spans; i++) {
		struct kvs_span s = p->spans[i];
		uint32_t last = s.token + s.n < end ? s.token + s.n : end,
			 first = s.token > from ? s.token : from;

		if (first >= last)
			continue;
		out[n++] = (struct kvs_span){ s.record, (uint16_t)(s.first + first - s.token),
					      (uint16_t)(last - first), first };
	}
	return n;
}

static void check_prompt(const struct kvs_kernels *kernels, const struct prompt *p,
			 const struct state *s)
{
	uint32_t rows = p->g.n_heads / p->g.n_kv_heads, dim = p->g.head_dim;
	double tolerance = rounds_to_bf16(kernels) ? 0.06 : 3e-5;
	struct kvs_span seen[600];
	double m, l, want[512], worst = 0;
	float q[512];

	for (uint32_t r = 0; r < p->n * rows; r++) {
		uint32_t n = visible(p, r / rows, seen);

		for (uint32_t d = 0; d < dim; d++)
			q[d] = p->q[(size_t)(r / rows) * p->q_stride + r % rows * dim + d] *
			       p->scale;
		attend_exactly(&p->g, p->h, q, seen, n, &m, &l, want);
		if (!n) {
			ck_assert(s->s.m[r] == -INFINITY && s->s.l[r] == 0 &&
				  s->s.acc[(size_t)r * dim] == 0);
			continue;
		}
		for (uint32_t d = 0; d < dim; d++)
			worst = fmax(worst,
				     fabs((double)(s->s.acc[(size_t)r * dim + d] / s->s.l[r]) -
					  want[d]));
		ck_assert_msg(worst <= tolerance,
			      "row %u of %u at %u, window %u, head_dim %u: off by %g", r,
			      p->n * rows, p->pos, p->window, dim, worst);
	}
}

/* The queries are read from their KV head's first on: those of the tests start there. */
static struct prompt random_prompt(void)
{
	static const uint32_t windows[] = { 0, 0, 0, 1, 5, 64, 100, 1000 };
	struct kvs_geom g = random_geom(8);
	uint32_t pos = random_below(3) ? random_below(300) : 0, window = windows[random_below(8)];
	uint32_t blocks = pos / KVS_BLOCK;

	return prompt_new(g, pos, 1 + random_below(70), window,
			  window && blocks ? random_below(blocks + 1) * KVS_BLOCK : 0);
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
		uint32_t cut =
			p.from + random_below((p.pos + p.n - p.from) / KVS_BLOCK + 1) * KVS_BLOCK;
		struct state one = state_new(p.n * rows, p.g.head_dim),
			     parts = state_new(p.n * rows, p.g.head_dim);

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
		ck_assert_msg(state_equal(&one, &parts), "rows cut at %u of %u, tokens at %u", row,
			      p.n, cut);
		state_free(&one);
		state_free(&parts);
		prompt_free(&p);
	}
}
END_TEST

/*
 * What a row may not see is not in its result: other tokens after it, or before its window, change
 * no bit.
 */
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
				p.records[t / 8 * record_words(&g) + (i / dim * 8 + t % 8) * dim +
					  i % dim] = half_nearest((double)random_normal() * 50);
		prompt_run(kernels, &p, 0, 64, 0, UINT32_MAX, &b);
		ck_assert(!memcmp(a.s.m + row * 3, b.s.m + row * 3, 3 * sizeof(float)));
		ck_assert(!memcmp(a.s.l + row * 3, b.s.l + row * 3, 3 * sizeof(float)));
		ck_assert(!memcmp(a.s.acc + row * 3 * dim, b.s.acc + row * 3 * dim,
				  3 * dim * sizeof(float)));
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

Suite *suite_prefill(void)
{
	Suite *suite = suite_create("prefill");
	TCase *c = tcase_create("blocks");

	kernel_sets_find();
	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, prefill, 0, n_kernel_sets);
	tcase_add_loop_test(c, prefill_in_parts, 0, n_kernel_sets);
	tcase_add_loop_test(c, prefill_sees_no_more, 0, n_kernel_sets);
	tcase_add_loop_test(c, prefill_odd_rows, 0, n_kernel_sets);
	suite_add_tcase(suite, c);
	return suite;
}
