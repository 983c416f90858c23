/* SPDX-License-Identifier: MIT */
/*
 * What the command line of `kvswap run` says, checked as far as that is possible without a model.
 */
#ifndef KVSWAP_OPTIONS_H
#define KVSWAP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvswap.h"
#include "sample.h"
#include "session.h"

#define MAX_STOPS 16
#define MAX_PROMPTS KVS_MAX_SEQS

enum source {
	SOURCE_FILE, /* of text; "-": stdin */
	SOURCE_TEXT,
	SOURCE_IDS, /* a file of token ids */
};

struct prompt_source {
	enum source kind;
	const char *arg;
};

struct options {
	const char *model;
	struct prompt_source prompts[MAX_PROMPTS];
	uint32_t n_prompts;
	uint32_t n_predict; /* tokens to generate */
	uint32_t n_ctx;	    /* 0: prompt + n_predict */
	uint32_t batch;	    /* sequences at once */
	uint32_t n_threads;
	struct session_options session;
	struct sampling sampling;
	struct text_how how;
	const char *stops[MAX_STOPS];
	uint32_t n_stops;
	const char *logits; /* file, or NULL */
	bool logits_all;
	bool stepwise; /* the prompt by decode, token by token */
	bool no_bf16;
	bool json, progress;
};

enum parsed {
	PARSED,	     /* go on */
	PARSED_HELP, /* help was asked for and printed */
	PARSED_BAD,  /* wrong usage, said why */
};

/* argv[0] is the command's name. */
enum parsed options_parse(struct options *o, int argc, char **argv);

#endif
