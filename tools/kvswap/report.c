// SPDX-License-Identifier: MIT
/*
 * Owns stderr: failures, notes and the progress line, which is wiped before anything else is said.
 */
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "llama.h"

static bool line_open;
static char captured[256];

static void say(const char *format, va_list args)
{
	report_progress_end();
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

int report_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return FAILED;
}

int report_usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return WRONG_USAGE;
}

void report_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

void report_progress(const char *format, ...)
{
	va_list args;

	fputs("\r\033[K", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fflush(stderr);
	line_open = true;
}

void report_progress_end(void)
{
	if (!line_open)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	line_open = false;
}

static void capture(enum ggml_log_level level, const char *text, void *data)
{
	(void)data;
	if (level != GGML_LOG_LEVEL_ERROR)
		return;
	snprintf(captured, sizeof(captured), "%s", text);
	captured[strcspn(captured, "\n")] = '\0';
}

void report_capture_log(void)
{
	captured[0] = '\0';
	llama_log_set(capture, NULL);
}

const char *report_captured(void)
{
	return captured;
}
