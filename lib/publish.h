/* SPDX-License-Identifier: MIT */
/*
 * A session's counters where other programs can read them while it runs: a page of shared memory for
 * each session, $XDG_RUNTIME_DIR/kvswap/PID (PID.1, ... for further sessions of a process), mode 0600. Without that
 * variable /run/user/UID/kvswap, else /run/kvswap, where these exist and can be written.
 *
 * The writer holds an flock on the file for as long as it lives, so that what a killed process leaves
 * behind is told from what runs; the next writer removes it. Publishing never fails a session: without a
 * directory there is no page. No text, no tokens: settings and counters only.
 *
 * The page, by offset (all numbers little-endian as the machine is, 8-byte aligned; 4096 bytes):
 *      0  char magic[8]           "kvswap1"
 *      8  u32  bytes              sizeof(struct kvs_page)
 *     12  u32  seq                odd while the counters are being written (a seqlock)
 *     16  struct kvs_page_head    constant after the page has its name
 *   2048  u64  counters[64]       by enum kvs_counter; unknown ones are 0
 */
#ifndef KVS_PUBLISH_H
#define KVS_PUBLISH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvswap.h"

#define KVS_PAGE_BYTES 4096u
#define KVS_PAGE_COUNTERS 64u

struct kvs_page_head {
	uint32_t pid;
	uint32_t direct_io;
	uint64_t started_s;		   /* CLOCK_REALTIME */
	uint64_t budget_bytes, full_bytes; /* full: f16 KV of n_seqs sequences of n_ctx tokens */
	uint64_t metadata_bytes, slot_bytes, rolling_bytes, staging_bytes, store_bytes;
	uint32_t n_layers, n_heads, n_kv_heads, head_dim, n_ctx, n_seqs;
	uint32_t group, select, rank, reuse, record_bytes, where; /* where: enum kvs_where */
	char program[16], backend[16], predictor[16], kernels[16];
	char direct_why[128];
	char store[1024]; /* path, cut at its end */
};

/* Appended to only. Times in ns, all since the session was opened or its statistics were reset. */
enum kvs_counter {
	KVS_COUNT_UPDATED_NS, /* CLOCK_MONOTONIC of the last update */
	KVS_COUNT_STEPS,      /* decode steps */
	KVS_COUNT_SEQUENCES,  /* in use now */
	KVS_COUNT_TOKENS,     /* that the sequences have now */
	KVS_COUNT_RESIDENT_BYTES,
	KVS_COUNT_RESIDENT_PEAK_BYTES,
	KVS_COUNT_RECORDS_READ,
	KVS_COUNT_BYTES_READ,
	KVS_COUNT_RECORDS_WRITTEN,
	KVS_COUNT_BYTES_WRITTEN,
	KVS_COUNT_RECORDS_LATE,
	KVS_COUNT_WAIT_NS,
	KVS_COUNT_GROUPS_SELECTED,
	KVS_COUNT_GROUPS_HIT,
	KVS_COUNT_GROUPS_PREDICTED,
	KVS_COUNT_SELECTIONS,
	KVS_COUNT_TOKENS_SELECTED,
	KVS_COUNT_COVERAGE_MILLIONTHS, /* sum over selections */
	KVS_COUNT_APPEND_NS,
	KVS_COUNT_PREFETCH_NS,
	KVS_COUNT_SCORE_NS,
	KVS_COUNT_ATTEND_NS,
	KVS_COUNT_TRAIN_NS,
	KVS_COUNT_PREFILL_ATTEND_NS,
	KVS_COUNT_N,
};

struct kvs_publisher;

/*
 * Makes a page. *out is NULL when there is nowhere to put one; the result then says why, and is otherwise 0. head->pid,
 * started_s and program are filled in. dir: where, NULL for the places above.
 */
int kvs_publish_open(const char *dir, const struct kvs_page_head *head, struct kvs_publisher **out);
/* Some 30 plain stores; once a decode step. p NULL: nothing. */
void kvs_publish_update(struct kvs_publisher *p, const struct kvs_stats *stats, uint64_t steps,
			uint32_t sequences, uint64_t tokens);
void kvs_publish_close(struct kvs_publisher *p);

/* Reading. */

struct kvs_published {
	char path[PATH_MAX];
	struct kvs_page_head head;
	uint64_t counters[KVS_PAGE_COUNTERS];
};

/* Directories in which sessions of this user may be, of all users for root; calls fn for each running session. */
int kvs_published_each(const char *dir, void (*fn)(const struct kvs_published *session, void *arg),
		       void *arg);

#endif
