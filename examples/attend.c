// SPDX-License-Identifier: MIT
/*
 * A KV cache on disk without any model: random keys, values and queries take the place of one. Each
 * token is appended, what the next layer will want is asked for ahead, and full attention over what
 * came back from the store is held against full attention in plain C.
 *
 *     example [STORE]     (a device, a file or a directory; default: the user's cache directory)
 */
#include <kvswap.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 2, HEADS = 8, KV_HEADS = 2, DIM = 64, TOKENS = 1024 };
#define LIMIT 2e-4 /* float16 keys and values stay below it; one token left out would not */

static float k[LAYERS][TOKENS][KV_HEADS * DIM], v[LAYERS][TOKENS][KV_HEADS * DIM];
static float q[LAYERS][HEADS * DIM], out[HEADS * DIM];

static void randomize(float *x, int n)
{
	for (int i = 0; i < n; i++)
		x[i] = 2.0f * (float)rand() / (float)RAND_MAX - 1.0f;
}

/* The greater of most and the differences from softmax(q k / sqrt(DIM)) v over tokens 0 to last. */
static double difference(int l, int last, double most)
{
	for (int h = 0; h < HEADS; h++) {
		int kv = h / (HEADS / KV_HEADS) * DIM;
		double sum = 0, want[DIM] = { 0 };

		for (int t = 0; t <= last; t++) {
			double weight = 0;

			for (int d = 0; d < DIM; d++)
				weight += (double)q[l][h * DIM + d] * k[l][t][kv + d];
			weight = exp(weight / sqrt(DIM));
			sum += weight;
			for (int d = 0; d < DIM; d++)
				want[d] += weight * v[l][t][kv + d];
		}
		for (int d = 0; d < DIM; d++) {
			double off = fabs(want[d] / sum - out[h * DIM + d]);

			most = isnan(off) || off > most ? off : most;
		}
	}
	return most;
}

/* One token through all layers. Returns 0 or -errno. */
static int step(struct kvs *s, uint32_t seq, int t, double *most)
{
	int err = 0;

	randomize(q[0], LAYERS * HEADS * DIM);
	for (int l = 0; l < LAYERS && !err; l++) {
		randomize(k[l][t], KV_HEADS * DIM);
		randomize(v[l][t], KV_HEADS * DIM);
		err = kvs_append(s, l, 1, &seq, k[l][t], v[l][t]);
		if (!err && l + 1 < LAYERS)
			err = kvs_prefetch(s, l + 1, 1, &seq, q[l + 1]);
		if (!err)
			err = kvs_attend(s, l, 1, &seq, q[l], out);
		if (!err && t % 64 == 63)
			*most = difference(l, t, *most);
	}
	return err;
}

int main(int argc, char **argv)
{
	const char *store = argc > 1 ? argv[1] : NULL;
	struct kvs_config cfg = { .size = sizeof(cfg), .budget = 1 << 20, .store = store };
	struct kvs_shape shape = { sizeof(shape), LAYERS, HEADS, KV_HEADS, DIM, .n_ctx = TOKENS };
	struct kvs_settings set = { .size = sizeof(set), .select = KVS_ALL, .reuse = 16 };
	struct kvs_stats stats = { .size = sizeof(stats) };
	char message[KVS_MESSAGE_BYTES];
	double most = 0;
	uint32_t seq;
	struct kvs *s;
	int err;

	cfg.shape = shape;
	cfg.settings = set;
	if (kvs_open(&cfg, &s, message))
		return fprintf(stderr, "example: %s\n", message), 1;
	err = kvs_seq_new(s, &seq);
	for (int t = 0; t < TOKENS && !err; t++)
		err = step(s, seq, t, &most);
	kvs_stats_get(s, &stats);
	if (err)
		fprintf(stderr, "example: %s\n", kvs_message(s));
	printf("%d tokens, %llu records read, greatest difference from plain C %.1e\n", TOKENS,
	       (unsigned long long)stats.records_read, most);
	kvs_close(s);
	return err || most > LIMIT || !stats.records_read;
}
