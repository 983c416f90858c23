/* SPDX-License-Identifier: MIT */
/*
 * What the files of a session share: its tables and who owns them.
 *
 *   geometry.c  sizes: what goes where, how the budget is divided
 *   session.c   open, close, memory, messages, statistics
 *   chunk.c     chunks and sequences
 *   reuse.c     the slots of a layer: who is in, who goes
 *   fetch.c     records to memory and back: requests, completions, checks
 *   visit.c     groups through slots, read ahead or when they are wanted
 *   select.c    metadata, scores, the choice of groups
 *   decode.c    append, prefetch, attend
 *   prefill.c   layer-major prefill
 *
 * A chunk is chunk_tokens tokens of all layers that go to the store: the unit in which sequences share
 * records. Record number of (chunk, disk layer, group) = (chunk * n_disk + layer) * groups_per_chunk + group;
 * it is its place in the store too. "disk layer" counts the layers without a window.
 *
 * Arena: rolling buffers of every sequence and layer, then the region, which is the slots while
 * decoding and the staging during a prefill.
 */
#ifndef KVS_SESSION_H
#define KVS_SESSION_H

#include <errno.h>
#include <stdbool.h>

#include "attend.h"
#include "io.h"
#include "kvswap.h"
#include "predict.h"
#include "publish.h"
#include "store.h"

#define KVS_NO_SLOT UINT16_MAX
#define KVS_NO_CHUNK UINT32_MAX
#define KVS_MAX_SLOTS (UINT16_MAX - 1u) /* per layer */
#define KVS_TRAIN_TOKENS 4096u		/* a basis is made from at most this many tokens */
#define KVS_CHUNK_TOKENS 256u

enum mem_kind { MEM_METADATA, MEM_SLOTS, MEM_ROLLING, MEM_STAGING, MEM_KINDS };

/* Sizes that follow from shape, settings, storage and budget. Bytes unless said otherwise. */
struct geometry {
	struct kvs_geom rec;
	uint32_t n_layers, n_disk, n_ctx, n_seqs;
	uint32_t kv_dim;	 /* n_kv_heads * head_dim */
	uint32_t record_bytes;	 /* payload: K and V of G tokens, f16 */
	uint32_t record_sectors; /* padded to the logical block */
	uint32_t chunk_tokens, groups_per_chunk;
	uint32_t chunks_per_seq, n_chunks;
	uint32_t max_groups;	  /* of one sequence and layer */
	uint32_t select;	  /* M, groups; >= max_groups: all */
	uint32_t selected_groups; /* most that are chosen; 0: no choice is made, or none on disk */
	uint32_t forced;	  /* groups of the sinks */
	uint32_t
		estimate_groups; /* most that an estimate is kept of; 0 when the true query corrects */
	uint32_t recent;	 /* tokens */
	uint32_t ring;		 /* groups of a disk layer's rolling buffer */
	uint32_t reuse;		 /* R, slots per layer */
	uint32_t max_window;	 /* tokens, 0 if no layer has one */
	uint32_t align;		 /* tokens: staging starts at multiples of this */
	uint32_t prefill_tokens;   /* T */
	uint32_t stage_groups;	   /* of the staging: T and what is before it */
	uint32_t stream_bytes;	   /* one of the two blocks that earlier records stream through */
	uint64_t seq_ring_sectors; /* rolling buffers of one sequence */
	uint64_t region_sectors;
	uint64_t block_bytes; /* predictor's metadata of one layer of one chunk */
	uint64_t basis_bytes; /* of one layer, packed */
	uint64_t arena_bytes;
	bool scored; /* there is a choice to make and a predictor makes it */
	bool basis;  /* and it wants a basis */
	uint64_t store_bytes;
	uint64_t mem[MEM_KINDS]; /* what each kind takes */
};

struct chunk_table {
	uint32_t n_free;
	uint32_t *free;			     /* [n_free] */
	uint32_t *refs, *generation, *token; /* [n_chunks]; token: number of its first */
	uint32_t *crc;			     /* [record] */
	uint16_t *slot;	 /* [record], KVS_NO_SLOT; NULL when records are in memory */
	uint16_t *built; /* [n_chunks][n_disk] groups that have metadata */
	uint8_t *meta;	 /* [n_chunks][n_disk] blocks */
};

