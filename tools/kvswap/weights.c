// SPDX-License-Identifier: MIT
/*
 * Owns the mapping of a model's weights and finds its tensors by name: each must be there, have the
 * shape that the header implies, a type that can be multiplied, and lie inside the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ggml-cpu.h"
#include "model.h"
#include "report.h"

#define ALIGNMENT 32 /* of tensors, for ggml's CPU kernels */

enum need {
	REQUIRED,
	OPTIONAL,
};

struct finder {
	struct model *m;
	int64_t n_found;
	int rc; /* of the first failure; afterwards nothing is looked for */
};

static int map_file(struct model *m)
{
	struct stat st;
	int fd = open(m->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return report_fail("%s: %s", m->path, strerror(errno));
	if (fstat(fd, &st) || st.st_size <= 0) {
		close(fd);
		return report_fail("%s: cannot tell its size", m->path);
	}
	m->map_bytes = (size_t)st.st_size;
	m->map = mmap(NULL, m->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (m->map == MAP_FAILED) {
		m->map = NULL;
		return report_fail("%s: cannot be mapped: %s", m->path, strerror(errno));
	}
	m->buffer = ggml_backend_cpu_buffer_from_ptr(m->map, m->map_bytes);
	return m->buffer ? DONE : report_fail("out of memory");
}

static int place(struct model *m, int64_t id)
{
	const char *name = gguf_get_tensor_name(m->gguf, id);
	size_t start = gguf_get_data_offset(m->gguf), offset = gguf_get_tensor_offset(m->gguf, id);
	size_t bytes = gguf_get_tensor_size(m->gguf, id);

	if (start > m->map_bytes || offset > m->map_bytes - start ||
	    bytes > m->map_bytes - start - offset)
		return report_fail("%s: truncated: tensor %s ends at byte %zu of %zu", m->path,
				   name, start + offset + bytes, m->map_bytes);
	if ((start + offset) % ALIGNMENT)
		return report_fail("%s: tensor %s is not aligned to %d bytes", m->path, name,
				   ALIGNMENT);
	ggml_backend_tensor_alloc(m->buffer, ggml_get_tensor(m->ctx, name),
				  (char *)m->map + start + offset);
	return DONE;
}

static bool multiplies(enum ggml_type type)
{
	if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16)
		return true;
	return ggml_is_quantized(type) && ggml_get_type_traits_cpu(type)->vec_dot;
}

/* n1 = 0: a vector, which must be f32. */
static struct ggml_tensor *find(struct finder *f, const char *name, int64_t n0, int64_t n1,
				enum need need)
{
	struct ggml_tensor *t = f->rc ? NULL : ggml_get_tensor(f->m->ctx, name);
	bool vector = n1 == 0;

	if (f->rc || (!t && need == OPTIONAL))
		return NULL;
	if (!t) {
		f->rc = report_fail("%s: tensor %s is missing", f->m->path, name);
		return NULL;
	}
	if (t->ne[0] != n0 || t->ne[1] != (vector ? 1 : n1) || t->ne[2] != 1 || t->ne[3] != 1)
		f->rc = report_fail("%s: tensor %s is %" PRId64 " x %" PRId64 ", must be %" PRId64
				    " x %" PRId64,
				    f->m->path, name, t->ne[0], t->ne[1], n0, vector ? 1 : n1);
	else if (vector ? t->type != GGML_TYPE_F32 : !multiplies(t->type))
		f->rc = report_fail("%s: tensor %s has type %s, which is not supported there",
				    f->m->path, name, ggml_type_name(t->type));
	f->n_found++;
	return f->rc ? NULL : t;
}

static struct ggml_tensor *find_in(struct finder *f, uint32_t layer, const char *part,
				   const char *what, int64_t n0, int64_t n1, enum need need)
{
	char name[GGML_MAX_NAME];

	snprintf(name, sizeof(name), "blk.%u.%s.%s", layer, part, what);
	return find(f, name, n0, n1, need);
}

static struct linear find_linear(struct finder *f, uint32_t layer, const char *part, int64_t n0,
				 int64_t n1)
{
	return (struct linear){
		.w = find_in(f, layer, part, "weight", n0, n1, REQUIRED),
		.b = find_in(f, layer, part, "bias", n1, 0, OPTIONAL),
	};
}

static struct ggml_tensor *find_norm(struct finder *f, uint32_t layer, const char *part, int64_t n)
{
	return find_in(f, layer, part, "weight", n, 0, REQUIRED);
}

static void find_layer(struct finder *f, uint32_t i)
{
	struct model *m = f->m;
	struct layer *l = &m->layers[i];
	int64_t q_dim = (int64_t)m->n_heads * m->head_dim,
		kv_dim = (int64_t)m->n_kv_heads * m->head_dim;

	l->attn_norm = find_norm(f, i, "attn_norm", m->n_embd);
	l->q = find_linear(f, i, "attn_q", m->n_embd, q_dim);
	l->k = find_linear(f, i, "attn_k", m->n_embd, kv_dim);
	l->v = find_linear(f, i, "attn_v", m->n_embd, kv_dim);
	l->o = find_linear(f, i, "attn_output", q_dim, m->n_embd);
	l->ffn_norm = find_norm(f, i, "ffn_norm", m->n_embd);
	l->gate = find_linear(f, i, "ffn_gate", m->n_embd, m->n_ff);
	l->up = find_linear(f, i, "ffn_up", m->n_embd, m->n_ff);
	l->down = find_linear(f, i, "ffn_down", m->n_ff, m->n_embd);
	if (m->arch == ARCH_QWEN3 || m->arch == ARCH_GEMMA3) {
		l->q_norm = find_norm(f, i, "attn_q_norm", m->head_dim);
		l->k_norm = find_norm(f, i, "attn_k_norm", m->head_dim);
	}
	if (m->arch == ARCH_GEMMA3) {
		l->attn_post_norm = find_norm(f, i, "post_attention_norm", m->n_embd);
		l->ffn_post_norm = find_norm(f, i, "post_ffw_norm", m->n_embd);
	}
}

static void find_all(struct finder *f)
{
	struct model *m = f->m;
	struct ggml_tensor *embed = ggml_get_tensor(m->ctx, "token_embd.weight");

	m->n_vocab =
		embed && embed->ne[1] > 0 && embed->ne[1] <= INT32_MAX ? (uint32_t)embed->ne[1] : 1;
	m->embed = find(f, "token_embd.weight", m->n_embd, m->n_vocab, REQUIRED);
	m->output_norm = find(f, "output_norm.weight", m->n_embd, 0, REQUIRED);
	m->output.w = find(f, "output.weight", m->n_embd, m->n_vocab, OPTIONAL);
	if (!m->output.w)
		m->output.w = m->embed;
	if (m->arch == ARCH_QWEN2)
		m->output.b = find(f, "output.bias", m->n_vocab, 0, OPTIONAL);
	if (m->arch == ARCH_LLAMA)
		m->rope.factors = find(f, "rope_freqs.weight", m->head_dim / 2, 0, OPTIONAL);
	for (uint32_t i = 0; i < m->n_layers && !f->rc; i++)
		find_layer(f, i);
}

/* The weights of something that is not computed here would change what comes out. */
static int check_all_used(const struct finder *f)
{
	const struct model *m = f->m;
	int64_t n = gguf_get_n_tensors(m->gguf);

	if (f->n_found == n)
		return DONE;
	return report_fail("%s: %" PRId64 " of its %" PRId64
			   " tensors are not of a %s model as it is known here",
			   m->path, n - f->n_found, n, m->arch_name);
}

int weights_open(struct model *m)
{
	struct finder f = { .m = m };
	int rc = map_file(m);

	for (int64_t i = 0; !rc && i < gguf_get_n_tensors(m->gguf); i++)
		rc = place(m, i);
	if (rc)
		return rc;
	find_all(&f);
	return f.rc ? f.rc : check_all_used(&f);
}

void weights_close(struct model *m)
{
	ggml_backend_buffer_free(m->buffer);
	if (m->map)
		munmap(m->map, m->map_bytes);
	m->buffer = NULL;
	m->map = NULL;
}
