// SPDX-License-Identifier: MIT
/*
 * Predictors against arithmetic in double, the reduction of their estimates, and the choice of the
 * best groups.
 */
#include <errno.h>

#include "../../lib/predict.h"
#include "kernel_sets.h"

static const struct kvs_predictor_ops *const all_ops[] = {
	&kvs_predict_groupmean,
	&kvs_predict_lowrank,
	&kvs_predict_exact,
	&kvs_predict_window,
};

struct subject { /* a predictor with everything it needs, over random K */
	struct kvs_predictor p;
	struct kvs_geom g;
	uint32_t kv_dim, n_groups;
	float *basis, *q, *projected, *est;
	uint32_t ld;
	uint16_t *records;
	void *packed, *block;
};

/* Orthonormal columns, by Gram and Schmidt. */
static float *random_basis(uint32_t n, uint32_t rank)
{
	float *b = poisoned((size_t)n * rank * sizeof(*b));

	random_fill(b, (size_t)n * rank, 1);
	for (uint32_t c = 0; c < rank; c++) {
		double norm = 0;

		for (uint32_t o = 0; o < c; o++) {
			double along = 0;

			for (uint32_t i = 0; i < n; i++)
				along += (double)b[i * rank + o] * (double)b[i * rank + c];
			for (uint32_t i = 0; i < n; i++)
				b[i * rank + c] -= (float)along * b[i * rank + o];
		}
		for (uint32_t i = 0; i < n; i++)
			norm += (double)b[i * rank + c] * (double)b[i * rank + c];
		for (uint32_t i = 0; i < n; i++)
			b[i * rank + c] /= (float)sqrt(norm);
	}
	return b;
}

static const void *record_of(const struct subject *s, uint32_t group)
{
	return s->records + group * record_words(&s->g);
}

static struct subject subject_new(const struct kvs_kernels *kernels,
				  const struct kvs_predictor_ops *ops, struct kvs_geom g,
				  uint32_t rank, uint32_t mean)
{
	struct subject s = { .p = { .ops = ops,
				    .kernels = kernels,
				    .geom = g,
				    .groups_per_chunk = 256 / g.group,
				    .mean_tokens = mean },
			     .g = g,
			     .kv_dim = g.n_kv_heads * g.head_dim,
			     .n_groups = 256 / g.group };
	uint32_t bad;

	ck_assert_int_eq(ops->init(&s.p, rank), 0);
	s.ld = s.n_groups * s.p.items_per_group + 3;
	s.records = random_records(&g, 256, 1);
	s.basis = random_basis(s.kv_dim, s.p.rank ? s.p.rank : 1);
	s.packed = poisoned(ops->basis_bytes(&s.p) + 1);
	s.block = aligned_alloc(64, (ops->block_bytes(&s.p) + 127) / 64 * 64);
	s.q = poisoned(g.n_heads * g.head_dim * sizeof(float));
	s.projected = poisoned(ops->query_floats(&s.p) * sizeof(float) + 4);
	s.est = poisoned((size_t)g.n_heads * s.ld * sizeof(float));
	memset(s.block, 0, ops->block_bytes(&s.p));
	random_fill(s.q, g.n_heads * g.head_dim, 1);
	ops->basis_pack(&s.p, s.basis, s.packed);
	for (uint32_t i = 0; i < s.n_groups; i++)
		ck_assert_int_eq(ops->build(&s.p, s.packed, record_of(&s, i), i, s.block, &bad), 0);
	ops->query(&s.p, s.packed, s.q, s.projected);
	return s;
}

static void subject_free(struct subject *s)
{
	free(s->records);
	free(s->basis);
	free(s->packed);
	free(s->block);
	free(s->q);
	free(s->projected);
	free(s->est);
}

static double k_at(const struct subject *s, uint32_t token, uint32_t channel)
{
	const uint16_t *k = record_of(s, token / s->g.group);
	uint32_t dim = s->g.head_dim;

	return half_value(
		k[(channel / dim * s->g.group + token % s->g.group) * dim + channel % dim]);
}

