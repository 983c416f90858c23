/* SPDX-License-Identifier: MIT */
/* Device-mapper devices for tests, by its ioctls. Skips the test where the target is not there. */
#ifndef KVSWAP_TESTS_DM_H
#define KVSWAP_TESTS_DM_H

#include <stddef.h>
#include <stdint.h>

struct dm_part {
	uint64_t first, sectors;
	const char *target;
	char params[200];
};

/* Makes a device of parts and puts its path into *path. */
void dm_create(const struct dm_part *parts, int n, char *path, size_t size);
void dm_delay(const char *dev, unsigned int read_ms, unsigned int write_ms, char *path,
	      size_t size);
void dm_remove(const char *path);
uint64_t dm_sectors(const char *dev);

#endif
