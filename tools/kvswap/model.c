// SPDX-License-Identifier: MIT
/*
 * Owns the numbers of a model: what its header says, checked before anything uses it, and what
 * follows from it for RoPE, windows and scales, with libllama's meaning of every key.
 */
#include "model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "llama.h"
#include "report.h"

#define MAX_LAYERS 1024
#define MAX_WIDTH (1u << 20)
#define MAX_HEADS 4096
#define MAX_HEAD_DIM 512

static const struct {
	const char *name;
	enum arch arch;
	int rope_mode;
} archs[] = {
	{ "llama", ARCH_LLAMA, LLAMA_ROPE_TYPE_NORM },
	{ "qwen2", ARCH_QWEN2, LLAMA_ROPE_TYPE_NEOX },
	{ "qwen3", ARCH_QWEN3, LLAMA_ROPE_TYPE_NEOX },
	{ "gemma3", ARCH_GEMMA3, LLAMA_ROPE_TYPE_NEOX },
};

static int read_arch(struct model *m)
{
	m->arch_name = key_text(m, "general.architecture");
	if (!m->arch_name)
		return FAILED;
	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
		if (strcmp(m->arch_name, archs[i].name))
			continue;
		m->arch = archs[i].arch;
		m->rope.mode = archs[i].rope_mode;
		return DONE;
	}
	return report_fail(
		"%s: architecture '%s' is not supported (llama, qwen2, qwen3, gemma3 are)", m->path,
		m->arch_name);
}

static int check_heads(struct model *m, uint32_t value_dim, uint32_t rope_dim)
{
	if (m->n_heads % m->n_kv_heads)
		return report_fail("%s: %u heads are not a multiple of %u KV heads", m->path,
				   m->n_heads, m->n_kv_heads);
	if (m->head_dim == 0 || m->head_dim % 16 || m->head_dim > MAX_HEAD_DIM)
		return report_fail("%s: head_dim is %u, must be a multiple of 16 up to %u", m->path,
				   m->head_dim, MAX_HEAD_DIM);
	if (value_dim && value_dim != m->head_dim)
		return report_fail("%s: head_dim of V is %u, of K %u: must be equal", m->path,
				   value_dim, m->head_dim);
	if (rope_dim && rope_dim != m->head_dim)
		return report_fail("%s: RoPE over %u of %u dimensions is not supported", m->path,
				   rope_dim, m->head_dim);
	return DONE;
}

static int read_heads(struct model *m)
{
	uint32_t value_dim = 0, rope_dim = 0;
	const struct key_uint keys[] = {
		{ "attention.head_count_kv", &m->n_kv_heads, 1, m->n_heads, false },
		{ "attention.key_length", &m->head_dim, 0, MAX_WIDTH, false },
		{ "attention.value_length", &value_dim, 0, MAX_WIDTH, false },
		{ "rope.dimension_count", &rope_dim, 0, MAX_WIDTH, false },
	};
	int rc;

	m->n_kv_heads = m->n_heads;
	m->head_dim = m->n_embd / m->n_heads;
	rc = key_uints(m, keys, sizeof(keys) / sizeof(keys[0]));
	return rc ? rc : check_heads(m, value_dim, rope_dim);
}

static int read_shape(struct model *m)
{
	uint32_t experts = 0, causal = 1;
	const struct key_uint keys[] = {
		{ "block_count", &m->n_layers, 1, MAX_LAYERS, true },
		{ "embedding_length", &m->n_embd, 1, MAX_WIDTH, true },
		{ "feed_forward_length", &m->n_ff, 1, MAX_WIDTH, true },
		{ "attention.head_count", &m->n_heads, 1, MAX_HEADS, true },
		{ "context_length", &m->n_ctx_train, 1, INT32_MAX, true },
		{ "expert_count", &experts, 0, UINT32_MAX, false },
		{ "attention.causal", &causal, 0, 1, false },
	};
	int rc = key_uints(m, keys, sizeof(keys) / sizeof(keys[0]));

	if (rc)
		return rc;
	if (experts || !causal)
		return report_fail("%s: %s is not supported", m->path,
				   experts ? "a mixture of experts"
					   : "attention that is not causal");
	return read_heads(m);
}

/*
 * YaRN's magnitude: ggml_rope_ext() multiplies by 1 + 0.1 ln(factor) itself when ext_factor is set,
 * so that is divided out again of the factor that is asked for.
 */
static float yarn_attn_factor(float freq_scale)
{
	float ln = logf(1.0f / freq_scale);
	float wanted = ln <= 0 ? 1.0f : 0.1f * ln + 1.0f;

	return wanted / (1.0f + 0.1f * ln);
}

