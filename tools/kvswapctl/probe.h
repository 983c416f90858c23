/* SPDX-License-Identifier: MIT */
/* `kvswapctl probe`: what it found, and what plan takes of it. */
#ifndef KVSWAPCTL_PROBE_H
#define KVSWAPCTL_PROBE_H

#include "measure.h"
#include "nvme.h"
#include "target.h"

struct probe {
	const char *path;
	struct target target;
	bool has_nvme;
	int nvme_error; /* why not, for an NVMe disk */
	struct nvme_facts nvme;
	struct cells reads, writes, mixed;
	struct warnings warnings;
	const char *backend;
};

struct probe_options {
	const char *scratch;
	uint64_t scratch_bytes, bytes;
	double seconds;
	bool force, quiet, only_reads; /* quiet: no progress */
};

/* DONE, or an exit code and said why; *p is to be closed in any case. */
int probe_run(struct probe *p, const char *path, const struct probe_options *o);
void probe_close(struct probe *p);

#endif
