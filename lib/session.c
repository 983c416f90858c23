/* SPDX-License-Identifier: MIT */
/*
 * A session from open to close: its store, its backend, its memory, what it says of itself.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "session.h"

uint64_t kvs_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int kvs_say(struct kvs *s, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(s->message, sizeof(s->message), format, args);
	va_end(args);
	return err;
}

/* An error after which nothing may be attended to any more. The first one is kept. */
int kvs_fail(struct kvs *s, int err, const char *format, ...)
{
	va_list args;

	if (s->failed)
		return s->failed;
	va_start(args, format);
	vsnprintf(s->message, sizeof(s->message), format, args);
	va_end(args);
	s->failed = err;
	return err;
}

void kvs_run(struct kvs *s, void (*fn)(void *arg, int i, int n), void *arg, int n)
{
	if (s->cfg.parallel && s->cfg.n_threads > 1 && n > 1) {
		s->cfg.parallel(s->cfg.pool, fn, arg, n);
		return;
	}
	for (int i = 0; i < n; i++)
		fn(arg, i, n);
}

static void *take(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Small parts share one mapping; each starts on a cache line. */
static int take_parts(struct kvs *s)
{
	struct part parts[KVS_PARTS];
	uint32_t n = kvs_parts(&s->geo, &s->cfg, &s->predictor, parts);

	for (uint32_t i = 0; i < n; i++) {
		void *p = parts[i].bytes >= 1u << 20
				  ? take(parts[i].bytes)
				  : aligned_alloc(64, (parts[i].bytes + 63) / 64 * 64);

		if (!p)
			return -ENOMEM;
		if (parts[i].bytes < 1u << 20)
			memset(p, 0, parts[i].bytes);
		memcpy((char *)s + parts[i].offset, &p, sizeof(p));
	}
	memcpy(s->mem_used, s->geo.mem, sizeof(s->mem_used));
	return 0;
}

static void give_parts(struct kvs *s)
{
	struct part parts[KVS_PARTS];
	uint32_t n = kvs_parts(&s->geo, &s->cfg, &s->predictor, parts);

	for (uint32_t i = 0; i < n; i++) {
		void *p;

		memcpy(&p, (char *)s + parts[i].offset, sizeof(p));
		if (p && parts[i].bytes >= 1u << 20)
			munmap(p, parts[i].bytes);
		else
			free(p);
	}
}

static void init_layers(struct kvs *s)
{
	uint64_t sector = 0;
	uint32_t dl = 0;

	for (uint32_t l = 0; l < s->geo.n_layers; l++) {
		uint32_t w = s->shape.window ? s->shape.window[l] : 0;

		w = w > s->geo.n_ctx ? s->geo.n_ctx : w;
		s->window[l] = w;
		s->disk[l] = w ? UINT32_MAX : dl;
		if (!w)
			s->layer_of[dl++] = l;
		s->ring[l] = w ? w / s->geo.rec.group + 2 : s->geo.ring;
		s->ring_sector[l] = sector;
		sector += (uint64_t)s->ring[l] * s->geo.record_sectors;
	}
	s->shape.window = s->window;
	if (s->rope_turn) {
		s->rope = *s->shape.rope;
		memcpy(s->rope_turn, s->rope.turn, s->rope.dims / 2 * sizeof(*s->rope_turn));
		s->rope.turn = s->rope_turn;
	}
	s->shape.rope = s->cfg.shape.rope = s->rope_turn ? &s->rope : NULL;
}

static int open_io(struct kvs *s)
{
	struct kvs_io_params params = {
		.fd = s->store.fd,
		.direct = s->store.direct,
		.arena_bytes = s->geo.arena_bytes,
		.store_bytes = s->geo.store_bytes,
		.block_bytes = s->store.block_bytes,
		.depth = s->set.depth,
		.timeout_ms = s->cfg.io_timeout_ms ? s->cfg.io_timeout_ms : 30000,
		.fault = s->cfg.test_fault,
	};
	const char *name = s->cfg.backend ? s->cfg.backend : "auto";
	int err = kvs_io_open(name, &params, s->cfg.test_delay_us, &s->io, s->backend_why);

	if (err)
		return kvs_say(s, err, "%s", s->backend_why);
	s->arena = s->io->arena;
	return 0;
}

static int open_memory(struct kvs *s)
{
	s->arena = take(s->geo.arena_bytes);
	return s->arena ? 0
			: kvs_say(s, -ENOMEM, "no memory for %llu bytes",
				  (unsigned long long)s->geo.arena_bytes);
}

static bool on_disk(const struct kvs_config *cfg)
{
	if (kvs_in_memory(cfg))
		return false;
	for (uint32_t l = 0; l < cfg->shape.n_layers; l++)
		if (!cfg->shape.window || !cfg->shape.window[l])
			return true;
	return false;
}

/* What the planner needs to know of the store. */
static int probe(const struct kvs_config *cfg, struct kvs_store *store, char *message)
{
	if (on_disk(cfg))
		return kvs_store_probe(cfg->store, store, message);
	memset(store, 0, sizeof(*store));
	store->fd = -1;
	store->block_bytes = KVS_SECTOR;
	return 0;
}

static int check_size(const struct kvs_config *cfg, char *message)
{
	if (cfg->size == sizeof(*cfg))
		return 0;
	if (message)
		snprintf(message, KVS_MESSAGE_BYTES,
			 "kvs_config of %u bytes, this library takes %zu: rebuild the program",
			 cfg->size, sizeof(*cfg));
	return -EINVAL;
}

int kvs_plan(const struct kvs_config *cfg, struct kvs_plan *plan, char *message)
{
	struct kvs_predictor predictor;
	struct kvs_settings set;
	struct kvs_store *store;
	struct geometry geo;
	int err = check_size(cfg, message);

	if (err)
		return err;
	store = calloc(1, sizeof(*store));
	if (!store)
		return -ENOMEM;
	err = probe(cfg, store, message);
	if (!err)
		err = kvs_geometry(cfg, store, &set, &predictor, &geo, plan, message);
	free(store);
	return err;
}

static int open_store(struct kvs *s)
{
	if (!on_disk(&s->cfg))
		return 0;
	return kvs_store_open(s->cfg.store, s->geo.store_bytes, s->cfg.force, &s->store,
			      s->message);
}

static int open_all(struct kvs *s, const struct kvs_config *cfg)
{
	int err = probe(cfg, &s->store, s->message);

	s->store.fd = -1;
	if (!err)
		err = kvs_geometry(cfg, &s->store, &s->set, &s->predictor, &s->geo, &s->plan,
				   s->message);
	if (err)
		return err;
	s->cfg.settings = s->set;
	s->kernels = s->predictor.kernels;
	if (!s->shape.scale)
		s->shape.scale = 1.0f / __builtin_sqrtf((float)s->shape.head_dim);
	if (getrandom(&s->store_id, sizeof(s->store_id), 0) != sizeof(s->store_id))
		return kvs_say(s, -EIO, "getrandom failed");
	err = open_store(s);
	if (!err)
		err = on_disk(cfg) ? open_io(s) : open_memory(s);
	if (err)
		return err;
	err = take_parts(s);
	if (err)
		return kvs_say(s, err, "no memory for %llu bytes",
			       (unsigned long long)s->plan.resident_bytes);
	s->mem_peak = s->plan.resident_bytes;
	init_layers(s);
	s->scratch.prefill_bytes = (kvs_prefill_scratch(&s->geo.rec, KVS_BLOCK) + 63) / 64 * 64;
	s->scratch.ld = kvs_predict_ld(&s->predictor, s->geo.max_groups);
	return kvs_chunks_init(s);
}

int kvs_open(const struct kvs_config *cfg, struct kvs **out, char *message)
{
	struct kvs *s;
	int err = check_size(cfg, message);

	*out = NULL;
	if (err)
		return err;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->cfg = *cfg;
	s->shape = cfg->shape;
	err = open_all(s, cfg);
	if (err) {
		if (message)
			memcpy(message, s->message, KVS_MESSAGE_BYTES);
		kvs_close(s);
		return err;
	}
	kvs_session_publish(s);
	*out = s;
	return 0;
}

void kvs_close(struct kvs *s)
{
	if (!s)
		return;
	kvs_publish_close(s->publisher);
	if (s->io)
		s->io->ops->close(s->io);
	else if (s->arena)
		munmap(s->arena, s->geo.arena_bytes);
	if (s->geo.n_layers && s->predictor.ops)
		give_parts(s);
	if (s->store.fd >= 0)
		kvs_store_close(&s->store);
	free(s);
}

const char *kvs_message(const struct kvs *s)
{
	return s->message;
}

void kvs_plan_get(const struct kvs *s, struct kvs_plan *plan)
{
	*plan = s->plan;
}

void kvs_info_get(const struct kvs *s, struct kvs_info *info)
{
	*info = (struct kvs_info){
		.size = sizeof(*info),
		.backend = s->io ? s->io->ops->name : "memory",
		.backend_why = s->backend_why,
		.store = s->io ? s->store.path : "",
		.direct_io = s->io && s->store.direct,
		.direct_why = s->io ? s->store.direct_why : "the KV cache is in memory",
		.kernels = s->kernels->name,
	};
}

void kvs_stats_get(const struct kvs *s, struct kvs_stats *stats)
{
	*stats = s->stats;
	stats->size = sizeof(*stats);
	stats->resident_bytes = s->plan.resident_bytes;
	stats->resident_peak_bytes = s->mem_peak;
}

void kvs_stats_reset(struct kvs *s)
{
	memset(&s->stats, 0, sizeof(s->stats));
}

uint64_t kvs_full_bytes(const struct kvs_shape *shape, uint32_t n_tokens)
{
	uint64_t sum = 0;

	for (uint32_t l = 0; l < shape->n_layers; l++) {
		uint32_t w = shape->window ? shape->window[l] : 0;

		sum += w && w < n_tokens ? w : n_tokens;
	}
	return sum * shape->n_kv_heads * shape->head_dim * 4;
}
