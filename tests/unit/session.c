/* SPDX-License-Identifier: MIT */
/* The session: exact against a reference, and the same bits whatever the store, the slots and the timing. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/io.h"
#include "kvswap.h"

#define LAYERS 3
#define HEADS 4
#define KV_HEADS 2
#define DIM 32
#define ROW (HEADS * DIM)
#define KV_ROW (KV_HEADS * DIM)
#define CTX 1600

static float *keys, *values, *queries; /* [LAYERS][CTX][...] */

static float uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (float)(*state >> 40) / (float)(1u << 23) - 1.0f;
}

static void make_data(void)
{
	uint64_t state = 7;

	keys = malloc(sizeof(float) * LAYERS * CTX * KV_ROW);
	values = malloc(sizeof(float) * LAYERS * CTX * KV_ROW);
	queries = malloc(sizeof(float) * LAYERS * CTX * ROW);
	for (size_t i = 0; i < (size_t)LAYERS * CTX * KV_ROW; i++) {
		keys[i] = (float)(_Float16)(2 * uniform(&state));
		values[i] = (float)(_Float16)uniform(&state);
	}
	for (size_t i = 0; i < (size_t)LAYERS * CTX * ROW; i++)
		queries[i] = 2 * uniform(&state);
}

static void free_data(void)
{
	free(keys);
	free(values);
	free(queries);
}

static const float *key(uint32_t l, uint32_t t)
{
	return keys + ((size_t)l * CTX + t) * KV_ROW;
}

static const float *value(uint32_t l, uint32_t t)
{
	return values + ((size_t)l * CTX + t) * KV_ROW;
}

static const float *query(uint32_t l, uint32_t t)
{
	return queries + ((size_t)l * CTX + t) * ROW;
}

static struct kvs_config config(enum kvs_where where)
{
	return (struct kvs_config){
		.size = sizeof(struct kvs_config),
		.where = where,
		.store = "/var/tmp",
		.shape = { .n_layers = LAYERS,
			   .n_heads = HEADS,
			   .n_kv_heads = KV_HEADS,
			   .head_dim = DIM,
			   .n_ctx = CTX },
		.settings = { .group = 4, .select = 64 },
	};
}

static struct kvs *open_session(const struct kvs_config *cfg)
{
	char message[KVS_MESSAGE_BYTES] = "";
	struct kvs *s;

	ck_assert_msg(!kvs_open(cfg, &s, message), "%s", message);
	return s;
}

static void ok(struct kvs *s, int err)
{
	ck_assert_msg(!err, "%d: %s", err, kvs_message(s));
}

/* One decode step of token t; out [LAYERS][ROW]. */
static int step(struct kvs *s, uint32_t seq, uint32_t t, float *out)
{
	int err = 0;

	for (uint32_t l = 0; !err && l < LAYERS; l++) {
		err = kvs_append(s, l, 1, &seq, key(l, t), value(l, t));
		if (!err && t % 3)
			err = kvs_select(s, l, 1, &seq, query(l, t));
		if (!err && l + 1 < LAYERS)
			err = kvs_prefetch(s, l + 1, 1, &seq, query(l + 1, t));
		memset(out + (size_t)l * ROW, 0xcc, ROW * sizeof(float));
		if (!err)
			err = kvs_attend(s, l, 1, &seq, query(l, t), out + (size_t)l * ROW);
	}
	return err;
}

/* Tokens [from, to) by prefill; out [LAYERS][to - from][ROW] or NULL. */
static int prefill_total(struct kvs *s, uint32_t seq, uint32_t from, uint32_t to, uint32_t total,
			 float *out)
{
	float *spare = malloc(sizeof(float) * (to - from) * ROW);
	int err = kvs_prefill_begin(s, seq, to - from, total);

	for (uint32_t l = 0; !err && l < LAYERS; l++) {
		for (uint32_t t = from, n; !err && t < to; t += n) {
			n = to - t < 37 ? to - t : 37;
			err = kvs_prefill_put(s, l, n, key(l, t), value(l, t));
		}
		if (!err)
			err = kvs_prefill_attend(s, l, query(l, from),
						 out ? out + (size_t)l * (to - from) * ROW : spare);
	}
	free(spare);
	return err ? err : kvs_prefill_end(s);
}

