/* SPDX-License-Identifier: MIT */
/* Says how much memory the module still holds, if any: after a test there should be none. */
#include "dev.h"

int main(void)
{
	struct kvswap_info info = { .size = sizeof(info) };
	int fd = dev_open();

	/* The last file of a killed process is put by a worker. */
	for (int i = 0; i < 100; i++) {
		CHECK(!ioctl(fd, KVSWAP_IOC_INFO, &info));
		if (!info.pinned_bytes)
			return 0;
		usleep(20000);
	}
	printf("%llu bytes still pinned\n", (unsigned long long)info.pinned_bytes);
	return 1;
}
