// SPDX-License-Identifier: MIT
/* See modelshape.h. */
#include "modelshape.h"

#include <stdlib.h>
#include <string.h>

#include "kvswap/json.h"
#include "kvswap/report.h"

static int by_hand(struct model_shape *s, const struct shape_options *o, uint32_t context)
{
	if (!o->layers || !o->kv_heads || !o->head_dim)
		return report_usage(
			"no model: give -m MODEL.gguf, or --layers, --kv-heads and --head-dim");
	if (!context)
		return report_usage("no context: give -c TOKENS");
	s->arch = "shape";
	s->path = "";
	s->shape = (struct kvs_shape){
		.size = sizeof(s->shape),
		.n_layers = o->layers,
		.n_heads = o->heads ? o->heads : o->kv_heads,
		.n_kv_heads = o->kv_heads,
		.head_dim = o->head_dim,
		.n_ctx = context,
	};
	if (s->shape.n_heads % s->shape.n_kv_heads)
		return report_usage("--heads is %u, must be a multiple of %u KV heads",
				    s->shape.n_heads, s->shape.n_kv_heads);
	return DONE;
}

int shape_open(struct model_shape *s, const struct shape_options *o, uint32_t context)
{
	const struct model *m = &s->model;
	int rc;

	memset(s, 0, sizeof(*s));
	if (!o->model)
		return by_hand(s, o, context);
	rc = model_open(&s->model, o->model);
	if (rc)
		return rc;
	s->has_model = true;
	s->window = calloc(m->n_layers, sizeof(*s->window));
	if (!s->window) {
		shape_close(s);
		return report_fail("out of memory");
	}
	for (uint32_t l = 0; l < m->n_layers; l++)
		s->window[l] = m->layers[l].window;
	s->arch = m->arch_name;
	s->path = m->path;
	s->weight_bytes = m->map_bytes;
	s->n_ctx_train = m->n_ctx_train;
	s->shape = (struct kvs_shape){
		.size = sizeof(s->shape),
		.n_layers = m->n_layers,
		.n_heads = m->n_heads,
		.n_kv_heads = m->n_kv_heads,
		.head_dim = m->head_dim,
		.n_ctx = context ? context : m->n_ctx_train,
		.scale = m->attn_scale,
		.window = s->window,
	};
	return DONE;
}

void shape_close(struct model_shape *s)
{
	free(s->window);
	if (s->has_model)
		model_close(&s->model);
	s->window = NULL;
}

void shape_json(struct json *j, const struct model_shape *s)
{
	uint32_t windowed = 0;

	for (uint32_t l = 0; s->window && l < s->shape.n_layers; l++)
		windowed += s->window[l] != 0;
	json_open(j, "model", '{');
	json_text(j, "path", s->path);
	json_text(j, "arch", s->arch);
	json_uint(j, "layers", s->shape.n_layers);
	json_uint(j, "heads", s->shape.n_heads);
	json_uint(j, "kv_heads", s->shape.n_kv_heads);
	json_uint(j, "head_dim", s->shape.head_dim);
	json_uint(j, "windowed_layers", windowed);
	json_uint(j, "context_trained", s->n_ctx_train);
	json_uint(j, "weight_bytes", s->weight_bytes);
	json_close(j, '}');
}