/*
 * Query head h and the mean of tokens [first, first + n), both in the space of the basis: their
 * product. *size: sum of |q|.
 */
static double projected_logit(const struct subject *s, uint32_t h, uint32_t first, uint32_t n,
			      double *most_z, double *size)
{
	uint32_t dim = s->g.head_dim, kv = h / (s->g.n_heads / s->g.n_kv_heads);
	double sum = 0;

	*most_z = *size = 0;
	for (uint32_t r = 0; r < s->p.rank; r++) {
		double z = 0, x = 0;

		for (uint32_t c = 0; c < s->kv_dim; c++)
			for (uint32_t t = 0; t < n; t++)
				z += k_at(s, first + t, c) / n *
				     (double)s->basis[c * s->p.rank + r];
		for (uint32_t d = 0; d < dim; d++)
			x += (double)s->q[h * dim + d] *
			     (double)s->basis[(kv * dim + d) * s->p.rank + r];
		*most_z = fmax(*most_z, fabs(z));
		*size += fabs(x);
		sum += x * z;
	}
	return sum;
}

static const struct kvs_geom shapes[] = {
	{ 4, 14, 2, 64 }, { 8, 9, 3, 64 },  { 4, 4, 1, 16 },   { 1, 3, 3, 32 },
	{ 64, 5, 5, 16 }, { 32, 8, 2, 32 }, { 256, 2, 1, 64 },
};

#define N_SHAPES (sizeof(shapes) / sizeof(*shapes))

/* What groupmean is to say of a group, and how far off it may be: see the next test. */
static double best_mean(const struct subject *s, uint32_t h, uint32_t group, uint32_t tokens,
			double *bound)
{
	double best = -(double)INFINITY, point, most, size;

	projected_logit(s, h, s->g.group / 2, s->g.group - s->g.group / 2, &point, &size);
	*bound = 0;
	for (uint32_t t = 0; t < s->g.group; t += tokens) {
		best = fmax(best,
			    projected_logit(s, h, group * s->g.group + t, tokens, &most, &size));
		*bound =
			fmax(*bound, size * (most + point) * (1.01 / 8 + s->p.rank / 127.0 + 1e-3));
	}
	return best;
}

/*
 * One step for a component cut off at the top level, half a step else; a query is within 1/254 of
 * its largest component.
 */
START_TEST(groupmean_within_its_steps)
{
	const struct kvs_kernels *kernels = set_of(_i);

	for (size_t i = 0; i < 3 * N_SHAPES; i++) {
		struct kvs_geom shape = shapes[i / 3];
		uint32_t few = i % 3 && shape.group >= i % 3 ? (uint32_t)(i % 3) : shape.group;
		struct subject s = subject_new(kernels, &kvs_predict_groupmean, shape, 0, few);
		uint32_t n = s.n_groups > 3 ? s.n_groups - 2 : s.n_groups;
		double error = 0, power = 0;

		s.p.ops->score(&s.p, s.projected, s.block, n, s.est, s.ld);
		for (uint32_t h = 0; h < s.g.n_heads; h++)
			for (uint32_t x = 0; x < n; x++) {
				double bound, want = best_mean(&s, h, x, few, &bound);
				double got = (double)s.est[h * s.ld + x];

				ck_assert_msg(fabs(got - want) <= bound,
					      "shape %zu, head %u, group %u: %g, not %g", i, h, x,
					      got, want);
				error += (got - want) * (got - want);
				power += want * want;
			}
		ck_assert_msg(error <= 0.1 * power, "shape %zu: error %g of %g", i, error, power);
		for (uint32_t h = 0; h < s.g.n_heads; h++)
			for (uint32_t x = n; x < s.ld; x++)
				ck_assert_int_eq(
					memcmp(&s.est[h * s.ld + x], "\xcc\xcc\xcc\xcc", 4), 0);
		subject_free(&s);
	}
}
END_TEST

/*
 * What all groups have in common costs no precision: the error is measured against what sets them
 * apart.
 */
