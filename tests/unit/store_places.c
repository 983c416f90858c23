// SPDX-License-Identifier: MIT
/*
 * The store on other file systems and on block devices: honest about direct I/O, careful with what
 * is there.
 */
#include "disk.h"
#include "io_rig.h"
#include "placement.h"
#include "store.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static struct kvs_store store;
static char message[KVS_MESSAGE_BYTES];

static void setup(void)
{
	disk_enter();
	memset(&store, 0xcc, sizeof(store));
	memset(message, 0xcc, sizeof(message));
}

static void teardown(void)
{
	disk_leave();
}

static void open_store(const char *path, uint64_t bytes, bool force)
{
	int ret = kvs_store_open(path, bytes, force, &store, message);

	ck_assert_msg(!ret, "%s: %.200s", path, message);
	ck_assert_uint_ge(store.bytes, bytes);
	ck_assert_int_eq(store.direct, store.direct_why[0] == '\0');
}

static void expect_refused(const char *path, uint64_t bytes, int want, const char *about)
{
	int ret = kvs_store_open(path, bytes, false, &store, message);

	ck_assert_msg(ret == want, "%s: %d instead of %d: %.200s", path, ret, want, message);
	ck_assert_int_eq(store.fd, -1);
	ck_assert_ptr_null(strchr(message, '\n'));
	ck_assert_msg(strstr(message, about) != NULL, "nothing of \"%s\" in: %s", about, message);
}

/* Records of `bytes`, all over the store, written and read back through both backends. */
static void round_trip(uint32_t bytes)
{
	const uint32_t sectors = bytes / KVS_SECTOR, n = (uint32_t)(store.bytes / bytes);

	ck_assert_uint_eq(bytes % store.block_bytes, 0);
	for (int backend = 0; backend < RIG_BACKENDS; backend++) {
		struct rig rig = {
			.params = {
				.fd = store.fd,
				.direct = store.direct,
				.arena_bytes = RIG_ARENA_BYTES,
				.store_bytes = store.bytes,
				.block_bytes = store.block_bytes,
				.depth = 16,
				.timeout_ms = 20000,
			},
		};
		struct kvs_io_request req = { .sectors = sectors };

		rig_open(&rig, backend);
		for (req.op = KVS_IO_WRITE; req.op != 0xff; req.op = req.op ? KVS_IO_READ : 0xff)
			for (uint32_t i = 0; i < n; i += 1 + n / 50) {
				req.store = (uint64_t)i * sectors;
				req.arena = req.store % 64 * 16;
				if (req.op == KVS_IO_WRITE)
					rig_fill(&rig, &req, 0);
				else
					memset((uint8_t *)rig.io->arena + req.arena * KVS_SECTOR,
					       0xcc, bytes);
				rig_one(&rig, req, 0);
				rig_verify(&rig, &req);
			}
		ck_assert_int_eq(rig.io->ops->flush(rig.io), 0);
		rig.io->ops->close(rig.io);
	}
}

static void expect_not_direct(const char *dir, const char *why)
{
	char named[64];

	snprintf(named, sizeof(named), "%s/name", dir);
	for (int i = 0; i < 2; i++) {
		const char *path = i ? named : dir;

		ck_assert_int_eq(kvs_store_probe(path, &store, message), 0);
		ck_assert_int_eq(store.direct, false);
		open_store(path, 4 * MIB, false);
		ck_assert_int_eq(store.direct, false);
		ck_assert_msg(strstr(store.direct_why, why) != NULL, "%s", store.direct_why);
		round_trip(4096);
		kvs_store_close(&store);
	}
}

START_TEST(tmpfs_is_not_direct)
{
	if (disk_private(__func__) && disk_mount(__func__, "none", "t", "tmpfs", 0, "size=16m"))
		expect_not_direct("t", "tmpfs");
}
END_TEST

START_TEST(overlayfs_is_not_direct)
{
	static const char *const dirs[] = { "lower", "upper", "work" };

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(mkdir(dirs[i], 0755), 0);
	if (disk_private(__func__) && disk_mount(__func__, "none", "o", "overlay", 0,
						 "lowerdir=lower,upperdir=upper,workdir=work"))
		expect_not_direct("o", "overlayfs");
}
END_TEST

START_TEST(read_only_file_system)
{
	if (!disk_private(__func__) ||
	    !disk_mount(__func__, "none", "r", "tmpfs", MS_RDONLY, "size=1m"))
		return;
	expect_refused("r/name", MIB, -EROFS, "Read-only");
	expect_refused("r", MIB, -EROFS, "Read-only");
}
END_TEST

