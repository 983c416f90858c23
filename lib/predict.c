// SPDX-License-Identifier: MIT
/*
 * What all predictors share: their table, the check of K, the way from estimated logits to scores
 * of groups, and the choice of the best.
 */
#include "predict.h"

#include <float.h>
#include <math.h>
#include <string.h>

const struct kvs_predictor_ops *kvs_predictor_find(const char *name)
{
	static const struct kvs_predictor_ops *const all[] = {
		&kvs_predict_groupmean,
		&kvs_predict_lowrank,
		&kvs_predict_exact,
		&kvs_predict_window,
	};

	if (!name)
		return all[0];
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(name, all[i]->name))
			return all[i];
	return NULL;
}

/* Four halves at a time: one whose exponent is all ones carries into its top bit. */
static bool all_finite(const uint16_t *x, size_t n)
{
	uint64_t four, any = 0;

	for (size_t i = 0; i < n; i += 4) {
		memcpy(&four, x + i, sizeof(four));
		any |= (four & 0x7c007c007c007c00) + 0x0400040004000400;
	}
	return !(any & 0x8000800080008000);
}

bool kvs_record_finite(const struct kvs_geom *g, const void *record, uint32_t *bad)
{
	const uint16_t *k = record;

	if (all_finite(k, (size_t)g->n_kv_heads * g->group * g->head_dim))
		return true;
	for (uint32_t t = 0; t < g->group; t++)
		for (uint32_t h = 0; h < g->n_kv_heads; h++)
			if (!all_finite(k + ((size_t)h * g->group + t) * g->head_dim,
					g->head_dim)) {
				*bad = t;
				return false;
			}
	return true;
}

/* Sum of exp(x - m) without changing x. */
static float exp_sum_of(const struct kvs_kernels *kernels, const float *x, uint32_t n, float m)
{
	float part[64], sum = 0;

	for (uint32_t i = 0, take; i < n; i += take) {
		take = n - i < 64 ? n - i : 64;
		memcpy(part, x + i, take * sizeof(*x));
		sum += kernels->exp_sum(part, take, m);
	}
	return sum;
}

/*
 * Estimates of one head to exp(logit - largest); returns what makes them shares of the head's
 * attention.
 */
static float normalise(const struct kvs_predictor *p, float *est, uint32_t n, const float *rolling,
		       uint32_t n_rolling)
{
	float weight = (float)p->geom.group / (float)p->items_per_group;
	float m = p->kernels->max(est, n), all;

	if (n_rolling)
		m = fmaxf(m, p->kernels->max(rolling, n_rolling));
	m = fmaxf(m, -FLT_MAX);
	all = weight * p->kernels->exp_sum(est, n, m);
	all += exp_sum_of(p->kernels, rolling, n_rolling, m);
	return all > 0 ? weight / all : 0;
}

static void fold(const float *item, uint32_t per, uint32_t n_groups, int largest, float *score)
{
	for (uint32_t g = 0; g < n_groups; g++, item += per) {
		float x = item[0];

		for (uint32_t i = 1; i < per; i++)
			x = largest ? (item[i] > x ? item[i] : x) : x + item[i];
		score[g] = x;
	}
}

void kvs_predict_reduce(const struct kvs_predictor *p, int mean, float *est, uint32_t ld,
			uint32_t n_groups, const float *rolling, uint32_t n_rolling, float *score)
{
	uint32_t n = n_groups * p->items_per_group, heads = p->geom.n_heads;
	float weights[KVS_MOST_HEADS];

	if (!n)
		return;
	for (uint32_t h = 0; h < heads; h++)
		weights[h] = mean ? 1.0f / (float)heads
				  : normalise(p, est + (size_t)h * ld, n,
					      rolling + (size_t)h * n_rolling, n_rolling);
	if (p->items_per_group == 1) {
		p->kernels->combine(weights, est, ld, heads, score, n);
		return;
	}
	p->kernels->combine(weights, est, ld, heads, est, n);
	fold(est, p->items_per_group, n_groups, mean, score);
}

