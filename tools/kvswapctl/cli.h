/* SPDX-License-Identifier: MIT */
/*
 * The command line: a command is a const struct with a table of options, from which its parsing and its
 * --help are made.
 */
#ifndef KVSWAPCTL_CLI_H
#define KVSWAPCTL_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_kind {
	CLI_FLAG,   /* bool */
	CLI_UINT,   /* uint32_t, min to max */
	CLI_REAL,   /* double, min to max */
	CLI_TEXT,   /* const char * */
	CLI_SIZE,   /* uint64_t: bytes, with K, M, G */
	CLI_BUDGET, /* struct cli_budget */
	CLI_LIST,   /* struct cli_list: may be given several times */
};

struct cli_budget {
	uint64_t bytes;	      /* when part is 0; both 0: not given */
	uint32_t part, whole; /* part / whole of the full KV */
};

#define CLI_LIST_MAX 32

struct cli_list {
	const char *arg[CLI_LIST_MAX];
	int n;
};

struct cli_option {
	const char *name;
	char letter;
	enum cli_kind kind;
	size_t offset; /* in the command's struct of values */
	double min, max;
	const char *arg, *help; /* arg: name of the value in --help */
};

struct command {
	const char *name, *summary, *usage; /* usage: what follows the name */
	const char *about, *examples;	    /* lines of --help */
	const struct cli_option *options;
	size_t n_options;
	int (*main)(int argc, char **argv); /* argv[0]: the name; returns the exit code */
};

enum cli_result { CLI_GO, CLI_HELP, CLI_BAD };

/* values: filled with the defaults by the caller. operands: what is no option. */
enum cli_result cli_parse(const struct command *c, void *values, int argc, char **argv,
			  struct cli_list *operands);

/* Exactly one operand, else wrong usage that says so. */
int cli_one(const struct command *c, const struct cli_list *operands, const char *what);
int cli_none(const struct command *c, const struct cli_list *operands);

/* Bytes of a size like "64M"; 0: not a size. */
uint64_t cli_bytes(const char *text);

#define CLI_N(table) (sizeof(table) / sizeof((table)[0]))

#endif