static int prefill(struct kvs *s, uint32_t seq, uint32_t from, uint32_t to, float *out)
{
	return prefill_total(s, seq, from, to, to, out);
}

/* Attention of token t over all tokens that it sees, in double. */
static void reference(uint32_t l, uint32_t t, uint32_t window, double *out)
{
	uint32_t from = window && t + 1 > window ? t + 1 - window : 0;

	for (uint32_t h = 0; h < HEADS; h++) {
		uint32_t kv = h / (HEADS / KV_HEADS);
		double sum = 0, p[CTX], most = -INFINITY;

		for (uint32_t i = from; i <= t; i++) {
			p[i] = 0;
			for (uint32_t d = 0; d < DIM; d++)
				p[i] += (double)query(l, t)[h * DIM + d] *
					(double)key(l, i)[kv * DIM + d];
			p[i] /= sqrt(DIM);
			most = fmax(most, p[i]);
		}
		for (uint32_t i = from; i <= t; i++)
			sum += p[i] = exp(p[i] - most);
		for (uint32_t d = 0; d < DIM; d++) {
			out[h * DIM + d] = 0;
			for (uint32_t i = from; i <= t; i++)
				out[h * DIM + d] += p[i] / sum * (double)value(l, i)[kv * DIM + d];
		}
	}
}

static void check_exact(const float *out, uint32_t l, uint32_t t, uint32_t window)
{
	double want[ROW];

	reference(l, t, window, want);
	for (uint32_t i = 0; i < ROW; i++)
		ck_assert_msg(fabs((double)out[i] - want[i]) < 2e-3,
			      "layer %u token %u element %u: %g, wanted %g", l, t, i,
			      (double)out[i], want[i]);
}

/* Decode of n tokens after a prefill of p; all outputs one after the other. */
static float *run_session(const struct kvs_config *cfg, uint32_t p, uint32_t n,
			  struct kvs_stats *stats)
{
	struct kvs *s = open_session(cfg);
	float *out = malloc(sizeof(float) * n * LAYERS * ROW);
	struct kvs_plan plan;
	uint32_t seq;

	ok(s, kvs_seq_new(s, &seq));
	kvs_plan_get(s, &plan);
	for (uint32_t from = 0, to; from < p; from = to) {
		to = p - from < plan.prefill_tokens ? p : from + plan.prefill_tokens;
		ok(s, prefill_total(s, seq, from, to, p, NULL));
	}
	for (uint32_t t = 0; t < n; t++)
		ok(s, step(s, seq, p + t, out + (size_t)t * LAYERS * ROW));
	ck_assert_uint_eq(kvs_seq_tokens(s, seq), p + n);
	if (stats)
		kvs_stats_get(s, stats);
	kvs_close(s);
	return out;
}

static void same_bits(const float *a, const float *b, uint32_t n)
{
	for (size_t i = 0; i < (size_t)n * LAYERS * ROW; i++)
		ck_assert_msg(!memcmp(&a[i], &b[i], sizeof(float)),
			      "token %zu layer %zu element %zu: %g and %g", i / LAYERS / ROW,
			      i / ROW % LAYERS, i % ROW, (double)a[i], (double)b[i]);
}

START_TEST(full_attention_is_exact)
{
	enum kvs_where where[] = { KVS_DISK, KVS_MEMORY, KVS_DENSE };

	for (int i = 0; i < 3; i++) {
		struct kvs_config cfg = config(where[i]);
		float *out;

		cfg.settings.select = KVS_ALL;
		cfg.settings.group = i == 2 ? 0 : 8;
		cfg.settings.reuse = 7;
		out = run_session(&cfg, 0, 300, NULL);
		for (uint32_t t = 0; t < 300; t += 13)
			for (uint32_t l = 0; l < LAYERS; l++)
				check_exact(out + ((size_t)t * LAYERS + l) * ROW, l, t, 0);
		free(out);
	}
}
END_TEST

