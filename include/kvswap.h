/* SPDX-License-Identifier: MIT */
/*
 * libkvswap: the KV cache of a language model on NVMe, eMMC or SD.
 *
 * The whole KV cache stays in a store (a file or a block device, direct I/O); a small part stays in
 * memory. The library is handed q, k and v of each layer and gives back the attention output; it needs
 * no particular inference engine. The method follows KVSwap (arXiv 2511.11907): grouped prediction from
 * in-memory K metadata, a reuse buffer, reads ahead of the layer that needs them.
 *
 * Conventions
 *   - Results are 0 or -errno. The library never prints and never exits; the text that belongs to the
 *     last error of a session is kvs_message().
 *   - All calls on one session come from one thread at a time; different sessions are independent.
 *   - Tokens are counted from 0 in each sequence. q, k, v and out are float32, K and Q after RoPE.
 *   - After a failure of the store (-EIO, -EBADMSG, -ENOSPC, -ETIMEDOUT), or K that is not finite (-EDOM), a session
 *     takes no more calls but kvs_close() and the getters: each returns the same error. Nothing wrong is ever attended to.
 *   - Structs that callers fill begin with `size`, sizeof the struct as the caller knows it; unset fields are
 *     0 and mean the default. Structs are only ever appended to.
 */
#ifndef KVSWAP_H
#define KVSWAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* all else in the library is hidden */

#define KVS_VERSION_MAJOR 0
#define KVS_VERSION_MINOR 1

#define KVS_ALL UINT32_MAX /* settings.select: every token, that is, full attention */
#define KVS_MAX_SEQS 256   /* sequences of one session */

struct kvs; /* a session: one model, one store, one budget */
struct kvs_io_fault;

/* Where the KV cache is. */
enum kvs_where {
	KVS_DISK = 0,	/* records in the store, slots in memory */
	KVS_MEMORY = 1, /* the same sparse attention, all records in memory; no budget */
	KVS_DENSE = 2,	/* all in memory, full attention; no budget, no predictor */
};

enum kvs_write_back {
	KVS_WRITE_DEFAULT = 0, /* by the kind of storage */
	KVS_WRITE_ASYNC = 1,   /* a full group is written behind (NVMe, UFS) */
	KVS_WRITE_SYNC = 2,    /* the append that fills a group waits for its write (eMMC, SD) */
};

enum kvs_reduce {
	KVS_REDUCE_DEFAULT = 0,
	KVS_REDUCE_SUM = 1,  /* sum over heads of the per-head softmax */
	KVS_REDUCE_MEAN = 2, /* logits averaged over heads (KVSwap, section 3.2) */
};

/* How K is turned by its position (RoPE). */
struct kvs_rope {
	uint32_t dims;	   /* channels of a head that turn, even, at most head_dim */
	uint32_t halves;   /* 1: pair i is channels i and i + dims / 2; 0: 2 i and 2 i + 1 */
	const float *turn; /* [dims / 2] radians a token */
};

/* What the model looks like to attention. */
struct kvs_shape {
	uint32_t size;
	uint32_t n_layers;
	uint32_t n_heads; /* query heads, a multiple of n_kv_heads */
	uint32_t n_kv_heads;
	uint32_t head_dim; /* of K and V alike, a multiple of 16, at most 512 */
	uint32_t n_ctx;	   /* most tokens of one sequence */
	uint32_t n_seqs;   /* most sequences at once; 0 means 1 */
	float scale;	   /* of the logits; 0 means 1 / sqrt(head_dim) */
	/*
	 * [n_layers]: 0 for a layer that sees the whole context, else the sliding window in tokens (a token
	 * sees itself and window - 1 before it); NULL means all 0. A windowed layer stays in memory.
	 */
	const uint32_t *window;
	/*
	 * Of the layers without a window; NULL when it is not known or not one turn a pair. With it, a basis that is made from
	 * the first tokens holds for the positions to come.
	 */
	const struct kvs_rope *rope;
};

/* How to select and read; every 0 is the default for the storage and the shape. */
struct kvs_settings {
	uint32_t size;
	uint32_t group;	 /* G, tokens per group: a power of two, 1 to 256 */
	uint32_t select; /* MG, selected tokens per layer and step, or KVS_ALL */
	uint32_t reuse;	 /* slots per layer of the reuse buffer; 0: as many as the budget leaves */
	uint32_t recent; /* tokens of the recent window, always attended to (32) */
	uint32_t sinks;	 /* first tokens, always attended to (4); KVS_ALL means none */
	uint32_t rank;	 /* width of the low-rank K of all KV heads jointly */
	enum kvs_reduce reduce;
	enum kvs_write_back write_back;
	uint32_t
		ahead_percent; /* groups read ahead by the estimated query, in percent of the selection (100) */
	uint32_t
		no_correct; /* 1: attend to what the estimate chose; the true query does not re-rank */
	uint32_t
		pinned_percent; /* reading ahead stops when this share of a layer's slots is pinned (70) */
	uint32_t depth;		/* most I/O requests in flight (64) */
	const char *predictor; /* "groupmean", "lowrank", "exact", "window"; NULL: groupmean */
};