/* Says how much is missing, and leaves the file system as it was. */
START_TEST(no_space_at_preallocation)
{
	static const char *const paths[] = { "t", "t/name" };
	struct stat st;

	if (!disk_private(__func__) || !disk_mount(__func__, "none", "t", "tmpfs", 0, "size=2m"))
		return;
	for (int i = 0; i < 2; i++) {
		expect_refused(paths[i], 8 * MIB, -ENOSPC, "6.0 MiB missing");
		ck_assert_int_ne(access("t/name", F_OK), 0);
		open_store(paths[i], MIB, false);
		kvs_store_close(&store);
	}
	disk_file("t/name", 0);
	expect_refused("t/name", 8 * MIB, -ENOSPC, "missing");
	ck_assert_int_eq(stat("t/name", &st), 0);
	ck_assert_int_eq(st.st_size, 0);
}
END_TEST

static void loop_path(int loop, char path[32])
{
	struct loop_info64 info;

	ck_assert_int_eq(ioctl(loop, LOOP_GET_STATUS64, &info), 0);
	snprintf(path, 32, "/dev/loop%u", info.lo_number);
}

/* A file system on a loop device of so many bytes, mounted on "m"; the loop's fd, or -1. */
static int file_system(const char *test, const char *mkfs, const char *type, uint64_t bytes,
		       uint32_t sector, bool direct)
{
	char path[32], command[128];
	int loop;

	disk_file("disk", bytes);
	if (!disk_private(test))
		return -1;
	loop = disk_loop(test, "disk", sector, direct, path);
	if (loop < 0)
		return -1;
	snprintf(command, sizeof(command), mkfs, path);
	if (!disk_run(test, command) || !disk_mount(test, path, "m", type, 0, NULL)) {
		close(loop);
		return -1;
	}
	return loop;
}

/* Sectors of 512 and 4096 bytes, the loop's own direct I/O on and off. */
START_TEST(ext4_on_loop)
{
	const uint32_t sector = _i & 1 ? 4096 : 512;
	int loop =
		file_system(__func__, "mkfs.ext4 -qF -b 4096 %s", "ext4", 64 * MIB, sector, _i & 2);
	struct loop_info64 info;

	if (loop < 0)
		return;
	ck_assert_int_eq(ioctl(loop, LOOP_GET_STATUS64, &info), 0);
	for (int i = 0; i < 2; i++) {
		open_store(i ? "m/name" : "m", 8 * MIB, false);
		ck_assert_uint_ge(store.block_bytes, sector);
		ck_assert_uint_eq(store.whole_bytes, 4096);
		ck_assert_int_eq(store.direct, (info.lo_flags & LO_FLAGS_DIRECT_IO) != 0);
		if (!store.direct)
			ck_assert_ptr_nonnull(strstr(store.direct_why, "loop"));
		round_trip(store.block_bytes);
		round_trip(3 * 4096);
		kvs_store_close(&store);
	}
	expect_refused("m", 256 * MIB, -ENOSPC, "missing");
	close(loop);
}
END_TEST

/* Data journalling turns direct I/O into buffered I/O behind our back. */
START_TEST(ext4_with_data_journal_is_not_direct)
{
	int loop = file_system(__func__, "mkfs.ext4 -qF -b 4096 %s", "ext4", 64 * MIB, 512, true);

	char path[32];

	if (loop < 0)
		return;
	loop_path(loop, path);
	ck_assert_int_eq(umount("m"), 0);
	if (disk_mount(__func__, path, "m", "ext4", 0, "data=journal"))
		expect_not_direct("m", "direct I/O");
	close(loop);
}
END_TEST

START_TEST(xfs_on_loop)
{
	int loop = file_system(__func__, "mkfs.xfs -qf %s", "xfs", 320 * MIB, 512, true);

	if (loop < 0)
		return;
	open_store("m", 8 * MIB, false);
	round_trip(4096);
	kvs_store_close(&store);
	close(loop);
}
END_TEST

/* btrfs files have a device number of their own; the mount table names the disk. */
START_TEST(btrfs_on_loop)
{
	int loop = file_system(__func__, "mkfs.btrfs -qf %s", "btrfs", 160 * MIB, 4096, _i);

	if (loop < 0)
		return;
	open_store("m", 8 * MIB, false);
	ck_assert_uint_eq(store.block_bytes, 4096);
	ck_assert_msg(store.direct == _i, "%s", store.direct_why);
	if (!_i)
		ck_assert_ptr_nonnull(strstr(store.direct_why, "loop"));
	round_trip(4096);
	kvs_store_close(&store);
	close(loop);
}
END_TEST

