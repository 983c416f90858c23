// SPDX-License-Identifier: MIT
/*
 * Builds the graphs of graph.h. Tensors that enter or leave have their data set to the caller's
 * memory as soon as they exist, so that the allocator leaves them alone and nothing is copied
 * between graphs.
 */
#include "graph.h"

struct build {
	struct ggml_context *ctx;
	struct ggml_cgraph *graph;
	const struct model *m;
	const struct rows *r;
	struct ggml_tensor *pos;
};

size_t graph_context_bytes(size_t n)
{
	return n * (2 * GRAPH_NODES * ggml_tensor_overhead() +
		    ggml_graph_overhead_custom(GRAPH_NODES, false));
}

static struct build begin(struct ggml_context *ctx, const struct model *m, const struct rows *r)
{
	struct build b = { .ctx = ctx, .m = m, .r = r };

	b.graph = ggml_new_graph_custom(ctx, GRAPH_NODES, false);
	b.pos = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, r->n);
	b.pos->data = r->pos;
	return b;
}

static struct ggml_tensor *input(const struct build *b, float *data, int64_t width)
{
	struct ggml_tensor *t = ggml_new_tensor_2d(b->ctx, GGML_TYPE_F32, width, b->r->n);

	t->data = data;
	return t;
}

static struct ggml_tensor *output(const struct build *b, struct ggml_tensor *t, float *data)
{
	t->data = data;
	ggml_build_forward_expand(b->graph, t);
	return t;
}

static struct ggml_tensor *norm(const struct build *b, struct ggml_tensor *x,
				struct ggml_tensor *weight)
{
	if (!weight)
		return x;
	return ggml_mul(b->ctx, ggml_rms_norm(b->ctx, x, b->m->norm_eps), weight);
}

static struct ggml_tensor *multiply(const struct build *b, const struct linear *lin,
				    struct ggml_tensor *x)
{
	struct ggml_tensor *y = ggml_mul_mat(b->ctx, lin->w, x);

	return lin->b ? ggml_add(b->ctx, y, lin->b) : y;
}

/* Heads of lin(x), normed if the model does that, rotated to their positions. */
static struct ggml_tensor *rotated(const struct build *b, const struct layer *l,
				   const struct linear *lin, struct ggml_tensor *head_norm,
				   struct ggml_tensor *x, uint32_t n_heads)
{
	const struct rope *rope = &b->m->rope;
	struct ggml_tensor *y = multiply(b, lin, x);

	y = ggml_reshape_3d(b->ctx, y, b->m->head_dim, n_heads, b->r->n);
	return ggml_rope_ext(b->ctx, norm(b, y, head_norm), b->pos, rope->factors,
			     (int)b->m->head_dim, rope->mode, (int)rope->n_ctx_orig, l->freq_base,
			     l->freq_scale, rope->ext_factor, rope->attn_factor, rope->beta_fast,
			     rope->beta_slow);
}

static void before_attention(const struct build *b, const struct layer *l, struct ggml_tensor *x)
{
	struct ggml_tensor *in = norm(b, x, l->attn_norm);

	output(b, rotated(b, l, &l->q, l->q_norm, in, b->m->n_heads), b->r->q);
	output(b, rotated(b, l, &l->k, l->k_norm, in, b->m->n_kv_heads), b->r->k);
	output(b, multiply(b, &l->v, in), b->r->v);
}

static struct ggml_tensor *feed_forward(const struct build *b, const struct layer *l,
					struct ggml_tensor *x)
{
	struct ggml_tensor *up = multiply(b, &l->up, x);
	struct ggml_tensor *gate = multiply(b, &l->gate, x);
	struct ggml_tensor *y = b->m->gelu ? ggml_geglu_split(b->ctx, gate, up)
					   : ggml_swiglu_split(b->ctx, gate, up);

	return multiply(b, &l->down, y);
}

static struct ggml_tensor *after_attention(const struct build *b, const struct layer *l)
{
	struct ggml_tensor *x = input(b, b->r->x, b->m->n_embd);
	struct ggml_tensor *attn = input(b, b->r->attn, (int64_t)b->m->n_heads * b->m->head_dim);
	struct ggml_tensor *y;

	x = ggml_add(b->ctx, norm(b, multiply(b, &l->o, attn), l->attn_post_norm), x);
	y = feed_forward(b, l, norm(b, x, l->ffn_norm));
	return ggml_add(b->ctx, norm(b, y, l->ffn_post_norm), x);
}

static struct ggml_tensor *embedding(const struct build *b)
{
	struct ggml_tensor *tokens = ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, b->r->n);
	struct ggml_tensor *x;

	tokens->data = b->r->tokens;
	x = ggml_get_rows(b->ctx, b->m->embed, tokens);
	return b->m->embed_scale == 1 ? x : ggml_scale(b->ctx, x, b->m->embed_scale);
}

static void head(const struct build *b, struct ggml_tensor *x)
{
	float cap = b->m->softcap;
	struct ggml_tensor *y = multiply(b, &b->m->output, norm(b, x, b->m->output_norm));

	if (cap != 0)
		y = ggml_scale(b->ctx, ggml_tanh(b->ctx, ggml_scale(b->ctx, y, 1 / cap)), cap);
	output(b, y, b->r->logits);
}

struct ggml_cgraph *graph_boundary(struct ggml_context *ctx, const struct model *m,
				   const struct layer *prev, const struct layer *next,
				   const struct rows *r)
{
	struct build b = begin(ctx, m, r);
	struct ggml_tensor *x = prev ? after_attention(&b, prev) : embedding(&b);

	output(&b, x, r->x);
	if (next)
		before_attention(&b, next, x);
	else
		head(&b, x);
	return b.graph;
}

struct ggml_cgraph *graph_estimate(struct ggml_context *ctx, const struct model *m,
				   const struct layer *l, const struct rows *r)
{
	struct build b = begin(ctx, m, r);
	struct ggml_tensor *in = norm(&b, input(&b, r->x, m->n_embd), l->attn_norm);

	output(&b, rotated(&b, l, &l->q, l->q_norm, in, m->n_heads), r->q_hat);
	return b.graph;
}