START_TEST(groupmean_around_a_point)
{
	const struct kvs_kernels *kernels = set_of(_i);
	struct subject s = subject_new(kernels, &kvs_predict_groupmean, shapes[0], 0, 0);
	uint32_t dim = s.g.head_dim, bad;
	double error = 0, apart = 0;

	for (uint32_t x = 0; x < s.n_groups; x++) {
		uint16_t *k = (uint16_t *)record_of(&s, x);

		for (uint32_t i = 0; i < 2 * 4 * dim; i++)
			k[i] = half_nearest(half_value(k[i]) + 30 * (double)(i % dim % 3));
		ck_assert_int_eq(s.p.ops->build(&s.p, s.packed, k, x, s.block, &bad), 0);
	}
	s.p.ops->score(&s.p, s.projected, s.block, s.n_groups, s.est, s.ld);
	for (uint32_t h = 0; h < s.g.n_heads; h++) {
		double want[64], mean = 0, shift = 0, most, size;

		for (uint32_t x = 0; x < s.n_groups; x++) {
			want[x] = projected_logit(&s, h, x * 4, 4, &most, &size);
			mean += want[x] / s.n_groups;
			shift += ((double)s.est[h * s.ld + x] - want[x]) / s.n_groups;
		}
		ck_assert_double_le(fabs(shift), 0.002 * fabs(mean) + 0.5);
		for (uint32_t x = 0; x < s.n_groups; x++) {
			error += pow((double)s.est[h * s.ld + x] - want[x] - shift, 2);
			apart += pow(want[x] - mean, 2);
		}
	}
	ck_assert_msg(error <= 0.1 * apart, "error %g of %g", error, apart);
	subject_free(&s);
}
END_TEST

START_TEST(lowrank_of_every_token)
{
	const struct kvs_kernels *kernels = set_of(_i);

	for (size_t i = 0; i < N_SHAPES; i++) {
		uint32_t rank = i % 2 ? 5 : 0;
		struct subject s = subject_new(kernels, &kvs_predict_lowrank, shapes[i], rank, 0);
		uint32_t n = s.n_groups > 3 ? s.n_groups - 1 : s.n_groups;

		s.p.ops->score(&s.p, s.projected, s.block, n, s.est, s.ld);
		for (uint32_t h = 0; h < s.g.n_heads; h++)
			for (uint32_t t = 0; t < n * s.g.group; t++) {
				double most, size,
					want = projected_logit(&s, h, t, 1, &most, &size);

				ck_assert_double_eq_tol((double)s.est[h * s.ld + t], want,
							2e-3 * size * (1 + most));
			}
		for (uint32_t h = 0; h < s.g.n_heads; h++)
			for (uint32_t x = n * s.g.group; x < s.ld; x++)
				ck_assert_int_eq(
					memcmp(&s.est[h * s.ld + x], "\xcc\xcc\xcc\xcc", 4), 0);
		subject_free(&s);
	}
}
END_TEST

START_TEST(exact_is_attentions_logits)
{
	const struct kvs_kernels *kernels = set_of(_i);

	for (size_t i = 0; i < N_SHAPES; i++) {
		struct subject s = subject_new(kernels, &kvs_predict_exact, shapes[i], 0, 0);
		uint32_t rows = s.g.n_heads / s.g.n_kv_heads;
		float want[256];

		s.p.ops->score(&s.p, s.projected, s.block, s.n_groups, s.est, s.ld);
		for (uint32_t h = 0; h < s.g.n_heads; h++) {
			struct kvs_geom one = { s.g.group, s.g.n_kv_heads, s.g.n_kv_heads,
						s.g.head_dim };

			for (uint32_t g = 0; g < s.n_groups; g++) {
				struct kvs_span span = { record_of(&s, g), 0, (uint16_t)s.g.group,
							 0 };

				kernels->logits(&one, h / rows, s.q + h * s.g.head_dim, &span, 1,
						want + g * s.g.group, 256);
			}
			ck_assert(!memcmp(want, s.est + h * s.ld, 256 * sizeof(float)));
		}
		subject_free(&s);
	}
}
END_TEST

