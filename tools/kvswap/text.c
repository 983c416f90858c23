// SPDX-License-Identifier: MIT
/*
 * Owns the vocabulary. What libllama would abort on in a damaged header is looked at first.
 */
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define MARK "\x01kvswap\x01" /* stands for the message while the template is filled in */

static int64_t array_length(const struct model *m, const char *key, enum gguf_type type, int *rc)
{
	int64_t id = gguf_find_key(m->gguf, key);

	if (id < 0)
		return 0;
	if (gguf_get_kv_type(m->gguf, id) == GGUF_TYPE_ARRAY &&
	    gguf_get_arr_type(m->gguf, id) == type)
		return (int64_t)gguf_get_arr_n(m->gguf, id);
	*rc = report_fail("%s: %s is not an array of %s", m->path, key, gguf_type_name(type));
	return 0;
}

static int check_arrays(const struct model *m)
{
	int rc = DONE;
	int64_t tokens = array_length(m, "tokenizer.ggml.tokens", GGUF_TYPE_STRING, &rc);
	int64_t scores = array_length(m, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, &rc);
	int64_t types = array_length(m, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, &rc);

	array_length(m, "tokenizer.ggml.merges", GGUF_TYPE_STRING, &rc);
	if (rc)
		return rc;
	if (tokens > m->n_vocab || (scores && scores < tokens) || (types && types < tokens))
		return report_fail("%s: %" PRId64 " tokens, %" PRId64 " scores, %" PRId64
				   " types do not go with embeddings of %u",
				   m->path, tokens, scores, types, m->n_vocab);
	return DONE;
}

int text_open(struct text *t, const struct model *m)
{
	struct llama_model_params params = llama_model_default_params();
	const char *kind = key_text(m, "tokenizer.ggml.model");

	memset(t, 0, sizeof(*t));
	if (!kind || check_arrays(m))
		return FAILED;
	if (!*kind || !strcmp(kind, "none") || !strcmp(kind, "no_vocab"))
		return DONE;
	params.vocab_only = true;
	report_capture_log();
	t->file = llama_model_load_from_file(m->path, params);
	if (!t->file)
		return report_fail("%s: its tokenizer is not usable: %s", m->path,
				   report_captured());
	t->vocab = llama_model_get_vocab(t->file);
	return DONE;
}

void text_close(struct text *t)
{
	if (t->file)
		llama_model_free(t->file);
	memset(t, 0, sizeof(*t));
}

/* As llama_tokenize() into *id, which is freed first. */
static int32_t ids_of(const struct text *t, const char *text, size_t bytes, bool first,
		      bool special, int32_t room, int32_t **id)
{
	free(*id);
	*id = malloc((size_t)room * sizeof(**id));
	return *id ? llama_tokenize(t->vocab, text, (int32_t)bytes, *id, room, first, special)
		   : INT32_MIN;
}

/* A token for each byte is nearly always enough, but a blank may be three tokens. */
static int tokenize(const struct text *t, const char *text, size_t bytes, bool first, bool special,
		    struct tokens *out)
{
	int32_t n;

	out->id = NULL;
	if (bytes > INT32_MAX - 16)
		return report_fail("the prompt has %zu bytes, more than can be tokenized", bytes);
	n = ids_of(t, text, bytes, first, special, (int32_t)bytes + 16, &out->id);
	if (n < 0 && n != INT32_MIN)
		n = ids_of(t, text, bytes, first, special, -n, &out->id);
	if (n < 0) {
		free(out->id);
		out->id = NULL;
		return report_fail("the tokenizer cannot take a prompt of %zu bytes", bytes);
	}
	out->n = (uint32_t)n;
	return DONE;
}

static int append(struct tokens *to, struct tokens *more)
{
	int32_t *id = realloc(to->id, ((size_t)to->n + more->n + 1) * sizeof(*id));

	if (!id)
		return report_fail("out of memory");
	to->id = id;
	memcpy(to->id + to->n, more->id, more->n * sizeof(*id));
	to->n += more->n;
	free(more->id);
	more->id = NULL;
	return DONE;
}

static bool has_control_tokens(const struct text *t, const char *text, size_t bytes)
{
	struct tokens plain = { 0 }, parsed = { 0 };
	bool differ = true;

	if (!tokenize(t, text, bytes, false, false, &plain) &&
	    !tokenize(t, text, bytes, false, true, &parsed))
		differ = plain.n != parsed.n ||
			 memcmp(plain.id, parsed.id, plain.n * sizeof(*plain.id));
	free(plain.id);
	free(parsed.id);
	return differ;
}

