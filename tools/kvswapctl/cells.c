// SPDX-License-Identifier: MIT
/* See cells.h. */
#include "cells.h"

#include <math.h>
#include <stddef.h>

/* Neighbours of a value among those measured; *low or *high is NULL beyond an end. */
static double between(double x, double x0, double y0, double x1, double y1)
{
	double t = x1 > x0 ? (log(x) - log(x0)) / (log(x1) - log(x0)) : 0;

	return exp(log(y0) + t * (log(y1) - log(y0)));
}

/* Of one size. */
static double at_depth(const struct cells *cells, uint32_t bytes, double depth)
{
	const struct cell *low = NULL, *high = NULL;

	for (int i = 0; i < cells->n; i++) {
		const struct cell *c = &cells->cell[i];

		if (c->bytes != bytes || !(c->iops > 0))
			continue;
		if (c->depth <= depth && (!low || c->depth > low->depth))
			low = c;
		if (c->depth >= depth && (!high || c->depth < high->depth))
			high = c;
	}
	if (!low && !high)
		return 0;
	if (!low)
		return high->iops;
	if (!high || high == low)
		return low->iops;
	return between(depth, low->depth, low->iops, high->depth, high->iops);
}

double cells_iops(const struct cells *cells, uint32_t bytes, double depth)
{
	uint32_t low = 0, high = 0;

	for (int i = 0; i < cells->n; i++) {
		uint32_t b = cells->cell[i].bytes;

		if (!(cells->cell[i].iops > 0))
			continue;
		if (b <= bytes && b > low)
			low = b;
		if (b >= bytes && (!high || b < high))
			high = b;
	}
	if (!low && !high)
		return 0;
	if (!low || low == high)
		return at_depth(cells, high, depth);
	if (!high)
		return at_depth(cells, low, depth) * low / bytes;
	return between(bytes, low, at_depth(cells, low, depth), high, at_depth(cells, high, depth));
}

uint32_t cells_depth(const struct cells *cells, uint32_t bytes, double share)
{
	double most = 0;

	for (uint32_t d = 1; d <= 64; d *= 2)
		most = fmax(most, cells_iops(cells, bytes, d));
	for (uint32_t d = 1; most > 0 && d <= 64; d *= 2)
		if (cells_iops(cells, bytes, d) >= share * most)
			return d;
	return 0;
}
