// SPDX-License-Identifier: MIT
/* /proc/meminfo, and the limits of cgroups, version 1 and 2. */
#include "memory.h"

#include <stdio.h>
#include <string.h>

#include "sysfile.h"

uint64_t memory_field(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0, value;
	char line[128], key[64];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%63[^:]: %llu", key, &value) == 2 && !strcmp(key, name))
			kib = value;
	if (f)
		fclose(f);
	return kib * 1024;
}

/* Path of this process in the hierarchy that has the memory controller. */
static bool cgroup_path(char *dir, size_t bytes)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[512], controllers[128], path[384];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0::", 3)) {
			snprintf(dir, bytes, "/sys/fs/cgroup%.400s", line + 3);
			found = sys_exists("%s/memory.max", dir);
		} else if (sscanf(line, "%*d:%127[^:]:%383s", controllers, path) == 2 &&
			   strstr(controllers, "memory")) {
			snprintf(dir, bytes, "/sys/fs/cgroup/memory%s", path);
			found = true;
		}
	}
	if (f)
		fclose(f);
	return found;
}

void memory_look(uint64_t *available, uint64_t *total)
{
	char dir[512];
	uint64_t most, used;

	*available = memory_field("MemAvailable");
	*total = memory_field("MemTotal");
	if (!cgroup_path(dir, sizeof(dir)))
		return;
	most = sys_number(UINT64_MAX, "%s/memory.max", dir);
	used = sys_number(0, "%s/memory.current", dir);
	if (most == UINT64_MAX) {
		most = sys_number(UINT64_MAX, "%s/memory.limit_in_bytes", dir);
		used = sys_number(0, "%s/memory.usage_in_bytes", dir);
	}
	if (most >= *total)
		return;
	*total = most;
	if (most - (used < most ? used : most) < *available)
		*available = most - (used < most ? used : most);
}