struct sequence {
	bool used;
	uint32_t *tokens; /* [n_layers] */
	uint32_t *chunks; /* [chunks_per_seq] */
	uint8_t *writing; /* [n_disk][ring] 1: the group's write is in flight */
};

/* What the estimated query chose, kept for attention when the true one does not correct it. */
struct estimate {
	uint32_t layer, n_tokens, n;
};

/* What the true query chose, pinned until it is attended to. */
struct selection {
	uint32_t layer, n_tokens, n;
	bool placed;
};

#define KVS_ESTIMATES 4u /* layers that a sequence may be read ahead */

enum slot_state { SLOT_FREE, SLOT_READING, SLOT_READY };

struct slot {
	uint32_t record;   /* record number */
	float weight, key; /* reuse.c */
	uint32_t step;	   /* last use */
	uint32_t ahead;	   /* step for which the estimated query chose it */
	uint32_t read;	   /* step for which it was read */
	uint16_t pins;
	uint8_t state;
};

/* Scratch of one call, allocated at open. */
struct scratch {
	float *q, *projected;		/* scaled query; in the predictor's space */
	float *est, *rolling, *score;	/* [n_heads][ld], [n_heads][ring * G], [max_groups] */
	uint32_t *top, *groups, *place; /* [max(max_groups, R)], chosen groups, their slots */
	float *keys;			/* [R] */
	uint32_t *victims;		/* [R] */
	struct kvs_span *spans;
	float *m, *l;			/* [n_heads], or [T][n_heads] in a prefill that streams */
	double *gram, *rows;		/* [kv_dim][kv_dim], [groups_per_chunk or so][kv_dim] */
	float *basis;			/* [kv_dim][rank] */
	struct kvs_io_request *reqs;	/* [depth] */
	struct kvs_io_completion *done; /* [depth] */
	uint8_t *prefill;		/* [threads][prefill_bytes] */
	size_t prefill_bytes;
	uint32_t ld;
};

struct prefill {
	bool active;
	uint32_t seq, n, total, pos; /* pos: tokens before it */
	uint32_t layer, put;	     /* layer being filled, tokens of it */
	uint32_t first;		     /* token at the start of the staging */
	uint32_t queued;	     /* groups of the layer handed to write-back */
	uint32_t writes;	     /* in flight */
	uint32_t streams[2];	     /* reads in flight into each block */
	uint32_t max_spans;	     /* that scratch.spans holds */
	struct rows *rows;	     /* prefill.c */
};

struct kvs {
	struct kvs_config cfg;
	struct kvs_settings set; /* resolved */
	struct kvs_shape shape;
	struct geometry geo;
	struct kvs_plan plan;
	struct kvs_store store;
	struct kvs_io *io; /* NULL when records are in memory */
	const struct kvs_kernels *kernels;
	struct kvs_predictor predictor;
	uint64_t store_id;
	uint64_t mem_used[MEM_KINDS], mem_peak;
	uint8_t *arena;
	uint8_t *records;      /* KVS_MEMORY */
	uint32_t *window;      /* [n_layers] */
	uint32_t *disk;	       /* [n_layers] disk layer, UINT32_MAX for a windowed one */
	uint32_t *layer_of;    /* [n_disk] */
	uint64_t *ring_sector; /* [n_layers] within a sequence's rolling buffers */
	uint32_t *ring;	       /* [n_layers] groups */
	struct chunk_table chunks;
	struct sequence *seqs;
	uint32_t *seq_tokens, *seq_chunks; /* what the sequences' pointers point into */
	uint8_t *seq_writing;
	struct slot *slots;	      /* [n_disk][R] */
	uint32_t *reading;	      /* [n_disk] slots being read */
	uint32_t *step;		      /* [n_disk] */
	struct selection *selections; /* [n_seqs], unless everything is selected */
	uint32_t *selected, *placed;  /* [n_seqs][selected_groups] groups and their places */
	struct estimate *estimates;   /* [n_seqs][KVS_ESTIMATES], with no_correct */
	uint32_t *estimated;	      /* [n_seqs][KVS_ESTIMATES][estimate_groups] groups */
	struct kvs_rope rope;	      /* dims 0: not known */
	float *rope_turn;	      /* [rope.dims / 2] */
	uint8_t *basis;		      /* [n_disk] packed */
	uint8_t *trained;	      /* [n_disk] */
	struct scratch scratch;
	struct prefill pre;
	struct kvs_stats stats;
	struct kvs_publisher *publisher; /* NULL: nowhere to publish */
	uint64_t n_steps;		 /* of decode, for it */
	uint32_t n_reqs; /* collected, not yet submitted */
	uint32_t sync;	 /* a synchronous request is in flight */
	int failed;
	char message[KVS_MESSAGE_BYTES];
	char backend_why[KVS_MESSAGE_BYTES];
};

