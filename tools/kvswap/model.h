/* SPDX-License-Identifier: MIT */
/*
 * A model file: its numbers, checked, and its weights, mapped. gguf.c reads keys, model.c makes
 * numbers of them, weights.c finds the tensors. Everything is read-only after model_open().
 */
#ifndef KVSWAP_MODEL_H
#define KVSWAP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml.h"
#include "ggml-backend.h"
#include "gguf.h"

struct linear {
	struct ggml_tensor *w; /* [n_in, n_out] */
	struct ggml_tensor *b; /* [n_out] or NULL */
};

struct layer {
	struct ggml_tensor *attn_norm, *ffn_norm;
	struct ggml_tensor *q_norm, *k_norm;		    /* NULL but for qwen3, gemma3 */
	struct ggml_tensor *attn_post_norm, *ffn_post_norm; /* NULL but for gemma3 */
	struct linear q, k, v, o, gate, up, down;
	float freq_base, freq_scale; /* of RoPE */
	uint32_t window;	     /* tokens that the layer sees; 0: all */
};

struct rope {
	int mode; /* GGML_ROPE_TYPE_* */
	uint32_t n_ctx_orig;
	float freq_base, freq_scale;
	float ext_factor, attn_factor, beta_fast, beta_slow;
	struct ggml_tensor *factors; /* [head_dim / 2] or NULL */
};

enum arch {
	ARCH_LLAMA,
	ARCH_QWEN2,
	ARCH_QWEN3,
	ARCH_GEMMA3,
};

struct model {
	char *path;
	struct gguf_context *gguf;
	struct ggml_context *ctx;
	ggml_backend_buffer_t buffer;
	void *map;
	size_t map_bytes;

	enum arch arch;
	const char *arch_name;
	uint32_t n_layers, n_embd, n_ff, n_vocab;
	uint32_t n_heads, n_kv_heads, head_dim;
	uint32_t n_ctx_train; /* context that the file states */
	uint32_t n_ctx_rope;  /* the same, with RoPE scaling counted in */
	float norm_eps;
	float embed_scale; /* of the embeddings; 1: none */
	float attn_scale;  /* of the logits of attention */
	float softcap;	   /* of the output logits; 0: none */
	bool gelu;	   /* else silu */
	struct rope rope;

	struct ggml_tensor *embed, *output_norm;
	struct linear output;
	struct layer *layers;
};

/* Result: DONE or FAILED, said why. */
int model_open(struct model *m, const char *path);
void model_close(struct model *m);

/* Maps the file and finds every tensor; of the model's parts. */
int weights_open(struct model *m);
void weights_close(struct model *m);

/*
 * Keys. Of "ARCH.name"; a missing key leaves *value alone and is DONE unless it is required. A
 * value of another type, or outside min..max, is a failure that names key and value.
 */
struct key_uint {
	const char *name;
	uint32_t *value;
	uint64_t min, max;
	bool required;
};

struct key_float {
	const char *name;
	float *value;
	double min, max;
	bool required;
};

int key_uints(const struct model *m, const struct key_uint *keys, size_t n);
int key_floats(const struct model *m, const struct key_float *keys, size_t n);
/* "" when missing; NULL and said why when it is not text. name: the whole key. */
const char *key_text(const struct model *m, const char *name);
/* The key as one flag a layer, flags[n_layers]; *found: whether it is there as an array. */
int key_flags(const struct model *m, const char *name, bool *flags, bool *found);

#endif
