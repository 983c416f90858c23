/* SPDX-License-Identifier: MIT */
/* Tokens from text and text from tokens, by libllama's tokenizer and chat templates. */
#ifndef KVSWAP_TEXT_H
#define KVSWAP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "llama.h"
#include "model.h"

struct text {
	struct llama_model *file;	 /* the vocabulary only; NULL: the model has none */
	const struct llama_vocab *vocab; /* or NULL */
};

struct tokens {
	int32_t *id;
	uint32_t n;
};

/* A model without a tokenizer is no failure: text_tokenize() is. */
int text_open(struct text *t, const struct model *m);
void text_close(struct text *t);

struct text_how {
	bool chat;    /* inside the model's own template, as a user's message */
	bool special; /* control tokens written in the text count as such */
};

/* out->id is the caller's to free. */
int text_tokenize(const struct text *t, const char *text, size_t bytes, struct text_how how,
		  struct tokens *out);
/* Whitespace-separated ids below n_vocab. name: of the file, for messages. */
int text_parse_ids(const char *text, uint32_t n_vocab, const char *name, struct tokens *out);

/* Bytes of a token; a control token has none, a model without a tokenizer shows the id. */
void text_piece(const struct text *t, int32_t token, char *out, size_t bytes, size_t *n);
bool text_ends(const struct text *t, int32_t token);

#endif