static int read_rope(struct model *m)
{
	struct rope *r = &m->rope;
	float factor = 0, attn = 1;
	char name[64];
	const char *type;
	const struct key_uint orig = { "rope.scaling.original_context_length", &r->n_ctx_orig, 1,
				       INT32_MAX, false };
	const struct key_float old = { "rope.scale_linear", &factor, 0, 1e6, false };
	const struct key_float keys[] = {
		{ "rope.freq_base", &r->freq_base, 1, 1e12, false },
		{ "rope.scaling.factor", &factor, 0, 1e6, false },
		{ "rope.scaling.attn_factor", &attn, 0, 1e3, false },
	};

	r->n_ctx_orig = m->n_ctx_train;
	r->freq_base = 10000;
	r->beta_fast = 32;
	r->beta_slow = 1;
	snprintf(name, sizeof(name), "%s.rope.scaling.type", m->arch_name);
	type = key_text(m, name);
	if (!type || key_uints(m, &orig, 1) || key_floats(m, &old, 1) || key_floats(m, keys, 3))
		return FAILED;
	if (strcmp(type, "") && strcmp(type, "none") && strcmp(type, "linear") &&
	    strcmp(type, "yarn"))
		return report_fail(
			"%s: RoPE scaling '%s' is not supported (none, linear, yarn are)", m->path,
			type);
	r->freq_scale = factor == 0 || !strcmp(type, "none") ? 1.0f : 1.0f / factor;
	r->ext_factor = strcmp(type, "yarn") ? 0.0f : 1.0f;
	r->attn_factor = attn * (r->ext_factor != 0 ? yarn_attn_factor(r->freq_scale) : 1.0f);
	m->n_ctx_rope = m->n_ctx_train;
	if ((double)r->n_ctx_orig / r->freq_scale > m->n_ctx_rope)
		m->n_ctx_rope = (uint32_t)fmin((double)r->n_ctx_orig / r->freq_scale, INT32_MAX);
	return DONE;
}

static int read_scales(struct model *m)
{
	const struct key_float keys[] = {
		{ "attention.layer_norm_rms_epsilon", &m->norm_eps, 0, 1, true },
		{ "final_logit_softcapping", &m->softcap, 0, 1e6, false },
	};

	m->embed_scale = 1;
	m->attn_scale = 1.0f / sqrtf((float)m->head_dim);
	if (m->arch != ARCH_GEMMA3)
		return key_floats(m, keys, 1);
	m->embed_scale = sqrtf((float)m->n_embd);
	m->gelu = true;
	/*
	 * The 27B model, which libllama knows by its 62 layers, scales by the width a head would
	 * have.
	 */
	if (m->n_layers == 62)
		m->attn_scale = 1.0f / sqrtf((float)(m->n_embd / m->n_heads));
	return key_floats(m, keys, 2);
}

/*
 * gemma3: all but every n-th layer, or those that the array names, see a window and have a RoPE of
 * their own.
 */
static int read_windows(struct model *m, bool *windowed)
{
	uint32_t window = 0, pattern = 6;
	float base = 10000;
	bool is_array = false;
	const struct key_uint keys[] = {
		{ "attention.sliding_window", &window, 0, INT32_MAX, false },
		{ "attention.sliding_window_pattern", &pattern, 0, UINT32_MAX, false },
	};
	const struct key_float base_key = { "rope.freq_base_swa", &base, 1, 1e12, false };
	int rc = m->arch == ARCH_GEMMA3 ? key_uints(m, keys, 1) : DONE;

	if (rc || window == 0)
		return rc;
	rc = key_flags(m, keys[1].name, windowed, &is_array);
	if (!rc && !is_array)
		rc = key_uints(m, &keys[1], 1);
	if (!rc)
		rc = key_floats(m, &base_key, 1);
	if (rc)
		return rc;
	for (uint32_t l = 0; l < m->n_layers; l++) {
		if (!is_array)
			windowed[l] = pattern == 0 || l % pattern < pattern - 1;
		if (!windowed[l])
			continue;
		m->layers[l].window = window;
		m->layers[l].freq_base = base;
		m->layers[l].freq_scale = 1;
	}
	return DONE;
}

static int make_layers(struct model *m)
{
	bool *windowed = calloc(m->n_layers, sizeof(*windowed));
	int rc;

	m->layers = calloc(m->n_layers, sizeof(*m->layers));
	if (!m->layers || !windowed) {
		free(windowed);
		return report_fail("out of memory");
	}
	for (uint32_t l = 0; l < m->n_layers; l++) {
		m->layers[l].freq_base = m->rope.freq_base;
		m->layers[l].freq_scale = m->rope.freq_scale;
	}
	rc = read_windows(m, windowed);
	free(windowed);
	return rc;
}

static int read_header(struct model *m)
{
	struct gguf_init_params params = { .no_alloc = true, .ctx = &m->ctx };
	struct stat st;

	if (stat(m->path, &st))
		return report_fail("%s: %s", m->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return report_fail("%s: not a file", m->path);
	report_capture_log();
	m->gguf = gguf_init_from_file(m->path, params);
	if (!m->gguf)
		return report_fail("%s: not a whole GGUF file: %s", m->path, report_captured());
	return DONE;
}

int model_open(struct model *m, const char *path)
{
	int rc;

	memset(m, 0, sizeof(*m));
	m->path = strdup(path);
	if (!m->path)
		return report_fail("out of memory");
	rc = read_header(m);
	if (!rc)
		rc = read_arch(m);
	if (!rc)
		rc = read_shape(m);
	if (!rc)
		rc = read_rope(m);
	if (!rc)
		rc = read_scales(m);
	if (!rc)
		rc = make_layers(m);
	if (!rc)
		rc = weights_open(m);
	if (rc)
		model_close(m);
	return rc;
}

void model_close(struct model *m)
{
	weights_close(m);
	free(m->layers);
	ggml_free(m->ctx);
	gguf_free(m->gguf);
	free(m->path);
	memset(m, 0, sizeof(*m));
}