static int loop_device(const char *test, uint32_t sector, char path[32])
{
	disk_file("disk", 16 * MIB);
	return disk_loop(test, "disk", sector, true, path);
}

START_TEST(block_device)
{
	const uint32_t sector = _i ? 4096 : 512;
	char path[32];
	int loop = loop_device(__func__, sector, path);

	if (loop < 0)
		return;
	ck_assert_int_eq(kvs_store_probe(path, &store, message), 0);
	ck_assert_uint_eq(store.bytes, 16 * MIB);
	ck_assert_int_eq(store.device, true);
	ck_assert_uint_eq(store.block_bytes, sector);
	open_store(path, 8 * MIB + 1, false);
	ck_assert_int_eq(store.device, true);
	ck_assert_uint_eq(store.block_bytes, sector);
	ck_assert_uint_eq(store.bytes, 8 * MIB + sector);
	round_trip(sector);
	round_trip(3 * 4096);
	kvs_store_close(&store);
	expect_refused(path, 16 * MIB + 1, -ENOSPC, "missing");
	expect_refused(path, UINT64_MAX, -ENOSPC, "missing");
	close(loop);
}
END_TEST

/* What was in the device is given up at close, where it can discard. */
START_TEST(device_is_discarded)
{
	char path[32];
	int loop = loop_device(__func__, 512, path);
	struct stat before, after;

	if (loop < 0)
		return;
	open_store(path, 8 * MIB, false);
	round_trip(64 * KVS_SECTOR);
	ck_assert_int_eq(fsync(store.fd), 0);
	ck_assert_int_eq(stat("disk", &before), 0);
	kvs_store_close(&store);
	ck_assert_int_eq(stat("disk", &after), 0);
	ck_assert_int_gt(before.st_blocks, 0);
	ck_assert_int_eq(after.st_blocks, 0);
	close(loop);
}
END_TEST

START_TEST(device_in_use)
{
	struct kvs_store second;
	char path[32];
	int loop = loop_device(__func__, 512, path);
	int status;

	if (loop < 0)
		return;
	open_store(path, MIB, false);
	for (int force = 0; force < 2; force++)
		ck_assert_int_eq(kvs_store_open(path, MIB, force, &second, message), -EBUSY);
	if (!fork())
		_exit(kvs_store_open(path, MIB, true, &second, message) == -EBUSY ? 0 : 1);
	ck_assert_int_gt(wait(&status), 0);
	ck_assert_int_eq(status, 0);
	kvs_store_close(&store);
	open_store(path, MIB, false);
	kvs_store_close(&store);
	close(loop);
}
END_TEST

START_TEST(device_of_an_ending_run)
{
	const struct timespec pause = { .tv_nsec = 300000000 };
	int pipe_fds[2];
	char path[32], byte;
	int loop = loop_device(__func__, 512, path);

	if (loop < 0)
		return;
	ck_assert_int_eq(pipe(pipe_fds), 0);
	if (!fork()) {
		open_store(path, MIB, false);
		if (write(pipe_fds[1], "x", 1) != 1 || nanosleep(&pause, NULL))
			_exit(1);
		_exit(0);
	}
	ck_assert_int_eq(read(pipe_fds[0], &byte, 1), 1);
	open_store(path, MIB, false);
	kvs_store_close(&store);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	while (wait(NULL) > 0)
		continue;
	close(loop);
}
END_TEST

START_TEST(device_is_mounted)
{
	int loop = file_system(__func__, "mkfs.ext4 -qF %s", "ext4", 16 * MIB, 512, true);
	char path[32];

	if (loop < 0)
		return;
	loop_path(loop, path);
	expect_refused(path, MIB, -EBUSY, "is mounted on");
	ck_assert_ptr_nonnull(strstr(message, "/m"));
	close(loop);
}
END_TEST

/* One Linux partition, at 1 MiB. */
static void partition_table(int fd)
{
	static const uint8_t entry[16] = { 0, 0, 2, 0, 0x83, 0, 2, 0, 0, 8, 0, 0, 0, 8, 0, 0 };
	uint8_t sector[512] = { 0 };

	memcpy(sector + 446, entry, sizeof(entry));
	sector[510] = 0x55;
	sector[511] = 0xaa;
	ck_assert_int_eq(pwrite(fd, sector, sizeof(sector), 0), sizeof(sector));
	ck_assert_int_eq(fsync(fd), 0);
}