START_TEST(window_estimates_nothing)
{
	struct subject s = subject_new(set_of(_i), &kvs_predict_window, shapes[0], 0, 0);

	ck_assert_uint_eq(s.p.ops->block_bytes(&s.p), 0);
	ck_assert_uint_eq(s.p.ops->basis_bytes(&s.p), 0);
	s.p.ops->score(&s.p, s.projected, s.block, s.n_groups, s.est, s.ld);
	for (uint32_t h = 0; h < s.g.n_heads; h++)
		for (uint32_t g = 0; g < s.n_groups; g++)
			ck_assert(s.est[h * s.ld + g] == -INFINITY);
	subject_free(&s);
}
END_TEST

/*
 * Building groups again, as after a truncation, leaves the same block; a partial block scores as a
 * whole one does.
 */
START_TEST(blocks_do_not_depend_on_history)
{
	const struct kvs_kernels *kernels = set_of(_i);

	for (size_t i = 0; i < sizeof(all_ops) / sizeof(*all_ops); i++) {
		struct subject s = subject_new(kernels, all_ops[i], shapes[1], 0, 0);
		size_t bytes = s.p.ops->block_bytes(&s.p);
		void *other = calloc(1, bytes + 64);
		float *est = poisoned((size_t)s.g.n_heads * s.ld * sizeof(float));
		uint32_t bad;

		for (uint32_t x = 0; x < s.n_groups; x++)
			ck_assert_int_eq(s.p.ops->build(&s.p, s.packed,
							record_of(&s, s.n_groups - 1 - x), x, other,
							&bad),
					 0);
		for (uint32_t x = 0; x < s.n_groups; x++)
			ck_assert_int_eq(s.p.ops->build(&s.p, s.packed, record_of(&s, x), x, other,
							&bad),
					 0);
		ck_assert(!memcmp(other, s.block, bytes));
		s.p.ops->score(&s.p, s.projected, s.block, s.n_groups, est, s.ld);
		for (uint32_t n = 1; n <= s.n_groups; n += 5) {
			s.p.ops->score(&s.p, s.projected, s.block, n, s.est, s.ld);
			for (uint32_t h = 0; h < s.g.n_heads; h++)
				ck_assert(!memcmp(est + h * s.ld, s.est + h * s.ld,
						  n * s.p.items_per_group * sizeof(float)));
		}
		free(other);
		free(est);
		subject_free(&s);
	}
}
END_TEST

START_TEST(bad_k_is_named)
{
	const struct kvs_kernels *kernels = set_of(_i);
	static const uint16_t not_finite[] = { 0x7c00, 0xfc00, 0x7e00, 0xfd55 };

	for (size_t i = 0; i < sizeof(all_ops) / sizeof(*all_ops); i++) {
		struct subject s = subject_new(kernels, all_ops[i], shapes[1], 0, 0);
		uint16_t *record = (uint16_t *)record_of(&s, 3);
		uint32_t dim = s.g.head_dim, bad = UINT32_MAX;

		record[record_words(&s.g) / 2] = 0x7c00; /* in V: not the predictor's affair */
		ck_assert_int_eq(s.p.ops->build(&s.p, s.packed, record, 3, s.block, &bad), 0);
		for (uint32_t t = s.g.group; t-- > 0;) {
			record[(random_below(3) * s.g.group + t) * dim + random_below(dim)] =
				not_finite[t % 4];
			ck_assert_int_eq(s.p.ops->build(&s.p, s.packed, record, 3, s.block, &bad),
					 -EDOM);
			ck_assert_uint_eq(bad, t);
		}
		subject_free(&s);
	}
}
END_TEST

