/* SPDX-License-Identifier: MIT */
#ifndef KVSWAPCTL_MEMORY_H
#define KVSWAPCTL_MEMORY_H

#include <stdint.h>

/* Bytes that a program could still take, and all: of the machine, or of this process's cgroup when that is less. */
void memory_look(uint64_t *available, uint64_t *total);
/* A field of /proc/meminfo, bytes; 0: not there. */
uint64_t memory_field(const char *name);

#endif
