// SPDX-License-Identifier: MIT
/* See flash.h. */
#include "flash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvswap/report.h"

#define PAD 64 /* rows and columns of the mask, bytes of memory */

static size_t padded(size_t bytes)
{
	return (bytes + PAD - 1) / PAD * PAD;
}

static void copy(const struct kv_layer *l, bool token_major, bool v, uint16_t *out)
{
	const struct kvs_geom *g = &l->geom;

	for (uint32_t t = 0; t < l->n_tokens; t++)
		for (uint32_t h = 0; h < g->n_kv_heads; h++) {
			size_t row = token_major ? (size_t)t * g->n_kv_heads + h
						 : (size_t)h * l->n_tokens + t;

			memcpy(out + row * g->head_dim, kv_layer_row(l, t, h, v),
			       g->head_dim * sizeof(*out));
		}
}

static int allocate(struct flash *f, const struct kv_layer *l, bool token_major)
{
	const struct kvs_geom *g = &l->geom;
	size_t bytes = (size_t)l->n_tokens * g->n_kv_heads * g->head_dim * sizeof(uint16_t);
	size_t q_bytes = padded((size_t)g->n_heads * g->head_dim * sizeof(float));

	f->k = aligned_alloc(PAD, padded(bytes));
	f->v = aligned_alloc(PAD, padded(bytes));
	f->mask = aligned_alloc(PAD, padded((size_t)l->n_tokens * PAD * sizeof(uint16_t)));
	f->q = aligned_alloc(PAD, q_bytes);
	f->out = aligned_alloc(PAD, q_bytes);
	if (!f->k || !f->v || !f->mask || !f->q || !f->out)
		return report_fail("out of memory for %u tokens", l->n_tokens);
	copy(l, token_major, false, f->k);
	copy(l, token_major, true, f->v);
	memset(f->mask, 0, (size_t)l->n_tokens * PAD * sizeof(uint16_t));
	memcpy(f->q, l->q, (size_t)g->n_heads * g->head_dim * sizeof(float));
	return DONE;
}

/* [head_dim, n_tokens, n_kv_heads] whatever the layout. */
static struct ggml_tensor *tensor(struct flash *f, const struct kv_layer *l, bool token_major,
				  void *data)
{
	int64_t dim = l->geom.head_dim, n = l->n_tokens, heads = l->geom.n_kv_heads;
	struct ggml_tensor *t;

	t = ggml_new_tensor_3d(f->ctx, GGML_TYPE_F16, dim, token_major ? heads : n,
			       token_major ? n : heads);
	t->data = data;
	return token_major ? ggml_permute(f->ctx, t, 0, 2, 1, 3) : t;
}

/* The query is scaled already. */
static int build(struct flash *f, const struct kv_layer *l, bool token_major)
{
	struct ggml_init_params params = {
		.mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead_custom(16, false),
		.no_alloc = true,
	};
	struct ggml_tensor *q, *k, *v, *mask, *out;

	f->ctx = ggml_init(params);
	if (!f->ctx)
		return report_fail("out of memory");
	q = ggml_new_tensor_3d(f->ctx, GGML_TYPE_F32, l->geom.head_dim, 1, l->geom.n_heads);
	q->data = f->q;
	mask = ggml_new_tensor_2d(f->ctx, GGML_TYPE_F16, l->n_tokens, PAD);
	mask->data = f->mask;
	k = tensor(f, l, token_major, f->k);
	v = tensor(f, l, token_major, f->v);
	out = ggml_flash_attn_ext(f->ctx, q, k, v, mask, 1, 0, 0);
	ggml_prec_set_acc(out, GGML_PREC_F32);
	out->data = f->out;
	f->graph = ggml_new_graph_custom(f->ctx, 16, false);
	ggml_build_forward_expand(f->graph, out);
	return compute_prepare(f->compute, f->graph, &f->plan);
}

int flash_open(struct flash *f, const struct kv_layer *l, bool token_major, struct compute *compute)
{
	int rc;

	memset(f, 0, sizeof(*f));
	f->compute = compute;
	rc = allocate(f, l, token_major);
	if (!rc)
		rc = build(f, l, token_major);
	if (rc)
		flash_close(f);
	return rc;
}

void flash_close(struct flash *f)
{
	ggml_free(f->ctx);
	free(f->k);
	free(f->v);
	free(f->mask);
	free(f->q);
	free(f->out);
	memset(f, 0, sizeof(*f));
}

int flash_attend(struct flash *f)
{
	return compute_run(f->compute, f->graph, &f->plan);
}
