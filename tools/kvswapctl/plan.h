/* SPDX-License-Identifier: MIT */
/* `kvswapctl plan`: what it was told, what it measured, what it chose. */
#ifndef KVSWAPCTL_PLAN_H
#define KVSWAPCTL_PLAN_H

#include <stdio.h>

#include "cli.h"
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

#define PLAN_CHOICES 8

/* What was asked for. */
struct plan_want {
	const char *model, *device, *predictor; /* device: as of plan_device_open() */
	uint32_t context, batch, select,
		threads;	    /* context, threads 0: the model's, all processors */
	uint32_t group, group_most; /* group 0: the best up to group_most */
	struct cli_budget budget;
	bool force, quiet;
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
	struct plan_choice choices[PLAN_CHOICES], best; /* choices: one for each G that fits */
	int n_choices;
	uint32_t n_disk, n_seqs, n_threads;
	uint64_t budget, full_bytes, available;
	double dense_tokens_per_s; /* all KV in memory, full attention; 0: not measured */
	struct warnings advice;
};

/* From what stands in --device: a probe's file, or a path that is probed now. "": where kvswap puts its stores. */
int plan_device_open(struct plan_device *d, const char *arg, bool force, bool quiet);

/* Opens model and storage and measures them; then chooses. DONE, or an exit code and said why. */
int plan_prepare(struct plan *p, const struct plan_want *w);
int plan_choose(struct plan *p, const struct plan_want *w);
void plan_close(struct plan *p);

/* settings, memory, expected, device, model ... into an object that is open. */
struct json;
void plan_json_members(struct json *j, const struct plan *p);
int plan_write_json(const struct plan *p, FILE *f);
int plan_write_table(const struct plan *p);

#endif
