// SPDX-License-Identifier: MIT
/* Options of the commands that run a model: their own, and those of `kvswap run`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "bench.h"
#include "kvswap/report.h"
#include "stats.h"

#define DEFAULT_TEXT "tests/data/moby_dick.txt"
#define DEFAULT_DEPTH 7000
#define DEFAULT_THREADS "1"

static const char help[] =
	"usage: kvswap-bench %s -m MODEL.gguf [-f TEXT] [-c TOKENS] [-t THREADS] [--budget 1/8] [options]\n"
	"\n"
	"%s\n"
	"\n"
	"  kvswap-bench %s -m model.gguf -f book.txt -c 7000 --budget 1/8\n"
	"  kvswap-bench %s -m model.gguf -f book.txt -c 30000 --json > 30k.json\n"
	"\n"
	"  -m, --model FILE        a GGUF model\n"
	"  -f, --file FILE         the text, also --tokens FILE (" DEFAULT_TEXT ")\n"
	"  -c, --context N         tokens before those that are timed, or of the prompt (7000)\n"
	"  -t, --threads N         of our side; the other side has the best count up to it (1)\n"
	"      --steps N           tokens of a burst of decode (32)\n"
	"      --repeat N          times that each side is measured (7; 3 for prefill)\n"
	"      --no-llama          our sides only: libllama takes long to read a long prompt\n"
	"      --budget SIZE, --store PATH, --backend NAME, --select N, --group G, --reuse N,\n"
	"      --predictor NAME, --rank R, --profile NAME ...\n"
	"                          as in `kvswap run`\n"
	"      --json              one JSON object instead of the table\n"
	"      --progress          show progress even when stderr is no terminal\n";

static const char *what(const char *command)
{
	if (!strcmp(command, "decode"))
		return "Speed of decode after a long prompt: kvswap with its KV cache on disk, in memory and dense, and\n"
		       "at depth 0; libllama at both depths. All sides in one run, in turns.";
	return "Speed of reading a prompt: kvswap with its KV cache on disk and dense in memory, and libllama,\n"
	       "in turns.";
}

static void print_help(const char *command)
{
	printf(help, command, what(command), command, command);
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
			return true;
	return false;
}

static bool has_text(int argc, char **argv)
{
	static const char *const names[] = { "-f", "-p", "--file", "--prompt", "--tokens" };

	for (int i = 1; i < argc; i++)
		for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
			if (!strncmp(argv[i], names[n], strlen(names[n])))
				return true;
	return false;
}

/* What `kvswap run` would be told: our defaults first, so that what was given overrides them. */
static int parse_rest(struct bench *b, int argc, char **argv)
{
	static char *const first[] = { (char *)"-t", (char *)DEFAULT_THREADS };
	char **all = calloc((size_t)argc + 5, sizeof(*all));
	int n = 0;
	enum parsed parsed;

	if (!all)
		return report_fail("out of memory");
	all[n++] = argv[0];
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		all[n++] = first[i];
	if (!has_text(argc, argv)) {
		all[n++] = (char *)"-f";
		all[n++] = (char *)DEFAULT_TEXT;
	}
	for (int i = 1; i < argc; i++)
		all[n++] = argv[i];
	parsed = options_parse(&b->run, n, all);
	free(all); /* the options point at its words, not at the array */
	return parsed == PARSED ? DONE : WRONG_USAGE;
}

static int check(struct bench *b)
{
	if (b->run.n_prompts != 1 || b->run.batch != 1)
		return report_usage("one text and one sequence are measured");
	if (b->run.prompts[0].kind != SOURCE_TEXT && !strcmp(b->run.prompts[0].arg, "-"))
		return report_usage("the text cannot be stdin: every side reads it for itself");
	if (b->run.session.where != KVS_DISK)
		return report_usage("no --kv here: every kind is measured");
	b->depth = b->run.n_ctx ? b->run.n_ctx : DEFAULT_DEPTH;
	b->extra = !strcmp(b->command, "decode") ? b->repeat * (b->steps + 1) : 0;
	return DONE;
}

enum parsed bench_parse(struct bench *b, int argc, char **argv)
{
	const struct arg args[] = {
		{ .name = "--steps", .number = &b->steps, .min = 1, .max = 100000 },
		{ .name = "--repeat", .number = &b->repeat, .min = 1, .max = MOST_REPEATS },
		{ .name = "--no-llama", .flag = &b->no_llama },
	};
	char **copy;
	int n = argc, rc;

	memset(b, 0, sizeof(*b));
	b->command = argv[0];
	b->argc = argc;
	b->argv = argv;
	b->steps = 32;
	b->repeat = strcmp(argv[0], "prefill") ? 7 : 3;
	if (asks_for_help(argc, argv)) {
		print_help(argv[0]);
		return PARSED_HELP;
	}
	copy = calloc((size_t)argc + 1, sizeof(*copy));
	if (!copy) {
		report_fail("out of memory");
		return PARSED_BAD;
	}
	memcpy(copy, argv, (size_t)argc * sizeof(*copy));
	rc = args_take(args, sizeof(args) / sizeof(args[0]), &n, copy);
	if (!rc)
		rc = parse_rest(b, n, copy);
	if (!rc)
		rc = check(b);
	free(copy);
	return rc ? PARSED_BAD : PARSED;
}

uint32_t bench_thread_counts(const struct bench *b, uint32_t out[MOST_THREAD_COUNTS])
{
	uint32_t n = 0, power = 1;

	out[n++] = b->run.n_threads;
	while (power * 2 < b->run.n_threads)
		power *= 2;
	for (; power && power < b->run.n_threads; power /= 2)
		out[n++] = power;
	return n;
}
