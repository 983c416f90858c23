// SPDX-License-Identifier: MIT
/*
 * `kvswap-bench score`: the choice of groups for one token in one layer, by every predictor,
 * alone and with the attention over what was chosen, against attention over all tokens in
 * memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "kernels.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "predict.h"

#define CHUNK_TOKENS 256u /* as a session has it */
#define ROLLING 32u	  /* tokens, whose logits are exact */
#define CALLS 8		  /* of one measurement */

static const char help[] =
	"usage: kvswap-bench score [--tokens N] [--select N] [options]\n"
	"\n"
	"The choice of groups for one token in one layer by every predictor (query, scores, reduction over\n"
	"heads, the best), alone and with the attention over them, against our attention over all tokens\n"
	"in memory and ggml's. K and V are made up: for speed only.\n"
	"\n"
	"  kvswap-bench score --tokens 32768 --select 400\n"
	"\n"
	"      --heads N, --kv-heads N, --head-dim N\n"
	"                          shape of the layer (16, 8, 128)\n"
	"      --tokens N          in the context (32768)\n"
	"      --select N          tokens to select (400)\n"
	"      --group G           tokens of a group (4)\n"
	"      --rank R            of the low-rank K (the predictor's own)\n"
	"  -t, --threads N         of attention; scoring has one (1)\n"
	"      --repeat N          measurements of each side (9)\n"
	"      --json              one JSON object instead of the table\n"
	"  -h, --help\n";

enum { GROUPMEAN, LOWRANK, EXACT, N_PREDICTORS };
enum { STEP = N_PREDICTORS, DENSE, FLASH, N_SIDES };

/* Metadata of the layer, and the scratch of a choice. */
struct chooser {
	struct kvs_predictor p;
	uint32_t n_groups, n_chunks, ld;
	size_t block_bytes;
	uint8_t *meta;
	void *basis;
	float *projected, *est, *rolling, *score;
	uint32_t *top, *scratch;
};

struct score_bench {
	struct kernels_options options;
	struct compute compute;
	struct kv_layer layer, dense;
	struct flash flash;
	struct chooser choosers[N_PREDICTORS];
	uint32_t n_select; /* groups */
	struct series series[N_SIDES];
};

/* Columns are unit vectors, spread over the dimensions: as orthonormal as a learned basis. */
static float *make_basis(uint32_t kv_dim, uint32_t rank)
{
	float *basis = calloc((size_t)kv_dim * rank, sizeof(*basis));

	for (uint32_t r = 0; basis && r < rank; r++)
		basis[(size_t)((uint64_t)r * kv_dim / rank) * rank + r] = 1;
	return basis;
}

static void *room(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	return p ? memset(p, 0, bytes) : NULL;
}

static int allocate(struct chooser *c, uint32_t kv_dim)
{
	const struct kvs_predictor *p = &c->p;
	uint32_t heads = p->geom.n_heads;
	float *basis = NULL;

	c->block_bytes = (p->ops->block_bytes(p) + 63) / 64 * 64;
	c->ld = kvs_predict_ld(p, c->n_groups);
	c->meta = room(c->n_chunks * c->block_bytes);
	c->basis = room(p->ops->basis_bytes(p));
	c->projected = room(p->ops->query_floats(p) * sizeof(float));
	c->est = room((size_t)heads * c->ld * sizeof(float));
	c->rolling = room((size_t)heads * ROLLING * sizeof(float));
	c->score = room(c->n_groups * sizeof(float));
	c->top = room(c->n_groups * sizeof(uint32_t));
	c->scratch = room(c->n_groups * sizeof(uint32_t));
	if (!c->meta || !c->basis || !c->projected || !c->est || !c->rolling || !c->score ||
	    !c->top || !c->scratch)
		return report_fail("out of memory for the metadata of %s", p->ops->name);
	if (!p->ops->needs_basis)
		return DONE;
	basis = make_basis(kv_dim, p->rank);
	if (!basis)
		return report_fail("out of memory for a basis");
	p->ops->basis_pack(p, basis, c->basis);
	free(basis);
	return DONE;
}

static int build(struct chooser *c, const struct kv_layer *l)
{
	for (uint32_t g = 0; g < c->n_groups; g++) {
		uint32_t per = c->p.groups_per_chunk, bad;

		if (c->p.ops->build(&c->p, c->basis, kv_layer_record(l, g), g % per,
				    c->meta + g / per * c->block_bytes, &bad))
			return report_fail("%s cannot take the K of group %u", c->p.ops->name, g);
	}
	return DONE;
}

