// SPDX-License-Identifier: MIT
/*
 * Owns the rows of a chunk and the order in which a prompt goes through the layers; see prefill.h.
 */
#include "prefill.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "interrupt.h"
#include "report.h"

#define LOGITS_BYTES ((size_t)8 << 20) /* of a block of output rows, when all are wanted */
#define SMALLEST_BLOCK 32

static size_t q_dim(const struct model *m)
{
	return (size_t)m->n_heads * m->head_dim;
}

static size_t kv_dim(const struct model *m)
{
	return (size_t)m->n_kv_heads * m->head_dim;
}

static size_t token_bytes(const struct model *m)
{
	return (m->n_embd + 2 * q_dim(m)) * sizeof(float) + 2 * sizeof(int32_t);
}

static size_t block_bytes(const struct prefill *p)
{
	return 2 * p->block * kv_dim(p->model) * sizeof(float) +
	       (size_t)p->head_rows * p->model->n_vocab * sizeof(float);
}

size_t prefill_bytes(const struct prefill *p)
{
	return p->chunk * token_bytes(p->model) + block_bytes(p) + bf16_bytes(&p->bf16);
}

static const struct layer *layer_before(const struct model *m, uint32_t boundary)
{
	return boundary > 0 ? &m->layers[boundary - 1] : NULL;
}

static const struct layer *layer_after(const struct model *m, uint32_t boundary)
{
	return boundary < m->n_layers ? &m->layers[boundary] : NULL;
}

/* What ggml holds for a block of rows, found by laying out a graph of the middle. */
static int measure_graph(struct prefill *p, size_t *bytes)
{
	const struct model *m = p->model;
	char anywhere; /* outside tensors have an address; nothing runs */
	struct rows r = {
		.n = p->block,
		.tokens = (void *)&anywhere,
		.pos = (void *)&anywhere,
		.x = (void *)&anywhere,
		.attn = (void *)&anywhere,
		.q = (void *)&anywhere,
		.k = (void *)&anywhere,
		.v = (void *)&anywhere,
	};
	struct ggml_cplan plan;
	int rc;

	ggml_reset(p->ctx);
	rc = compute_prepare(
		p->compute,
		graph_boundary(p->ctx, m, &m->layers[0], &m->layers[m->n_layers - 1], &r), &plan);
	*bytes = compute_bytes(p->compute);
	return rc;
}

/* The largest block that the prompt fills and whose graph leaves half of the cap to the chunk. */
static int choose_block(struct prefill *p, size_t cap, size_t *graph_bytes)
{
	int rc;

	p->block = PREFILL_BLOCK;
	while (p->block / 2 >= p->config.n_tokens && p->block > SMALLEST_BLOCK)
		p->block /= 2;
	for (;; p->block /= 2) {
		rc = compute_shrink(p->compute);
		if (!rc)
			rc = measure_graph(p, graph_bytes);
		if (rc || *graph_bytes <= cap / 2 || p->block == SMALLEST_BLOCK)
			return rc;
	}
}

/*
 * The chunk is what is left of the cap, in whole blocks of PREFILL_BLOCK as long as there is one,
 * so that where a prompt is cut does not move the blocks. Turned weights take at most a quarter.
 */
static int choose_sizes(struct prefill *p, const struct kvs_plan *plan, size_t *turned)
{
	const struct model *m = p->model;
	size_t cap = p->config.cap ? p->config.cap : PREFILL_CAP;
	size_t graph_bytes, used, limit;
	int rc = choose_block(p, cap, &graph_bytes);

	if (rc)
		return rc;
	p->head_rows = 1;
	if (p->config.on_logits)
		p->head_rows = (uint32_t)(LOGITS_BYTES / sizeof(float) / m->n_vocab) + 1;
	*turned = p->config.n_tokens >= BF16_MIN_ROWS && !p->config.no_bf16 ? bf16_wanted(m) : 0;
	if (*turned > cap / 4)
		*turned = cap / 4;
	/*
	 * Rows that meet a turned weight become bfloat16 too, a byte more than the graph was laid
	 * out for.
	 */
	used = graph_bytes + block_bytes(p) + *turned + (*turned ? (size_t)p->block * m->n_ff : 0);
	limit = used < cap ? (cap - used) / token_bytes(m) : 0;
	if (limit > plan->prefill_tokens)
		limit = plan->prefill_tokens;
	if (limit >= p->config.n_tokens)
		limit = p->config.n_tokens;
	else if (limit >= PREFILL_BLOCK)
		limit -= limit % PREFILL_BLOCK;
	else if (limit < SMALLEST_BLOCK)
		limit = plan->prefill_tokens < SMALLEST_BLOCK ? plan->prefill_tokens
							      : SMALLEST_BLOCK;
	p->chunk = (uint32_t)limit;
	if (p->block > p->chunk)
		p->block = p->chunk;
	return DONE;
}

static int alloc_rows(struct prefill *p)
{
	const struct model *m = p->model;
	struct rows *r = &p->rows;

	r->tokens = malloc(p->chunk * sizeof(int32_t));
	r->pos = malloc(p->chunk * sizeof(int32_t));
	r->x = malloc(p->chunk * m->n_embd * sizeof(float));
	r->q = malloc(p->chunk * q_dim(m) * sizeof(float));
	r->attn = malloc(p->chunk * q_dim(m) * sizeof(float));
	r->k = malloc(p->block * kv_dim(m) * sizeof(float));
	r->v = malloc(p->block * kv_dim(m) * sizeof(float));
	r->logits = malloc((size_t)p->head_rows * m->n_vocab * sizeof(float));
	if (r->tokens && r->pos && r->x && r->q && r->attn && r->k && r->v && r->logits)
		return DONE;
	return report_fail("out of memory: %zu bytes of activations", prefill_bytes(p));
}