/*
 * Runs fn(arg, i, n) for i = 0 .. n-1, on threads of the engine's choice, and returns when all have
 * returned. fn does no I/O and takes no lock.
 */
typedef void (*kvs_parallel_fn)(void *pool, void (*fn)(void *arg, int i, int n), void *arg, int n);

struct kvs_config {
	uint32_t size;
	enum kvs_where where;
	struct kvs_shape shape;
	struct kvs_settings settings;
	/*
	 * Most bytes held in memory for the sake of KV: metadata, slots, rolling buffers, staging, tables. A
	 * hard limit. 0 means no limit.
	 */
	uint64_t budget;
	/*
	 * The store: a block device, a file (created, 0600), or a directory, in which an unnamed file is made.
	 * NULL means $XDG_CACHE_HOME/kvswap, else ~/.cache/kvswap. What was in a file or device is lost.
	 */
	const char *store;
	const char *backend; /* "auto", "module", "io_uring", "threads"; NULL: auto */
	uint32_t force;	     /* 1: use a device that is mounted or carries a signature */
	int n_threads;	     /* n handed to `parallel`; 0 or 1: everything in the caller's thread */
	kvs_parallel_fn parallel;
	void *pool; /* first argument of `parallel` */
	uint32_t
		io_timeout_ms; /* a read or write that takes longer is an error, -ETIMEDOUT (30000) */
	uint32_t test_delay_us; /* tests: every completion is held back a random time up to this */
	const struct kvs_io_fault
		*test_fault; /* tests: what goes wrong in the store (lib/io.h); NULL */
};

/* What kvs_open() would take from the budget, and what it would choose. */
struct kvs_plan {
	uint32_t size;
	uint32_t group, select, rank, reuse;
	const char *predictor;
	uint32_t record_bytes;	 /* a group on disk, padded to the store's logical block */
	uint32_t chunk_tokens;	 /* tokens of the unit in which sequences share records */
	uint32_t prefill_tokens; /* most tokens between kvs_prefill_begin() and kvs_prefill_end() */
	uint64_t metadata_bytes; /* predictor, checksums, tables */
	uint64_t slot_bytes;	 /* reuse buffer */
	uint64_t rolling_bytes;	 /* rolling buffers and windowed layers */
	uint64_t staging_bytes;	 /* of prefill beyond the slots, scratch */
	uint64_t resident_bytes; /* the sum */
	uint64_t smallest_bytes; /* the smallest budget that would do */
	uint64_t store_bytes;	 /* size of the store */
};

struct kvs_info {
	uint32_t size;
	const char *backend;	 /* in use: "io_uring", "threads", "module", "memory" */
	const char *backend_why; /* why not the one before it, or "" */
	const char *store;	 /* path, or "" for memory */
	uint32_t
		direct_io; /* 1: reads and writes bypass the page cache, as far as the kernel tells */
	const char *direct_why; /* when 0, why */
	const char *kernels;	/* "generic", "avx2", ... */
};

/* Counters since kvs_open() or kvs_stats_reset(). Times in ns. */
struct kvs_stats {
	uint32_t size;
	uint64_t resident_bytes, resident_peak_bytes;
	uint64_t records_read, bytes_read, records_written, bytes_written;
	uint64_t records_late; /* asked for only when the true query was known */
	uint64_t wait_ns;      /* attend and append waiting for I/O */
	uint64_t groups_selected,
		groups_hit; /* selected from disk-backed groups; of these, in a slot already */
	uint64_t groups_predicted; /* of the selected, those the estimated query had chosen */
	uint64_t selections;	  /* kvs_attend() calls per layer and sequence that had to choose */
	uint64_t tokens_selected; /* their sum, beside the rolling buffer */
	double coverage_sum; /* over selections: estimated share of attention mass attended to */
	uint64_t append_ns, prefetch_ns, score_ns, attend_ns, train_ns, prefill_attend_ns;
};

#define KVS_MESSAGE_BYTES 512

/* Checks cfg and says what it would take. message: KVS_MESSAGE_BYTES of text on error, or NULL.
 * -EINVAL: a value out of range; -ENOSPC: budget below plan->smallest_bytes (plan is filled). */
int kvs_plan(const struct kvs_config *cfg, struct kvs_plan *plan, char *message);

