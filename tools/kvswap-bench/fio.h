/* SPDX-License-Identifier: MIT */
/* The program fio as a side: random reads of a file by the same size and depth. */
#ifndef BENCH_FIO_H
#define BENCH_FIO_H

#include <stdint.h>

struct fio_result {
	double bytes_per_s;
	double cpu_ms; /* processor time of a read */
};

/* Whether there is a fio to run; found once. */
int fio_there(void);
/*
 * fd: open in this process; fio opens the same file by /proc. engine: "io_uring" or "libaio".
 * DONE, or FAILED and said why.
 */
int fio_run(const char *engine, int fd, uint64_t file_bytes, uint32_t record_bytes, uint32_t depth,
	    uint32_t ms, struct fio_result *out);

#endif
