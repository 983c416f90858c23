/* SPDX-License-Identifier: MIT */
/* `kvswapctl plan`: what it was told, what it measured, what it chose. */
#ifndef KVSWAPCTL_PLAN_H
#define KVSWAPCTL_PLAN_H

#include <stdio.h>

#include "cost.h"
#include "enginecost.h"
#include "modelshape.h"
#include "warnings.h"

/* The storage, of a probe made now or of its file. */
struct plan_device {
	struct cells reads, writes;
	double cpu_us; /* of a read of some 16 KiB */
	bool slow, direct;
	uint32_t block;
	char path[4096], name[64], kind[32], model[64], from[4096]; /* from: the file, or "" */
};

struct plan_choice {
	struct kvs_settings settings;
	struct kvs_plan plan;
	struct layer_cost layer;
	struct cost_input in;
	struct cost cost;
};

struct plan {
	struct model_shape model;
	struct plan_device device;
	struct step_cost step;
	struct plan_choice best;
	uint32_t n_disk, n_seqs, n_threads;
	uint64_t budget, full_bytes, available;
	double dense_tokens_per_s; /* all KV in memory, full attention; 0: not measured */
	struct warnings advice;
};

/* From what stands in --device: a probe's file, or a path that is probed now. "": where kvswap puts its stores. */
int plan_device_open(struct plan_device *d, const char *arg, bool force, bool quiet);

int plan_write_json(const struct plan *p, FILE *f);
int plan_write_table(const struct plan *p);

#endif
