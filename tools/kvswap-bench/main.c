// SPDX-License-Identifier: MIT
/* kvswap-bench: both sides of a ratio, measured in one run. Owns the table of commands. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"

static const struct {
	const char *name, *what; /* what NULL: not for people */
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "decode", "a model's decode after a long prompt, against depth 0 and libllama",
	  decode_main },
	{ "prefill", "a model's reading of a prompt, against libllama", prefill_main },
	{ "attend", "attention over a selection, against all tokens and ggml", attend_main },
	{ "score", "the choice of groups, against attention to all tokens", score_main },
	{ "io", "record reads of every I/O backend, against fio", io_main },
	{ "worker", NULL, serve_main },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int help(void)
{
	puts("usage: kvswap-bench COMMAND [options]\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (commands[i].what)
			printf("  %-10s %s\n", commands[i].name, commands[i].what);
	puts("\nkvswap-bench COMMAND --help tells its options; kvswap-bench --version.");
	return DONE;
}

int main(int argc, char **argv)
{
	/* As in kvswap: what a prompt needed goes back to the system. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	if (argc < 2)
		return report_usage("no command: see kvswap-bench --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help();
	if (!strcmp(argv[1], "--version")) {
		puts("kvswap-bench " KVSWAP_VERSION);
		return DONE;
	}
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	return report_usage("'%s' is not a command: see kvswap-bench --help", argv[1]);
}
