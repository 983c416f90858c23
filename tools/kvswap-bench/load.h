/* SPDX-License-Identifier: MIT */
/*
 * Record reads through a backend of the library, at random places of a file of records, so many
 * in flight; each is checked by its checksum, as a session does.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "io.h"

struct load_file {
	int fd;
	bool direct;
	bool unchecked; /* checksums are not looked at, as fio does not */
	uint32_t block_bytes;
	uint32_t record_bytes;
	uint32_t n_records;
	uint32_t *crc; /* [n_records] */
};

struct load_result {
	double bytes_per_s;
	double cpu_ms; /* processor time of a record */
};

/* Fills the file; f->crc is load_clear()'s to free. Results are exit codes, said why. */
int load_write(struct load_file *f);
void load_clear(struct load_file *f);

/*
 * depth requests in flight. *io: NULL and DONE when the backend is not available, why it is not
 * in why.
 */
int load_open(const struct load_file *f, const char *backend, uint32_t depth, struct kvs_io **io,
	      char *why);
int load_run(const struct load_file *f, struct kvs_io *io, uint32_t depth, uint32_t ms,
	     struct load_result *out);

#endif
