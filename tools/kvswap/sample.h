/* SPDX-License-Identifier: MIT */
/* The next token from a row of logits, by libllama's samplers. */
#ifndef KVSWAP_SAMPLE_H
#define KVSWAP_SAMPLE_H

#include <stdint.h>

#include "llama.h"
#include "text.h"

struct sampling {
	float temp;	/* 0: the most likely token */
	uint32_t top_k; /* 0: all */
	float top_p, min_p;
	float repeat_penalty; /* over the last 64 tokens; 1: none */
	uint32_t seed;
};

struct sampler {
	struct llama_sampler *chain; /* NULL: the most likely token, nothing else */
	llama_token_data *data;	     /* [n_vocab] */
	uint32_t n_vocab;
};

/* prompt: what the penalty has already seen. */
int sampler_open(struct sampler *s, const struct sampling *how, uint32_t n_vocab,
		 const struct tokens *prompt);
void sampler_close(struct sampler *s);
int32_t sampler_pick(struct sampler *s, const float *logits);

#endif
