/* SPDX-License-Identifier: MIT */
#ifndef KVSWAPCTL_PROBE_OUTPUT_H
#define KVSWAPCTL_PROBE_OUTPUT_H

#include "probe.h"

struct json;

int probe_write_json(const struct probe *p);
int probe_write_table(const struct probe *p);
/* path, device, kind ... to warnings, into an object that is open. */
void probe_json_members(struct json *j, const struct probe *p);

#endif