START_TEST(disk_equals_memory)
{
	static const struct {
		const char *predictor;
		uint32_t group, select, reuse, prefill, n, no_correct;
	} * c, cases[] = {
		{ "groupmean", 4, 64, 0, 700, 60, 0 },	  { "groupmean", 8, 128, 5, 700, 40, 0 },
		{ "groupmean", 4, 64, 1, 0, 200, 0 },	  { "lowrank", 4, 64, 40, 500, 40, 0 },
		{ "exact", 16, 64, 0, 500, 40, 0 },	  { "window", 4, 64, 0, 500, 40, 0 },
		{ "groupmean", 4, 64, 30, 37, 300, 0 },	  { "groupmean", 1, 50, 0, 400, 20, 0 },
		{ "groupmean", 256, 512, 3, 1500, 9, 0 }, { "groupmean", 4, 64, 20, 300, 60, 1 },
	};
	struct kvs_config cfg = config(KVS_MEMORY);
	struct kvs_stats stats;
	float turn[DIM / 2], *memory;
	struct kvs_rope rope = { DIM, 1, turn };

	c = &cases[_i];
	cfg.settings.predictor = c->predictor;
	cfg.settings.group = c->group;
	cfg.settings.select = c->select;
	cfg.settings.no_correct = c->no_correct;
	for (uint32_t i = 0; i < DIM / 2; i++)
		turn[i] = powf(10000, -2.0f * (float)i / DIM);
	cfg.shape.rope = _i % 2 ? &rope : NULL;
	memory = run_session(&cfg, c->prefill, c->n, NULL);
	cfg.where = KVS_DISK;
	for (int b = 0; b < 4; b++) {
		float *disk;

		cfg.settings.reuse = b == 3 ? 50 : c->reuse;
		cfg.backend = b % 2 ? "threads" : "io_uring";
		cfg.test_delay_us = b == 2 ? 300 : 0;
		disk = run_session(&cfg, c->prefill, c->n, &stats);
		same_bits(disk, memory, c->n);
		ck_assert_uint_gt(stats.records_read, 0);
		free(disk);
	}
	free(memory);
}
END_TEST

START_TEST(prefill_equals_reference_however_cut)
{
	float *whole = malloc(sizeof(float) * LAYERS * 1500 * ROW),
	      *part = malloc(sizeof(float) * LAYERS * 1500 * ROW);
	struct kvs_config cfg = config(_i % 2 ? KVS_MEMORY : KVS_DISK);
	static const uint32_t cuts[] = { 0, 512, 1024, 1500 }, odd[] = { 0, 5, 301, 1500 };
	struct kvs *s;
	uint32_t seq;

	cfg.settings.group = _i / 2 ? 16 : 4;
	s = open_session(&cfg);
	ok(s, kvs_seq_new(s, &seq));
	ok(s, prefill(s, seq, 0, 1500, whole));
	for (uint32_t l = 0; l < LAYERS; l++)
		for (uint32_t t = 0; t < 1500; t += 111)
			check_exact(whole + ((size_t)l * 1500 + t) * ROW, l, t, 0);
	for (int k = 0; k < 2; k++) {
		const uint32_t *cut = k ? odd : cuts;

		ok(s, kvs_seq_truncate(s, seq, 0));
		for (int i = 0; i < 3; i++) {
			uint32_t n = cut[i + 1] - cut[i];

			ok(s, prefill(s, seq, cut[i], cut[i + 1], part));
			for (uint32_t l = 0; l < LAYERS; l++)
				ck_assert_msg(!memcmp(part + (size_t)l * n * ROW,
						      whole + ((size_t)l * 1500 + cut[i]) * ROW,
						      sizeof(float) * n * ROW),
					      "cut %u, layer %u", cut[i], l);
		}
	}
	kvs_close(s);
	free(whole);
	free(part);
}
END_TEST

