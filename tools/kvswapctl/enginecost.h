/* SPDX-License-Identifier: MIT */
/*
 * What a decode step costs this machine's processors, measured in seconds: the model's own graphs near
 * depth 0, and append, score and attention of one layer over made-up K and V at the depth asked for.
 */
#ifndef KVSWAPCTL_ENGINECOST_H
#define KVSWAPCTL_ENGINECOST_H

#include "kvswap.h"
#include "kvswap/compute.h"
#include "kvswap/model.h"

struct step_cost {
	double compute_ms, estimate_ms; /* of a step of n_seqs rows, all layers */
};

struct layer_cost {
	double append_us, score_us, attend_us; /* of one layer and sequence */
};

/* DONE, or an exit code and said why. */
int engine_step(const struct model *m, struct compute *c, uint32_t n_seqs, struct step_cost *out);

/* where: KVS_MEMORY with these settings, or KVS_DENSE; shape: the model's, of which one layer is taken. */
int engine_layer(const struct kvs_shape *shape, enum kvs_where where,
		 const struct kvs_settings *settings, struct layer_cost *out);

#endif
