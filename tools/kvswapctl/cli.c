// SPDX-License-Identifier: MIT
/* Options by table; see cli.h. */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvswap/report.h"

#define OPTIONS_MAX 40
#define LONG_BASE 256 /* getopt's value of option i is LONG_BASE + i */

uint64_t cli_bytes(const char *text)
{
	static const char units[] = "KMG";
	char *end;
	double value = strtod(text, &end);
	const char *unit = end != text && *end ? strchr(units, *end) : NULL;

	if (unit) {
		value *= (double)((uint64_t)1 << 10 * (unit - units + 1));
		end++;
	}
	return end == text || *end || !(value >= 1 && value <= 1e18) ? 0 : (uint64_t)value;
}

static int parse_number(const struct cli_option *o, const char *arg, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(arg, &end);
	if (end == arg || *end || errno || !(*value >= o->min && *value <= o->max))
		return report_usage("--%s is '%s', must be %.10g to %.10g", o->name, arg, o->min,
				    o->max);
	if (o->kind == CLI_UINT && *value != floor(*value))
		return report_usage("--%s is '%s', must be a whole number", o->name, arg);
	return DONE;
}

static int parse_budget(const struct cli_option *o, const char *arg, struct cli_budget *b)
{
	unsigned long part, whole = 0;
	char *end;

	*b = (struct cli_budget){ .bytes = cli_bytes(arg) };
	if (b->bytes)
		return DONE;
	part = strtoul(arg, &end, 10);
	if (end != arg && *end == '/')
		whole = strtoul(end + 1, &end, 10);
	if (*end || !part || !whole || part > whole || whole > UINT32_MAX || strchr(arg, '-'))
		return report_usage("--%s is '%s', must be a size like 64M or a fraction like 1/13",
				    o->name, arg);
	b->part = (uint32_t)part;
	b->whole = (uint32_t)whole;
	return DONE;
}

static int add(const struct cli_option *o, const char *arg, struct cli_list *list)
{
	if (list->n == CLI_LIST_MAX)
		return report_usage("more than %d times --%s", CLI_LIST_MAX, o->name);
	list->arg[list->n++] = arg;
	return DONE;
}

static int apply(const struct cli_option *o, void *values, const char *arg)
{
	void *at = (char *)values + o->offset;
	double number;

	switch (o->kind) {
	case CLI_FLAG:
		*(bool *)at = true;
		return DONE;
	case CLI_UINT:
		if (parse_number(o, arg, &number))
			return WRONG_USAGE;
		*(uint32_t *)at = (uint32_t)number;
		return DONE;
	case CLI_REAL:
		return parse_number(o, arg, at);
	case CLI_TEXT:
		*(const char **)at = arg;
		return DONE;
	case CLI_SIZE:
		*(uint64_t *)at = cli_bytes(arg);
		return *(uint64_t *)at ? DONE
				       : report_usage("--%s is '%s', must be a size like 64M",
						      o->name, arg);
	case CLI_BUDGET:
		return parse_budget(o, arg, at);
	case CLI_LIST:
		return add(o, arg, at);
	}
	return WRONG_USAGE;
}

static void help(const struct command *c)
{
	printf("usage: kvswapctl %s %s\n\n%s\n", c->name, c->usage, c->about);
	if (c->examples)
		printf("\n%s\n", c->examples);
	puts("");
	for (size_t i = 0; i < c->n_options; i++) {
		const struct cli_option *o = &c->options[i];
		char letter[8] = "    ", name[64];

		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(name, sizeof(name), "--%s %s", o->name, o->arg ? o->arg : "");
		printf("  %s%-22s %s\n", letter, name, o->help);
	}
	puts("  -h, --help");
}

static void getopt_tables(const struct command *c, struct option *longs, char *shorts)
{
	*shorts++ = ':';
	*shorts++ = 'h';
	for (size_t i = 0; i < c->n_options; i++) {
		const struct cli_option *o = &c->options[i];
		int has_arg = o->kind != CLI_FLAG;

		longs[i] = (struct option){ o->name, has_arg, NULL, LONG_BASE + (int)i };
		if (!o->letter)
			continue;
		*shorts++ = o->letter;
		if (has_arg)
			*shorts++ = ':';
	}
	longs[c->n_options] = (struct option){ "help", 0, NULL, 'h' };
	longs[c->n_options + 1] = (struct option){ 0 };
	*shorts = '\0';
}

static const struct cli_option *option_of(const struct command *c, int value)
{
	if (value >= LONG_BASE)
		return &c->options[value - LONG_BASE];
	for (size_t i = 0; i < c->n_options; i++)
		if (c->options[i].letter == value)
			return &c->options[i];
	return NULL;
}

static enum cli_result complain(const struct command *c, int value, const char *arg)
{
	report_usage(value == ':' ? "%s needs a value: see kvswapctl %s --help"
				  : "%s is not an option: see kvswapctl %s --help",
		     arg, c->name);
	return CLI_BAD;
}

enum cli_result cli_parse(const struct command *c, void *values, int argc, char **argv,
			  struct cli_list *operands)
{
	struct option longs[OPTIONS_MAX + 2];
	char shorts[2 * OPTIONS_MAX + 4];
	int value;

	getopt_tables(c, longs, shorts);
	memset(operands, 0, sizeof(*operands));
	opterr = 0;
	while ((value = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct cli_option *o = option_of(c, value);

		if (value == 'h') {
			help(c);
			return CLI_HELP;
		}
		if (!o)
			return complain(c, value, argv[optind - 1]);
		if (apply(o, values, optarg))
			return CLI_BAD;
	}
	for (int i = optind; i < argc; i++) {
		if (operands->n == CLI_LIST_MAX) {
			report_usage("more than %d arguments", CLI_LIST_MAX);
			return CLI_BAD;
		}
		operands->arg[operands->n++] = argv[i];
	}
	return CLI_GO;
}

int cli_one(const struct command *c, const struct cli_list *operands, const char *what)
{
	if (operands->n == 1 && *operands->arg[0])
		return DONE;
	return report_usage("kvswapctl %s takes one %s%s: see kvswapctl %s --help", c->name, what,
			    operands->n == 1 ? ", not an empty one" : "", c->name);
}

int cli_none(const struct command *c, const struct cli_list *operands)
{
	if (operands->n == 0)
		return DONE;
	return report_usage("'%s' is not an option: see kvswapctl %s --help", operands->arg[0],
			    c->name);
}
