// SPDX-License-Identifier: MIT
/* See stats.h. */
#include "stats.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double stats_quantile(const double *values, uint32_t n, double q)
{
	double sorted[MOST_REPEATS], at, part;
	uint32_t i;

	if (n == 0)
		return 0;
	memcpy(sorted, values, n * sizeof(*values));
	qsort(sorted, n, sizeof(*sorted), compare);
	at = q * (n - 1);
	i = (uint32_t)at;
	part = at - i;
	return i + 1 < n ? sorted[i] * (1 - part) + sorted[i + 1] * part : sorted[i];
}

void series_add(struct series *s, double rate, double cpu_ms)
{
	if (s->n == MOST_REPEATS)
		return;
	s->rate[s->n] = rate;
	s->cpu_ms[s->n++] = cpu_ms;
}

double series_rate(const struct series *s)
{
	return stats_quantile(s->rate, s->n, 0.5);
}

static double over(double a, double b)
{
	return b > 0 ? a / b : 0;
}

struct ratio ratio_of(const char *name, const struct series *a, const struct series *b)
{
	uint32_t n = a->n < b->n ? a->n : b->n;
	double each[MOST_REPEATS];
	struct ratio r = { .name = name, .unit = a->unit };

	for (uint32_t i = 0; i < n; i++)
		each[i] = over(a->rate[i], b->rate[i]);
	r.a = series_rate(a);
	r.b = series_rate(b);
	r.value = over(r.a, r.b);
	r.low = stats_quantile(each, n, 0.25);
	r.high = stats_quantile(each, n, 0.75);
	r.cpu = over(stats_quantile(b->cpu_ms, b->n, 0.5), stats_quantile(a->cpu_ms, a->n, 0.5));
	return r;
}

struct ratio ratio_plain(const char *name, const char *unit, double a, double b)
{
	return (struct ratio){ name, unit, over(a, b), over(a, b), over(a, b), a, b, 0 };
}
