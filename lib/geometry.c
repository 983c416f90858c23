/* SPDX-License-Identifier: MIT */
/*
 * Sizes: checks a configuration, chooses what it leaves open, divides the budget. Everything that a session
 * allocates for the sake of KV is in the table of parts, so that the plan and what is taken are the same numbers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

/*
 * Tokens to a mean of groupmean: rank beside it is a question of bytes. Look-ups at 4,096 tokens, G = 8, 400 selected (dense
 * .996): means of 8 .82, of 4 .89, of 2 at half the rank .957, each token at half the rank .996, which is 1/51 of KV.
 */
#define MEAN_TOKENS 2u

#define ROWS_PER_BLOCK 512u /* prefill is cut at multiples of this where the budget allows */

static int refuse(char *message, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(char *message, int err, const char *format, ...)
{
	va_list args;

	if (!message)
		return err;
	va_start(args, format);
	vsnprintf(message, KVS_MESSAGE_BYTES, format, args);
	va_end(args);
	return err;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static uint64_t max64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int check_shape(const struct kvs_shape *h, char *message)
{
	if (!h->n_layers || h->n_layers > 4096)
		return refuse(message, -EINVAL, "%u layers: must be 1 to 4096", h->n_layers);
	if (!h->n_kv_heads || h->n_kv_heads > 1024)
		return refuse(message, -EINVAL, "%u KV heads: must be 1 to 1024", h->n_kv_heads);
	if (!h->n_heads || h->n_heads > 4096 || h->n_heads % h->n_kv_heads)
		return refuse(message, -EINVAL,
			      "%u heads: must be a multiple of %u KV heads, at most 4096",
			      h->n_heads, h->n_kv_heads);
	if (!h->head_dim || h->head_dim > 512 || h->head_dim % 16)
		return refuse(message, -EINVAL,
			      "head_dim %u: must be a multiple of 16, at most 512", h->head_dim);
	if (!h->n_ctx || h->n_ctx > 1u << 24)
		return refuse(message, -EINVAL, "context of %u tokens: must be 1 to %u", h->n_ctx,
			      1u << 24);
	if (h->n_seqs > KVS_MAX_SEQS)
		return refuse(message, -EINVAL, "%u sequences: at most %u", h->n_seqs,
			      KVS_MAX_SEQS);
	if (h->rope && (h->rope->dims % 2 || h->rope->dims > h->head_dim))
		return refuse(message, -EINVAL, "RoPE over %u channels of head_dim %u",
			      h->rope->dims, h->head_dim);
	if (!(h->scale >= 0) || h->scale > 1e6f)
		return refuse(message, -EINVAL, "scale %g: must be positive", (double)h->scale);
	return 0;
}

static int check_settings(const struct kvs_settings *t, char *message)
{
	if (t->group > KVS_CHUNK_TOKENS || (t->group & (t->group - 1)))
		return refuse(message, -EINVAL,
			      "group of %u tokens: must be a power of two, at most %u", t->group,
			      KVS_CHUNK_TOKENS);
	if (t->reduce > KVS_REDUCE_MEAN || t->write_back > KVS_WRITE_SYNC)
		return refuse(message, -EINVAL, "unknown reduction %u or write-back %u", t->reduce,
			      t->write_back);
	if (t->recent > 1u << 16)
		return refuse(message, -EINVAL, "recent window of %u tokens: at most %u", t->recent,
			      1u << 16);
	if (t->ahead_percent > 400)
		return refuse(message, -EINVAL,
			      "reading ahead %u percent of the selection: at most 400",
			      t->ahead_percent);
	if (t->pinned_percent > 100)
		return refuse(message, -EINVAL, "pinned share of %u percent: at most 100",
			      t->pinned_percent);
	if (t->depth > 4096)
		return refuse(message, -EINVAL, "depth %u: at most 4096", t->depth);
	if (t->predictor && !kvs_predictor_find(t->predictor))
		return refuse(message, -EINVAL,
			      "unknown predictor '%s': groupmean, lowrank, exact or window",
			      t->predictor);
	return 0;
}

/* Published G (4, 8 on eMMC and SD), doubled until a record is 4 KiB and padding is under a tenth. */
static uint32_t default_group(const struct kvs_config *cfg, uint32_t token_bytes, uint32_t block,
			      bool slow)
{
	uint32_t g = slow ? 8 : 4;

	if (cfg->where == KVS_DENSE)
		return 64;
	while (g < 64) {
		uint64_t payload = (uint64_t)g * token_bytes, padded = round_up(payload, block);

		if (payload >= (slow ? 8192 : 4096) && (padded - payload) * 10 < padded)
			break;
		g *= 2;
	}
	return g;
}

static void resolve(const struct kvs_config *cfg, const struct kvs_store *store,
		    struct kvs_settings *t)
{
	const struct kvs_shape *h = &cfg->shape;

	*t = cfg->settings;
	if (!t->group)
		t->group = default_group(cfg, h->n_kv_heads * h->head_dim * 4, store->block_bytes,
					 store->slow);
	if (!t->select)
		t->select = 400;
	if (cfg->where == KVS_DENSE)
		t->select = KVS_ALL;
	if (!t->recent)
		t->recent = 32;
	if (!t->sinks)
		t->sinks = 4;
	else if (t->sinks == KVS_ALL)
		t->sinks = 0;
	if (!t->reduce)
		t->reduce = KVS_REDUCE_SUM;
	if (!t->write_back)
		t->write_back = store->slow ? KVS_WRITE_SYNC : KVS_WRITE_ASYNC;
	if (!t->ahead_percent)
		t->ahead_percent = 100;
	if (!t->pinned_percent)
		t->pinned_percent = 70;
	if (!t->depth)
		t->depth = 64;
	if (!t->predictor)
		t->predictor = "groupmean";
}

static void layers(const struct kvs_shape *h, struct geometry *g)
{
	g->n_layers = h->n_layers;
	for (uint32_t l = 0; l < h->n_layers; l++) {
		uint32_t w = h->window ? h->window[l] : 0;

		if (!w)
			g->n_disk++;
		else if (min64(w, h->n_ctx) > g->max_window)
			g->max_window = (uint32_t)min64(w, h->n_ctx);
	}
}

static uint32_t window_ring(const struct geometry *g, uint32_t window)
{
	return (uint32_t)min64(window, g->n_ctx) / g->rec.group + 2;
}

static void sizes(const struct kvs_config *cfg, const struct kvs_store *store,
		  const struct kvs_settings *t, struct geometry *g)
{
	const struct kvs_shape *h = &cfg->shape;
	uint64_t ring_groups;

	g->rec = (struct kvs_geom){ t->group, h->n_heads, h->n_kv_heads, h->head_dim };
	g->n_ctx = h->n_ctx;
	g->n_seqs = h->n_seqs ? h->n_seqs : 1;
	g->kv_dim = h->n_kv_heads * h->head_dim;
	g->record_bytes = t->group * g->kv_dim * 4;
	g->record_sectors = (uint32_t)(round_up(g->record_bytes, store->block_bytes) / KVS_SECTOR);
	g->chunk_tokens = KVS_CHUNK_TOKENS;
	g->groups_per_chunk = g->chunk_tokens / t->group;
	g->chunks_per_seq = (uint32_t)(round_up(g->n_ctx, g->chunk_tokens) / g->chunk_tokens);
	g->n_chunks = g->n_seqs * g->chunks_per_seq;
	g->max_groups = (g->n_ctx + t->group - 1) / t->group;
	g->select = t->select == KVS_ALL ? UINT32_MAX : (t->select + t->group - 1) / t->group;
	g->forced = (t->sinks + t->group - 1) / t->group;
	g->recent = t->recent;
	g->ring = t->recent / t->group + 2;
	g->align = t->group > KVS_BLOCK ? t->group : KVS_BLOCK;
	g->stream_bytes = g->groups_per_chunk * g->record_sectors * KVS_SECTOR;
	ring_groups = (uint64_t)g->n_disk * g->ring;
	for (uint32_t l = 0; h->window && l < g->n_layers; l++)
		if (h->window[l])
			ring_groups += window_ring(g, h->window[l]);
	g->seq_ring_sectors = ring_groups * g->record_sectors;
	g->store_bytes = (uint64_t)g->n_chunks * g->n_disk * g->stream_bytes;
}

/* Sectors of the staging for T tokens: what is before them, them, stream blocks, running softmax. */
static uint64_t staging_sectors(const struct geometry *g, uint64_t tokens)
{
	uint64_t groups = (tokens + g->max_window + 2 * g->align) / g->rec.group + 1;
	uint64_t softmax = round_up(tokens * g->rec.n_heads * 2 * sizeof(float), 4096) / KVS_SECTOR;

	return groups * g->record_sectors + 2 * (g->stream_bytes / KVS_SECTOR) + softmax;
}

static void set_prefill(struct geometry *g, uint64_t tokens)
{
	if (tokens >= g->n_ctx)
		tokens = g->n_ctx;
	else if (tokens >= ROWS_PER_BLOCK)
		tokens -= tokens % ROWS_PER_BLOCK;
	g->prefill_tokens = (uint32_t)tokens;
	g->stage_groups = (uint32_t)((tokens + g->max_window + 2 * g->align) / g->rec.group + 1);
}

#define PART(k, count, member)                                                                 \
	do {                                                                                   \
		uint64_t bytes_ = (uint64_t)(count) * sizeof(*((struct kvs *)0)->member);      \
		if (bytes_)                                                                    \
			parts[n++] = (struct part){ k, bytes_, offsetof(struct kvs, member) }; \
	} while (0)

static uint32_t scratch_parts(const struct geometry *g, const struct kvs_config *cfg,
			      const struct kvs_predictor *p, struct part *parts, uint32_t n)
{
	uint32_t threads = cfg->n_threads > 1 ? (uint32_t)cfg->n_threads : 1;
	uint64_t heads = g->rec.n_heads, most = max64(g->max_groups, g->reuse);
	uint64_t ring = g->max_window ? window_ring(g, g->max_window) : 0;

	PART(MEM_STAGING, heads * g->rec.head_dim, scratch.q);
	PART(MEM_STAGING, heads, scratch.m);
	PART(MEM_STAGING, heads, scratch.l);
	PART(MEM_STAGING, max64(g->max_groups + g->ring, max64(ring, 2 * g->groups_per_chunk)) + 2,
	     scratch.spans);
	PART(MEM_STAGING, g->max_groups, scratch.groups);
	PART(MEM_STAGING, g->max_groups, scratch.place);
	PART(MEM_STAGING, most, scratch.top);
	PART(MEM_STAGING, threads * round_up(kvs_prefill_scratch(&g->rec, KVS_BLOCK), 64),
	     scratch.prefill);
	PART(MEM_STAGING, g->max_groups, scratch.score);
	PART(MEM_STAGING, g->reuse, scratch.keys);
	PART(MEM_STAGING, g->reuse, scratch.victims);
	if (g->scored) {
		uint64_t ld = kvs_predict_ld(p, g->max_groups);

		PART(MEM_STAGING, p->ops->query_floats(p), scratch.projected);
		PART(MEM_STAGING, heads * ld, scratch.est);
		PART(MEM_STAGING, heads * g->ring * g->rec.group, scratch.rolling);
	}
	if (g->basis) {
		PART(MEM_STAGING, kvs_lowrank_doubles(g->kv_dim), scratch.gram);
		PART(MEM_STAGING, (uint64_t)g->chunk_tokens * g->kv_dim, scratch.rows);
		PART(MEM_STAGING, (uint64_t)g->kv_dim * p->rank, scratch.basis);
	}
	return n;
}

uint32_t kvs_parts(const struct geometry *g, const struct kvs_config *cfg,
		   const struct kvs_predictor *p, struct part *parts)
{
	uint64_t records = (uint64_t)g->n_chunks * g->n_disk * g->groups_per_chunk;
	uint32_t n = 0;

	PART(MEM_METADATA, g->n_chunks, chunks.free);
	PART(MEM_METADATA, g->n_chunks, chunks.refs);
	PART(MEM_METADATA, g->n_chunks, chunks.generation);
	PART(MEM_METADATA, g->n_chunks, chunks.token);
	PART(MEM_METADATA, g->n_layers, window);
	PART(MEM_METADATA, g->n_layers, disk);
	PART(MEM_METADATA, g->n_layers, layer_of);
	PART(MEM_METADATA, g->n_layers, ring_sector);
	PART(MEM_METADATA, g->n_layers, ring);
	PART(MEM_METADATA, g->n_layers, reading);
	PART(MEM_METADATA, g->n_layers, step);
	PART(MEM_METADATA, g->n_layers, trained);
	PART(MEM_METADATA, g->n_seqs, seqs);
	PART(MEM_METADATA, (uint64_t)g->n_seqs * g->n_layers, seq_tokens);
	PART(MEM_METADATA, (uint64_t)g->n_seqs * g->chunks_per_seq, seq_chunks);
	PART(MEM_METADATA, (uint64_t)g->n_seqs * g->n_disk * g->ring, seq_writing);
	if (g->scored) {
		PART(MEM_METADATA, (uint64_t)g->n_chunks * g->n_disk, chunks.built);
		PART(MEM_METADATA, (uint64_t)g->n_chunks * g->n_disk * g->block_bytes, chunks.meta);
	}
	if (g->basis)
		PART(MEM_METADATA, (uint64_t)g->n_disk * g->basis_bytes, basis);
	if (g->basis && cfg->shape.rope)
		PART(MEM_METADATA, cfg->shape.rope->dims / 2, rope_turn);
	if (g->selected_groups) {
		PART(MEM_METADATA, g->n_seqs, selections);
		PART(MEM_METADATA, (uint64_t)g->n_seqs * g->selected_groups, selected);
		PART(MEM_METADATA, (uint64_t)g->n_seqs * g->selected_groups, placed);
	}
	if (g->estimate_groups) {
		PART(MEM_METADATA, g->n_seqs * KVS_ESTIMATES, estimates);
		PART(MEM_METADATA, (uint64_t)g->n_seqs * KVS_ESTIMATES * g->estimate_groups,
		     estimated);
	}
	if (!kvs_in_memory(cfg) && g->n_disk) {
		PART(MEM_METADATA, records, chunks.crc);
		PART(MEM_METADATA, records, chunks.slot);
		PART(MEM_SLOTS, (uint64_t)g->n_disk * g->reuse, slots);
		PART(MEM_STAGING, 2 * cfg->settings.depth + 64, scratch.reqs);
		PART(MEM_STAGING, 2 * cfg->settings.depth + 64, scratch.done);
	}
	if (kvs_in_memory(cfg))
		PART(MEM_SLOTS, records * g->record_sectors * KVS_SECTOR, records);
	return scratch_parts(g, cfg, p, parts, n);
}

/* Fills g->mem for the reuse and region that g has; returns the sum. */
static uint64_t account(struct geometry *g, const struct kvs_config *cfg,
			const struct kvs_predictor *p)
{
	struct part parts[KVS_PARTS];
	uint32_t n = kvs_parts(g, cfg, p, parts);
	uint64_t slots = (uint64_t)g->reuse * g->n_disk * g->record_sectors * KVS_SECTOR, sum = 0;

	memset(g->mem, 0, sizeof(g->mem));
	for (uint32_t i = 0; i < n; i++)
		g->mem[parts[i].kind] += round_up(parts[i].bytes, 64);
	g->mem[MEM_ROLLING] += g->n_seqs * g->seq_ring_sectors * KVS_SECTOR;
	g->arena_bytes =
		round_up((g->n_seqs * g->seq_ring_sectors + g->region_sectors) * KVS_SECTOR, 4096);
	g->mem[MEM_SLOTS] += slots;
	g->mem[MEM_STAGING] +=
		g->arena_bytes - g->n_seqs * g->seq_ring_sectors * KVS_SECTOR - slots;
	for (int k = 0; k < MEM_KINDS; k++)
		sum += g->mem[k];
	return sum;
}

/* The reuse buffer R and the region that goes with it. Returns the bytes in all. */
static uint64_t try_reuse(struct geometry *g, const struct kvs_config *cfg,
			  const struct kvs_predictor *p, uint64_t r, uint64_t prefill)
{
	uint64_t staging = staging_sectors(g, prefill);

	g->reuse = (uint32_t)r;
	g->region_sectors = max64(r * g->n_disk * g->record_sectors, staging);
	return account(g, cfg, p);
}

static uint64_t most_prefill(const struct geometry *g)
{
	uint64_t low = 0, high = g->n_ctx;

	while (low < high) {
		uint64_t mid = (low + high + 1) / 2;

		if (staging_sectors(g, mid) <= g->region_sectors)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

static int divide(struct geometry *g, const struct kvs_config *cfg, const struct kvs_predictor *p,
		  uint64_t *smallest)
{
	uint64_t least = min64(ROWS_PER_BLOCK, g->n_ctx), want = cfg->settings.reuse,
		 budget = cfg->budget;
	uint64_t all =
		min64((uint64_t)g->n_seqs * g->chunks_per_seq * g->groups_per_chunk, KVS_MAX_SLOTS);
	uint64_t low = 1, high, slack;

	if (kvs_in_memory(cfg) || !g->n_disk) {
		*smallest = try_reuse(g, cfg, p, 0, g->n_ctx);
		set_prefill(g, g->n_ctx);
		return 0;
	}
	*smallest = try_reuse(g, cfg, p, 1, least);
	if (budget && budget < *smallest)
		return -ENOSPC;
	high = min64(all, want ? want
			       : (budget ? all : max64(400, (uint64_t)min64(g->select, all) * 2)));
	if (!budget) {
		try_reuse(g, cfg, p, high, g->n_ctx);
		set_prefill(g, g->n_ctx);
		return 0;
	}
	while (low < high) {
		uint64_t mid = (low + high + 1) / 2;

		if (try_reuse(g, cfg, p, mid, least) <= budget)
			low = mid;
		else
			high = mid - 1;
	}
	slack = budget - try_reuse(g, cfg, p, low, least);
	g->region_sectors += slack / KVS_SECTOR / 8 * 8;
	g->region_sectors = max64(min64(g->region_sectors, staging_sectors(g, g->n_ctx)),
				  low * g->n_disk * g->record_sectors);
	while (account(g, cfg, p) > budget)
		g->region_sectors -= 8;
	set_prefill(g, most_prefill(g));
	return 0;
}

static int set_predictor(enum kvs_where where, const struct kvs_settings *t, struct geometry *g,
			 struct kvs_predictor *p, char *message)
{
	int err;

	memset(p, 0, sizeof(*p));
	p->ops = kvs_predictor_find(t->predictor);
	p->kernels = kvs_kernels_get();
	if (!p->kernels)
		return refuse(message, -ENOTSUP, "KVSWAP_KERNELS=%s: no such kernels here",
			      getenv("KVSWAP_KERNELS"));
	p->geom = g->rec;
	p->groups_per_chunk = g->groups_per_chunk;
	p->items_per_group = 1;
	p->mean_tokens = g->rec.group < MEAN_TOKENS ? g->rec.group : MEAN_TOKENS;
	err = p->ops->init(p, t->rank);
	if (err)
		return refuse(message, err,
			      "rank %u: does not suit predictor %s with %u KV heads of %u", t->rank,
			      t->predictor, g->rec.n_kv_heads, g->rec.head_dim);
	g->scored = g->select < g->max_groups && p->ops != &kvs_predict_window;
	g->basis = g->scored && p->ops->needs_basis;
	g->block_bytes = g->scored ? round_up(p->ops->block_bytes(p), 64) : 0;
	g->selected_groups = g->scored && where == KVS_DISK ? g->select : 0;
	g->estimate_groups = g->scored && t->no_correct ? g->select : 0;
	g->basis_bytes = g->basis ? round_up(p->ops->basis_bytes(p), 64) : 0;
	return 0;
}

static void fill_plan(const struct geometry *g, const struct kvs_settings *t,
		      const struct kvs_predictor *p, uint64_t smallest, struct kvs_plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->size = sizeof(*plan);
	plan->group = g->rec.group;
	plan->select = t->select;
	plan->rank = g->scored ? p->rank : 0;
	plan->reuse = g->reuse;
	plan->predictor = p->ops->name;
	plan->record_bytes = g->record_sectors * KVS_SECTOR;
	plan->chunk_tokens = g->chunk_tokens;
	plan->prefill_tokens = g->prefill_tokens;
	plan->metadata_bytes = g->mem[MEM_METADATA];
	plan->slot_bytes = g->mem[MEM_SLOTS];
	plan->rolling_bytes = g->mem[MEM_ROLLING];
	plan->staging_bytes = g->mem[MEM_STAGING];
	for (int k = 0; k < MEM_KINDS; k++)
		plan->resident_bytes += g->mem[k];
	plan->smallest_bytes = smallest;
	plan->store_bytes = g->store_bytes;
}

int kvs_geometry(const struct kvs_config *cfg, const struct kvs_store *store,
		 struct kvs_settings *set, struct kvs_predictor *predictor, struct geometry *geo,
		 struct kvs_plan *plan, char *message)
{
	struct kvs_config resolved = *cfg;
	uint64_t smallest;
	int err;

	memset(geo, 0, sizeof(*geo));
	err = check_shape(&cfg->shape, message);
	if (!err)
		err = check_settings(&cfg->settings, message);
	if (err)
		return err;
	resolve(cfg, store, set);
	resolved.settings = *set;
	layers(&cfg->shape, geo);
	sizes(cfg, store, set, geo);
	if ((uint64_t)geo->n_chunks * geo->n_disk * geo->groups_per_chunk >= UINT32_MAX)
		return refuse(message, -EINVAL,
			      "%u sequences of %u tokens in groups of %u: too many records",
			      geo->n_seqs, geo->n_ctx, geo->rec.group);
	err = set_predictor(cfg->where, set, geo, predictor, message);
	if (err)
		return err;
	err = divide(geo, &resolved, predictor, &smallest);
	fill_plan(geo, set, predictor, smallest, plan);
	if (err)
		return refuse(
			message, err,
			"budget of %llu bytes is too small: the smallest that would do is %llu",
			(unsigned long long)cfg->budget, (unsigned long long)smallest);
	return 0;
}
