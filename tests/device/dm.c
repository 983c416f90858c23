/* SPDX-License-Identifier: MIT */
/* See dm.h. */
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <sys/sysmacros.h>

#include "dev.h"
#include "dm.h"

#define DM_NAME "kvswap-test"

union dm_arg {
	struct dm_ioctl ioctl;
	char bytes[8192];
};

static int dm_control(unsigned int cmd, union dm_arg *arg)
{
	int fd = open("/dev/mapper/control", O_RDWR), ret;

	if (fd < 0)
		dev_skip("no device mapper");
	ret = ioctl(fd, cmd, arg);
	close(fd);
	return ret;
}

static void dm_init(union dm_arg *arg)
{
	memset(arg, 0, sizeof(*arg));
	arg->ioctl.version[0] = DM_VERSION_MAJOR;
	arg->ioctl.data_size = sizeof(*arg);
	arg->ioctl.data_start = sizeof(arg->ioctl);
	strcpy(arg->ioctl.name, DM_NAME);
}

static void dm_table(union dm_arg *arg, const struct dm_part *parts, int n)
{
	char *at = arg->bytes + sizeof(arg->ioctl);

	dm_init(arg);
	arg->ioctl.target_count = n;
	for (int i = 0; i < n; i++) {
		struct dm_target_spec *spec = (void *)at;

		spec->sector_start = parts[i].first;
		spec->length = parts[i].sectors;
		snprintf(spec->target_type, sizeof(spec->target_type), "%s", parts[i].target);
		strcpy(at + sizeof(*spec), parts[i].params);
		spec->next = (sizeof(*spec) + strlen(parts[i].params) + 1 + 7) & ~7ull;
		at += spec->next;
	}
}

void dm_create(const struct dm_part *parts, int n, char *path, size_t size)
{
	union dm_arg arg;
	dev_t dev;

	dm_init(&arg);
	dm_control(DM_DEV_REMOVE, &arg);
	dm_init(&arg);
	CHECK(!dm_control(DM_DEV_CREATE, &arg));
	dev = arg.ioctl.dev;
	dm_table(&arg, parts, n);
	if (dm_control(DM_TABLE_LOAD, &arg)) {
		dm_init(&arg);
		dm_control(DM_DEV_REMOVE, &arg);
		dev_skip("device-mapper target missing");
	}
	dm_init(&arg);
	CHECK(!dm_control(DM_DEV_SUSPEND, &arg));
	snprintf(path, size, "/dev/dm-%u", minor(dev));
	for (int i = 0; access(path, F_OK) && i < 100; i++)
		usleep(20000);
}

uint64_t dm_sectors(const char *dev)
{
	int fd = open(dev, O_RDONLY);
	uint64_t bytes;

	CHECK(fd >= 0 && !ioctl(fd, BLKGETSIZE64, &bytes));
	close(fd);
	return bytes / 512;
}

void dm_delay(const char *dev, unsigned int read_ms, unsigned int write_ms, char *path, size_t size)
{
	struct dm_part part = { 0, dm_sectors(dev), "delay", "" };

	snprintf(part.params, sizeof(part.params), "%s 0 %u %s 0 %u", dev, read_ms, dev, write_ms);
	dm_create(&part, 1, path, size);
}

/* udev is not there to hold it, but the last close may still be on its way. */
void dm_remove(const char *path)
{
	union dm_arg arg;

	(void)path;
	for (int i = 0; i < 100; i++) {
		dm_init(&arg);
		if (!dm_control(DM_DEV_REMOVE, &arg))
			return;
		usleep(20000);
	}
	CHECK(!"device-mapper device stays busy");
}
