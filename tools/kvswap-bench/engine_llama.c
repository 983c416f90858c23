// SPDX-License-Identifier: MIT
/*
 * libllama as a side, as strong as it gets on a processor: f16 KV, all in memory, weights
 * mapped and laid out as it likes, output rows only where they are read; flash attention on or
 * off, whichever is faster here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "llama.h"

#define UBATCH 512 /* libllama's default */
#define MARGIN 16  /* of the context, beyond the tokens */

struct engine_llama {
	struct engine engine;
	bool flash;
	struct llama_model *model;
	struct llama_context *deep, *zero;
	struct llama_batch batch;
	uint32_t n_deep, n_zero; /* tokens in them */
	uint32_t filled;	 /* of the deep one, before any step */
};

static struct engine_llama *of(struct engine *e)
{
	return (struct engine_llama *)e;
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
	(void)data;
	if (level == GGML_LOG_LEVEL_ERROR)
		fputs(text, stderr);
}

static struct llama_context *new_context(const struct engine_llama *l, uint32_t n_tokens)
{
	struct llama_context_params params = llama_context_default_params();
	int32_t threads = (int32_t)l->engine.bench->run.n_threads;
	struct llama_context *ctx;

	params.n_ctx = n_tokens + MARGIN;
	params.n_batch = UBATCH;
	params.n_ubatch = UBATCH;
	params.n_threads = threads;
	params.n_threads_batch = threads;
	params.flash_attn_type =
		l->flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
	params.offload_kqv = false;
	params.op_offload = false;
	params.swa_full = false;
	ctx = llama_init_from_model(l->model, params);
	if (!ctx)
		report_fail("libllama makes no context of %u tokens", n_tokens);
	return ctx;
}

static void engine_close(struct engine *e)
{
	struct engine_llama *l = of(e);

	llama_batch_free(l->batch);
	if (l->zero)
		llama_free(l->zero);
	if (l->deep)
		llama_free(l->deep);
	if (l->model)
		llama_model_free(l->model);
	free(l);
}

static int engine_open(struct engine **out, const struct bench *b, const struct subject *subject,
		       enum engine_kind kind)
{
	static ggml_backend_dev_t no_devices[] = { NULL };
	struct llama_model_params params = llama_model_default_params();
	struct engine_llama *l = calloc(1, sizeof(*l));

	if (!l)
		return report_fail("out of memory");
	l->engine = (struct engine){ &engine_llama_ops, b, subject };
	l->flash = kind == ENGINE_FLASH;
	l->batch = llama_batch_init(UBATCH, 0, 1);
	llama_log_set(quiet, NULL);
	params.devices = no_devices;
	params.n_gpu_layers = 0;
	l->model = llama_model_load_from_file(b->run.model, params);
	if (l->model)
		l->zero = new_context(l, b->steps + 1);
	else
		report_fail("libllama cannot load %s", b->run.model);
	if (l->zero)
		l->deep = new_context(l, b->depth + b->extra);
	if (l->deep) {
		*out = &l->engine;
		return DONE;
	}
	engine_close(&l->engine);
	return FAILED;
}

static int engine_threads(struct engine *e, uint32_t n)
{
	llama_set_n_threads(of(e)->deep, (int32_t)n, (int32_t)n);
	llama_set_n_threads(of(e)->zero, (int32_t)n, (int32_t)n);
	return DONE;
}

static int engine_renew(struct engine *e)
{
	llama_memory_clear(llama_get_memory(of(e)->deep), false);
	of(e)->n_deep = 0;
	return DONE;
}

/*
 * n tokens, at most UBATCH, that follow what ctx has; the logits of the last when they are
 * wanted.
 */
static int put(struct engine_llama *l, struct llama_context *ctx, uint32_t at, uint32_t n,
	       bool logits)
{
	const int32_t *tokens = l->engine.subject->text.id + at;

	l->batch.n_tokens = (int32_t)n;
	for (uint32_t i = 0; i < n; i++) {
		l->batch.token[i] = tokens[i];
		l->batch.pos[i] = (llama_pos)(at + i);
		l->batch.n_seq_id[i] = 1;
		l->batch.seq_id[i][0] = 0;
		l->batch.logits[i] = logits && i + 1 == n;
	}
	if (llama_decode(ctx, l->batch))
		return report_fail("llama_decode failed at token %u", at);
	if (logits && !llama_get_logits_ith(ctx, -1))
		return report_fail("llama_decode made no logits at token %u", at);
	llama_synchronize(ctx);
	return interrupt_check();
}

static int engine_fill(struct engine *e, uint32_t n)
{
	struct engine_llama *l = of(e);
	int rc = DONE;

	while (!rc && l->n_deep < n) {
		uint32_t more = n - l->n_deep < UBATCH ? n - l->n_deep : UBATCH;

		rc = put(l, l->deep, l->n_deep, more, l->n_deep + more == n);
		l->n_deep += more;
	}
	l->filled = l->n_deep;
	return rc;
}

/*
 * Every burst begins where the prompt ended: which tokens there were before makes no difference
 * to the speed, and the depth does not creep up.
 */
static int engine_begin(struct engine *e, bool deep)
{
	struct engine_llama *l = of(e);

	if (!deep) {
		llama_memory_clear(llama_get_memory(l->zero), false);
		l->n_zero = 0;
		return DONE;
	}
	if (!llama_memory_seq_rm(llama_get_memory(l->deep), 0, (llama_pos)l->filled, -1))
		return report_fail("libllama cannot take tokens back for this model");
	l->n_deep = l->filled;
	return DONE;
}

static int engine_steps(struct engine *e, bool deep, uint32_t n)
{
	struct engine_llama *l = of(e);
	uint32_t *at = deep ? &l->n_deep : &l->n_zero;
	int rc = DONE;

	for (uint32_t i = 0; !rc && i < n; i++)
		rc = put(l, deep ? l->deep : l->zero, (*at)++, 1, true);
	return rc;
}

static int engine_save(struct engine *e, int fd)
{
	struct engine_llama *l = of(e);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!llama_state_seq_save_file(l->deep, path, 0, e->subject->text.id, l->n_deep))
		return report_fail(
			"libllama cannot save its KV cache in the temporary directory: is there room?");
	return DONE;
}

static int engine_load(struct engine *e, int fd)
{
	struct engine_llama *l = of(e);
	llama_token *tokens = malloc(((size_t)e->bench->depth + 1) * sizeof(*tokens));
	size_t n = 0, bytes = 0;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (tokens)
		bytes = llama_state_seq_load_file(l->deep, path, 0, tokens, e->bench->depth + 1,
						  &n);
	free(tokens);
	if (!bytes)
		return report_fail("libllama cannot load the KV cache that it saved");
	l->n_deep = (uint32_t)n;
	l->filled = l->n_deep;
	return DONE;
}

const struct engine_ops engine_llama_ops = {
	.open = engine_open,
	.close = engine_close,
	.threads = engine_threads,
	.renew = engine_renew,
	.fill = engine_fill,
	.begin = engine_begin,
	.steps = engine_steps,
	.save = engine_save,
	.load = engine_load,
};