/* Unsigned order is the order of the floats, NaN lowest, both zeros alike. */
static uint32_t sortable(float x)
{
	uint32_t bits;

	if (x != x)
		return 0;
	x += 0.0f;
	memcpy(&bits, &x, sizeof(bits));
	return bits >> 31 ? ~bits : bits | 0x80000000;
}

static float float_of(uint32_t key)
{
	uint32_t bits = key >> 31 ? key & 0x7fffffff : ~key;
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

#define DIGIT_BITS 8
#define DIGITS (1u << DIGIT_BITS)

/*
 * The need-th largest key, by digits from the top: counts those that agree with the digits known so
 * far.
 */
static uint32_t key_at(const uint32_t *keys, uint32_t n, uint32_t need)
{
	uint32_t count[DIGITS], prefix = 0, known = 0, digit;

	for (int shift = 32 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
		memset(count, 0, sizeof(count));
		for (uint32_t i = 0; i < n; i++)
			if ((keys[i] & known) == prefix)
				count[keys[i] >> shift & (DIGITS - 1)]++;
		for (digit = DIGITS - 1; count[digit] < need; digit--)
			need -= count[digit];
		prefix |= digit << shift;
		known |= (DIGITS - 1) << shift;
	}
	return prefix;
}

#define SAMPLES 256u

/*
 * A score that more than `need` of n probably reach, but not many more: from a sample, three
 * standard deviations on the safe side. -INFINITY where a sample does not help.
 */
static float probable_limit(const float *score, uint32_t n, uint32_t need)
{
	float expected = (float)need * SAMPLES / (float)n;
	uint32_t keys[SAMPLES], rank = (uint32_t)(expected + 3 * sqrtf(expected) + 3), limit;

	if (n < 3 * SAMPLES || rank > SAMPLES / 2)
		return -INFINITY;
	for (uint32_t i = 0; i < SAMPLES; i++)
		keys[i] = sortable(score[(uint64_t)i * n / SAMPLES]);
	limit = key_at(keys, SAMPLES, rank);
	return limit ? float_of(limit) : -INFINITY;
}

/*
 * The `need` largest of n keys, the first of equals: their numbers, or what `list` has in their
 * places, to out in the same order.
 */
static void pick(const uint32_t *keys, const uint32_t *list, uint32_t n, uint32_t need,
		 uint32_t *out)
{
	uint32_t limit = key_at(keys, n, need), equal = need, taken = 0;

	for (uint32_t i = 0; i < n; i++)
		equal -= keys[i] > limit;
	for (uint32_t i = 0; taken < need; i++) {
		if (keys[i] < limit || (keys[i] == limit && !equal))
			continue;
		equal -= keys[i] == limit;
		out[taken++] = list ? list[i] : i;
	}
}

static void choose(const struct kvs_kernels *kernels, const float *score, uint32_t n, uint32_t need,
		   uint32_t *out, uint32_t *scratch)
{
	float limit = probable_limit(score, n, need);
	uint32_t found = limit > -INFINITY ? kernels->reaching(score, n, limit, scratch) : 0;

	if (found < need || found > n / 2) {
		for (uint32_t i = 0; i < n; i++)
			scratch[i] = sortable(score[i]);
		pick(scratch, NULL, n, need, out);
		return;
	}
	for (uint32_t i = 0; i < found; i++)
		scratch[found + i] = sortable(score[scratch[i]]);
	pick(scratch + found, scratch, found, need, out);
}

uint32_t kvs_predict_top(const struct kvs_kernels *kernels, const float *score, uint32_t n,
			 uint32_t m, uint32_t forced, uint32_t *out, uint32_t *scratch)
{
	m = m < n ? m : n;
	forced = forced < m ? forced : m;
	for (uint32_t i = 0; i < forced; i++)
		out[i] = i;
	if (m == forced)
		return m;
	choose(kernels, score + forced, n - forced, m - forced, out + forced, scratch);
	for (uint32_t i = forced; i < m; i++)
		out[i] += forced;
	return m;
}