/* A signature is respected, and an unwritten device stays as it was, until force. */
START_TEST(device_is_signed)
{
	static const char *const makers[] = { "mkfs.ext4 -qF disk", "mkswap disk", NULL };
	static const char *const names[] = { "ext4", "swap", "dos" };
	char path[32], first[2][4096];
	int loop = loop_device(__func__, 512, path);

	if (loop < 0)
		return;
	if (!makers[_i])
		partition_table(loop);
	else if (!disk_run(__func__, makers[_i]))
		return;
	ck_assert_int_eq(pread(loop, first[0], 4096, 0), 4096);
	expect_refused(path, MIB, -EBUSY, names[_i]);
	ck_assert_int_eq(pread(loop, first[1], 4096, 0), 4096);
	ck_assert_int_eq(memcmp(first[0], first[1], 4096), 0);
	open_store(path, MIB, true);
	round_trip(4096);
	kvs_store_close(&store);
	close(loop);
}
END_TEST

START_TEST(device_is_read_only)
{
	char path[32];
	int loop = loop_device(__func__, 512, path), on = 1;

	if (loop < 0)
		return;
	ck_assert_int_eq(ioctl(loop, BLKROSET, &on), 0);
	expect_refused(path, MIB, -EROFS, path);
	close(loop);
}
END_TEST

static void fake(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* The disk below the scratch directory becomes `target` in a made-up /sys/dev/block. */
static bool fake_disk(const char *test, const char *target)
{
	char dir[PATH_MAX], link[128], to[PATH_MAX + 64];
	struct stat st;

	ck_assert_ptr_nonnull(realpath(".", dir));
	ck_assert_int_eq(stat(".", &st), 0);
	if (!major(st.st_dev)) {
		disk_skip_as(test, "the scratch directory is on no block device");
		return false;
	}
	if (!disk_private(test) ||
	    !disk_mount(test, "none", "/sys/dev/block", "tmpfs", 0, "size=1m"))
		return false;
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	snprintf(to, sizeof(to), "%s/%s", dir, target);
	ck_assert_int_eq(symlink(to, link), 0);
	snprintf(to, sizeof(to), "%s/sys/mmcblk0/mmcblk0p1", dir);
	ck_assert_int_eq(symlink(to, "/sys/dev/block/990:1"), 0);
	return true;
}

/* An SD card is slow, whether a partition of it or what device mapper makes of it. */
START_TEST(sd_card_is_slow)
{
	static const char *const dirs[] = {
		"sys",	    "sys/mmcblk0",     "sys/mmcblk0/mmcblk0p1",
		"sys/dm-0", "sys/dm-0/slaves", "sys/dm-0/slaves/mmcblk0p1",
		"sys/vdz"
	};
	static const char *const targets[] = { "sys/mmcblk0/mmcblk0p1", "sys/dm-0", "sys/vdz" };

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		ck_assert_int_eq(mkdir(dirs[i], 0700), 0);
	fake("sys/mmcblk0/mmcblk0p1/partition", "1\n");
	fake("sys/dm-0/slaves/mmcblk0p1/dev", "990:1\n");
	if (!fake_disk(__func__, targets[_i]))
		return;
	ck_assert_int_eq(kvs_store_probe(".", &store, message), 0);
	ck_assert_int_eq(store.slow, _i < 2);
	open_store(".", MIB, false);
	ck_assert_int_eq(store.slow, _i < 2);
	kvs_store_close(&store);
}
END_TEST

Suite *suite_store_places(void)
{
	Suite *suite = suite_create("store_places");
	TCase *tc = tcase_create("store_places");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, tmpfs_is_not_direct);
	tcase_add_test(tc, overlayfs_is_not_direct);
	tcase_add_test(tc, read_only_file_system);
	tcase_add_test(tc, no_space_at_preallocation);
	tcase_add_loop_test(tc, ext4_on_loop, 0, 4);
	tcase_add_test(tc, ext4_with_data_journal_is_not_direct);
	tcase_add_test(tc, xfs_on_loop);
	tcase_add_loop_test(tc, btrfs_on_loop, 0, 2);
	tcase_add_loop_test(tc, block_device, 0, 2);
	tcase_add_test(tc, device_is_discarded);
	tcase_add_test(tc, device_in_use);
	tcase_add_test(tc, device_of_an_ending_run);
	tcase_add_test(tc, device_is_mounted);
	tcase_add_loop_test(tc, device_is_signed, 0, 3);
	tcase_add_test(tc, device_is_read_only);
	tcase_add_loop_test(tc, sd_card_is_slow, 0, 3);
	suite_add_tcase(suite, tc);
	return suite;
}