START_TEST(window_layers_stay_in_memory)
{
	static const uint32_t window[LAYERS] = { 50, 0, 128 };
	struct kvs_config cfg = config(_i ? KVS_MEMORY : KVS_DISK);
	float *out = malloc(sizeof(float) * LAYERS * 700 * ROW);
	struct kvs *s;
	uint32_t seq;

	cfg.shape.window = window;
	cfg.settings.select = KVS_ALL;
	s = open_session(&cfg);
	ok(s, kvs_seq_new(s, &seq));
	ok(s, prefill(s, seq, 0, 333, out));
	for (uint32_t l = 0; l < LAYERS; l++)
		for (uint32_t t = 0; t < 333; t += 41)
			check_exact(out + ((size_t)l * 333 + t) * ROW, l, t, window[l]);
	ok(s, prefill(s, seq, 333, 600, out));
	for (uint32_t l = 0; l < LAYERS; l++)
		for (uint32_t t = 333; t < 600; t += 41)
			check_exact(out + ((size_t)l * 267 + t - 333) * ROW, l, t, window[l]);
	for (uint32_t t = 600; t < 700; t++) {
		ok(s, step(s, seq, t, out));
		for (uint32_t l = 0; t % 9 == 0 && l < LAYERS; l++)
			check_exact(out + (size_t)l * ROW, l, t, window[l]);
	}
	ck_assert_int_eq(kvs_seq_truncate(s, seq, 100), -ENOTSUP);
	ck_assert_str_ne(kvs_message(s), "");
	ok(s, kvs_seq_truncate(s, seq, 700));
	kvs_close(s);
	free(out);
}
END_TEST

/* A fork and what it came from go on differently, each as if it were alone. */
START_TEST(forks_are_independent)
{
	struct kvs_config cfg = config(_i ? KVS_MEMORY : KVS_DISK);
	float *a = malloc(sizeof(float) * LAYERS * ROW), *b = malloc(sizeof(float) * LAYERS * ROW);
	uint32_t at = 601, seq, fork, lone;
	struct kvs *s;

	cfg.shape.n_seqs = 3;
	cfg.settings.reuse = 60;
	s = open_session(&cfg);
	ok(s, kvs_seq_new(s, &seq));
	ok(s, prefill(s, seq, 0, 640, NULL));
	ok(s, kvs_seq_fork(s, seq, at, &fork));
	ck_assert_uint_eq(kvs_seq_tokens(s, fork), at);
	ok(s, kvs_seq_new(s, &lone));
	ok(s, prefill(s, lone, 0, 640, NULL));
	for (uint32_t t = 640; t < 700; t++) { /* the fork takes other tokens at its places */
		for (uint32_t l = 0; l < LAYERS; l++) {
			ok(s, kvs_append(s, l, 1, &fork, key(l, t + 700), value(l, t + 700)));
			ok(s, kvs_attend(s, l, 1, &fork, query(l, t), b));
			ok(s, kvs_select(s, l, 1, &fork, query(l, t))); /* never attended to */
		}
		ok(s, step(s, seq, t, a));
		ok(s, step(s, lone, t, b));
		ck_assert(!memcmp(a, b, sizeof(float) * LAYERS * ROW));
	}
	ok(s, kvs_seq_free(s, seq));
	ok(s, kvs_seq_truncate(s, fork, at));
	ok(s, kvs_seq_truncate(s, lone, at));
	for (uint32_t t = at; t < at + 50; t++) {
		ok(s, step(s, fork, t, a));
		ok(s, step(s, lone, t, b));
		ck_assert_msg(!memcmp(a, b, sizeof(float) * LAYERS * ROW), "token %u", t);
	}
	kvs_close(s);
	free(a);
	free(b);
}
END_TEST

START_TEST(batch_equals_one_by_one)
{
	struct kvs_config cfg = config(KVS_DISK);
	float k[3 * KV_ROW], v[3 * KV_ROW], q[3 * ROW], out[3 * ROW], one[LAYERS * ROW];
	uint32_t seqs[3], lone;
	struct kvs *s;

	cfg.shape.n_seqs = 4;
	cfg.settings.reuse = 70;
	s = open_session(&cfg);
	for (int i = 0; i < 3; i++) {
		ok(s, kvs_seq_new(s, &seqs[i]));
		ok(s, prefill(s, seqs[i], 0, 500 + 10 * (uint32_t)i, NULL));
	}
	ok(s, kvs_seq_new(s, &lone));
	ok(s, prefill(s, lone, 0, 510, NULL));
	for (uint32_t t = 0; t < 20; t++) {
		ok(s, step(s, lone, 510 + t, one));
		for (uint32_t l = 0; l < LAYERS; l++) {
			for (uint32_t i = 0; i < 3; i++) {
				memcpy(k + i * KV_ROW, key(l, 500 + 10 * i + t),
				       sizeof(float) * KV_ROW);
				memcpy(v + i * KV_ROW, value(l, 500 + 10 * i + t),
				       sizeof(float) * KV_ROW);
				memcpy(q + i * ROW, query(l, 500 + 10 * i + t),
				       sizeof(float) * ROW);
			}
			ok(s, kvs_append(s, l, 3, seqs, k, v));
			ok(s, kvs_prefetch(s, l, 3, seqs, q));
			ok(s, kvs_select(s, l, 3, seqs, q));
			ok(s, kvs_attend(s, l, 3, seqs, q, out));
			ck_assert(!memcmp(out + ROW, one + (size_t)l * ROW, sizeof(float) * ROW));
		}
	}
	kvs_close(s);
}
END_TEST