/* geometry.c */
struct part { /* an allocation of a session */
	enum mem_kind kind;
	uint64_t bytes;
	size_t offset; /* of its pointer in struct kvs */
};

#define KVS_PARTS 64

uint32_t kvs_parts(const struct geometry *g, const struct kvs_config *cfg,
		   const struct kvs_predictor *p, struct part *parts);
int kvs_geometry(const struct kvs_config *cfg, const struct kvs_store *store,
		 struct kvs_settings *set, struct kvs_predictor *predictor, struct geometry *geo,
		 struct kvs_plan *plan, char *message);

static inline bool kvs_in_memory(const struct kvs_config *cfg)
{
	return cfg->where != KVS_DISK;
}

/* session.c */
int kvs_say(struct kvs *s, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
int kvs_fail(struct kvs *s, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
uint64_t kvs_now(void);
void kvs_run(struct kvs *s, void (*fn)(void *arg, int i, int n), void *arg, int n);

/* chunk.c */
int kvs_chunks_init(struct kvs *s);
int kvs_chunks_extend(struct kvs *s, struct sequence *q, uint32_t n_tokens);
void kvs_chunks_shrink(struct kvs *s, struct sequence *q, uint32_t n_tokens);
struct sequence *kvs_seq_get(struct kvs *s, uint32_t seq);

static inline uint64_t kvs_record(const struct kvs *s, const struct sequence *q, uint32_t dl,
				  uint32_t group)
{
	const struct geometry *g = &s->geo;
	uint32_t chunk = q->chunks[group / g->groups_per_chunk];

	return ((uint64_t)chunk * g->n_disk + dl) * g->groups_per_chunk +
	       group % g->groups_per_chunk;
}

static inline uint32_t kvs_record_chunk(const struct kvs *s, uint64_t record)
{
	return (uint32_t)(record / s->geo.groups_per_chunk / s->geo.n_disk);
}

static inline void *kvs_arena_at(const struct kvs *s, uint64_t sector)
{
	return s->arena + sector * KVS_SECTOR;
}

static inline uint64_t kvs_seq_index(const struct kvs *s, const struct sequence *q)
{
	return (uint64_t)(q - s->seqs);
}

/* Sector of group `group` in the rolling buffer of a layer. */
static inline uint64_t kvs_ring_sector(const struct kvs *s, const struct sequence *q,
				       uint32_t layer, uint32_t group)
{
	return kvs_seq_index(s, q) * s->geo.seq_ring_sectors + s->ring_sector[layer] +
	       (uint64_t)(group % s->ring[layer]) * s->geo.record_sectors;
}

static inline uint64_t kvs_region_sector(const struct kvs *s)
{
	return s->geo.n_seqs * s->geo.seq_ring_sectors;
}

static inline uint64_t kvs_slot_sector(const struct kvs *s, uint32_t dl, uint32_t slot)
{
	return kvs_region_sector(s) + ((uint64_t)dl * s->geo.reuse + slot) * s->geo.record_sectors;
}

/* First group that the rolling buffer attends to with n tokens; groups before it are selected from. */
static inline uint32_t kvs_rolling_first(const struct kvs *s, uint32_t n_tokens)
{
	uint32_t recent = s->geo.recent;

	return n_tokens > recent ? (n_tokens - recent) / s->geo.rec.group : 0;
}

/* reuse.c */
void kvs_slot_touch(struct kvs *s, uint32_t dl, struct slot *slot, float score);
uint32_t kvs_slots_take(struct kvs *s, uint32_t dl, uint32_t n, uint32_t *out);
void kvs_slot_assign(struct kvs *s, uint32_t dl, uint32_t slot, uint64_t record);
void kvs_slot_drop(struct kvs *s, uint64_t record);
void kvs_slots_drop_all(struct kvs *s);

/* fetch.c */
typedef int (*kvs_visit_fn)(struct kvs *s, void *arg, const struct kvs_span *spans, uint32_t n);

void kvs_record_seal(struct kvs *s, uint64_t record, const void *data);
int kvs_queue(struct kvs *s, const struct kvs_io_request *req);
int kvs_submit(struct kvs *s);
int kvs_drain(struct kvs *s, uint32_t min);
int kvs_check_record(struct kvs *s, uint64_t record, const void *data);
int kvs_ring_write(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t group);
int kvs_ring_wait(struct kvs *s, struct sequence *q, uint32_t dl, uint32_t group);
int kvs_record_copy(struct kvs *s, uint32_t dl, uint64_t from, uint64_t to);
int kvs_read_sync(struct kvs *s, uint64_t record, uint64_t sector);
struct kvs_io_request kvs_record_request(struct kvs *s, enum kvs_io_op op,
					 enum kvs_io_urgency urgency, uint64_t record,
					 uint64_t sector, uint64_t tag);

/* visit.c */
int kvs_ahead(struct kvs *s, struct sequence *q, uint32_t layer, const uint32_t *groups,
	      uint32_t n);
/* Visits groups (ascending) in order, through slots, as many at a time as there are; scores (by group) count as use. */
int kvs_visit_groups(struct kvs *s, struct sequence *q, uint32_t layer, const uint32_t *groups,
		     uint32_t n, const float *scores, kvs_visit_fn visit, void *arg);
int kvs_place_groups(struct kvs *s, struct sequence *q, uint32_t layer, const uint32_t *groups,
		     uint32_t n, const float *scores, uint32_t *place);
int kvs_visit_placed(struct kvs *s, struct sequence *q, uint32_t layer, const uint32_t *groups,
		     uint32_t n, uint32_t *place, kvs_visit_fn visit, void *arg);
void kvs_unplace(struct kvs *s, uint32_t dl, uint32_t n, const uint32_t *place);

/*
 * Tags of requests. index: the slot of KVS_TAG_SLOT, else the (first) record. extra: the sequence of
 * KVS_TAG_RING, how many records KVS_TAG_STAGE and KVS_TAG_STREAM have, the operation of KVS_TAG_SYNC.
 */
#define KVS_TAG_SLOT 1u
#define KVS_TAG_RING 2u
#define KVS_TAG_STAGE 3u
#define KVS_TAG_STREAM 4u
#define KVS_TAG_SYNC 5u

static inline uint64_t kvs_tag(uint32_t kind, uint32_t extra, uint32_t dl, uint32_t index)
{
	return (uint64_t)kind << 60 | (uint64_t)extra << 48 | (uint64_t)dl << 32 | index;
}

/* select.c */
int kvs_choose(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n_tokens,
	       const float *query, uint32_t percent, uint32_t *n_groups, float *coverage);
bool kvs_can_build(const struct kvs *s, const struct sequence *q, uint32_t dl, uint32_t group);
void kvs_train_start(struct kvs *s);
int kvs_build(struct kvs *s, struct sequence *q, uint32_t layer, const struct kvs_span *spans,
	      uint32_t n);
int kvs_gram_add(struct kvs *s, struct sequence *q, uint32_t layer, const struct kvs_span *spans,
		 uint32_t n);
int kvs_train_finish(struct kvs *s, uint32_t dl);
uint32_t kvs_rolling_spans(struct kvs *s, struct sequence *q, uint32_t layer, uint32_t n_tokens,
			   struct kvs_span *out);

/* decode.c */
void kvs_selection_drop(struct kvs *s, struct sequence *q);
void kvs_record_put(const struct kvs *s, void *record, uint32_t t, const float *k, const float *v);

/*
 * publish_session.c: makes the page of a session that is open; writes its counters, after `steps` more steps of
 * decode.
 */
void kvs_session_publish(struct kvs *s);
void kvs_session_published(struct kvs *s, uint32_t steps);

#endif
