/* SPDX-License-Identifier: MIT */
/* Which mount a path is on, by /proc/self/mountinfo below a root. Changes nothing, prints nothing. */
#ifndef KVSWAPCTL_MOUNTS_H
#define KVSWAPCTL_MOUNTS_H

#include <limits.h>

struct mount {
	unsigned int major, minor; /* major 0: no device of its own */
	char point[PATH_MAX], type[64], source[PATH_MAX];
	char upper[PATH_MAX]; /* overlayfs: where its writes go, else "" */
};

/* path: absolute, without links. root: "" or the top of a made-up tree. 0 or -errno. */
int mount_of_path(const char *root, const char *path, struct mount *out);

/* Where the device is mounted, or "". */
void mount_of_device(const char *root, unsigned int major, unsigned int minor,
		     char point[PATH_MAX]);

#endif
