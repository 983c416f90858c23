// SPDX-License-Identifier: MIT
/* See cost.h. The constants are measurements on English text: SmolLM2 at 5,700 tokens, Qwen2.5-Coder at 8K for the coverage. */
#include "cost.h"

#include <math.h>
#include <string.h>

/* Hit rate at .7, 1, 1.4 and 3 slots for each selected group, and what is assumed beyond. */
static const struct {
	double ratio, hit;
} hits[] = {
	{ 0, 0 }, { .7, .24 }, { 1, .77 }, { 1.4, .855 }, { 3, .93 }, { 8, .97 }, { 32, .99 }
};

/* Share of the selection that the estimated query misses, by percent of the selection that is read ahead. */
static const struct {
	double percent, missed;
} estimates[] = { { 0, 1 }, { 100, .155 }, { 150, .08 }, { 200, .04 }, { 400, .02 } };

#define FIRST_WAVE .5	/* of the slots, when what is read ahead does not fit them */
#define WAVES_HIT .75	/* of the hits, that are left then */
#define WAVES_LATE .75	/* of the misses */
#define PINNED_SHARE .7 /* of the slots, where reading ahead stops (kvs_settings) */
#define GROUP_PUBLISHED 4.0
#define COVERAGE_PER_DOUBLED_GROUP .0095 /* lost */
#define COVERAGE_PER_DOUBLED_SELECT .032 /* gained */

static const char *const stage_names[COST_STAGES] = {
	"compute", "estimate", "append", "score", "attend", "submit", "late", "ahead", "write",
};

const char *cost_stage_name(enum cost_stage stage)
{
	return stage_names[stage];
}

double cost_hit_rate(double ratio)
{
	const int n = sizeof(hits) / sizeof(hits[0]);

	for (int i = 1; i < n; i++)
		if (ratio <= hits[i].ratio)
			return hits[i - 1].hit + (hits[i].hit - hits[i - 1].hit) *
							 (ratio - hits[i - 1].ratio) /
							 (hits[i].ratio - hits[i - 1].ratio);
	return hits[n - 1].hit;
}

double cost_missed_share(uint32_t ahead_percent)
{
	const int n = sizeof(estimates) / sizeof(estimates[0]);

	for (int i = 1; i < n; i++)
		if (ahead_percent <= estimates[i].percent)
			return estimates[i - 1].missed +
			       (estimates[i].missed - estimates[i - 1].missed) *
				       (ahead_percent - estimates[i - 1].percent) /
				       (estimates[i].percent - estimates[i - 1].percent);
	return estimates[n - 1].missed;
}

uint32_t cost_select_for(uint32_t select, uint32_t group)
{
	double doublings = log2(group / GROUP_PUBLISHED) * COVERAGE_PER_DOUBLED_GROUP /
			   COVERAGE_PER_DOUBLED_SELECT;
	double tokens = doublings > 0 ? select * exp2(doublings) : select;

	return (uint32_t)(ceil(tokens / group) * group);
}

/* Milliseconds for n records asked for at once. */
static double batch_ms(const struct cost_input *in, double n)
{
	double iops = cells_iops(in->reads, in->record_bytes, fmin(fmax(n, 1), in->depth));

	return n > 0 && iops > 0 ? 1e3 * n / iops : 0;
}

/* The same where a selection that does not fit the slots is read in waves, each waited for. */
static double waves_ms(const struct cost_input *in, double n)
{
	double wave = fmax(FIRST_WAVE * in->slots, 1);

	if (in->slots >= in->groups_selected || n <= wave)
		return batch_ms(in, n);
	return n / wave * batch_ms(in, wave);
}