/* Zeros, the largest of binary16, the smallest: finite scores, and of the right order. */
START_TEST(groupmean_extremes)
{
	const struct kvs_kernels *kernels = set_of(_i);
	static const uint16_t values[] = { 0, 1, 0x03ff, 0x7bff, 0xfbff, 0x8001 };

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		struct subject s = subject_new(kernels, &kvs_predict_groupmean, shapes[0], 0, 0);
		uint16_t *record = (uint16_t *)record_of(&s, 5);
		uint32_t bad;

		for (size_t x = 0; x < record_words(&s.g); x++)
			record[x] = values[i];
		ck_assert_int_eq(s.p.ops->build(&s.p, s.packed, record, 5, s.block, &bad), 0);
		s.p.ops->score(&s.p, s.projected, s.block, s.n_groups, s.est, s.ld);
		for (uint32_t h = 0; h < s.g.n_heads; h++) {
			ck_assert(isfinite(s.est[h * s.ld + 5]));
		}
		memset(s.q, 0, s.g.n_heads * s.g.head_dim * sizeof(float));
		s.p.ops->query(&s.p, s.packed, s.q, s.projected);
		s.p.ops->score(&s.p, s.projected, s.block, s.n_groups, s.est, s.ld);
		for (uint32_t g = 0; g < s.n_groups; g++)
			ck_assert(s.est[g] == 0);
		s.q[3] = INFINITY;
		s.q[s.g.head_dim] = NAN;
		s.p.ops->query(&s.p, s.packed, s.q, s.projected);
		s.p.ops->score(&s.p, s.projected, s.block, s.n_groups, s.est, s.ld);
		ck_assert(!isfinite(s.est[0]) && isnan(s.est[s.ld]) && s.est[2 * s.ld] == 0);
		subject_free(&s);
	}
}
END_TEST

/* Integer products and the same roundings: no set differs from the portable one in a bit. */
START_TEST(int4_scores_are_the_same_everywhere)
{
	const struct kvs_kernels *kernels = set_of(_i);
	enum { RANK = 48, LANES = 12 * 16, HEADS = 15 };
	static uint8_t digits[LANES * RANK / 2];
	static const uint32_t forms[][3] = {
		/* width, items, groups */
		{ 16, 1, 37 }, { 16, 3, 40 }, { 16, 4, 16 }, { 8, 4, 7 },
		{ 4, 3, 4 },   { 2, 64, 2 },  { 1, 150, 1 }, { 12, 2, 12 },
	};
	uint16_t scales[LANES];
	int8_t q[HEADS * RANK];
	float scale[HEADS], base[HEADS], a[HEADS * 48], b[HEADS * 48];
	int32_t sum[HEADS];

	for (uint32_t round = 0; round < 80; round++) {
		const uint32_t *f = forms[round % 8];
		struct kvs_q4 z = { f[0], f[1], round / 8 % 2 ? RANK : 16, digits, scales };
		struct kvs_q8 x = { HEADS - round % 5, 16 * HEADS, q, scale, sum };

		for (size_t i = 0; i < sizeof(digits); i++)
			digits[i] = round ? (uint8_t)random_below(256) : 0xff;
		for (int i = 0; i < LANES; i++)
			scales[i] = half_nearest((double)random_normal());
		for (size_t i = 0; i < sizeof(q); i++)
			q[i] = (int8_t)(round ? (int)random_below(255) - 127 : 127);
		for (uint32_t h = 0; h < x.n_heads; h++) {
			scale[h] = fabsf(random_normal());
			base[h] = random_normal();
			sum[h] = 0;
			for (uint32_t r = 0; r < z.rank; r++)
				sum[h] += q[r / 16 * 16 * HEADS + 16 * h + r % 16];
		}
		memset(a, 0xcc, sizeof(a));
		memset(b, 0xcc, sizeof(b));
		kernel_sets[0]->score_q4(&z, f[2], &x, base, a, 48);
		kernels->score_q4(&z, f[2], &x, base, b, 48);
		ck_assert_msg(!memcmp(a, b, sizeof(a)), "form %u", round % 8);
	}
}
END_TEST

