// SPDX-License-Identifier: MIT
/*
 * libllama's logits of a list of tokens, for comparison: raw float32 rows [n_tokens][n_vocab].
 *
 *   llama_logits MODEL.gguf TOKENS.txt OUT.f32 [--f32 | --bench N]
 *   llama_logits MODEL.gguf --tokenize TEXT.txt N > TOKENS.txt
 *
 * --bench N: no rows; prints one line of JSON with the speed of the prompt and of N tokens after
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llama.h"

#define UBATCH 512

static int die(const char *what)
{
	fprintf(stderr, "llama_logits: %s\n", what);
	exit(1);
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
	(void)data;
	if (level == GGML_LOG_LEVEL_ERROR)
		fputs(text, stderr);
}

static char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *text;

	if (!f || fseek(f, 0, SEEK_END))
		die(path);
	*n = (size_t)ftell(f);
	rewind(f);
	text = calloc(*n + 1, 1);
	if (!text || fread(text, 1, *n, f) != *n)
		die(path);
	fclose(f);
	return text;
}

static llama_token *read_tokens(const char *path, int *n)
{
	size_t bytes;
	char *text = read_file(path, &bytes), *at = text, *end;
	llama_token *tokens = malloc((bytes / 2 + 1) * sizeof(*tokens));

	for (*n = 0;; at = end) {
		long id = strtol(at, &end, 10);

		if (end == at)
			break;
		tokens[(*n)++] = (llama_token)id;
	}
	free(text);
	return tokens;
}

static struct llama_model *load(const char *path, bool vocab_only)
{
	struct llama_model_params params = llama_model_default_params();
	struct llama_model *model;

	params.vocab_only = vocab_only;
	model = llama_model_load_from_file(path, params);
	return model ? model : (die(path), NULL);
}

static int tokenize(const char *model_path, const char *text_path, int most)
{
	struct llama_model *model = load(model_path, true);
	size_t bytes;
	char *text = read_file(text_path, &bytes);
	llama_token *tokens = malloc((bytes + 16) * sizeof(*tokens));
	int n = llama_tokenize(llama_model_get_vocab(model), text, (int)bytes, tokens,
			       (int)bytes + 16, true, false);

	for (int i = 0; i < n && i < most; i++)
		printf("%d\n", tokens[i]);
	free(tokens);
	free(text);
	llama_model_free(model);
	return n < most ? die("the text is too short") : 0;
}

static struct llama_context *context(struct llama_model *model, int n_ctx)
{
	struct llama_context_params params = llama_context_default_params();
	const char *threads = getenv("THREADS");
	struct llama_context *ctx;

	params.n_ctx = (uint32_t)n_ctx;
	params.n_batch = UBATCH;
	params.n_ubatch = UBATCH;
	params.n_threads = params.n_threads_batch = threads ? atoi(threads) : 1;
	ctx = llama_init_from_model(model, params);
	return ctx ? ctx : (die("no context"), NULL);
}

static void decode(struct llama_context *ctx, const llama_token *tokens, int first, int n, bool all)
{
	struct llama_batch batch = llama_batch_init(n, 0, 1);

	for (int i = 0; i < n; i++) {
		batch.token[i] = tokens[i];
		batch.pos[i] = first + i;
		batch.n_seq_id[i] = 1;
		batch.seq_id[i][0] = 0;
		batch.logits[i] = all || i + 1 == n;
	}
	batch.n_tokens = n;
	if (llama_decode(ctx, batch))
		die("llama_decode failed");
	llama_batch_free(batch);
}

static void write_rows(struct llama_context *ctx, const llama_token *tokens, int n, int n_vocab,
		       const char *path)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		die(path);
	for (int first = 0; first < n; first += UBATCH) {
		int m = n - first < UBATCH ? n - first : UBATCH;

		decode(ctx, tokens + first, first, m, true);
		if (fwrite(llama_get_logits(ctx), sizeof(float), (size_t)m * (size_t)n_vocab, f) !=
		    (size_t)m * (size_t)n_vocab)
			die(path);
	}
	if (fclose(f))
		die(path);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void bench(struct llama_context *ctx, const llama_token *tokens, int n, int n_more)
{
	double start, read, end;

	decode(ctx, tokens, 0, 1, false); /* warms up */
	llama_memory_clear(llama_get_memory(ctx), false);
	start = now();
	for (int first = 0; first < n; first += UBATCH)
		decode(ctx, tokens + first, first, n - first < UBATCH ? n - first : UBATCH, false);
	read = now();
	for (int i = 0; i < n_more; i++)
		decode(ctx, tokens + i % n, n + i, 1, false);
	end = now();
	printf("{\"prompt_tokens\": %d, \"prefill_tokens_per_s\": %.2f, \"decode_tokens_per_s\": %.2f}\n",
	       n, n / (read - start), n_more / (end - read));
}

int main(int argc, char **argv)
{
	struct llama_model *model;
	struct llama_context *ctx;
	llama_token *tokens;
	int n, n_more = argc == 6 && !strcmp(argv[4], "--bench") ? atoi(argv[5]) : 0;

	llama_log_set(quiet, NULL);
	llama_backend_init();
	if (argc == 5 && !strcmp(argv[2], "--tokenize"))
		return tokenize(argv[1], argv[3], atoi(argv[4]));
	if (argc != 4 && !n_more)
		return die("usage: MODEL TOKENS OUT [--bench N] | MODEL --tokenize TEXT N"), 2;
	tokens = read_tokens(argv[2], &n);
	model = load(argv[1], false);
	ctx = context(model, n + n_more + 16);
	if (n_more)
		bench(ctx, tokens, n, n_more);
	else
		write_rows(ctx, tokens, n, llama_vocab_n_tokens(llama_model_get_vocab(model)),
			   argv[3]);
	llama_free(ctx);
	llama_model_free(model);
	free(tokens);
	return 0;
}
