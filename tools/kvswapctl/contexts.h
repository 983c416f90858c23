/* SPDX-License-Identifier: MIT */
/* The module's list of contexts in debugfs: a line each, "name value" pairs. */
#ifndef KVSWAPCTL_CONTEXTS_H
#define KVSWAPCTL_CONTEXTS_H

#include <stdint.h>

#define CONTEXTS_PATH "/sys/kernel/debug/kvswap/contexts"
#define CONTEXTS_MAX 64
#define CONTEXT_FIELDS 24

struct context {
	unsigned int pid;
	char store[256];
	struct {
		char name[24];
		uint64_t value;
	} field[CONTEXT_FIELDS];
	int n_fields;
};

struct contexts {
	struct context context[CONTEXTS_MAX];
	int n;
	char why[128]; /* why there are none to see, or "" */
};

void contexts_read(const char *path, struct contexts *out);
/* 0 when the kernel does not tell it. */
uint64_t context_field(const struct context *c, const char *name);

#endif