START_TEST(ranks)
{
	static const struct {
		struct kvs_geom g;
		uint32_t groupmean, lowrank;
	} want[] = {
		{ { 8, 9, 3, 64 }, 48, 24 },   { { 4, 14, 2, 64 }, 32, 16 },
		{ { 4, 12, 2, 128 }, 64, 32 }, { { 4, 32, 8, 128 }, 128, 128 },
		{ { 4, 4, 1, 256 }, 64, 32 },  { { 4, 1, 1, 16 }, 16, 2 },
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		struct kvs_predictor p = { .kernels = kernel_sets[0],
					   .geom = want[i].g,
					   .groups_per_chunk = 64 };
		uint32_t kv_dim = p.geom.n_kv_heads * p.geom.head_dim;

		ck_assert_int_eq(kvs_predict_groupmean.init(&p, 0), 0);
		ck_assert_uint_eq(p.rank, want[i].groupmean);
		ck_assert_uint_eq(p.items_per_group, 1);
		ck_assert_uint_eq(kvs_predict_groupmean.block_bytes(&p),
				  64 * (p.rank / 2 + 2) + 2 * p.rank);
		ck_assert_int_eq(kvs_predict_groupmean.init(&p, 8), -EINVAL);
		p.mean_tokens = 3;
		ck_assert_int_eq(kvs_predict_groupmean.init(&p, 0), -EINVAL);
		p.mean_tokens = 2 * p.geom.group;
		ck_assert_int_eq(kvs_predict_groupmean.init(&p, 0), -EINVAL);
		p.mean_tokens = p.geom.group / 2;
		ck_assert_int_eq(kvs_predict_groupmean.init(&p, 0), 0);
		ck_assert_uint_eq(p.items_per_group, 1);
		ck_assert_uint_eq(kvs_predict_groupmean.block_bytes(&p),
				  128 * (p.rank / 2 + 2) + 2 * p.rank);
		ck_assert_int_eq(kvs_predict_groupmean.init(&p, kv_dim + 16), -EINVAL);
		ck_assert_int_eq(kvs_predict_lowrank.init(&p, 0), 0);
		ck_assert_uint_eq(p.rank, want[i].lowrank);
		ck_assert_uint_eq(p.items_per_group, p.geom.group);
		ck_assert_int_eq(kvs_predict_lowrank.init(&p, kv_dim + 1), -EINVAL);
		ck_assert_int_eq(kvs_predict_exact.init(&p, 16), -EINVAL);
		ck_assert_int_eq(kvs_predict_window.init(&p, 16), -EINVAL);
	}
	for (size_t i = 0; i < sizeof(all_ops) / sizeof(*all_ops); i++)
		ck_assert_ptr_eq(kvs_predictor_find(all_ops[i]->name), all_ops[i]);
	ck_assert_ptr_eq(kvs_predictor_find(NULL), &kvs_predict_groupmean);
	ck_assert_ptr_null(kvs_predictor_find("groupmea"));
}
END_TEST

/* What the header says of scores, in double. */
static void reduce_exactly(const struct kvs_predictor *p, int mean, const float *est, uint32_t ld,
			   uint32_t n_groups, const float *rolling, uint32_t n_rolling,
			   double *score)
{
	uint32_t heads = p->geom.n_heads, per = p->items_per_group, n = n_groups * per;
	double weight = (double)p->geom.group / per;

	for (uint32_t g = 0; g < n_groups; g++)
		score[g] = mean ? -(double)INFINITY : 0;
	for (uint32_t i = 0; i < n && mean; i++) {
		double sum = 0;

		for (uint32_t h = 0; h < heads; h++)
			sum += (double)est[h * ld + i] / heads;
		score[i / per] = fmax(score[i / per], sum);
	}
	for (uint32_t h = 0; h < heads && !mean; h++) {
		double most = -(double)INFINITY, all = 0;

		for (uint32_t i = 0; i < n; i++)
			most = fmax(most, (double)est[h * ld + i]);
		for (uint32_t i = 0; i < n_rolling; i++)
			most = fmax(most, (double)rolling[h * n_rolling + i]);
		for (uint32_t i = 0; i < n; i++)
			all += weight * exp((double)est[h * ld + i] - most);
		for (uint32_t i = 0; i < n_rolling; i++)
			all += exp((double)rolling[h * n_rolling + i] - most);
		for (uint32_t i = 0; i < n; i++)
			score[i / per] += weight * exp((double)est[h * ld + i] - most) / all;
	}
}

