/* SPDX-License-Identifier: MIT */
/*
 * What a probe reads and writes: resolves the path that a person gave. Nothing is written but to a
 * scratch that was asked for, by the library's own rules for a store (lib/store.h).
 */
#ifndef KVSWAPCTL_TARGET_H
#define KVSWAPCTL_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "store.h"

struct target {
	struct device device;
	int fd;
	bool direct;
	char direct_why[160]; /* when !direct */
	uint32_t block;
	uint64_t bytes;		  /* that may be read */
	char measured[PATH_MAX];  /* what fd is of */
	struct kvs_store scratch; /* fd >= 0 when there is one: it is read and written */
};

/* Looks at path; DONE or FAILED, said why. Opens nothing. */
int target_look(struct target *t, const char *path);
/* Opens what is to be measured: the scratch if one is given, else path's file or the device below, read-only. */
int target_open(struct target *t, const char *path, const char *scratch, uint64_t scratch_bytes,
		bool force);
void target_close(struct target *t);

#endif
