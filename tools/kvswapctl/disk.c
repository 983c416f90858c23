// SPDX-License-Identifier: MIT
/* See disk.h. The kind follows from the name, the transport and the buses in the path. */
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sysfile.h"

static const char *const kind_names[] = {
	[KIND_UNKNOWN] = "unknown", [KIND_NVME] = "nvme",     [KIND_UFS] = "ufs",
	[KIND_EMMC] = "emmc",	    [KIND_SD] = "sd",	      [KIND_SATA] = "sata",
	[KIND_SCSI] = "scsi",	    [KIND_USB] = "usb",	      [KIND_VIRTUAL] = "virtual",
	[KIND_NETWORK] = "network", [KIND_MEMORY] = "memory",
};

const char *device_kind_name(enum device_kind kind)
{
	return kind_names[kind];
}

static const struct {
	const char *prefix; /* of the disk's name */
	enum device_kind kind;
} by_name[] = {
	{ "nvme", KIND_NVME },	  { "vd", KIND_VIRTUAL },  { "xvd", KIND_VIRTUAL },
	{ "nbd", KIND_NETWORK },  { "rbd", KIND_NETWORK }, { "drbd", KIND_NETWORK },
	{ "zram", KIND_MEMORY },  { "ram", KIND_MEMORY },  { "pmem", KIND_MEMORY },
	{ "nullb", KIND_MEMORY },
};

/* Of SCSI disks, the first that is in the path says it. */
static const struct {
	const char *part;
	enum device_kind kind;
} by_path[] = {
	{ "ufs", KIND_UFS },	     { "/usb", KIND_USB },	  { "/session", KIND_NETWORK },
	{ "/virtio", KIND_VIRTUAL }, { "/vmbus", KIND_VIRTUAL },  { "VMBUS", KIND_VIRTUAL },
	{ "/ata", KIND_SATA },	     { "/pseudo_", KIND_MEMORY }, { "/host", KIND_SCSI },
};

/* A multipath disk hangs below its subsystem: its controllers, which know the transport, are in the class. */
static void nvme_transport(const char *dir, const char *name, struct device *d)
{
	const char *sys = strstr(dir, "/sys/devices/");
	unsigned int number;

	if (sys_line(d->transport, sizeof(d->transport), "%s/device/transport", dir))
		return;
	if (sys && sscanf(name, "nvme%u", &number) == 1)
		sys_line(d->transport, sizeof(d->transport), "%.*s/sys/class/nvme/nvme%u/transport",
			 (int)(sys - dir), dir, number);
}

static void disk_nvme(const char *dir, const char *name, struct device *d)
{
	nvme_transport(dir, name, d);
	sys_line(d->firmware, sizeof(d->firmware), "%s/device/firmware_rev", dir);
	sys_line(d->model, sizeof(d->model), "%s/device/model", dir);
	if (!strcmp(d->transport, "tcp") || !strcmp(d->transport, "rdma") ||
	    !strcmp(d->transport, "fc"))
		d->kind = KIND_NETWORK;
}

/* Life time in steps of 10 %, 1 is up to 10; 0 is not told, 11 past its end. */
static int life(unsigned int steps)
{
	return steps >= 1 && steps <= 11 ? (int)steps * 10 : -1;
}

static const char *pre_eol(unsigned int value)
{
	return value == 1 ? "normal" : value == 2 ? "warning" : value == 3 ? "urgent" : "";
}

static void mmc_look(const char *dir, struct device *d)
{
	char line[64] = "";
	unsigned int a = 0, b = 0;

	sys_line(line, sizeof(line), "%s/device/type", dir);
	d->kind = !strcmp(line, "SD") ? KIND_SD : KIND_EMMC;
	d->slow = true;
	sys_line(d->model, sizeof(d->model), "%s/device/name", dir);
	sys_line(d->firmware, sizeof(d->firmware), "%s/device/fwrev", dir);
	if (sys_line(line, sizeof(line), "%s/device/life_time", dir) &&
	    sscanf(line, "%x %x", &a, &b) == 2)
		d->life_percent = life(a > b ? a : b);
	snprintf(d->pre_eol, sizeof(d->pre_eol), "%s",
		 pre_eol((unsigned int)sys_number(0, "%s/device/pre_eol_info", dir)));
}