static int chooser_open(struct chooser *c, const struct kv_layer *l,
			const struct kvs_predictor_ops *ops, uint32_t rank)
{
	uint32_t kv_dim = l->geom.n_kv_heads * l->geom.head_dim;
	int rc;

	c->p = (struct kvs_predictor){
		.ops = ops,
		.kernels = l->kernels,
		.geom = l->geom,
		.groups_per_chunk = CHUNK_TOKENS / l->geom.group,
	};
	if (ops->init(&c->p, ops->needs_basis ? rank : 0))
		return report_usage("--rank is %u, does not suit %s with %u KV heads of %u", rank,
				    ops->name, l->geom.n_kv_heads, l->geom.head_dim);
	c->n_groups = l->n_tokens / l->geom.group;
	c->n_chunks = (l->n_tokens + CHUNK_TOKENS - 1) / CHUNK_TOKENS;
	rc = allocate(c, kv_dim);
	return rc ? rc : build(c, l);
}

static void chooser_close(struct chooser *c)
{
	free(c->meta);
	free(c->basis);
	free(c->projected);
	free(c->est);
	free(c->rolling);
	free(c->score);
	free(c->top);
	free(c->scratch);
}

/* As a session chooses: c->top, ascending. */
static void choose(struct chooser *c, struct kv_layer *l, uint32_t n_select)
{
	const struct kvs_predictor *p = &c->p;
	uint32_t per = p->groups_per_chunk, rows = l->geom.n_heads / l->geom.n_kv_heads;
	struct kvs_span span = { kv_layer_record(l, 0), 0, (uint16_t)l->geom.group, 0 };
	uint32_t n_rolling = l->geom.group < ROLLING ? l->geom.group : ROLLING;

	p->ops->query(p, c->basis, l->q, c->projected);
	for (uint32_t i = 0; i < c->n_chunks; i++)
		p->ops->score(p, c->projected, c->meta + i * c->block_bytes,
			      c->n_groups - i * per < per ? c->n_groups - i * per : per,
			      c->est + (size_t)i * per * p->items_per_group, c->ld);
	for (uint32_t h = 0; h < l->geom.n_kv_heads; h++)
		l->kernels->logits(&l->geom, h, l->q + (size_t)h * rows * l->geom.head_dim, &span,
				   1, c->rolling + (size_t)h * rows * n_rolling, n_rolling);
	kvs_predict_reduce(p, 0, c->est, c->ld, c->n_groups, c->rolling, n_rolling, c->score);
	kvs_predict_top(l->kernels, c->score, c->n_groups, n_select, 1, c->top, c->scratch);
}

static int choose_groupmean(void *arg)
{
	struct score_bench *b = arg;

	choose(&b->choosers[GROUPMEAN], &b->layer, b->n_select);
	return DONE;
}

static int choose_lowrank(void *arg)
{
	struct score_bench *b = arg;

	choose(&b->choosers[LOWRANK], &b->layer, b->n_select);
	return DONE;
}

static int choose_exact(void *arg)
{
	struct score_bench *b = arg;

	choose(&b->choosers[EXACT], &b->layer, b->n_select);
	return DONE;
}

static int step(void *arg)
{
	struct score_bench *b = arg;

	choose(&b->choosers[GROUPMEAN], &b->layer, b->n_select);
	kv_layer_attend(&b->layer, b->choosers[GROUPMEAN].top, b->n_select);
	return DONE;
}

static int attend_dense(void *arg)
{
	struct score_bench *b = arg;

	kv_layer_attend(&b->dense, NULL, b->dense.n_tokens / b->dense.geom.group);
	return DONE;
}

static int attend_flash(void *arg)
{
	return flash_attend(&((struct score_bench *)arg)->flash);
}

static const struct {
	const char *name;
	int (*fn)(void *arg);
	uint32_t n;
} sides[N_SIDES] = {
	[GROUPMEAN] = { "choose, groupmean", choose_groupmean, CALLS },
	[LOWRANK] = { "choose, lowrank", choose_lowrank, CALLS },
	[EXACT] = { "choose, exact", choose_exact, 1 },
	[STEP] = { "choose and attend, groupmean", step, CALLS },
	[DENSE] = { "attend to all tokens", attend_dense, 1 },
	[FLASH] = { "ggml, token-major as libllama", attend_flash, 1 },
};

