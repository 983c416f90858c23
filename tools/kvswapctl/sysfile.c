// SPDX-License-Identifier: MIT
/* See sysfile.h. */
#include "sysfile.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES (2 * PATH_MAX)

static bool read_line(const char *path, char *line, size_t bytes)
{
	FILE *f = fopen(path, "re");
	char *got;
	size_t n;

	line[0] = '\0';
	if (!f)
		return false;
	got = fgets(line, (int)bytes, f);
	fclose(f);
	if (!got) {
		line[0] = '\0';
		return false;
	}
	n = strlen(line);
	while (n && isspace((unsigned char)line[n - 1]))
		line[--n] = '\0';
	return true;
}

bool sys_line(char *line, size_t bytes, const char *format, ...)
{
	char path[PATH_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	return read_line(path, line, bytes);
}

uint64_t sys_number(uint64_t absent, const char *format, ...)
{
	char path[PATH_BYTES], line[64], *end;
	unsigned long long value;
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (!read_line(path, line, sizeof(line)))
		return absent;
	value = strtoull(line, &end, 0);
	return end == line ? absent : value;
}

bool sys_exists(const char *format, ...)
{
	char path[PATH_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	return !access(path, F_OK);
}
