// SPDX-License-Identifier: MIT
/* kvswapctl: sets up and watches storage for kvswap. Owns the table of commands. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "kvswap/report.h"

static const struct command *const commands[] = {
	&command_probe,	  &command_calc,   &command_plan,   &command_tune,
	&command_load,	  &command_unload, &command_status, &command_top,
	&command_metrics, &command_doctor, &command_plot,
};

static int help(void)
{
	puts("usage: kvswapctl COMMAND [options]\n");
	for (size_t i = 0; i < CLI_N(commands); i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	puts("\nkvswapctl COMMAND --help tells its options; kvswapctl --version.");
	return DONE;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return report_usage("no command: see kvswapctl --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help();
	if (!strcmp(argv[1], "--version")) {
		puts("kvswapctl " KVSWAP_VERSION);
		return DONE;
	}
	for (size_t i = 0; i < CLI_N(commands); i++)
		if (!strcmp(argv[1], commands[i]->name))
			return commands[i]->main(argc - 1, argv + 1);
	return report_usage("'%s' is not a command: see kvswapctl --help", argv[1]);
}
