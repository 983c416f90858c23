/* SPDX-License-Identifier: MIT */
/* The kernel module: what load, unload, status and doctor ask of it. */
#ifndef KVSWAPCTL_MODULE_H
#define KVSWAPCTL_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#define MODULE_NAME "kvswap"
#define MODULE_DEVICE "/dev/kvswap"

struct module_state {
	bool loaded, live; /* in /proc/modules; its initialisation is over */
	char version[64];
	int64_t users;	  /* references; -1: not told */
	int device_error; /* 0, or -errno of opening the device and asking it */
	uint32_t abi;
	uint64_t features, pinned_bytes, pinned_bytes_max;
	uint32_t entries_max, request_bytes_max;
};

void module_look(struct module_state *s);

/* Why the kernel refuses modules here ("" when nothing speaks against it), in text[bytes]. */
void module_refusal(char *text, unsigned int bytes);

/* A line for an error of loading or unloading. */
const char *module_reason(int err, char *text, unsigned int bytes);

/* Processes that hold the device, as "name (pid), ..."; "" when none is seen. */
void module_holders(char *text, unsigned int bytes);

#endif