/* The template around MARK, in memory of its own. */
static char *fill_template(const struct text *t)
{
	const char *template = llama_model_chat_template(t->file, NULL);
	struct llama_chat_message message = { "user", MARK };
	char *out;
	int32_t n;

	if (!template) {
		report_fail("the model has no chat template: run without --chat");
		return NULL;
	}
	n = llama_chat_apply_template(template, &message, 1, true, NULL, 0);
	out = n > 0 ? calloc((size_t)n + 1, 1) : NULL;
	if (out)
		llama_chat_apply_template(template, &message, 1, true, out, n + 1);
	if (out && strstr(out, MARK))
		return out;
	free(out);
	report_fail("libllama does not know the model's chat template: run without --chat");
	return NULL;
}

/* The message by itself, so that nothing written in it passes for a control token. */
static int tokenize_parts(const struct text *t, const char *before, const char *text, size_t bytes,
			  const char *after, struct tokens *out)
{
	struct tokens middle = { 0 }, end = { 0 };
	int rc = tokenize(t, before, strlen(before), true, true, out);

	if (!rc)
		rc = tokenize(t, text, bytes, false, false, &middle);
	if (!rc)
		rc = tokenize(t, after, strlen(after), false, true, &end);
	if (!rc)
		rc = append(out, &middle);
	if (!rc)
		rc = append(out, &end);
	free(middle.id);
	free(end.id);
	return rc;
}

static int tokenize_whole(const struct text *t, const char *before, const char *text, size_t bytes,
			  const char *after, struct tokens *out)
{
	size_t n_before = strlen(before), n_after = strlen(after);
	char *whole = malloc(n_before + bytes + n_after);
	int rc;

	if (!whole)
		return report_fail("out of memory");
	memcpy(whole, before, n_before);
	memcpy(whole + n_before, text, bytes);
	memcpy(whole + n_before + bytes, after, n_after);
	rc = tokenize(t, whole, n_before + bytes + n_after, true, true, out);
	free(whole);
	return rc;
}

static int tokenize_chat(const struct text *t, const char *text, size_t bytes, bool special,
			 struct tokens *out)
{
	char *before = fill_template(t), *after;
	int rc;

	if (!before)
		return FAILED;
	after = strstr(before, MARK);
	*after = '\0';
	after += strlen(MARK);
	if (!special && has_control_tokens(t, text, bytes))
		rc = tokenize_parts(t, before, text, bytes, after, out);
	else
		rc = tokenize_whole(t, before, text, bytes, after, out);
	free(before);
	return rc;
}

int text_tokenize(const struct text *t, const char *text, size_t bytes, struct text_how how,
		  struct tokens *out)
{
	int rc;

	memset(out, 0, sizeof(*out));
	if (!t->vocab)
		return report_fail("the model has no tokenizer: give --tokens FILE");
	rc = how.chat ? tokenize_chat(t, text, bytes, how.special, out)
		      : tokenize(t, text, bytes, true, how.special, out);
	/* A template that writes the first token itself must not get it twice. */
	if (!rc && how.chat && out->n > 1 && out->id[0] == out->id[1] &&
	    out->id[0] == llama_vocab_bos(t->vocab))
		memmove(out->id, out->id + 1, --out->n * sizeof(*out->id));
	if (rc) {
		free(out->id);
		out->id = NULL;
	}
	return rc;
}

static int add_id(struct tokens *out, uint32_t *room, int32_t id)
{
	if (out->n == *room) {
		int32_t *more = realloc(out->id, (*room += 4096) * sizeof(*more));

		if (!more)
			return report_fail("out of memory");
		out->id = more;
	}
	out->id[out->n++] = id;
	return DONE;
}

int text_parse_ids(const char *text, uint32_t n_vocab, const char *name, struct tokens *out)
{
	static const char blank[] = " \t\r\n\v\f";
	uint32_t room = 0;
	int rc = DONE;
	char *end;

	memset(out, 0, sizeof(*out));
	for (const char *at = text + strspn(text, blank); !rc && *at;
	     at = end + strspn(end, blank)) {
		long id = strtol(at, &end, 10);

		if (end == at || !strchr(blank, *end) || id < 0 || id >= (long)n_vocab)
			rc = report_fail("%s: '%.*s' is not a token id (0 to %u)", name,
					 (int)strcspn(at, blank), at, n_vocab - 1);
		else
			rc = add_id(out, &room, (int32_t)id);
	}
	if (!rc)
		return DONE;
	free(out->id);
	memset(out, 0, sizeof(*out));
	return rc;
}

void text_piece(const struct text *t, int32_t token, char *out, size_t bytes, size_t *n)
{
	int32_t got;

	if (!t->vocab) {
		*n = (size_t)snprintf(out, bytes, "%d ", token);
		return;
	}
	got = token < llama_vocab_n_tokens(t->vocab)
		      ? llama_token_to_piece(t->vocab, token, out, (int32_t)bytes, 0, false)
		      : 0;
	*n = got > 0 ? (size_t)got : 0;
}

bool text_ends(const struct text *t, int32_t token)
{
	return t->vocab && token < llama_vocab_n_tokens(t->vocab) &&
	       llama_vocab_is_eog(t->vocab, token);
}
