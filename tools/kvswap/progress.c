// SPDX-License-Identifier: MIT
/* Owns what a progress line says and how often. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>

#include "clock.h"
#include "report.h"

#define INTERVAL_NS 100000000u

const char *progress_count(double n, char out[32])
{
	uint64_t rest = (uint64_t)(n + 0.5);
	char *at = out + 31;
	int digits = 0;

	*at = '\0';
	do {
		if (digits && digits % 3 == 0)
			*--at = ',';
		*--at = (char)('0' + rest % 10);
		rest /= 10;
		digits++;
	} while (rest);
	return at;
}

void progress_start(struct progress *p, const char *what, double total)
{
	p->what = what;
	p->total = total;
	p->start_ns = clock_ns();
	p->shown_ns = 0;
}

void progress_update(struct progress *p, double done)
{
	uint64_t now = clock_ns();
	double seconds = (double)(now - p->start_ns) / 1e9, rate = seconds > 0 ? done / seconds : 0;
	char a[32], b[32], c[32];

	if (!p->on || now - p->shown_ns < INTERVAL_NS || rate <= 0)
		return;
	p->shown_ns = now;
	report_progress("%s %s of %s tokens, %s/s, %.0f s left", p->what, progress_count(done, a),
			progress_count(p->total, b), progress_count(rate, c),
			(p->total - done) / rate);
}

void progress_end(struct progress *p)
{
	if (p->on)
		report_progress_end();
}
