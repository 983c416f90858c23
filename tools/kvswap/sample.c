// SPDX-License-Identifier: MIT
/* Owns the sampler chain of one sequence. */
#include "sample.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

#define PENALTY_TOKENS 64

static void build_chain(struct llama_sampler *chain, const struct sampling *how, uint32_t n_vocab)
{
	if (how->repeat_penalty != 1)
		llama_sampler_chain_add(
			chain, llama_sampler_init_penalties((int32_t)n_vocab, PENALTY_TOKENS,
							    how->repeat_penalty, 0, 0));
	if (how->temp == 0) {
		llama_sampler_chain_add(chain, llama_sampler_init_greedy());
		return;
	}
	if (how->top_k)
		llama_sampler_chain_add(chain, llama_sampler_init_top_k((int32_t)how->top_k));
	if (how->top_p < 1)
		llama_sampler_chain_add(chain, llama_sampler_init_top_p(how->top_p, 1));
	if (how->min_p > 0)
		llama_sampler_chain_add(chain, llama_sampler_init_min_p(how->min_p, 1));
	llama_sampler_chain_add(chain, llama_sampler_init_temp(how->temp));
	llama_sampler_chain_add(chain, llama_sampler_init_dist(how->seed));
}

int sampler_open(struct sampler *s, const struct sampling *how, uint32_t n_vocab,
		 const struct tokens *prompt)
{
	memset(s, 0, sizeof(*s));
	s->n_vocab = n_vocab;
	if (how->temp == 0 && how->repeat_penalty == 1)
		return DONE;
	s->data = malloc(n_vocab * sizeof(*s->data));
	s->chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
	if (!s->data || !s->chain)
		return report_fail("out of memory");
	build_chain(s->chain, how, n_vocab);
	for (uint32_t i = prompt->n > PENALTY_TOKENS ? prompt->n - PENALTY_TOKENS : 0;
	     i < prompt->n; i++)
		llama_sampler_accept(s->chain, prompt->id[i]);
	return DONE;
}

void sampler_close(struct sampler *s)
{
	if (s->chain)
		llama_sampler_free(s->chain);
	free(s->data);
	memset(s, 0, sizeof(*s));
}

static int32_t most_likely(const float *logits, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return (int32_t)best;
}

int32_t sampler_pick(struct sampler *s, const float *logits)
{
	llama_token_data_array candidates = { .data = s->data, .size = s->n_vocab, .selected = -1 };
	int32_t token;

	if (!s->chain)
		return most_likely(logits, s->n_vocab);
	for (uint32_t i = 0; i < s->n_vocab; i++)
		s->data[i] = (llama_token_data){ (llama_token)i, logits[i], 0 };
	llama_sampler_apply(s->chain, &candidates);
	token = candidates.data[candidates.selected].id;
	llama_sampler_accept(s->chain, token);
	return token;
}
