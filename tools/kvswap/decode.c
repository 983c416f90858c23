// SPDX-License-Identifier: MIT
/* Owns the graphs and rows of decode; see decode.h. */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "interrupt.h"
#include "report.h"

static int alloc_rows(struct decode *d, uint32_t n)
{
	const struct model *m = d->model;
	size_t q_dim = (size_t)m->n_heads * m->head_dim,
	       kv_dim = (size_t)m->n_kv_heads * m->head_dim;
	struct {
		void **at;
		size_t bytes;
	} parts[] = {
		{ (void **)&d->rows.tokens, sizeof(int32_t) },
		{ (void **)&d->rows.pos, sizeof(int32_t) },
		{ (void **)&d->rows.x, m->n_embd * sizeof(float) },
		{ (void **)&d->rows.attn, q_dim * sizeof(float) },
		{ (void **)&d->rows.q, q_dim * sizeof(float) },
		{ (void **)&d->rows.k, kv_dim * sizeof(float) },
		{ (void **)&d->rows.v, kv_dim * sizeof(float) },
		{ (void **)&d->rows.q_hat, q_dim * sizeof(float) },
		{ (void **)&d->rows.logits, m->n_vocab * sizeof(float) },
	};
	size_t n_parts = sizeof(parts) / sizeof(parts[0]), offset = 0;

	for (size_t i = 0; i < n_parts; i++)
		d->memory_bytes += GGML_PAD(parts[i].bytes * n, 64);
	d->memory = aligned_alloc(64, d->memory_bytes);
	if (!d->memory)
		return report_fail("out of memory");
	for (size_t i = 0; i < n_parts; i++) {
		*parts[i].at = d->memory + offset;
		offset += GGML_PAD(parts[i].bytes * n, 64);
	}
	d->rows.n = n;
	return DONE;
}

static int build(struct decode *d)
{
	const struct model *m = d->model;
	uint32_t n = m->n_layers;
	struct ggml_init_params params = { .mem_size = graph_context_bytes(2 * n + 1),
					   .no_alloc = true };

	d->ctx = ggml_init(params);
	d->boundary = calloc(n + 1, sizeof(*d->boundary));
	d->estimate = calloc(n, sizeof(*d->estimate));
	if (!d->ctx || !d->boundary || !d->estimate)
		return report_fail("out of memory");
	for (uint32_t l = 0; l <= n; l++)
		d->boundary[l].graph = graph_boundary(d->ctx, m, l > 0 ? &m->layers[l - 1] : NULL,
						      l < n ? &m->layers[l] : NULL, &d->rows);
	for (uint32_t l = 0; l < n; l++)
		d->estimate[l].graph = graph_estimate(d->ctx, m, &m->layers[l], &d->rows);
	return DONE;
}

static int prepare(struct decode *d)
{
	uint32_t n = d->model->n_layers;
	int rc = DONE;

	for (uint32_t l = 0; !rc && l <= n; l++)
		rc = compute_reserve(d->compute, d->boundary[l].graph);
	for (uint32_t l = 0; !rc && l < n; l++)
		rc = compute_reserve(d->compute, d->estimate[l].graph);
	for (uint32_t l = 0; !rc && l <= n; l++)
		rc = compute_prepare(d->compute, d->boundary[l].graph, &d->boundary[l].plan);
	for (uint32_t l = 0; !rc && l < n; l++)
		rc = compute_prepare(d->compute, d->estimate[l].graph, &d->estimate[l].plan);
	return rc;
}

int decode_open(struct decode *d, const struct model *m, struct compute *compute, struct kvs *kvs,
		uint32_t n_seqs)
{
	int rc;

	memset(d, 0, sizeof(*d));
	d->model = m;
	d->compute = compute;
	d->kvs = kvs;
	rc = alloc_rows(d, n_seqs);
	if (!rc)
		rc = build(d);
	if (!rc)
		rc = prepare(d);
	if (rc)
		decode_close(d);
	return rc;
}

void decode_close(struct decode *d)
{
	ggml_free(d->ctx);
	free(d->boundary);
	free(d->estimate);
	free(d->memory);
	memset(d, 0, sizeof(*d));
}

size_t decode_bytes(const struct decode *d)
{
	size_t n = d->model->n_layers;

	return d->memory_bytes + graph_context_bytes(2 * n + 1) +
	       (2 * n + 1) * sizeof(struct decode_graph);
}

static int run(struct decode *d, struct decode_graph *g, uint64_t *ns)
{
	uint64_t start = clock_ns();
	int rc = compute_run(d->compute, g->graph, &g->plan);

	*ns += clock_ns() - start;
	return rc;
}

static int read_ahead(struct decode *d, uint32_t layer, const uint32_t *seqs)
{
	int rc;

	if (layer == d->model->n_layers || d->model->layers[layer].window)
		return DONE;
	rc = run(d, &d->estimate[layer], &d->estimate_ns);
	if (rc)
		return rc;
	if (kvs_prefetch(d->kvs, layer, (uint32_t)d->rows.n, seqs, d->rows.q_hat))
		return report_fail("%s", kvs_message(d->kvs));
	return DONE;
}

static int step_layer(struct decode *d, uint32_t layer, const uint32_t *seqs, bool ahead)
{
	uint32_t n = (uint32_t)d->rows.n;
	int rc = interrupt_check();

	if (!rc)
		rc = run(d, &d->boundary[layer], &d->compute_ns);
	if (rc)
		return rc;
	if (kvs_append(d->kvs, layer, n, seqs, d->rows.k, d->rows.v))
		return report_fail("%s", kvs_message(d->kvs));
	if (ahead && kvs_select(d->kvs, layer, n, seqs, d->rows.q))
		return report_fail("%s", kvs_message(d->kvs));
	rc = ahead ? read_ahead(d, layer + 1, seqs) : DONE;
	if (rc)
		return rc;
	if (kvs_attend(d->kvs, layer, n, seqs, d->rows.q, d->rows.attn))
		return report_fail("%s", kvs_message(d->kvs));
	return DONE;
}

int decode_step(struct decode *d, const uint32_t *seqs, const int32_t *tokens, float **logits)
{
	bool ahead = false;
	int rc = DONE;

	for (int64_t i = 0; i < d->rows.n; i++) {
		uint32_t pos = kvs_seq_tokens(d->kvs, seqs[i]);

		d->rows.tokens[i] = tokens[i];
		d->rows.pos[i] = (int32_t)pos;
		ahead |= pos >= d->estimate_from;
	}
	for (uint32_t l = 0; !rc && l < d->model->n_layers; l++)
		rc = step_layer(d, l, seqs, ahead);
	if (!rc)
		rc = run(d, &d->boundary[d->model->n_layers], &d->compute_ns);
	*logits = d->rows.logits;
	return rc;
}
