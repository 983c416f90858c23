// SPDX-License-Identifier: MIT
/* See args.h. */
#include "args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvswap/report.h"

static int parse_number(const struct arg *a, const char *text)
{
	static const char units[] = "KMG";
	unsigned long long value;
	const char *unit;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		value <<= 10 * (unit - units + 1);
		end++;
	}
	if (end == text || *end || errno || *text == '-' || value < a->min || value > a->max)
		return report_usage("%s is '%s', must be %u to %u", a->name, text, a->min, a->max);
	*a->number = (uint32_t)value;
	return DONE;
}

/*
 * Words that the option at argv[i] takes: 0, it is not `a`; 1, --name or --name=value; 2,
 * --name value.
 */
static int match(const struct arg *a, char **argv, int i, const char **value)
{
	size_t length = strlen(a->name);

	*value = NULL;
	if (strncmp(argv[i], a->name, length))
		return 0;
	if (argv[i][length] == '=' && !a->flag) {
		*value = argv[i] + length + 1;
		return 1;
	}
	if (argv[i][length])
		return 0;
	*value = a->flag ? NULL : argv[i + 1];
	return a->flag ? 1 : 2;
}

static int apply(const struct arg *a, const char *value)
{
	if (a->flag) {
		*a->flag = true;
		return DONE;
	}
	if (!value)
		return report_usage("%s needs a value", a->name);
	if (a->number)
		return parse_number(a, value);
	*a->text = value;
	return DONE;
}

int args_take(const struct arg *args, size_t n, int *argc, char **argv)
{
	int kept = 1, i = 1;

	while (i < *argc) {
		const char *value = NULL;
		int words = 0;
		size_t a = 0;

		while (a < n && !(words = match(&args[a], argv, i, &value)))
			a++;
		if (words && apply(&args[a], value))
			return WRONG_USAGE;
		if (!words)
			argv[kept++] = argv[i];
		i += words ? words : 1;
	}
	argv[kept] = NULL;
	*argc = kept;
	return DONE;
}

int args_end(int argc, char **argv)
{
	if (argc > 1)
		return report_usage("'%s' is not an option of kvswap-bench %s", argv[1], argv[0]);
	return DONE;
}
