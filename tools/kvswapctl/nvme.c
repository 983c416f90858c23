// SPDX-License-Identifier: MIT
/* See nvme.h; fields by the NVM Express base specification 2.0 and its NVM command set. */
#include "nvme.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ZERO_C 273 /* kelvins */

#ifdef HAVE_LIBNVME
#include <libnvme.h>

#define NSFEAT_OPTPERF (1u << 4) /* NPWG and its kin mean something */
#define BLOCK_SHIFT_MIN 9u
#define BLOCK_SHIFT_MAX 16u
#define SHIFT_ABSURD 20u /* MDTS beyond this many doublings is no limit that anyone meets */

static uint16_t le16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] | b[1] << 8);
}

/* Fixed width, padded by blanks, not terminated. */
static void text(char *to, const char *from, size_t n)
{
	memcpy(to, from, n);
	to[n] = '\0';
	while (n && (to[n - 1] == ' ' || to[n - 1] == '\0'))
		to[--n] = '\0';
	for (char *c = to; *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
			*c = '?';
}

static int celsius(uint32_t kelvin)
{
	return kelvin > 173 && kelvin < 523 ? (int)kelvin - ZERO_C : INT_MIN;
}

static int percent(uint8_t value)
{
	return value <= 100 ? value : -1;
}

static void decode_formats(const struct nvme_id_ns *ns, struct nvme_facts *f)
{
	/* Bits 5 and 6 of FLBAS are the upper ones, of a namespace with more than 16 formats. */
	int used = (ns->flbas & 0xf) | (ns->nlbaf > 15 ? (ns->flbas & 0x60) >> 1 : 0);

	f->format = -1;
	f->n_formats = 0;
	for (int i = 0; i <= ns->nlbaf && i < NVME_FORMATS; i++) {
		struct nvme_format *to = &f->formats[f->n_formats];

		if (ns->lbaf[i].ds < BLOCK_SHIFT_MIN || ns->lbaf[i].ds > BLOCK_SHIFT_MAX)
			continue;
		to->block_bytes = 1u << ns->lbaf[i].ds;
		to->metadata_bytes = le16(&ns->lbaf[i].ms);
		to->performance = ns->lbaf[i].rp & 3u;
		to->in_use = i == used;
		if (to->in_use)
			f->format = f->n_formats;
		f->n_formats++;
	}
}

static void decode_namespace(const struct nvme_id_ns *ns, struct nvme_facts *f)
{
	uint32_t block;

	decode_formats(ns, f);
	if (f->format < 0)
		return;
	block = f->formats[f->format].block_bytes;
	f->optimal_boundary = le16(&ns->noiob) * block;
	if (ns->nsfeat & NSFEAT_OPTPERF)
		f->write_unit = (le16(&ns->npwg) + 1u) * block;
}

static void decode_smart(const struct nvme_smart_log *smart, struct nvme_facts *f)
{
	f->temperature_c = celsius(le16(smart->temperature));
	f->spare_percent = percent(smart->avail_spare);
	f->spare_least = percent(smart->spare_thresh);
	f->used_percent = smart->percent_used;
	f->critical = smart->critical_warning;
	f->throttled_seconds =
		(uint32_t)(le16(&smart->thm_temp1_total_time) |
			   le16((const uint8_t *)&smart->thm_temp1_total_time + 2) << 16);
	for (int i = 7; i >= 0; i--)
		f->media_errors = f->media_errors << 8 | smart->media_errors[i];
}

void nvme_decode(const struct nvme_id_ctrl *ctrl, const struct nvme_id_ns *ns,
		 const struct nvme_smart_log *smart, uint32_t page_bytes, struct nvme_facts *out)
{
	memset(out, 0, sizeof(*out));
	text(out->model, ctrl->mn, sizeof(ctrl->mn));
	text(out->firmware, ctrl->fr, sizeof(ctrl->fr));
	if (ctrl->mdts && ctrl->mdts < SHIFT_ABSURD &&
	    (uint64_t)page_bytes << ctrl->mdts <= UINT32_MAX)
		out->max_transfer = page_bytes << ctrl->mdts;
	out->power_states = ctrl->npss + 1u;
	out->apst = ctrl->apsta & 1;
	out->write_cache = ctrl->vwc & 1;
	out->warning_c = celsius(le16(&ctrl->wctemp));
	out->critical_c = celsius(le16(&ctrl->cctemp));
	out->temperature_c = INT_MIN;
	out->spare_percent = out->spare_least = out->used_percent = -1;
	decode_namespace(ns, out);
	if (smart)
		decode_smart(smart, out);
}

/* Commands return -1 with errno, or the controller's status. */
static int status(int rc)
{
	return rc < 0 ? -errno : rc ? -EIO : 0;
}

int nvme_look(const char *disk, struct nvme_facts *out)
{
	struct nvme_id_ctrl ctrl;
	struct nvme_id_ns ns;
	struct nvme_smart_log smart;
	uint32_t nsid;
	int fd, err;

	fd = nvme_open(disk);
	if (fd < 0)
		return -errno;
	err = status(nvme_get_nsid(fd, &nsid));
	if (!err)
		err = status(nvme_identify_ctrl(fd, &ctrl));
	if (!err)
		err = status(nvme_identify_ns(fd, nsid, &ns));
	if (!err)
		nvme_decode(&ctrl, &ns,
			    nvme_get_log_smart(fd, NVME_NSID_ALL, true, &smart) ? NULL : &smart,
			    4096, out);
	close(fd);
	return err;
}
#else
int nvme_look(const char *disk, struct nvme_facts *out)
{
	(void)disk;
	memset(out, 0, sizeof(*out));
	return -ENOTSUP;
}
#endif

static void warn_health(const char *disk, const struct nvme_facts *f, struct warnings *w)
{
	if (f->critical)
		warn(w, "%s reports a critical condition (0x%02x): see nvme smart-log", disk,
		     f->critical);
	if (f->spare_percent >= 0 && f->spare_least >= 0 && f->spare_percent < f->spare_least)
		warn(w, "%s has %d %% of its spare blocks left, fewer than the %d %% that it wants",
		     disk, f->spare_percent, f->spare_least);
	if (f->used_percent >= 90)
		warn(w, "%s has used %d %% of its life time", disk, f->used_percent);
	if (f->media_errors)
		warn(w, "%s counts %llu media errors", disk, (unsigned long long)f->media_errors);
	if (f->temperature_c != INT_MIN && f->warning_c != INT_MIN &&
	    f->temperature_c >= f->warning_c)
		warn(w, "%s is at %d degrees, its limit is %d: it slows down", disk,
		     f->temperature_c, f->warning_c);
	else if (f->temperature_c != INT_MIN && f->temperature_c >= 70)
		warn(w, "%s is at %d degrees: expect it to slow down", disk, f->temperature_c);
	if (f->throttled_seconds)
		warn(w, "%s has been slowed down by heat for %u s of its life", disk,
		     f->throttled_seconds);
}

static void warn_format(const char *disk, const struct nvme_facts *f, struct warnings *w)
{
	const struct nvme_format *used = f->format < 0 ? NULL : &f->formats[f->format];

	if (!used) {
		warn(w,
		     "%s names a block format in use that it does not have: taking the kernel's block size",
		     disk);
		return;
	}
	for (int i = 0; i < f->n_formats; i++)
		if (f->formats[i].performance < used->performance &&
		    !f->formats[i].metadata_bytes) {
			warn(w,
			     "%s is formatted with blocks of %u bytes; its format of %u bytes is rated faster (nvme format, which erases it)",
			     disk, used->block_bytes, f->formats[i].block_bytes);
			break;
		}
	if (used->metadata_bytes)
		warn(w, "%s has %u bytes of metadata in each block", disk, used->metadata_bytes);
	if (f->optimal_boundary & (f->optimal_boundary - 1))
		warn(w, "%s splits requests at multiples of %u bytes, which records cannot avoid",
		     disk, f->optimal_boundary);
	if (f->write_unit > 65536)
		warn(w, "%s wants writes of %u bytes: write-back in smaller records wears it", disk,
		     f->write_unit);
}

void nvme_warn(const char *disk, const struct nvme_facts *f, struct warnings *w)
{
	warn_health(disk, f, w);
	warn_format(disk, f, w);
	if (f->max_transfer && f->max_transfer < 65536)
		warn(w, "%s takes at most %u bytes a request", disk, f->max_transfer);
}