/*
 * Opens a session. *out is the caller's, to be given to kvs_close(). cfg and what it points to may go after the call.
 * -ENOSPC budget too small, or no room for the store; -EBUSY store in use, mounted or signed; -EINVAL;
 * -ENOMEM; -ENOTSUP backend not available; else what open(2) said.
 */
int kvs_open(const struct kvs_config *cfg, struct kvs **out, char *message);
/* Waits for what is in flight, frees everything, removes an unnamed store. NULL is allowed. */
void kvs_close(struct kvs *s);

const char *kvs_message(
	const struct kvs *s); /* of the last failed call; valid until the next call */
void kvs_plan_get(const struct kvs *s, struct kvs_plan *plan);
void kvs_info_get(const struct kvs *s, struct kvs_info *info);
void kvs_stats_get(const struct kvs *s, struct kvs_stats *stats);
void kvs_stats_reset(struct kvs *s);

/*
 * Sequences. An id is small and reused after kvs_seq_free(). -ENOSPC: n_seqs are in use.
 * kvs_seq_fork: a new sequence that begins with the first n_tokens of src; whole chunks are shared and
 * read-only from then on, the rest is copied. kvs_seq_truncate: forgets all after n_tokens.
 * kvs_seq_tokens: tokens that every layer has.
 */
int kvs_seq_new(struct kvs *s, uint32_t *seq);
int kvs_seq_fork(struct kvs *s, uint32_t src, uint32_t n_tokens, uint32_t *seq);
int kvs_seq_truncate(struct kvs *s, uint32_t seq, uint32_t n_tokens);
int kvs_seq_free(struct kvs *s, uint32_t seq);
uint32_t kvs_seq_tokens(const struct kvs *s, uint32_t seq);

/*
 * Prefill, layer-major: n_tokens more tokens of one sequence, at most plan.prefill_tokens, all of layer l before
 * layer l + 1. For each layer: kvs_prefill_put() in order, in blocks of any size, then kvs_prefill_attend() once.
 * Attention is exact and causal, over the sequence's earlier tokens (streamed back from the store) too.
 *   k, v: float [n][n_kv_heads][head_dim]; q, out: float [n_tokens][n_heads][head_dim], not overlapping.
 * The reuse buffer of every sequence is given up while a prefill runs: its memory is the staging.
 * kvs_prefill_end(): all records are written; the sequence is n_tokens longer. Errors: -E2BIG past n_ctx or
 * plan.prefill_tokens, -EIO/-ENOSPC/-ETIMEDOUT of the store, -EBADMSG a record failed its checksum, -EPROTO calls
 * out of order. n_total: tokens that the sequence will have when the whole prompt is in (>= what it has + n_tokens):
 * how the prompt is cut does not change what is learned from it.
 */
int kvs_prefill_begin(struct kvs *s, uint32_t seq, uint32_t n_tokens, uint32_t n_total);
int kvs_prefill_put(struct kvs *s, uint32_t layer, uint32_t n, const float *k, const float *v);
int kvs_prefill_attend(struct kvs *s, uint32_t layer, const float *q, float *out);
int kvs_prefill_end(struct kvs *s);

/*
 * Decode, one token of each of n_seqs sequences (all different), layers in order:
 * kvs_append(): k, v float [n_seqs][n_kv_heads][head_dim], the token enters the rolling buffer.
 * kvs_prefetch(): q_hat float [n_seqs][n_heads][head_dim], the estimated query of a coming layer; reads start,
 * nothing waits. kvs_select(): q float [n_seqs][n_heads][head_dim], the true query of a layer that has its token; what is
 * missing is read while the caller does something else, a kvs_prefetch() of the next layer for one. Both are
 * optional. kvs_attend(): q (that of kvs_select()), out float [n_seqs][n_heads][head_dim]. The output is a function of
 * the appended K and V, q and the settings alone; never of timing, slots or backend.
 * Errors as of prefill; -EDOM: K is not finite (the message names layer and token).
 */
int kvs_append(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs, const float *k,
	       const float *v);
int kvs_prefetch(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs,
		 const float *q_hat);
int kvs_select(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs,
	       const float *q);
int kvs_attend(struct kvs *s, uint32_t layer, uint32_t n_seqs, const uint32_t *seqs, const float *q,
	       float *out);

/*
 * Low-rank bases of K, a layer at a time (KVSwap, section 3.1). basis: float [n_layers][kv_dim][rank], columns
 * orthonormal, in order of captured energy. kvs_basis_set(): before the first token. Without it, a basis is
 * made from the first tokens of the first sequence that needs one.
 */
int kvs_basis_set(struct kvs *s, uint32_t rank, const float *basis);

/* Bytes of f16 K and V of n_tokens tokens of one sequence; a windowed layer counts its window only. */
uint64_t kvs_full_bytes(const struct kvs_shape *shape, uint32_t n_tokens);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