START_TEST(reduction)
{
	const struct kvs_kernels *kernels = set_of(_i);
	static const float scales[] = { 0, 1, 10, 300 };
	static float est[9 * 900], rolling[9 * 90], score[300];
	static double want[300];

	for (int round = 0; round < 200; round++) {
		struct kvs_predictor p = { .kernels = kernels,
					   .geom = { 4, 1 + random_below(9), 1, 64 },
					   .items_per_group = round % 3 ? 1 : 4 };
		uint32_t groups = 1 + random_below(200),
			 ld = groups * p.items_per_group + random_below(5);
		uint32_t n_rolling = round % 5 ? random_below(90) : 0;
		int mean = round % 4 == 1;

		random_fill(est, sizeof(est) / sizeof(*est), scales[round % 4]);
		random_fill(rolling, sizeof(rolling) / sizeof(*rolling), scales[round % 4]);
		reduce_exactly(&p, mean, est, ld, groups, rolling, n_rolling, want);
		memset(score, 0xcc, sizeof(score));
		kvs_predict_reduce(&p, mean, est, ld, groups, rolling, n_rolling, score);
		for (uint32_t g = 0; g < groups; g++)
			ck_assert_double_eq_tol((double)score[g], want[g],
						1e-5 * (1 + fabs(want[g])));
		ck_assert_int_eq(memcmp(&score[groups], "\xcc\xcc\xcc\xcc", 4), 0);
	}
}
END_TEST

START_TEST(reduction_of_nothing)
{
	struct kvs_predictor p = { .kernels = set_of(_i),
				   .geom = { 4, 2, 1, 64 },
				   .items_per_group = 1 };
	float est[8] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY,
			 -INFINITY, -INFINITY, -INFINITY, -INFINITY };
	float rolling[2] = { 1, 2 }, score[4];

	kvs_predict_reduce(&p, 0, est, 4, 4, rolling, 1, score);
	for (int i = 0; i < 4; i++)
		ck_assert_float_eq(score[i], 0);
	for (int i = 0; i < 8; i++)
		est[i] = -INFINITY;
	kvs_predict_reduce(&p, 0, est, 4, 4, NULL, 0, score);
	for (int i = 0; i < 4; i++)
		ck_assert_float_eq(score[i], 0);
	score[0] = 5;
	kvs_predict_reduce(&p, 0, est, 4, 0, rolling, 1, score);
	ck_assert_float_eq(score[0], 5);
}
END_TEST

static const float *compared;

static int better(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	float p = compared[x], q = compared[y];

	if (isnan(p) || isnan(q))
		return isnan(p) && isnan(q) ? (x > y) - (x < y) : isnan(p) ? 1 : -1;
	return p > q ? -1 : p < q ? 1 : (x > y) - (x < y);
}

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

START_TEST(choice_against_a_sort)
{
	const struct kvs_kernels *kernels = set_of(_i);
	static float score[5000];
	static uint32_t sorted[5000], out[5001], scratch[5001];

	for (int round = 0; round < 600; round++) {
		uint32_t n = round % 10 ? 1 + random_below(200) : 1 + random_below(5000),
			 m = random_below(n + 20);
		uint32_t forced = random_below(3) ? random_below(4) : random_below(m + 1),
			 want = m < n ? m : n;

		forced = forced < want ? forced : want;
		for (uint32_t i = 0; i < n; i++) {
			float odd[] = { NAN,   INFINITY, -INFINITY, 0.0f,
					-0.0f, 1e-42f,	 -1e-42f,   3e38f };

			score[i] = round % 3 == 0 ? (float)random_below(5) - 2
						  : expf(random_normal() * 8);
			if (round % 4 == 0 && random_below(4) == 0)
				score[i] = odd[random_below(8)];
			sorted[i] = i;
		}
		compared = score;
		qsort(sorted + forced, n - forced, sizeof(*sorted), better);
		qsort(sorted, want, sizeof(*sorted), ascending);
		out[want] = scratch[n] = 0xcccccccc;
		ck_assert_uint_eq(kvs_predict_top(kernels, score, n, m, forced, out, scratch),
				  want);
		for (uint32_t i = 0; i < want; i++)
			ck_assert_msg(out[i] == sorted[i],
				      "round %d: %u of %u, forced %u: place %u is %u, not %u",
				      round, m, n, forced, i, out[i], sorted[i]);
		ck_assert_uint_eq(out[want], 0xcccccccc);
		ck_assert_uint_eq(scratch[n], 0xcccccccc);
	}
	ck_assert_uint_eq(kvs_predict_top(kernels, score, 0, 5, 1, out, scratch), 0);
}
END_TEST