/* What is read of one layer and sequence. */
static void count(const struct cost_input *in, struct cost *out)
{
	double selected = in->groups_selected, ahead = selected * in->ahead_percent / 100.0, late;
	bool waves = ahead > in->slots;

	out->hit_rate =
		in->slots >= in->groups_all ? 1 : cost_hit_rate(in->slots / fmax(selected, 1));
	if (waves && in->slots < in->groups_all) {
		/* What does not fit the slots is read in waves, of which the first alone is read ahead. */
		out->hit_rate *= selected > in->slots ? 1 : WAVES_HIT;
		out->ahead_records = FIRST_WAVE * in->slots * (1 - out->hit_rate);
		out->late_records = WAVES_LATE * selected * (1 - out->hit_rate);
		return;
	}
	out->ahead_records = fmin(ahead * (1 - out->hit_rate), PINNED_SHARE * in->slots);
	/* What the estimate misses was seldom wanted before, so it is seldom in a slot. */
	late = selected * cost_missed_share(in->ahead_percent) * (1 - pow(out->hit_rate, 4));
	out->late_records = fmin(late, selected * (1 - out->hit_rate));
}

static void reads(const struct cost_input *in, struct cost *out)
{
	double cpu_ms, hidden_ms, ahead_ms, late_ms;

	count(in, out);
	cpu_ms = (out->ahead_records + out->late_records) * in->cpu_us / 1e3;
	hidden_ms = (in->compute_ms + in->estimate_ms) / fmax(in->n_disk, 1) +
		    in->n_seqs * (in->append_us + 2 * in->score_us + in->attend_us) / 1e3;
	ahead_ms = batch_ms(in, out->ahead_records * in->n_seqs) - in->n_seqs * cpu_ms;
	late_ms = waves_ms(in, out->late_records);
	out->ms[COST_SUBMIT] = in->n_disk * in->n_seqs * (cpu_ms + in->cpu_us / 1e3 / in->group);
	out->ms[COST_AHEAD] = in->n_disk * fmax(ahead_ms - hidden_ms, 0);
	out->ms[COST_LATE] =
		in->n_disk * in->n_seqs * fmax(late_ms - out->late_records * in->cpu_us / 1e3, 0);
}

static void writes(const struct cost_input *in, struct cost *out)
{
	double iops = cells_iops(in->writes, in->record_bytes, 1), each;

	if (!(iops > 0))
		iops = cells_iops(in->reads, in->record_bytes, 1) / 2;
	each = iops > 0 ? 1e3 / iops : 0;
	/* Written behind, a record takes the device's time, not the step's. */
	out->ms[COST_WRITE] =
		in->write_sync ? (double)in->n_disk * in->n_seqs / in->group * each : 0;
}

static const char *binding(const struct cost_input *in, const struct cost *c)
{
	double storage = c->ms[COST_LATE] + c->ms[COST_AHEAD] + c->ms[COST_WRITE];
	double attention =
		c->ms[COST_APPEND] + c->ms[COST_SCORE] + c->ms[COST_ATTEND] + c->ms[COST_SUBMIT];
	double compute = c->ms[COST_COMPUTE] + c->ms[COST_ESTIMATE];
	double n = (c->ahead_records + c->late_records) * in->n_seqs, most;

	if (storage < compute || storage < attention)
		return compute >= attention ? "compute" : "attention";
	if (in->slots < in->groups_selected && in->slots < in->groups_all)
		return "memory";
	most = cells_iops(in->reads, in->record_bytes, 64);
	return cells_iops(in->reads, in->record_bytes, n) >= .8 * most ? "storage bandwidth"
								       : "storage latency";
}

void cost_work_out(const struct cost_input *in, struct cost *out)
{
	double each = (double)in->n_disk * in->n_seqs / 1e3;

	memset(out, 0, sizeof(*out));
	out->ms[COST_COMPUTE] = in->compute_ms;
	out->ms[COST_ESTIMATE] = in->estimate_ms;
	out->ms[COST_APPEND] = each * in->append_us;
	/* By the estimated query and by the true one. */
	out->ms[COST_SCORE] = 2 * each * in->score_us;
	out->ms[COST_ATTEND] = each * in->attend_us;
	reads(in, out);
	writes(in, out);
	for (int k = 0; k < COST_STAGES; k++)
		out->total_ms += out->ms[k];
	out->tokens_per_s = out->total_ms > 0 ? 1e3 * in->n_seqs / out->total_ms : 0;
	out->read_bytes_s = in->n_disk * (out->ahead_records + out->late_records) *
			    in->record_bytes * out->tokens_per_s;
	out->binding = binding(in, out);
}
