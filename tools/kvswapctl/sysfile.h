/* SPDX-License-Identifier: MIT */
/* Small files of sysfs, procfs and debugfs. */
#ifndef KVSWAPCTL_SYSFILE_H
#define KVSWAPCTL_SYSFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* First line of the file whose path is the format, without newline and blanks at its ends. false: none. */
bool sys_line(char *line, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Its number, decimal or 0x...; absent when there is none. */
uint64_t sys_number(uint64_t absent, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sys_exists(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