/*
 * The whole way: a group that holds the query's own direction comes out on top, for each predictor
 * that estimates.
 */
START_TEST(needle)
{
	const struct kvs_kernels *kernels = set_of(_i);

	for (size_t i = 0; i < 3; i++) {
		struct subject s = subject_new(kernels, all_ops[i], shapes[0], 0, 0);
		uint32_t dim = s.g.head_dim, bad, out[4], scratch[64], at = 17 + (uint32_t)i;
		uint16_t *record = (uint16_t *)record_of(&s, at);
		float score[64];

		for (uint32_t kv = 0; kv < 2; kv++)
			for (uint32_t t = 0; t < 4; t++)
				for (uint32_t d = 0; d < dim; d++)
					record[(kv * 4 + t) * dim + d] = half_nearest(
						8 * (double)s.basis[kv * dim * s.p.rank +
								    d * s.p.rank]);
		for (uint32_t h = 0; h < 14; h++)
			for (uint32_t d = 0; d < dim; d++)
				s.q[h * dim + d] = 4 * half_value(record[h / 7 * 4 * dim + d]);
		ck_assert_int_eq(s.p.ops->build(&s.p, s.packed, record, at, s.block, &bad), 0);
		s.p.ops->query(&s.p, s.packed, s.q, s.projected);
		s.p.ops->score(&s.p, s.projected, s.block, 64, s.est, s.ld);
		kvs_predict_reduce(&s.p, 0, s.est, s.ld, 64, NULL, 0, score);
		ck_assert_uint_eq(kvs_predict_top(kernels, score, 64, 2, 1, out, scratch), 2);
		ck_assert_uint_eq(out[0], 0);
		ck_assert_uint_eq(out[1], at);
		subject_free(&s);
	}
}
END_TEST

Suite *suite_predict(void)
{
	Suite *suite = suite_create("predict");
	TCase *c = tcase_create("predictors");

	kernel_sets_find();
	tcase_set_timeout(c, 120);
	tcase_add_test(c, ranks);
	tcase_add_loop_test(c, choice_against_a_sort, 0, n_kernel_sets);
	tcase_add_loop_test(c, groupmean_within_its_steps, 0, n_kernel_sets);
	tcase_add_loop_test(c, groupmean_around_a_point, 0, n_kernel_sets);
	tcase_add_loop_test(c, groupmean_extremes, 0, n_kernel_sets);
	tcase_add_loop_test(c, lowrank_of_every_token, 0, n_kernel_sets);
	tcase_add_loop_test(c, exact_is_attentions_logits, 0, n_kernel_sets);
	tcase_add_loop_test(c, window_estimates_nothing, 0, n_kernel_sets);
	tcase_add_loop_test(c, blocks_do_not_depend_on_history, 0, n_kernel_sets);
	tcase_add_loop_test(c, bad_k_is_named, 0, n_kernel_sets);
	tcase_add_loop_test(c, int4_scores_are_the_same_everywhere, 0, n_kernel_sets);
	tcase_add_loop_test(c, reduction, 0, n_kernel_sets);
	tcase_add_loop_test(c, reduction_of_nothing, 0, n_kernel_sets);
	tcase_add_loop_test(c, needle, 0, n_kernel_sets);
	suite_add_tcase(suite, c);
	return suite;
}
