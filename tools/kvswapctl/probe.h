/* SPDX-License-Identifier: MIT */
/* `kvswapctl probe`: what it found, and what plan takes of it. */
#ifndef KVSWAPCTL_PROBE_H
#define KVSWAPCTL_PROBE_H

#include "measure.h"
#include "nvme.h"
#include "target.h"

#define PROBE_CELLS 64

struct probe_cells {
	struct measure_cell cell[PROBE_CELLS];
	int n;
};

struct probe {
	const char *path;
	struct target target;
	bool has_nvme;
	int nvme_error; /* why not, for an NVMe disk */
	struct nvme_facts nvme;
	struct probe_cells reads, writes, mixed;
	struct warnings warnings;
	const char *backend;
	bool interrupted;
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

/* Of cells at any of the depths: the one nearest in size and depth. NULL: there is none. */
const struct measure_cell *probe_nearest(const struct probe_cells *cells, uint32_t bytes,
					 uint32_t depth);

#endif
