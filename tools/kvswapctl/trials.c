// SPDX-License-Identifier: MIT
/* See trials.h. */
#include "trials.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvswap/json.h"
#include "kvswap/outfile.h"
#include "kvswap/report.h"

/* Names and sizes of the files, and the numbers that a trial depends on. */
static void make_key(struct trials *t, const struct trial_run *r, const char *text,
		     uint32_t context)
{
	struct stat model, words;

	snprintf(t->key, sizeof(t->key), "%.120s:%jd %.120s:%jd %.120s %u %u %" PRIu64, r->model,
		 stat(r->model, &model) ? 0 : (intmax_t)model.st_size, text,
		 stat(text, &words) ? 0 : (intmax_t)words.st_size, r->store ? r->store : "",
		 context, r->threads, r->budget);
}

static void read_trial(doc_value *v, struct trial *t)
{
	*t = (struct trial){
		.group = (uint32_t)doc_number(doc_get(v, "group"), 0),
		.select = (uint32_t)doc_number(doc_get(v, "select"), 0),
		.ahead = (uint32_t)doc_number(doc_get(v, "ahead_percent"), 0),
		.predicted = doc_number(doc_get(v, "predicted_tokens_per_s"), 0),
		.tokens_per_s = doc_number(doc_get(v, "tokens_per_s"), 0),
		.p50_ms = doc_number(doc_get(v, "p50_ms"), 0),
		.coverage = doc_number(doc_get(v, "coverage"), 0),
		.hit_rate = doc_number(doc_get(v, "hit_rate"), 0),
		.reuse = (uint32_t)doc_number(doc_get(v, "reuse"), 0),
		.record_bytes = (uint32_t)doc_number(doc_get(v, "record_bytes"), 0),
		.runs = (uint32_t)doc_number(doc_get(v, "runs"), 0),
	};
}

int trials_open(struct trials *t, const char *profile, const struct trial_run *run,
		const char *text, uint32_t context)
{
	doc_value *root;
	int rc;

	memset(t, 0, sizeof(*t));
	t->n = 1;
	snprintf(t->path, sizeof(t->path), "%.4080s.trials", profile);
	make_key(t, run, text, context);
	if (access(t->path, F_OK))
		return DONE;
	rc = doc_open(t->path, &root);
	if (rc)
		return rc;
	if (strcmp(doc_text(doc_get(root, "key"), ""), t->key))
		rc = report_fail(
			"%s is of another model, text, store or budget: remove it, or give another -o",
			t->path);
	for (size_t i = 0; !rc && i < doc_length(doc_get(root, "trials")) && i < TRIALS_MAX; i++) {
		read_trial(doc_at(doc_get(root, "trials"), i), &t->trial[i]);
		t->n = (int)i + 1;
	}
	doc_close(root);
	return rc;
}

static void json_trials(struct json *j, const struct trials *t)
{
	json_open(j, "trials", '[');
	for (int i = 0; i < t->n; i++) {
		const struct trial *at = &t->trial[i];

		json_open(j, NULL, '{');
		json_uint(j, "group", at->group);
		json_uint(j, "select", at->select);
		json_uint(j, "ahead_percent", at->ahead);
		json_uint(j, "reuse", at->reuse);
		json_uint(j, "record_bytes", at->record_bytes);
		json_number(j, "predicted_tokens_per_s", at->predicted);
		json_number(j, "tokens_per_s", at->tokens_per_s);
		json_number(j, "p50_ms", at->p50_ms);
		json_number(j, "coverage", at->coverage);
		json_number(j, "hit_rate", at->hit_rate);
		json_uint(j, "runs", at->runs);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Whole or not at all. */
static int write_file(const char *path, const char *text, size_t bytes)
{
	struct outfile out = { 0 };
	int rc = outfile_open(&out, path);

	if (!rc)
		rc = outfile_write(&out, text, bytes);
	if (!rc)
		rc = outfile_commit(&out);
	outfile_abandon(&out);
	return rc;
}

static int finish(FILE *f, char **text, const size_t *bytes, const char *path)
{
	int rc = fclose(f) ? report_fail("out of memory") : write_file(path, *text, *bytes);

	free(*text);
	return rc;
}

int trials_save(const struct trials *t)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	struct json j = { .f = f };

	if (!f)
		return report_fail("out of memory");
	json_open(&j, NULL, '{');
	json_uint(&j, "format", DOC_FORMAT);
	json_text(&j, "key", t->key);
	json_trials(&j, t);
	json_close(&j, '}');
	fputc('\n', f);
	return finish(f, &text, &bytes, t->path);
}

struct trial *trials_find(struct trials *t, const struct trial *like)
{
	for (int i = 1; i < t->n; i++)
		if (t->trial[i].group == like->group && t->trial[i].select == like->select &&
		    t->trial[i].ahead == like->ahead)
			return &t->trial[i];
	return NULL;
}

struct trial *trials_add(struct trials *t, const struct trial *like)
{
	if (t->n == TRIALS_MAX)
		return NULL;
	t->trial[t->n] = *like;
	return &t->trial[t->n++];
}

int trials_write_profile(const struct trials *t, const struct plan *p, const struct trial *winner,
			 const char *path)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	struct json j = { .f = f };
	int rc;

	if (!f)
		return report_fail("out of memory");
	json_open(&j, NULL, '{');
	plan_json_members(&j, p);
	json_open(&j, "tuned", '{');
	json_number(&j, "tokens_per_s", winner->tokens_per_s);
	json_number(&j, "coverage", winner->coverage);
	json_number(&j, "default_tokens_per_s", t->trial[0].tokens_per_s);
	json_number(&j, "default_coverage", t->trial[0].coverage);
	json_trials(&j, t);
	json_close(&j, '}');
	json_close(&j, '}');
	fputc('\n', f);
	rc = finish(f, &text, &bytes, path);
	if (!rc)
		unlink(t->path);
	return rc;
}
