/* SPDX-License-Identifier: MIT */
/* `kvswap run`: what its parts share. */
#ifndef KVSWAP_RUN_H
#define KVSWAP_RUN_H

#include "compute.h"
#include "decode.h"
#include "model.h"
#include "options.h"
#include "outfile.h"
#include "prefill.h"
#include "progress.h"
#include "sample.h"
#include "session.h"
#include "stream.h"
#include "text.h"

/* One sequence of the batch. */
struct sequence {
	struct tokens prompt;
	struct tokens made; /* room for n_predict */
	uint32_t id;	    /* of libkvswap */
	struct sampler sampler;
	struct stream stream;
	struct outfile logits;
	bool ended;
};

struct run {
	struct options options;
	struct model model;
	struct text text;
	struct compute compute;
	struct session session;
	struct sequence *sequences; /* [options.batch] */
	uint32_t n_ctx;
	struct progress progress;

	uint32_t n_prompt, n_made; /* tokens of all sequences */
	double prefill_s, decode_s;
	uint64_t *step_ns;	     /* [n_steps], of each decode step */
	uint32_t n_steps, n_stepped; /* n_stepped: tokens that decode steps have made */
	uint64_t compute_ns, estimate_ns, sample_ns; /* of decode */
	size_t activation_bytes;		     /* peak */
	struct kvs_stats before, after;		     /* decode began, all done */
};

int run_main(int argc, char **argv);

/* Prompts from the options, as tokens; the same for all sequences where one was given. */
int prompt_read_all(struct run *r);

/* The summary on stderr, and with --json the object on stdout. */
int output_write(struct run *r);

#endif