/* The host controller, some directories up, has the device's health. */
static void ufs_look(const char *dir, struct device *d)
{
	char at[PATH_MAX];
	uint64_t a, b;

	snprintf(at, sizeof(at), "%s", dir);
	while (strrchr(at, '/') && strrchr(at, '/') != at) {
		*strrchr(at, '/') = '\0';
		if (!sys_exists("%s/health_descriptor", at))
			continue;
		a = sys_number(0, "%s/health_descriptor/life_time_estimation_a", at);
		b = sys_number(0, "%s/health_descriptor/life_time_estimation_b", at);
		d->life_percent = life((unsigned int)(a > b ? a : b));
		snprintf(d->pre_eol, sizeof(d->pre_eol), "%s",
			 pre_eol((unsigned int)sys_number(0, "%s/health_descriptor/eol_info", at)));
		return;
	}
}

static void scsi_look(const char *dir, struct device *d)
{
	char vendor[64] = "", model[64] = "";

	for (size_t i = 0; i < sizeof(by_path) / sizeof(by_path[0]) && d->kind == KIND_UNKNOWN; i++)
		if (strstr(dir, by_path[i].part))
			d->kind = by_path[i].kind;
	sys_line(vendor, sizeof(vendor), "%s/device/vendor", dir);
	sys_line(model, sizeof(model), "%s/device/model", dir);
	snprintf(d->model, sizeof(d->model), "%.20s %.40s", vendor, model);
	sys_line(d->firmware, sizeof(d->firmware), "%s/device/rev", dir);
	if (!strncmp(vendor, "QEMU", 4) || !strncmp(vendor, "VMware", 6) ||
	    !strncmp(vendor, "Msft", 4))
		d->kind = KIND_VIRTUAL;
	if (d->kind == KIND_UFS)
		ufs_look(dir, d);
}

void disk_look(const char *dir, struct device *d)
{
	const char *name = strrchr(dir, '/') + 1;

	if (!strncmp(name, "mmcblk", 6))
		d->slow = true;
	if (d->disk[0])
		return;
	snprintf(d->disk, sizeof(d->disk), "%.63s", name);
	for (size_t i = 0; i < sizeof(by_name) / sizeof(by_name[0]) && d->kind == KIND_UNKNOWN; i++)
		if (!strncmp(name, by_name[i].prefix, strlen(by_name[i].prefix)))
			d->kind = by_name[i].kind;
	if (!strncmp(name, "nvme", 4))
		disk_nvme(dir, name, d);
	else if (!strncmp(name, "mmcblk", 6))
		mmc_look(dir, d);
	else if (!strncmp(name, "sd", 2))
		scsi_look(dir, d);
}

/* "none [mq-deadline] kyber": the one in brackets. */
static void chosen(char *line)
{
	char *from = strchr(line, '['), *to = from ? strchr(from, ']') : NULL;

	if (!to)
		return;
	*to = '\0';
	memmove(line, from + 1, strlen(from + 1) + 1);
}

void disk_limits(const char *dir, struct device_limits *l)
{
	char line[128];

	if (!sys_exists("%s/queue", dir))
		return;
	l->logical_block = (uint32_t)sys_number(0, "%s/queue/logical_block_size", dir);
	l->physical_block = (uint32_t)sys_number(0, "%s/queue/physical_block_size", dir);
	l->minimum_io = (uint32_t)sys_number(0, "%s/queue/minimum_io_size", dir);
	l->optimal_io = (uint32_t)sys_number(0, "%s/queue/optimal_io_size", dir);
	l->max_transfer = 1024 * (uint32_t)sys_number(0, "%s/queue/max_sectors_kb", dir);
	l->max_hw_transfer = 1024 * (uint32_t)sys_number(0, "%s/queue/max_hw_sectors_kb", dir);
	l->max_segments = (uint32_t)sys_number(0, "%s/queue/max_segments", dir);
	l->requests = (uint32_t)sys_number(0, "%s/queue/nr_requests", dir);
	l->read_ahead_bytes = 1024 * (uint32_t)sys_number(0, "%s/queue/read_ahead_kb", dir);
	l->discard_max = sys_number(0, "%s/queue/discard_max_bytes", dir);
	l->rotational = sys_number(0, "%s/queue/rotational", dir) != 0;
	l->read_only = sys_number(0, "%s/ro", dir) != 0;
	if (sys_line(line, sizeof(line), "%s/queue/scheduler", dir)) {
		chosen(line);
		snprintf(l->scheduler, sizeof(l->scheduler), "%.31s", line);
	}
	sys_line(l->write_cache, sizeof(l->write_cache), "%s/queue/write_cache", dir);
}
