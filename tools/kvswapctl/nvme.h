/* SPDX-License-Identifier: MIT */
/*
 * What an NVMe controller says of itself, by libnvme. Reading (nvme_look) is apart from making sense of it
 * (nvme_decode), since controllers lie and tests make up their own.
 */
#ifndef KVSWAPCTL_NVME_H
#define KVSWAPCTL_NVME_H

#include <stdbool.h>
#include <stdint.h>

#include "warnings.h"

#define NVME_FORMATS 64

struct nvme_format {
	uint32_t block_bytes, metadata_bytes;
	uint32_t performance; /* 0 best to 3 degraded */
	bool in_use;
};

struct nvme_facts {
	char model[41], firmware[9];
	uint32_t max_transfer; /* MDTS in bytes, 0: no limit */
	uint32_t
		optimal_boundary; /* NOIOB in bytes, 0: none: reads that cross it are split inside */
	uint32_t write_unit;	  /* NPWG in bytes, 0: not told: shorter writes are slow */
	struct nvme_format formats[NVME_FORMATS];
	int n_formats, format;	   /* format in use, -1: the controller names none that exists */
	int temperature_c;	   /* INT_MIN: not told */
	int warning_c, critical_c; /* INT_MIN: not told */
	int spare_percent, spare_least, used_percent; /* -1: not told */
	uint32_t critical;			      /* bits of the SMART log's critical warning */
	uint64_t media_errors;
	uint32_t power_states, throttled_seconds;
	bool apst, write_cache;
};

#ifdef HAVE_LIBNVME
struct nvme_id_ctrl;
struct nvme_id_ns;
struct nvme_smart_log;

/* smart: NULL when it could not be read. page_bytes: the controller's smallest page, what MDTS counts in. */
void nvme_decode(const struct nvme_id_ctrl *ctrl, const struct nvme_id_ns *ns,
		 const struct nvme_smart_log *smart, uint32_t page_bytes, struct nvme_facts *out);
#endif

/* disk: nvme0n1. -ENOTSUP: built without libnvme; else what open() or the command said. */
int nvme_look(const char *disk, struct nvme_facts *out);
void nvme_warn(const char *disk, const struct nvme_facts *f, struct warnings *w);

#endif
