/* SPDX-License-Identifier: MIT */
/*
 * What the device tests share: a context with its three mappings, pushing and reaping, checks that
 * name the line. A test exits 0, 1, or 77 with the reason when something that it needs is not
 * there. Stores come from the environment: KV_512 and KV_4K (block devices by their sectors),
 * KV_SD, KV_DIR (a folder on ext4).
 */
#ifndef KVSWAP_TESTS_DEV_H
#define KVSWAP_TESTS_DEV_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../include/uapi/kvswap.h"

#define CHECK(cond)                                                 \
	do {                                                        \
		if (!(cond))                                        \
			dev_fail(__FILE__, __LINE__, #cond, errno); \
	} while (0)

/* expr fails with this errno. */
#define CHECK_ERR(expr, err)                                                                      \
	do {                                                                                      \
		long ret_ = (expr);                                                               \
		if (ret_ != -1 || errno != (err))                                                 \
			dev_fail(__FILE__, __LINE__, #expr " not " #err, ret_ == -1 ? errno : 0); \
	} while (0)

#define CHECK_EQ(a, b)                                                         \
	do {                                                                   \
		long long a_ = (a), b_ = (b);                                  \
		if (a_ != b_)                                                  \
			dev_fail_eq(__FILE__, __LINE__, #a " == " #b, a_, b_); \
	} while (0)

struct dev {
	int fd;
	struct kvswap_setup setup;
	struct kvswap_sq *sq;
	const struct kvswap_cq *cq;
	uint8_t *arena;
	uint32_t cq_head;
};

_Noreturn void dev_fail(const char *file, int line, const char *what, int err);
_Noreturn void dev_fail_eq(const char *file, int line, const char *what, long long a, long long b);
_Noreturn void dev_skip(const char *why);

int dev_open(void);			/* /dev/kvswap */
const char *dev_store(const char *var); /* value of an environment variable, or skips */
int dev_open_store(const char *path);	/* O_RDWR | O_DIRECT */
void dev_temp_file(char *path, size_t size,
		   uint64_t bytes); /* a new file, written out, in KV_DIR */

/*
 * Fills in what was granted and maps everything. dev_try() returns -1 and errno where SETUP fails.
 */
int dev_try(struct dev *d, const char *path, uint32_t entries, uint64_t arena_bytes,
	    uint32_t write_depth);
void dev_start(struct dev *d, const char *path, uint32_t entries, uint64_t arena_bytes);
void dev_start_depth(struct dev *d, const char *path, uint32_t entries, uint64_t arena_bytes,
		     uint32_t write_depth);
void dev_stop(struct dev *d);

void dev_push(struct dev *d, const struct kvswap_sqe *sqe);
int dev_enter(struct dev *d, uint32_t submit, uint32_t min_complete, uint64_t deadline_ns,
	      struct kvswap_enter *out);
bool dev_reap(struct dev *d, struct kvswap_cqe *cqe);
int dev_do(struct dev *d, const struct kvswap_sqe *sqe); /* push, enter, wait; the result */
int dev_rw(struct dev *d, uint8_t op, uint64_t store, uint32_t arena, uint32_t units);

uint64_t dev_now_ns(void);
uint64_t dev_random(uint64_t *state);
/* Bytes that tell place and version: every 8 of them are different. */
void dev_fill(void *buf, size_t bytes, uint64_t place, uint64_t version);
bool dev_is(const void *buf, size_t bytes, uint64_t place, uint64_t version);

#endif
