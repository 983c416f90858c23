// SPDX-License-Identifier: MIT
/* Owns the bfloat16 copies of weights; see bf16.h. */
#include "bf16.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

#define ALIGNMENT 64
#define MOST_TENSORS 8

/*
 * GFLOP/s of ggml at 512 rows, one core: with AMD's AVX512_BF16 (a dot product every cycle) bfloat16
 * makes about 300, q4_1 56, q5_0 100, q4_0 113, q8_0 130, q4_K 400, q6_K 330. Intel's (two cycles or
 * more) is no faster than float32: 75, with q4_1 36, q5_1 30, q5_0 60, q4_0 63, q8_0 72, q4_K 206.
 */
static bool is_slow(enum ggml_type type)
{
	bool amd = false;

#ifdef __x86_64__
	amd = __builtin_cpu_is("amd");
#endif
	switch (type) {
	case GGML_TYPE_Q4_1:
	case GGML_TYPE_Q5_1:
		return true;
	case GGML_TYPE_Q4_0:
	case GGML_TYPE_Q5_0:
	case GGML_TYPE_Q8_0:
	case GGML_TYPE_IQ4_NL:
		return amd;
	default:
		return false;
	}
}

static size_t turned_bytes(const struct linear *lin)
{
	size_t bytes = (size_t)ggml_nelements(lin->w) * sizeof(ggml_bf16_t);

	return is_slow(lin->w->type) ? GGML_PAD(bytes, ALIGNMENT) : 0;
}

static size_t boundary_bytes(const struct layer *prev, const struct layer *next)
{
	size_t bytes = 0;

	if (prev)
		bytes += turned_bytes(&prev->o) + turned_bytes(&prev->gate) +
			 turned_bytes(&prev->up) + turned_bytes(&prev->down);
	if (next)
		bytes += turned_bytes(&next->q) + turned_bytes(&next->k) + turned_bytes(&next->v);
	return bytes;
}

size_t bf16_wanted(const struct model *m)
{
	size_t most = 0;

	if (!ggml_cpu_has_avx512_bf16())
		return 0;
	for (uint32_t l = 0; l <= m->n_layers; l++) {
		size_t bytes = boundary_bytes(l > 0 ? &m->layers[l - 1] : NULL,
					      l < m->n_layers ? &m->layers[l] : NULL);

		if (bytes > most)
			most = bytes;
	}
	return most;
}

int bf16_open(struct bf16 *b, const struct model *m, struct compute *compute, size_t bytes)
{
	struct ggml_init_params params = { .mem_size = MOST_TENSORS * ggml_tensor_overhead(),
					   .no_alloc = true };

	memset(b, 0, sizeof(*b));
	b->compute = compute;
	if (bytes == 0)
		return DONE;
	b->bytes = GGML_PAD(bytes, ALIGNMENT);
	b->widest = m->n_embd > m->n_ff ? m->n_embd : m->n_ff;
	if (b->widest < (int64_t)m->n_heads * m->head_dim)
		b->widest = (int64_t)m->n_heads * m->head_dim;
	b->ctx = ggml_init(params);
	b->data = aligned_alloc(ALIGNMENT, b->bytes);
	b->rows = malloc((size_t)b->widest * (size_t)compute->n_threads * sizeof(float));
	if (b->ctx && b->data && b->rows)
		return DONE;
	bf16_close(b);
	return report_fail("out of memory: %zu bytes for weights of a layer", bytes);
}

void bf16_close(struct bf16 *b)
{
	ggml_free(b->ctx);
	free(b->data);
	free(b->rows);
	memset(b, 0, sizeof(*b));
}

size_t bf16_bytes(const struct bf16 *b)
{
	return b->data ? b->bytes +
				 (size_t)b->widest * (size_t)b->compute->n_threads * sizeof(float)
		       : 0;
}

struct turn {
	struct bf16 *b;
	const struct ggml_tensor *from;
	struct ggml_tensor *to;
};

static void turn_rows(void *arg, int i, int n)
{
	const struct turn *t = arg;
	const struct ggml_type_traits *traits = ggml_get_type_traits(t->from->type);
	float *row = t->b->rows + (size_t)i * (size_t)t->b->widest;
	int64_t width = t->from->ne[0], n_rows = t->from->ne[1];

	for (int64_t r = n_rows * i / n; r < n_rows * (i + 1) / n; r++) {
		traits->to_float((const char *)t->from->data + (size_t)r * t->from->nb[1], row,
				 width);
		ggml_fp32_to_bf16_row(
			row, (ggml_bf16_t *)((char *)t->to->data + (size_t)r * t->to->nb[1]),
			width);
	}
}

static void turn(struct bf16 *b, struct linear *lin)
{
	size_t bytes = turned_bytes(lin);
	struct turn t = { .b = b, .from = lin->w };

	if (bytes == 0 || bytes > b->bytes - b->used)
		return;
	t.to = ggml_new_tensor_2d(b->ctx, GGML_TYPE_BF16, lin->w->ne[0], lin->w->ne[1]);
	t.to->data = b->data + b->used;
	b->used += bytes;
	compute_parallel(b->compute, turn_rows, &t, b->compute->n_threads);
	lin->w = t.to;
}

void bf16_boundary(struct bf16 *b, const struct layer *prev, const struct layer *next,
		   struct layer *prev_out, struct layer *next_out)
{
	if (prev)
		*prev_out = *prev;
	if (next)
		*next_out = *next;
	if (!b->data)
		return;
	ggml_reset(b->ctx);
	b->used = 0;
	if (prev) {
		turn(b, &prev_out->down);
		turn(b, &prev_out->up);
		turn(b, &prev_out->gate);
		turn(b, &prev_out->o);
	}
	if (next) {
		turn(b, &next_out->q);
		turn(b, &next_out->k);
		turn(b, &next_out->v);
	}
}
