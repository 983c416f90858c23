/* SPDX-License-Identifier: MIT */
/*
 * Places to try the store on: a scratch directory, loop devices, small file systems mounted where
 * only the test sees them. What the machine does not allow is a skip with its reason, never a
 * failure.
 */
#ifndef TEST_DISK_H
#define TEST_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* The current directory becomes a new one on a real disk, until disk_leave(). Checked fixtures. */
void disk_enter(void);
void disk_leave(void);

/* Says why the rest of a test cannot run here; the caller returns. tests/run counts it. */
#define disk_skip(...) disk_skip_as(__func__, __VA_ARGS__)
__attribute__((format(printf, 2, 3))) void disk_skip_as(const char *test, const char *format, ...);

/* A file of so many bytes, or the test fails. */
void disk_file(const char *path, uint64_t bytes);
/* A loop device over a file, gone when its last user has closed it; fd, or -1 after a skip. */
int disk_loop(const char *test, const char *file, uint32_t sector, bool direct, char path[32]);
/* A private mount namespace: what is mounted later goes with the process. false after a skip. */
bool disk_private(const char *test);
/* mount(2) in it, undone by disk_leave(); dir is made where needed. false after a skip. */
bool disk_mount(const char *test, const char *source, const char *dir, const char *type,
		unsigned long flags, const char *options);
/* Runs a program of the system, quietly; false after a skip: it is not installed. */
bool disk_run(const char *test, const char *command);

#endif
