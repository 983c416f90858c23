// SPDX-License-Identifier: MIT
/* See subject.h; the prompt is read as `kvswap run` reads it. */
#include "subject.h"

#include <stdlib.h>
#include <string.h>

#include "kvswap/report.h"
#include "kvswap/run.h"

static int read_text(struct subject *s, const struct bench *b)
{
	struct sequence sequence = { 0 };
	struct run *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return report_fail("out of memory");
	r->options = b->run;
	r->options.batch = 1;
	r->model = s->model;
	r->sequences = &sequence;
	rc = text_open(&r->text, &s->model);
	if (!rc)
		rc = prompt_read_all(r);
	text_close(&r->text);
	s->text = sequence.prompt;
	free(r);
	return rc;
}

static int check(const struct subject *s, const struct bench *b)
{
	uint64_t need = (uint64_t)b->depth + b->extra;

	if (s->text.n < need)
		return report_fail(
			"the text has %u tokens, %u at depth %u need %llu: give a longer -f, or less -c",
			s->text.n, b->extra, b->depth, (unsigned long long)need);
	if (need > s->model.n_ctx_rope && !b->run.session.force)
		return report_fail(
			"%llu tokens are more than the %u that the model's RoPE reaches: lower -c, --repeat or --steps, or --force",
			(unsigned long long)need, s->model.n_ctx_rope);
	return DONE;
}

int subject_open(struct subject *s, const struct bench *b)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rc = model_open(&s->model, b->run.model);
	if (rc)
		return rc;
	rc = read_text(s, b);
	if (!rc)
		rc = check(s, b);
	if (rc)
		subject_close(s);
	return rc;
}

void subject_close(struct subject *s)
{
	free(s->text.id);
	model_close(&s->model);
	memset(s, 0, sizeof(*s));
}
