/* SPDX-License-Identifier: MIT */
/* What doctor has found, and how it judges a session. */
#ifndef KVSWAPCTL_FINDINGS_H
#define KVSWAPCTL_FINDINGS_H

#include "publish.h"

#define FINDINGS_MAX 128

enum finding_level { FINDING_OK, FINDING_WARN };

struct finding {
	enum finding_level level;
	char what[80], unit[16], remedy[320];
	double value;
};

struct findings {
	int n;
	struct finding finding[FINDINGS_MAX];
};

void finding(struct findings *f, enum finding_level level, const char *what, double value,
	     const char *unit, const char *remedy);
int findings_warned(const struct findings *f);

/* What a session did while it was watched. */
struct session_change {
	const char *name;
	const struct kvs_page_head *head;
	double selections, selected, hit, predicted, coverage, wait_s, busy_s;
};

void findings_session(struct findings *f, const struct session_change *c);

#endif
