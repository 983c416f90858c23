/* SPDX-License-Identifier: MIT */
/*
 * What kernels of attention are compared with: attention in double, and a running softmax to fill.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "kernel_sets.h"

/* Attention in double over the tokens of spans, as m, l and acc / l. */
static inline void attend_exactly(const struct kvs_geom *g, uint32_t h, const float *q,
				  const struct kvs_span *spans, uint32_t n_spans, double *m,
				  double *l, double *out)
{
	static double logit[4096];
	uint32_t n = 0, dim = g->head_dim;

	*m = -(double)INFINITY;
	*l = 0;
	memset(out, 0, dim * sizeof(*out));
	for (uint32_t i = 0; i < n_spans; i++)
		for (uint32_t t = 0; t < spans[i].n; t++, n++) {
			const uint16_t *k = (const uint16_t *)spans[i].record +
					    ((size_t)h * g->group + spans[i].first + t) * dim;

			logit[n] = 0;
			for (uint32_t d = 0; d < dim; d++)
				logit[n] += (double)q[d] * half_value(k[d]);
			*m = fmax(*m, logit[n]);
		}
	n = 0;
	for (uint32_t i = 0; i < n_spans; i++)
		for (uint32_t t = 0; t < spans[i].n; t++, n++) {
			const uint16_t *v = (const uint16_t *)spans[i].record +
					    g->n_kv_heads * (size_t)g->group * dim +
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

static inline struct state state_new(uint32_t rows, uint32_t dim)
{
	struct state s = { { poisoned(rows * sizeof(float)), calloc(rows, sizeof(float)),
			     calloc((size_t)rows * dim, sizeof(float)) },
			   rows,
			   dim };

	for (uint32_t i = 0; i < rows; i++)
		s.s.m[i] = -INFINITY;
	return s;
}

static inline void state_free(struct state *s)
{
	free(s->s.m);
	free(s->s.l);
	free(s->s.acc);
}

static inline int state_equal(const struct state *a, const struct state *b)
{
	return !memcmp(a->s.m, b->s.m, a->rows * sizeof(float)) &&
	       !memcmp(a->s.l, b->s.l, a->rows * sizeof(float)) &&
	       !memcmp(a->s.acc, b->s.acc, (size_t)a->rows * a->dim * sizeof(float));
}

static inline struct kvs_geom random_geom(uint32_t most_rows)
{
	static const uint32_t dims[] = { 16, 32, 48, 64, 80, 96, 128, 256, 512 };
	uint32_t kv = 1 + random_below(3), dim = dims[random_below(9)];

	return (struct kvs_geom){ 1u << random_below(dim > 128 ? 4 : 7),
				  kv * (1 + random_below(most_rows)), kv, dim };
}

#endif
