/* SPDX-License-Identifier: MIT */
/* Findings, in the order in which they were made; what does not fit is counted. */
#ifndef KVSWAPCTL_WARNINGS_H
#define KVSWAPCTL_WARNINGS_H

#define WARNINGS_MAX 24

struct warnings {
	int n, lost;
	char text[WARNINGS_MAX][240];
};

void warn(struct warnings *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