struct part {
	void (*fn)(void *arg, int i, int n);
	void *arg;
	int i, n;
};

static void *run_part(void *arg)
{
	struct part *p = arg;

	p->fn(p->arg, p->i, p->n);
	return NULL;
}

static void parallel(void *pool, void (*fn)(void *arg, int i, int n), void *arg, int n)
{
	pthread_t threads[16];
	struct part parts[16];

	(void)pool;
	for (int i = 0; i < n; i++) {
		parts[i] = (struct part){ fn, arg, i, n };
		ck_assert(!pthread_create(&threads[i], NULL, run_part, &parts[i]));
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

START_TEST(threads_change_nothing)
{
	struct kvs_config cfg = config(KVS_DISK);
	float *one = run_session(&cfg, 1500, 30, NULL), *many;

	cfg.n_threads = 3;
	cfg.parallel = parallel;
	many = run_session(&cfg, 1500, 30, NULL);
	same_bits(one, many, 30);
	free(one);
	free(many);
}
END_TEST

START_TEST(budget_is_a_limit)
{
	struct kvs_config cfg = config(KVS_DISK);
	uint64_t full;
	struct kvs_plan plan;
	char message[KVS_MESSAGE_BYTES];
	float *first = NULL;
	int refused = 0;

	full = kvs_full_bytes(&cfg.shape, CTX);
	for (uint32_t part = 1; part <= 40; part += 3) {
		float *out;
		int err;

		cfg.budget = full / part;
		err = kvs_plan(&cfg, &plan, message);
		if (err) {
			ck_assert_int_eq(err, -ENOSPC);
			ck_assert_uint_gt(plan.smallest_bytes, cfg.budget);
			refused++;
			continue;
		}
		ck_assert_uint_le(plan.resident_bytes, cfg.budget);
		out = run_session(&cfg, 1400, 20, NULL);
		if (first)
			same_bits(out, first, 20);
		else
			first = out;
		if (out != first)
			free(out);
	}
	ck_assert_int_gt(refused, 0);
	cfg.budget = plan.smallest_bytes;
	free(first);
	first = run_session(&cfg, 1400, 20, NULL);
	free(first);
	cfg.budget--;
	ck_assert_int_eq(kvs_plan(&cfg, &plan, message), -ENOSPC);
	ck_assert(strstr(message, "smallest") != NULL);
}
END_TEST

/* What goes wrong in the store ends the session with a message that names the layer. */
START_TEST(faults_are_noticed)
{
	static const struct kvs_io_fault faults[] = {
		{ KVS_FAULT_FLIP, KVS_IO_READ, 0, 3, 1 },
		{ KVS_FAULT_ASTRAY, KVS_IO_READ, 0, 5, 1 },
		{ KVS_FAULT_ERROR, KVS_IO_READ, -EIO, 4, 1 },
		{ KVS_FAULT_ERROR, KVS_IO_WRITE, -EIO, 2, 1 },
		{ KVS_FAULT_ERROR, KVS_IO_WRITE, -ENOSPC, 9, 1 },
		{ KVS_FAULT_STALL, KVS_IO_READ, 0, 6, 1 },
		{ KVS_FAULT_STALL, KVS_IO_WRITE, 0, 6, 1 },
	};
	static const int want[] = {
		-EBADMSG, -EBADMSG, -EIO, -EIO, -ENOSPC, -ETIMEDOUT, -ETIMEDOUT
	};
	struct kvs_config cfg = config(KVS_DISK);
	float out[LAYERS * ROW];
	uint32_t seq, t;
	struct kvs *s;
	int err = 0;

	cfg.test_fault = &faults[_i];
	cfg.settings.reuse = 20;
	cfg.io_timeout_ms = 500;
	s = open_session(&cfg);
	ok(s, kvs_seq_new(s, &seq));
	for (t = 0; !err && t < 300; t++)
		err = step(s, seq, t, out);
	ck_assert_int_eq(err, want[_i]);
	ck_assert_msg(want[_i] == -ETIMEDOUT || strstr(kvs_message(s), ", tokens "), "%s",
		      kvs_message(s));
	ck_assert_int_eq(step(s, seq, t, out), want[_i]);
	ck_assert_int_eq(kvs_seq_new(s, &seq), want[_i]);
	kvs_close(s);
}
END_TEST

START_TEST(bad_calls_are_refused)
{
	struct kvs_config cfg = config(KVS_DISK);
	char message[KVS_MESSAGE_BYTES];
	float out[LAYERS * ROW], bad[KV_ROW];
	uint32_t seq = 0, other;
	struct kvs *s;

	ck_assert_int_eq(kvs_append(s = open_session(&cfg), 0, 1, &seq, key(0, 0), value(0, 0)),
			 -EINVAL);
	ok(s, kvs_seq_new(s, &seq));
	ck_assert_int_eq(kvs_seq_new(s, &other), -ENOSPC);
	ck_assert_int_eq(kvs_attend(s, 0, 1, &seq, query(0, 0), out), -EPROTO);
	ck_assert_int_eq(kvs_append(s, LAYERS, 1, &seq, key(0, 0), value(0, 0)), -EINVAL);
	ck_assert_int_eq(kvs_prefill_begin(s, seq, CTX + 1, CTX + 1), -E2BIG);
	ck_assert_int_eq(kvs_prefill_end(s), -EPROTO);
	ck_assert_int_eq(kvs_prefill_put(s, 0, 1, key(0, 0), value(0, 0)), -EPROTO);
	ck_assert_int_eq(kvs_seq_truncate(s, seq, 1), -EINVAL);
	ck_assert_int_eq(kvs_seq_fork(s, seq, 1, &other), -EINVAL);
	ok(s, prefill(s, seq, 0, CTX, NULL));
	ck_assert_int_eq(kvs_append(s, 0, 1, &seq, key(0, 0), value(0, 0)), -E2BIG);
	ok(s, kvs_seq_truncate(s, seq, 400));
	memcpy(bad, key(0, 0), sizeof(bad));
	bad[5] = NAN;
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(kvs_append(s, 0, 1, &seq, i == 2 ? bad : key(0, 0), value(0, 0)),
				 i == 3 ? -EDOM : 0);
	ck_assert_msg(strstr(kvs_message(s), "token 402") != NULL, "%s", kvs_message(s));
	kvs_close(s);
	cfg.shape.head_dim = 3;
	ck_assert_int_eq(kvs_open(&cfg, &s, message), -EINVAL);
	ck_assert_ptr_null(s);
	ck_assert(strstr(message, "head_dim 3") != NULL);
	cfg = config(KVS_DISK);
	cfg.settings.predictor = "nonsense";
	ck_assert_int_eq(kvs_open(&cfg, &s, message), -EINVAL);
	cfg = config(KVS_DISK);
	cfg.size--;
	ck_assert_int_eq(kvs_open(&cfg, &s, message), -EINVAL);
}
END_TEST

Suite *suite_session(void);

Suite *suite_session(void)
{
	Suite *suite = suite_create("session");
	TCase *t = tcase_create("session");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, make_data, free_data);
	tcase_add_test(t, full_attention_is_exact);
	tcase_add_loop_test(t, disk_equals_memory, 0, 10);
	tcase_add_loop_test(t, prefill_equals_reference_however_cut, 0, 4);
	tcase_add_loop_test(t, window_layers_stay_in_memory, 0, 2);
	tcase_add_loop_test(t, forks_are_independent, 0, 2);
	tcase_add_test(t, batch_equals_one_by_one);
	tcase_add_test(t, threads_change_nothing);
	tcase_add_test(t, budget_is_a_limit);
	tcase_add_loop_test(t, faults_are_noticed, 0, 7);
	tcase_add_test(t, bad_calls_are_refused);
	suite_add_tcase(suite, t);
	return suite;
}
