// SPDX-License-Identifier: MIT
#include "disk.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char scratch[PATH_MAX];
static int before = -1;
static char mounts[8][64];
static int n_mounts;

void disk_enter(void)
{
	const char *base = getenv("TMPDIR");

	before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(scratch, sizeof(scratch), "%s/kvswap-test-XXXXXX", base ? base : "/var/tmp");
	ck_assert_ptr_nonnull(mkdtemp(scratch));
	ck_assert_int_eq(chmod(scratch, 0755), 0);
	ck_assert_int_eq(chdir(scratch), 0);
}

void disk_leave(void)
{
	char command[PATH_MAX + 32];

	while (n_mounts)
		umount2(mounts[--n_mounts], MNT_DETACH);
	ck_assert_int_eq(fchdir(before), 0);
	close(before);
	snprintf(command, sizeof(command), "rm -rf --one-file-system '%s'", scratch);
	ck_assert_int_eq(system(command), 0);
}

void disk_skip_as(const char *test, const char *format, ...)
{
	va_list args;

	/* libcheck calls the function of test_x test_x_fn. */
	printf("skip: %.*s: ", (int)(strstr(test, "_fn") ? strstr(test, "_fn") - test : 64), test);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

void disk_file(const char *path, uint64_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

int disk_loop(const char *test, const char *file, uint32_t sector, bool direct, char path[32])
{
	struct loop_config config = {
		.block_size = sector,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | (direct ? LO_FLAGS_DIRECT_IO : 0),
	};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int backing = open(file, O_RDWR | O_CLOEXEC), fd = -1, writable = 0;

	for (int i = 0; control >= 0 && backing >= 0 && i < 16; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);

		snprintf(path, 32, "/dev/loop%d", number);
		fd = number < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
		config.fd = (uint32_t)backing;
		if (fd < 0 || !ioctl(fd, LOOP_CONFIGURE, &config))
			break;
		close(fd);
		fd = -1;
		/* Somebody else was quicker. */
		if (errno != EBUSY)
			break;
	}
	/* Whatever its last user did to it. */
	if (fd >= 0)
		ck_assert_int_eq(ioctl(fd, BLKROSET, &writable), 0);
	else
		disk_skip_as(test, "no loop device with sectors of %u bytes: %s", sector,
			     strerror(errno));
	close(control);
	close(backing);
	return fd;
}

bool disk_private(const char *test)
{
	if (!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return true;
	disk_skip_as(test, "no mount namespace: %s", strerror(errno));
	return false;
}

bool disk_mount(const char *test, const char *source, const char *dir, const char *type,
		unsigned long flags, const char *options)
{
	if (mkdir(dir, 0700) && errno != EEXIST)
		ck_abort_msg("%s: %s", dir, strerror(errno));
	if (!mount(source, dir, type, flags, options)) {
		ck_assert_int_lt(n_mounts, 8);
		snprintf(mounts[n_mounts++], sizeof(mounts[0]), "%s", dir);
		return true;
	}
	disk_skip_as(test, "no mount of %s: %s", type ? type : source, strerror(errno));
	return false;
}

bool disk_run(const char *test, const char *command)
{
	char quiet[PATH_MAX];
	int status;

	snprintf(quiet, sizeof(quiet), "PATH=\"$PATH:/usr/sbin:/sbin\"; %s >/dev/null 2>&1",
		 command);
	status = system(quiet);
	if (!status)
		return true;
	ck_assert_msg(WEXITSTATUS(status) == 127, "`%s` ended with %d", command, status);
	disk_skip_as(test, "`%s`: not installed", command);
	return false;
}
