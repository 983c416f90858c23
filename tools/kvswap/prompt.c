// SPDX-License-Identifier: MIT
/* Reads the prompts of a run and makes tokens of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "run.h"

static int read_file(const char *path, char **text, size_t *bytes)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
	size_t room = 1 << 16, n = 0;
	char *data = malloc(room);

	if (!f) {
		free(data);
		return report_fail("%s: %s", path, strerror(errno));
	}
	while (data) {
		n += fread(data + n, 1, room - n - 1, f);
		if (n + 1 < room)
			break;
		*text = realloc(data, room *= 2);
		if (!*text)
			free(data);
		data = *text;
	}
	if (data && ferror(f)) {
		report_fail("%s: %s", path, strerror(errno));
		free(data);
		data = NULL;
	} else if (!data) {
		report_fail("out of memory for %s", path);
	} else {
		data[n] = '\0';
	}
	if (f != stdin)
		fclose(f);
	*text = data;
	*bytes = n;
	return data ? DONE : FAILED;
}

static int make_tokens(struct run *r, const struct prompt_source *source, const char *text,
		       size_t bytes, struct tokens *out)
{
	int rc;

	if (source->kind == SOURCE_IDS)
		rc = text_parse_ids(text, r->model.n_vocab, source->arg, out);
	else if (bytes == 0)
		rc = report_fail("the prompt is empty");
	else
		rc = text_tokenize(&r->text, text, bytes, r->options.how, out);
	if (rc)
		return rc;
	if (out->n == 0)
		return report_fail("the prompt is empty");
	for (uint32_t i = 0; i < out->n; i++)
		if ((uint32_t)out->id[i] >= r->model.n_vocab)
			return report_fail("token %d of the prompt is beyond the model's %u",
					   out->id[i], r->model.n_vocab);
	return DONE;
}

static int read_prompt(struct run *r, const struct prompt_source *source, struct tokens *out)
{
	char *text = NULL;
	size_t bytes = 0;
	int rc;

	if (source->kind == SOURCE_TEXT)
		return make_tokens(r, source, source->arg, strlen(source->arg), out);
	rc = read_file(source->arg, &text, &bytes);
	if (!rc)
		rc = make_tokens(r, source, text, bytes, out);
	free(text);
	return rc;
}

static int copy(const struct tokens *from, struct tokens *to)
{
	to->id = malloc(from->n * sizeof(*to->id));
	if (!to->id)
		return report_fail("out of memory");
	memcpy(to->id, from->id, from->n * sizeof(*to->id));
	to->n = from->n;
	return DONE;
}

int prompt_read_all(struct run *r)
{
	int rc = DONE;

	for (uint32_t i = 0; !rc && i < r->options.batch; i++) {
		if (i < r->options.n_prompts)
			rc = read_prompt(r, &r->options.prompts[i], &r->sequences[i].prompt);
		else
			rc = copy(&r->sequences[0].prompt, &r->sequences[i].prompt);
		r->n_prompt += r->sequences[i].prompt.n;
	}
	return rc;
}
