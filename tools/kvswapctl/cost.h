/* SPDX-License-Identifier: MIT */
/*
 * The cost model of a decode step: times that were measured here, put together by the shape of a step
 * (lib/session.h). Pure arithmetic.
 *
 * A step of L layers with a store, M groups selected in each, R slots a layer:
 *   hit    share of the selected groups that are in slots, a function of R / M alone
 *   ahead  M (1 - hit) percent / 100 records, read while the layer before computes
 *   late   M missed (1 - hit^4), missed: the share that the estimated query does not choose; read while nothing
 *          else is done
 * and of each batch of n records the device takes n / iops(record size, depth n).
 */
#ifndef KVSWAPCTL_COST_H
#define KVSWAPCTL_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "cells.h"

enum cost_stage {
	COST_COMPUTE,  /* weights */
	COST_ESTIMATE, /* the next layer's query */
	COST_APPEND,
	COST_SCORE,
	COST_ATTEND,
	COST_SUBMIT, /* CPU of reads and writes */
	COST_LATE,   /* waiting for what the estimate missed */
	COST_AHEAD,  /* waiting for what was read ahead, beyond what the computing hides */
	COST_WRITE,  /* of writes, what is waited for */
	COST_STAGES,
};

struct cost_input {
	const struct cells *reads, *writes;
	double cpu_us;			       /* of a read */
	uint32_t n_disk, n_seqs;	       /* layers with a store; sequences of a step */
	double compute_ms, estimate_ms;	       /* of a step, all layers */
	double append_us, score_us, attend_us; /* of one such layer and sequence */
	uint32_t record_bytes, group, groups_selected, groups_all, slots, ahead_percent, depth;
	bool write_sync;
};

struct cost {
	double ms[COST_STAGES], total_ms, tokens_per_s;
	double hit_rate, ahead_records, late_records; /* of a layer and sequence */
	double read_bytes_s;
	const char *
		binding; /* "compute", "attention", "storage latency", "storage bandwidth", "memory" */
};

const char *cost_stage_name(enum cost_stage stage);
void cost_work_out(const struct cost_input *in, struct cost *out);

/* Share of the selected groups found in slots: slots for each group that is selected. */
double cost_hit_rate(double ratio);
/* Share of the selection that the estimated query does not choose, when percent of it is read ahead. */
double cost_missed_share(uint32_t ahead_percent);
/* Tokens to select in groups of G for the coverage of `select` tokens in groups of 4. */
uint32_t cost_select_for(uint32_t select, uint32_t group);

#endif
