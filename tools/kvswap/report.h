/* SPDX-License-Identifier: MIT */
/*
 * What people read on stderr: one line a failure, notes, the progress line. Functions of the runner
 * that can fail print the reason here and return an exit code, so that a caller only passes it on.
 */
#ifndef KVSWAP_REPORT_H
#define KVSWAP_REPORT_H

#include <stdbool.h>

enum {
	DONE = 0,
	FAILED = 1,
	WRONG_USAGE = 2,
	INTERRUPTED = 130,
};

/* Each prints "PROGRAM: ..." and returns FAILED or WRONG_USAGE. */
int report_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int report_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line that the next one replaces. */
void report_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_progress_end(void);

/* ggml and libllama say why on a log of their own: the last error of it, or "". */
void report_capture_log(void);
const char *report_captured(void);

#endif
