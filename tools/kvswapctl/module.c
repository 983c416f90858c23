// SPDX-License-Identifier: MIT
/* See module.h: /sys/module, the INFO ioctl, /proc. */
#include "module.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sysfile.h"
#include "uapi/kvswap.h"

static int ask_device(struct module_state *s)
{
	struct kvswap_info info = { .size = sizeof(info) };
	int fd = open(MODULE_DEVICE, O_RDWR | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, KVSWAP_IOC_INFO, &info))
		err = -errno;
	close(fd);
	s->abi = info.abi;
	s->features = info.features;
	s->pinned_bytes = info.pinned_bytes;
	s->pinned_bytes_max = info.pinned_bytes_max;
	s->entries_max = info.entries_max;
	s->request_bytes_max = info.request_units_max * KVSWAP_UNIT;
	return err;
}

void module_look(struct module_state *s)
{
	char line[64];

	memset(s, 0, sizeof(*s));
	s->loaded = sys_exists("/sys/module/" MODULE_NAME);
	s->live = sys_line(line, sizeof(line), "/sys/module/" MODULE_NAME "/initstate") &&
		  !strcmp(line, "live");
	s->users = sys_line(line, sizeof(line), "/sys/module/" MODULE_NAME "/refcnt")
			   ? strtoll(line, NULL, 10)
			   : -1;
	sys_line(s->version, sizeof(s->version), "/sys/module/" MODULE_NAME "/version");
	s->device_error = ask_device(s);
}

/* The EFI variable is four bytes of attributes and one of value. */
static bool secure_boot(void)
{
	unsigned char bytes[5] = { 0 };
	FILE *f = fopen("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
			"re");
	bool on = f && fread(bytes, 1, sizeof(bytes), f) == sizeof(bytes) && bytes[4] == 1;

	if (f)
		fclose(f);
	return on;
}

static bool signatures_enforced(void)
{
	char line[16];

	return sys_line(line, sizeof(line), "/sys/module/module/parameters/sig_enforce") &&
	       line[0] == 'Y';
}

void module_refusal(char *text, unsigned int bytes)
{
	char line[128];
	const char *locked = "";

	if (sys_line(line, sizeof(line), "/sys/kernel/security/lockdown") &&
	    !strstr(line, "[none]"))
		locked = strstr(line, "[") ? line : "";
	text[0] = '\0';
	if (!sys_exists("/proc/modules"))
		snprintf(text, bytes, "this kernel is built without modules");
	else if (sys_number(0, "/proc/sys/kernel/modules_disabled"))
		snprintf(
			text, bytes,
			"loading modules is switched off until the next boot (kernel.modules_disabled is 1)");
	else if (secure_boot() || signatures_enforced() || *locked)
		snprintf(
			text, bytes,
			"%s%s%s: the module must be signed with an enrolled key (DKMS signs with its own: mokutil --import /var/lib/dkms/mok.pub)",
			secure_boot()		? "Secure Boot is on"
			: signatures_enforced() ? "the kernel enforces module signatures"
						: "the kernel is locked down ",
			*locked ? " " : "", locked);
}

const char *module_reason(int err, char *text, unsigned int bytes)
{
	char refusal[512];

	module_refusal(refusal, sizeof(refusal));
	switch (err) {
	case -ENOENT:
		snprintf(
			text, bytes,
			"no such module for this kernel: make modules modules_install, or make dkms%s%s",
			*refusal ? "; " : "", refusal);
		break;
	case -EPERM:
	case -EACCES:
		snprintf(text, bytes, "%s",
			 geteuid()  ? "not permitted: run as root"
			 : *refusal ? refusal
				    : "not permitted");
		break;
	case -EKEYREJECTED:
	case -ENOKEY:
		snprintf(text, bytes, "%s", *refusal ? refusal : "its signature is not accepted");
		break;
	case -ENOEXEC:
		snprintf(text, bytes,
			 "built for another kernel (see the kernel log): make modules again");
		break;
	case -EBUSY:
	case -EAGAIN:
		snprintf(text, bytes, "it is in use");
		break;
	case -ENOSYS:
		snprintf(text, bytes, "%s", *refusal ? refusal : "this kernel takes no modules");
		break;
	default:
		snprintf(text, bytes, "%s", strerror(-err));
	}
	return text;
}

static bool holds_device(const char *pid)
{
	char path[PATH_MAX], link[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	fds = opendir(path);
	while (fds && !found && (entry = readdir(fds))) {
		ssize_t n = readlinkat(dirfd(fds), entry->d_name, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = '\0';
		found = !strcmp(link, MODULE_DEVICE);
	}
	if (fds)
		closedir(fds);
	return found;
}

void module_holders(char *text, unsigned int bytes)
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	size_t used = 0;

	text[0] = '\0';
	while (proc && (entry = readdir(proc)) && used < bytes) {
		char name[32] = "";

		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    strtol(entry->d_name, NULL, 10) == getpid() || !holds_device(entry->d_name))
			continue;
		sys_line(name, sizeof(name), "/proc/%s/comm", entry->d_name);
		used += (size_t)snprintf(text + used, bytes - used, "%s%s (%s)", used ? ", " : "",
					 name, entry->d_name);
	}
	if (proc)
		closedir(proc);
}
