// SPDX-License-Identifier: MIT
/* See findings.h. */
#include "findings.h"

#include <stdio.h>

#define FEW_SELECTIONS 100 /* below it, shares say nothing */

void finding(struct findings *f, enum finding_level level, const char *what, double value,
	     const char *unit, const char *remedy)
{
	struct finding *at = &f->finding[f->n];

	if (f->n == FINDINGS_MAX)
		return;
	at->level = level;
	at->value = value;
	snprintf(at->what, sizeof(at->what), "%s", what);
	snprintf(at->unit, sizeof(at->unit), "%s", unit);
	snprintf(at->remedy, sizeof(at->remedy), "%s", remedy);
	f->n++;
}

int findings_warned(const struct findings *f)
{
	int n = 0;

	for (int i = 0; i < f->n; i++)
		n += f->finding[i].level == FINDING_WARN;
	return n;
}

static void share(struct findings *f, const struct session_change *c, const char *what,
		  double value, double least, const char *remedy)
{
	char name[80];

	snprintf(name, sizeof(name), "session %.20s, %s", c->name, what);
	finding(f, value < least ? FINDING_WARN : FINDING_OK, name, value * 100, "%",
		value < least ? remedy : "");
}

static void judge_place(struct findings *f, const struct session_change *c)
{
	char name[80];

	if (c->head->where != KVS_DISK)
		return;
	snprintf(name, sizeof(name), "session %.40s, direct I/O", c->name);
	finding(f, c->head->direct_io ? FINDING_OK : FINDING_WARN, name, c->head->direct_io, "",
		c->head->direct_io ? "" : c->head->direct_why);
}

void findings_session(struct findings *f, const struct session_change *c)
{
	double all = c->wait_s + c->busy_s;

	judge_place(f, c);
	if (c->selections < FEW_SELECTIONS || c->selected <= 0)
		return;
	share(f, c, "hit rate", c->hit / c->selected, .5,
	      c->head->reuse * (uint64_t)c->head->group < c->head->select
		      ? "raise --budget: there are fewer slots than groups that a step selects"
		      : "raise --budget, or lower --select");
	share(f, c, "foreseen", c->predicted / c->selected, .6,
	      "raise --ahead (150 or 200): more is read in advance, less comes late");
	share(f, c, "coverage", c->coverage / c->selections, .7,
	      "raise --select: more of what attention wants is left out than is good");
	if (all > 0)
		share(f, c, "time not waiting for the storage", 1 - c->wait_s / all, .5,
		      "the storage limits: raise --budget, a larger --group, or faster storage (kvswapctl probe)");
}
