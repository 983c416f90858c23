/* SPDX-License-Identifier: MIT */
/* What is measured on: a model file and a text, as tokens. */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include "bench.h"
#include "kvswap/model.h"
#include "kvswap/text.h"

struct subject {
	struct model model;
	struct tokens text;
};

/*
 * A text of fewer than depth + extra tokens, or a model that does not reach so far, is a
 * failure.
 */
int subject_open(struct subject *s, const struct bench *b);
void subject_close(struct subject *s);

#endif
