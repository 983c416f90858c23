/* SPDX-License-Identifier: MIT */
/* The shape of attention: of a GGUF model, or given by hand. */
#ifndef KVSWAPCTL_MODELSHAPE_H
#define KVSWAPCTL_MODELSHAPE_H

#include "kvswap.h"
#include "kvswap/model.h"

struct json;

struct shape_options {
	const char *model;
	uint32_t layers, heads, kv_heads, head_dim;
};

struct model_shape {
	struct kvs_shape shape;
	uint32_t *window; /* of shape */
	const char *arch, *path;
	uint64_t weight_bytes;
	uint32_t n_ctx_train; /* 0: not known */
	bool has_model;
	struct model model;
};

/* context: 0 is the model's. DONE, or an exit code and said why. */
int shape_open(struct model_shape *s, const struct shape_options *o, uint32_t context);
void shape_close(struct model_shape *s);
/* "model": {arch, layers, heads, kv_heads, head_dim, ...} */
void shape_json(struct json *j, const struct model_shape *s);

#endif