int prefill_open(struct prefill *p, const struct model *m, struct compute *compute, struct kvs *kvs,
		 const struct prefill_config *config)
{
	struct ggml_init_params params = { .mem_size = graph_context_bytes(1), .no_alloc = true };
	struct kvs_plan plan = { .size = sizeof(plan) };
	size_t turned = 0;
	int rc;

	memset(p, 0, sizeof(*p));
	p->config = *config;
	p->model = m;
	p->compute = compute;
	p->kvs = kvs;
	kvs_plan_get(kvs, &plan);
	p->ctx = ggml_init(params);
	rc = p->ctx ? choose_sizes(p, &plan, &turned) : report_fail("out of memory");
	if (!rc)
		rc = bf16_open(&p->bf16, m, compute, turned);
	if (!rc)
		rc = alloc_rows(p);
	if (rc)
		prefill_close(p);
	return rc;
}

void prefill_close(struct prefill *p)
{
	struct rows *r = &p->rows;

	free(r->tokens);
	free(r->pos);
	free(r->x);
	free(r->q);
	free(r->attn);
	free(r->k);
	free(r->v);
	free(r->logits);
	bf16_close(&p->bf16);
	ggml_free(p->ctx);
	memset(p, 0, sizeof(*p));
}

/* n rows of the chunk from `first` on. */
static struct rows rows_at(const struct prefill *p, uint32_t first, uint32_t n)
{
	struct rows r = p->rows;

	r.n = n;
	r.tokens += first;
	r.pos += first;
	r.x += (size_t)first * p->model->n_embd;
	r.q += (size_t)first * q_dim(p->model);
	r.attn += (size_t)first * q_dim(p->model);
	return r;
}

static int run_rows(struct prefill *p, const struct layer *prev, const struct layer *next,
		    const struct rows *r)
{
	uint64_t start = clock_ns();
	struct ggml_cplan plan;
	struct ggml_cgraph *graph;
	int rc;

	ggml_reset(p->ctx);
	graph = graph_boundary(p->ctx, p->model, prev, next, r);
	rc = compute_prepare(p->compute, graph, &plan);
	if (!rc)
		rc = compute_run(p->compute, graph, &plan);
	p->compute_ns += clock_ns() - start;
	return rc;
}

static int run_layer(struct prefill *p, uint32_t layer, uint32_t n)
{
	struct layer prev, next;
	int rc = DONE;

	bf16_boundary(&p->bf16, layer_before(p->model, layer), &p->model->layers[layer], &prev,
		      &next);
	for (uint32_t first = 0; !rc && first < n; first += p->block) {
		uint32_t n_rows = n - first < p->block ? n - first : p->block;
		struct rows r = rows_at(p, first, n_rows);

		rc = interrupt_check();
		if (!rc)
			rc = run_rows(p, layer > 0 ? &prev : NULL, &next, &r);
		if (!rc && kvs_prefill_put(p->kvs, layer, n_rows, r.k, r.v))
			rc = report_fail("%s", kvs_message(p->kvs));
	}
	if (!rc)
		rc = interrupt_check();
	if (!rc && kvs_prefill_attend(p->kvs, layer, p->rows.q, p->rows.attn))
		rc = report_fail("%s", kvs_message(p->kvs));
	return rc;
}

/* The rest of the last layer and the output head, only for rows whose logits someone reads. */
static int run_head(struct prefill *p, uint32_t n, float **last)
{
	const struct layer *prev = layer_before(p->model, p->model->n_layers);
	uint32_t first = p->config.on_logits ? 0 : n - 1;
	int rc = DONE;

	while (!rc && first < n) {
		uint32_t n_rows = n - first < p->head_rows ? n - first : p->head_rows;
		struct rows r = rows_at(p, first, n_rows);

		rc = interrupt_check();
		if (!rc)
			rc = run_rows(p, prev, layer_after(p->model, p->model->n_layers), &r);
		if (!rc && p->config.on_logits)
			rc = p->config.on_logits(p->config.arg, r.logits, n_rows);
		*last = r.logits + (size_t)(n_rows - 1) * p->model->n_vocab;
		first += n_rows;
	}
	return rc;
}

static int run_chunk(struct prefill *p, uint32_t seq, uint32_t done, uint32_t n, uint32_t n_all)
{
	uint32_t had = kvs_seq_tokens(p->kvs, seq);
	int rc = DONE;

	for (uint32_t i = 0; i < n; i++)
		p->rows.pos[i] = (int32_t)(had + i);
	if (kvs_prefill_begin(p->kvs, seq, n, had + n_all - done))
		return report_fail("%s", kvs_message(p->kvs));
	for (uint32_t l = 0; !rc && l < p->model->n_layers; l++) {
		rc = run_layer(p, l, n);
		if (!rc && p->config.on_progress)
			p->config.on_progress(p->config.arg,
					      done + n * (double)(l + 1) /
							      (double)p->model->n_layers);
	}
	if (!rc && kvs_prefill_end(p->kvs))
		rc = report_fail("%s", kvs_message(p->kvs));
	return rc;
}

int prefill_run(struct prefill *p, uint32_t seq, const int32_t *tokens, uint32_t n, float **last)
{
	int rc = DONE;

	for (uint32_t done = 0; !rc && done < n; done += p->chunk) {
		uint32_t n_chunk = n - done < p->chunk ? n - done : p->chunk;

		memcpy(p->rows.tokens, tokens + done, n_chunk * sizeof(*tokens));
		rc = run_chunk(p, seq, done, n_chunk, n);
		if (!rc && (p->config.on_logits || done + n_chunk == n))
			rc = run_head(p, n_chunk, last);
	}
	return rc;
}