static int open_all(struct score_bench *b)
{
	static const struct kvs_predictor_ops *const ops[N_PREDICTORS] = {
		[GROUPMEAN] = &kvs_predict_groupmean,
		[LOWRANK] = &kvs_predict_lowrank,
		[EXACT] = &kvs_predict_exact,
	};
	const struct kv_shape *shape = &b->options.shape;
	struct compute *compute = shape->threads > 1 ? &b->compute : NULL;
	int rc = compute_open(&b->compute, (int)shape->threads);

	b->n_select = (shape->select + shape->group - 1) / shape->group;
	if (!rc)
		rc = kv_layer_open(&b->layer, shape, shape->group, compute);
	if (!rc)
		rc = kv_layer_open(&b->dense, shape, DENSE_GROUP, compute);
	if (!rc)
		rc = flash_open(&b->flash, &b->dense, true, &b->compute);
	for (int i = 0; !rc && i < N_PREDICTORS; i++)
		rc = chooser_open(&b->choosers[i], &b->layer, ops[i], b->options.rank);
	return rc;
}

static void close_all(struct score_bench *b)
{
	for (int i = 0; i < N_PREDICTORS; i++)
		chooser_close(&b->choosers[i]);
	flash_close(&b->flash);
	kv_layer_close(&b->dense);
	kv_layer_close(&b->layer);
	compute_close(&b->compute);
}

static int measure(struct score_bench *b)
{
	int rc = DONE;

	for (int i = 0; !rc && i < N_SIDES; i++)
		rc = sides[i].fn(b); /* cold */
	for (uint32_t r = 0; !rc && r < b->options.repeat; r++)
		for (uint32_t k = 0; !rc && k < N_SIDES; k++) {
			uint32_t i = (r + k) % N_SIDES;

			rc = kernels_time(&b->series[i], sides[i].fn, b, sides[i].n);
		}
	return rc;
}

static void json_more(struct json *j, const void *arg)
{
	const struct score_bench *b = arg;

	kernels_json(j, &b->options, b->dense.kernels->name);
	json_open(j, "predictors", '[');
	for (int i = 0; i < N_PREDICTORS; i++) {
		const struct chooser *c = &b->choosers[i];

		json_open(j, NULL, '{');
		json_text(j, "name", c->p.ops->name);
		json_uint(j, "rank", c->p.rank);
		json_number(j, "bytes_per_token",
			    (double)c->block_bytes * c->n_chunks / b->layer.n_tokens);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static int show(struct score_bench *b)
{
	const struct series *series[N_SIDES];
	const struct kv_shape *s = &b->options.shape;
	char title[256];
	struct results r = {
		.argc = b->options.argc,
		.argv = b->options.argv,
		.json = b->options.json,
		.title = title,
		.series = series,
		.more = json_more,
		.arg = b,
	};

	for (int i = 0; i < N_SIDES; i++)
		series[r.n_series++] = &b->series[i];
	results_add(&r, ratio_of("score_over_dense", series[GROUPMEAN], series[DENSE]));
	results_add(&r, ratio_of("score_lowrank_over_dense", series[LOWRANK], series[DENSE]));
	results_add(&r, ratio_of("score_attend_over_dense", series[STEP], series[DENSE]));
	results_add(&r, ratio_of("score_attend_over_ggml", series[STEP], series[FLASH]));
	snprintf(title, sizeof(title),
		 "one layer, %u tokens, %u heads, %u KV heads x %u; %u selected in groups of %u; "
		 "rank %u of groupmean, %u of lowrank; kernels %s",
		 s->n_tokens, s->n_heads, s->n_kv_heads, s->head_dim, s->select, s->group,
		 b->choosers[GROUPMEAN].p.rank, b->choosers[LOWRANK].p.rank,
		 b->dense.kernels->name);
	return results_write(&r);
}

int score_main(int argc, char **argv)
{
	struct score_bench *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return report_fail("out of memory");
	rc = kernels_parse(&b->options, argc, argv, help);
	if (rc || b->options.help) {
		free(b);
		return rc;
	}
	interrupt_catch();
	for (int i = 0; i < N_SIDES; i++) {
		snprintf(b->series[i].name, sizeof(b->series[i].name), "%s", sides[i].name);
		b->series[i].unit = "layers/s";
	}
	results_start();
	rc = open_all(b);
	if (!rc)
		rc = measure(b);
	if (!rc)
		rc = show(b);
	close_all(b);
	free(b);
	return rc;
}
