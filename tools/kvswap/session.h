/* SPDX-License-Identifier: MIT */
/*
 * A libkvswap session for a model: its configuration from options, the budget worked out and said.
 */
#ifndef KVSWAP_SESSION_H
#define KVSWAP_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "compute.h"
#include "kvswap.h"
#include "model.h"

enum profile {
	PROFILE_NONE,
	PROFILE_NVME, /* written behind; G as the library chooses it for fast storage */
	PROFILE_EMMC, /* written at once; twice that G */
};

struct budget {
	bool given;
	uint64_t bytes;	      /* when part is 0 */
	uint32_t part, whole; /* part / whole of the full KV */
};

struct session_options {
	enum kvs_where where;
	struct kvs_settings settings;
	struct budget budget;
	enum profile profile;
	const char *store, *backend; /* NULL: the library's choice */
	bool force;
	uint32_t io_timeout_ms, test_delay_us;
};

struct session {
	struct kvs *kvs;
	uint32_t *window; /* [n_layers], of shape */
	float *turn;	  /* [head_dim / 2], of rope */
	struct kvs_rope rope;
	struct kvs_shape shape;
	struct kvs_plan plan;
	uint64_t budget; /* bytes; 0: none */
};

/*
 * full_bytes: KV of all sequences at their longest, what a budget's fraction is of. DONE or FAILED,
 * said why.
 */
int session_open(struct session *s, const struct model *m, struct compute *compute,
		 const struct session_options *o, uint32_t n_ctx, uint32_t n_seqs,
		 uint64_t full_bytes);
void session_close(struct session *s);

/* Bytes of f16 KV of one sequence of n tokens. */
uint64_t session_full_bytes(const struct model *m, uint32_t n_tokens);

/* "12.3 MiB" in out. */
const char *session_size(uint64_t bytes, char out[32]);

#endif
