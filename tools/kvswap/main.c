// SPDX-License-Identifier: MIT
/* kvswap: runs GGUF models with their KV cache on disk. Owns the table of commands. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "interrupt.h"
#include "report.h"
#include "run.h"

static const struct {
	const char *name, *what;
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "run", "read a prompt, write what the model makes of it", run_main },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int help(void)
{
	puts("usage: kvswap COMMAND [options]\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		printf("  %-10s %s\n", commands[i].name, commands[i].what);
	puts("\nkvswap COMMAND --help tells its options; kvswap --version.");
	return DONE;
}

int main(int argc, char **argv)
{
	/* What a prompt needed goes back to the system before text is generated. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	interrupt_catch_abort();
	if (argc < 2)
		return report_usage("no command: see kvswap --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help();
	if (!strcmp(argv[1], "--version")) {
		puts("kvswap " KVSWAP_VERSION);
		return DONE;
	}
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	return report_usage("'%s' is not a command: see kvswap --help", argv[1]);
}
