/* SPDX-License-Identifier: MIT */
/* A whole disk in sysfs: its kind, limits, life time. dir: its directory, without links. */
#ifndef KVSWAPCTL_DISK_H
#define KVSWAPCTL_DISK_H

#include "device.h"

void disk_limits(const char *dir, struct device_limits *l);
/* Sets what *d knows of the disk at its bottom, when it does not know one yet. */
void disk_look(const char *dir, struct device *d);

#endif
