/* SPDX-License-Identifier: MIT */
/* The way from a path to its disks, in made-up trees of sysfs and mountinfo. */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvswapctl/device.h"

static char root[] = "/tmp/kvswap-sysfs-XXXXXX";

static void set_up(void)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}

static void make_dirs(const char *path)
{
	char at[PATH_MAX];

	snprintf(at, sizeof(at), "%s", path);
	for (char *c = at + strlen(root) + 1; *c; c++)
		if (*c == '/') {
			*c = '\0';
			ck_assert(!mkdir(at, 0700) || errno == EEXIST);
			*c = '/';
		}
}

/* A file of the tree with one line. */
static void put(const char *path, const char *format, ...)
{
	char full[PATH_MAX];
	va_list args;
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	make_dirs(full);
	f = fopen(full, "we");
	ck_assert_ptr_nonnull(f);
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fputc('\n', f);
	fclose(f);
}

static void put_at(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.1000s/%s", dir, name);
	put(path, "%s", text);
}

static void put_link(const char *target, const char *path)
{
	char full[PATH_MAX], to[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", root, path);
	snprintf(to, sizeof(to), "%s%.1000s", root, target);
	make_dirs(full);
	ck_assert_int_eq(symlink(to, full), 0);
}

/* A block device at /sys/devices/DIR, with its links. */
static const char *block(const char *dir, const char *number)
{
	static char path[PATH_MAX];
	char link[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/devices/%s", dir);
	put_at(path, "dev", number);
	snprintf(link, sizeof(link), "/sys/dev/block/%s", number);
	put_link(path, link);
	snprintf(link, sizeof(link), "/sys/class/block/%s", strrchr(dir, '/') + 1);
	put_link(path, link);
	return path;
}

static void queue(const char *dir, const char *scheduler, const char *rotational)
{
	put_at(dir, "size", "2048");
	put_at(dir, "queue/logical_block_size", "512");
	put_at(dir, "queue/physical_block_size", "4096");
	put_at(dir, "queue/max_sectors_kb", "128");
	put_at(dir, "queue/scheduler", scheduler);
	put_at(dir, "queue/rotational", rotational);
	put_at(dir, "queue/write_cache", "write back");
}

static struct device look(const char *path)
{
	struct device d;

	memset(&d, 0xcc, sizeof(d));
	ck_assert_int_eq(device_of_path(root, path, &d), 0);
	return d;
}

static bool warns(const struct device *d, const char *text)
{
	struct warnings w = { 0 };

	device_warn(d, &w);
	for (int i = 0; i < w.n; i++)
		if (strstr(w.text[i], text))
			return true;
	return false;
}

static const char nvme_dir[] = "pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1";

static void make_nvme(const char *transport)
{
	const char *dir = block(nvme_dir, "259:0");

	queue(dir, "[none] mq-deadline kyber", "0");
	put_at(dir, "device/transport", transport);
	put_at(dir, "device/model", "Fast SSD 1TB   ");
	put_at(dir, "device/firmware_rev", "1.2");
}

START_TEST(file_on_partition_of_nvme)
{
	struct device d;

	make_nvme("pcie");
	put_at(block("pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1/nvme0n1p2", "259:2"), "partition",
	       "2");
	put_at("/sys/devices/pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1/nvme0n1p2", "size", "1024");
	put("/proc/self/mountinfo",
	    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 259:2 / /mnt/fast rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw");
	d = look("/mnt/fast/kv/store");
	ck_assert_int_eq(d.kind, KIND_NVME);
	ck_assert_str_eq(d.path, "/dev/nvme0n1p2");
	ck_assert_str_eq(d.disk, "nvme0n1");
	ck_assert_str_eq(d.model, "Fast SSD 1TB");
	ck_assert_str_eq(d.firmware, "1.2");
	ck_assert_str_eq(d.transport, "pcie");
	ck_assert_str_eq(d.file_system, "ext4");
	ck_assert_str_eq(d.mount_point, "/mnt/fast");
	ck_assert_int_eq(d.n_layers, 2);
	ck_assert_str_eq(d.layers[0].what, "partition");
	ck_assert_uint_eq(d.bytes, 1024 * 512);
	ck_assert_uint_eq(d.limits.logical_block, 512);
	ck_assert_uint_eq(d.limits.max_transfer, 128 * 1024);
	ck_assert_str_eq(d.limits.scheduler, "none");
	ck_assert_int_eq(d.life_percent, -1);
	ck_assert(!d.slow);
	ck_assert(!warns(&d, "scheduler"));
}
END_TEST

START_TEST(nvme_over_fabrics_is_network)
{
	struct device d;

	make_nvme("tcp");
	ck_assert_int_eq(device_of_number(root, 259, 0, &d), 0);
	ck_assert_int_eq(d.kind, KIND_NETWORK);
	ck_assert_str_eq(d.file_system, "");
	ck_assert(warns(&d, "network"));
}
END_TEST

START_TEST(multipath_head_of_a_remote_nvme)
{
	struct device d;
	const char *dir = block("virtual/nvme-subsystem/nvme-subsys3/nvme3n1", "259:7");

	queue(dir, "none", "0");
	put_at(dir, "device/model", "Remote");
	put("/sys/class/nvme/nvme3/transport", "rdma");
	ck_assert_int_eq(device_of_number(root, 259, 7, &d), 0);
	ck_assert_str_eq(d.transport, "rdma");
	ck_assert_int_eq(d.kind, KIND_NETWORK);
}
END_TEST

/* ext4 on LVM on dm-crypt on md of an NVMe and a SATA disk. */
START_TEST(stack_of_dm_and_md)
{
	struct device d;
	const char *dir;

	make_nvme("pcie");
	dir = block("pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", "8:0");
	queue(dir, "[mq-deadline] none", "0");
	put_at(dir, "device/vendor", "ATA     ");
	dir = block("virtual/block/md0", "9:0");
	put_at(dir, "md/level", "raid1");
	put_at(dir, "slaves/nvme0n1", "");
	put_at(dir, "slaves/sda", "");
	dir = block("virtual/block/dm-0", "254:0");
	put_at(dir, "dm/name", "secret");
	put_at(dir, "dm/uuid", "CRYPT-LUKS2-0123-secret");
	put_at(dir, "slaves/md0", "");
	dir = block("virtual/block/dm-1", "254:1");
	queue(dir, "none", "0");
	put_at(dir, "dm/name", "vg-kv");
	put_at(dir, "dm/uuid", "LVM-xyz");
	put_at(dir, "slaves/dm-0", "");
	put("/proc/self/mountinfo", "22 1 254:1 / / rw - ext4 /dev/mapper/vg-kv rw");
	d = look("/home");
	ck_assert_int_eq(d.n_layers, 5);
	ck_assert_str_eq(d.layers[0].label, "vg-kv");
	ck_assert_str_eq(d.layers[1].what, "dm");
	ck_assert_str_eq(d.layers[2].what, "md");
	ck_assert(d.dm_crypt);
	ck_assert(warns(&d, "dm-crypt"));
	ck_assert(d.layers[3].leaf && d.layers[4].leaf && !d.layers[2].leaf);
	ck_assert(d.kind == KIND_NVME || d.kind == KIND_SATA);
	ck_assert_str_eq(d.path, "/dev/dm-1");
}
END_TEST

START_TEST(loop_on_a_file_of_an_sd_card)
{
	struct device d;
	const char *dir = block("platform/mmc/mmc_host/mmc1/mmc1:aaaa/block/mmcblk1", "179:0");

	queue(dir, "[mq-deadline] none", "0");
	put_at(dir, "device/type", "SD");
	put_at(dir, "device/name", "SD64G");
	dir = block("virtual/block/loop3", "7:3");
	queue(dir, "none", "0");
	put_at(dir, "loop/backing_file", "/media/card/image");
	put_at(dir, "loop/dio", "0");
	put("/proc/self/mountinfo",
	    "22 1 7:3 / /mnt/image rw - ext4 /dev/loop3 rw\n23 1 179:0 / /media/card rw - vfat /dev/mmcblk1 rw");
	d = look("/mnt/image");
	ck_assert_int_eq(d.kind, KIND_SD);
	ck_assert(d.slow);
	ck_assert(d.loop_cached);
	ck_assert(warns(&d, "losetup --direct-io=on"));
	ck_assert_str_eq(d.disk, "mmcblk1");
	put("/sys/devices/virtual/block/loop3/loop/dio", "1");
	d = look("/mnt/image");
	ck_assert(!d.loop_cached);
	put("/proc/self/mountinfo",
	    "22 1 7:3 / /mnt/image rw - ext4 /dev/loop3 rw\n23 1 0:9 / /media rw - tmpfs none rw");
	d = look("/mnt/image");
	ck_assert_int_eq(d.kind, KIND_MEMORY);
}
END_TEST

START_TEST(worn_emmc)
{
	struct device d;
	const char *dir = block("platform/mmc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", "179:0");

	queue(dir, "[mq-deadline] none", "0");
	put_at(dir, "queue/write_cache", "write through");
	put_at(dir, "device/type", "MMC");
	put_at(dir, "device/life_time", "0x02 0x09");
	put_at(dir, "device/pre_eol_info", "0x02");
	ck_assert_int_eq(device_of_number(root, 179, 0, &d), 0);
	ck_assert_int_eq(d.kind, KIND_EMMC);
	ck_assert_int_eq(d.life_percent, 90);
	ck_assert_str_eq(d.pre_eol, "warning");
	ck_assert(warns(&d, "90 %"));
	ck_assert(warns(&d, "reports warning wear"));
	ck_assert(warns(&d, "write cache"));
	put_at(dir, "device/life_time", "0x00 0x00");
	ck_assert_int_eq(device_of_number(root, 179, 0, &d), 0);
	ck_assert_int_eq(d.life_percent, -1);
}
END_TEST

START_TEST(ufs_with_health)
{
	struct device d;
	const char *dir =
		block("platform/soc/1d84000.ufshc/host0/target0:0:0/0:0:0:0/block/sda", "8:0");

	queue(dir, "[mq-deadline] none", "0");
	put("/sys/devices/platform/soc/1d84000.ufshc/health_descriptor/life_time_estimation_a",
	    "0x01");
	put("/sys/devices/platform/soc/1d84000.ufshc/health_descriptor/life_time_estimation_b",
	    "0x03");
	put("/sys/devices/platform/soc/1d84000.ufshc/health_descriptor/eol_info", "0x01");
	ck_assert_int_eq(device_of_number(root, 8, 0, &d), 0);
	ck_assert_int_eq(d.kind, KIND_UFS);
	ck_assert_int_eq(d.life_percent, 30);
	ck_assert_str_eq(d.pre_eol, "normal");
	ck_assert(warns(&d, "scheduler of /dev/sda is mq-deadline"));
}
END_TEST

/* Kind by the buses in the path. */
static const struct {
	const char *dir, *vendor;
	enum device_kind kind;
} scsi[] = {
	{ "pci0000:00/0000:00:14.0/usb2/2-1/host4/target/4:0:0:0/block/sda", "Card", KIND_USB },
	{ "pci0000:00/0000:00:17.0/ata3/host2/target/2:0:0:0/block/sda", "ATA", KIND_SATA },
	{ "platform/host3/session1/target/3:0:0:1/block/sda", "LIO-ORG", KIND_NETWORK },
	{ "pci0000:00/0000:00:05.0/virtio2/host2/target/2:0:0:0/block/sda", "QEMU", KIND_VIRTUAL },
	{ "pci0000:00/0000:00:01.0/host1/target/1:0:0:0/block/sda", "SEAGATE", KIND_SCSI },
	{ "pci0000:00/0000:00:01.1/ata1/host1/target/1:0:0:0/block/sda", "QEMU", KIND_VIRTUAL },
	{ "virtual/block/sda", "", KIND_UNKNOWN },
};

START_TEST(scsi_disks_by_their_bus)
{
	struct device d;
	const char *dir = block(scsi[_i].dir, "8:0");

	queue(dir, "none", "1");
	put_at(dir, "device/vendor", scsi[_i].vendor);
	ck_assert_int_eq(device_of_number(root, 8, 0, &d), 0);
	ck_assert_int_eq(d.kind, scsi[_i].kind);
	ck_assert_int_eq(warns(&d, "rotating"), scsi[_i].kind != KIND_VIRTUAL);
}
END_TEST

START_TEST(file_systems_without_a_device_number)
{
	struct device d;

	make_nvme("pcie");
	put("/proc/self/mountinfo",
	    "22 1 0:30 /@ / rw - btrfs /dev/nvme0n1 rw,subvol=/@\n"
	    "23 22 0:40 / /var/over\\040lay rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/data/upper,workdir=/data/work\n"
	    "24 22 0:41 / /dev/shm rw - tmpfs tmpfs rw\n25 22 0:42 / /nfs rw - nfs4 server:/x rw");
	d = look("/home/x");
	ck_assert_int_eq(d.kind, KIND_NVME);
	ck_assert_str_eq(d.file_system, "btrfs");
	d = look("/var/over lay/x");
	ck_assert_int_eq(d.kind, KIND_NVME);
	ck_assert_str_eq(d.file_system, "overlay");
	d = look("/dev/shm/x");
	ck_assert_int_eq(d.kind, KIND_MEMORY);
	ck_assert_int_eq(d.n_layers, 0);
	ck_assert(warns(&d, "tmpfs is memory"));
	d = look("/dev/shmx");
	ck_assert_str_eq(d.file_system, "btrfs");
	d = look("/nfs");
	ck_assert_int_eq(d.kind, KIND_NETWORK);
}
END_TEST

START_TEST(what_is_not_there)
{
	struct device d;

	ck_assert_int_eq(device_of_number(root, 8, 0, &d), -ENODEV);
	ck_assert_int_eq(device_of_path(root, "/x", &d), -ENOENT);
	put("/proc/self/mountinfo", "garbage\n22 1 8:1 / / rw\n\n1 2 3 4 5 6 7 - 8 9");
	ck_assert_int_eq(device_of_path(root, "/x", &d), -ENOENT);
	block("virtual/block/dm-0", "254:0");
	put("/sys/devices/virtual/block/dm-0/slaves/dm-0", " ");
	ck_assert_int_eq(device_of_number(root, 254, 0, &d), 0);
	ck_assert_int_eq(d.n_layers, 1);
	ck_assert_uint_eq(d.limits.logical_block, 0);
}
END_TEST

Suite *suite_ctl_device(void);

Suite *suite_ctl_device(void)
{
	Suite *suite = suite_create("ctl_device");
	TCase *t = tcase_create("sysfs");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, file_on_partition_of_nvme);
	tcase_add_test(t, nvme_over_fabrics_is_network);
	tcase_add_test(t, multipath_head_of_a_remote_nvme);
	tcase_add_test(t, stack_of_dm_and_md);
	tcase_add_test(t, loop_on_a_file_of_an_sd_card);
	tcase_add_test(t, worn_emmc);
	tcase_add_test(t, ufs_with_health);
	tcase_add_loop_test(t, scsi_disks_by_their_bus, 0, (int)(sizeof(scsi) / sizeof(scsi[0])));
	tcase_add_test(t, file_systems_without_a_device_number);
	tcase_add_test(t, what_is_not_there);
	suite_add_tcase(suite, t);
	return suite;
}
