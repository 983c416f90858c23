// SPDX-License-Identifier: MIT
/* `kvswapctl calc`: bytes of KV by context, type and batch, and what fits this machine's memory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "kvswap.h"
#include "kvswap/json.h"
#include "kvswap/report.h"
#include "kvswap/session.h"
#include "memory.h"
#include "modelshape.h"

struct values {
	struct shape_options shape;
	uint32_t context, batch;
	const char *kv_type;
	struct cli_budget budget;
	bool json;
};

#define AT(field) offsetof(struct values, field)

static const struct cli_option options[] = {
	{ "model", 'm', CLI_TEXT, AT(shape.model), 0, 0, "FILE",
	  "a GGUF model; or the shape by hand:" },
	{ "layers", 0, CLI_UINT, AT(shape.layers), 1, 4096, "N", "layers" },
	{ "kv-heads", 0, CLI_UINT, AT(shape.kv_heads), 1, 1024, "N", "KV heads" },
	{ "heads", 0, CLI_UINT, AT(shape.heads), 1, 4096, "N", "query heads (as many)" },
	{ "head-dim", 0, CLI_UINT, AT(shape.head_dim), 16, 512, "N", "dimensions of a head" },
	{ "context", 'c', CLI_UINT, AT(context), 1, 16777216, "N",
	  "tokens of a sequence (the model's)" },
	{ "batch", 0, CLI_UINT, AT(batch), 1, KVS_MAX_SEQS, "N", "sequences at once (1)" },
	{ "kv-type", 0, CLI_TEXT, AT(kv_type), 0, 0, "TYPE", "f16 (default), bf16, f32, q8" },
	{ "budget", 0, CLI_BUDGET, AT(budget), 0, 0, "SIZE", "memory for KV with kvswap (1/13)" },
	{ "json", 0, CLI_FLAG, AT(json), 0, 0, NULL, "one JSON object instead of the table" },
};

/* Bits of an element; q8 has a scale of 16 bits for every 32. */
static const struct kv_type {
	const char *name;
	uint32_t eighths; /* of a byte */
} types[] = { { "f16", 128 }, { "bf16", 128 }, { "f32", 256 }, { "q8", 68 } };

struct sums {
	uint64_t per_token, full, resident, smallest, available, total, weights, store;
	bool fits, fits_with; /* all in memory; with kvswap */
	uint32_t longest;     /* context that fits without kvswap, tokens */
};

static const struct kv_type *find_type(const char *name)
{
	for (size_t i = 0; i < CLI_N(types); i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	report_usage("--kv-type is '%s', must be f16, bf16, f32 or q8", name);
	return NULL;
}

static uint64_t scaled(uint64_t f16_bytes, const struct kv_type *type)
{
	return f16_bytes / 128 * type->eighths + f16_bytes % 128 * type->eighths / 128;
}

/* Windowed layers make growth uneven: the longest context by halving. */
static uint32_t longest_context(const struct model_shape *s, const struct kv_type *type,
				uint32_t batch, uint64_t room)
{
	uint32_t low = 0, high = 1u << 30;

	while (low < high) {
		uint32_t mid = low + (high - low + 1) / 2;

		if (scaled(kvs_full_bytes(&s->shape, mid), type) <= room / batch)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

static int work_out(struct model_shape *s, const struct values *v, const struct kv_type *type,
		    struct sums *sums)
{
	struct kvs_config cfg = { .size = sizeof(cfg),
				  .settings = { .size = sizeof(cfg.settings) } };
	struct kvs_plan plan = { .size = sizeof(plan) };
	uint64_t full = v->batch * kvs_full_bytes(&s->shape, s->shape.n_ctx), room;
	char message[KVS_MESSAGE_BYTES] = "";
	int err;

	memory_look(&sums->available, &sums->total);
	sums->per_token = scaled(
		(uint64_t)4 * s->shape.n_layers * s->shape.n_kv_heads * s->shape.head_dim, type);
	sums->full = scaled(full, type);
	sums->weights = s->weight_bytes;
	room = sums->available > sums->weights ? sums->available - sums->weights : 0;
	sums->fits = sums->full <= room;
	sums->longest = longest_context(s, type, v->batch, room);
	cfg.shape = s->shape;
	cfg.shape.n_seqs = v->batch;
	cfg.budget = v->budget.bytes ? v->budget.bytes : full / v->budget.whole * v->budget.part;
	cfg.budget = cfg.budget ? cfg.budget : 1;
	err = kvs_plan(&cfg, &plan, message);
	if (err && !plan.smallest_bytes)
		return report_fail("%s", message);
	sums->smallest = plan.smallest_bytes;
	sums->resident = err ? plan.smallest_bytes : plan.resident_bytes;
	sums->store = plan.store_bytes;
	sums->fits_with = sums->resident <= room;
	return DONE;
}

static int write_json(const struct model_shape *s, const struct values *v, const struct sums *sums)
{
	struct json j = { .f = stdout };

	json_open(&j, NULL, '{');
	json_uint(&j, "kv_bytes_per_token", sums->per_token);
	json_uint(&j, "kv_bytes", sums->full);
	json_uint(&j, "memory_available", sums->available);
	json_uint(&j, "memory_total", sums->total);
	json_bool(&j, "fits", sums->fits);
	json_uint(&j, "longest_context", sums->longest);
	json_uint(&j, "context", s->shape.n_ctx);
	json_uint(&j, "batch", v->batch);
	json_text(&j, "kv_type", v->kv_type);
	json_uint(&j, "weight_bytes", sums->weights);
	json_open(&j, "kvswap", '{');
	json_uint(&j, "kv_resident_bytes", sums->resident);
	json_uint(&j, "smallest_budget", sums->smallest);
	json_uint(&j, "store_bytes", sums->store);
	json_bool(&j, "fits", sums->fits_with);
	json_close(&j, '}');
	shape_json(&j, s);
	json_close(&j, '}');
	fputc('\n', stdout);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static int write_table(const struct model_shape *s, const struct values *v, const struct sums *sums)
{
	char a[32], b[32], c[32];

	printf("model      %s, %u layers, %u KV heads x %u\n", s->arch, s->shape.n_layers,
	       s->shape.n_kv_heads, s->shape.head_dim);
	printf("KV         %s a token in %s; %u x %u tokens: %s\n",
	       session_size(sums->per_token, a), v->kv_type, v->batch, s->shape.n_ctx,
	       session_size(sums->full, b));
	printf("memory     %s free of %s%s%s\n", session_size(sums->available, a),
	       session_size(sums->total, b), sums->weights ? ", weights " : "",
	       sums->weights ? session_size(sums->weights, c) : "");
	printf("all in it  %s; up to %u tokens a sequence do\n",
	       sums->fits ? "fits" : "does not fit", sums->longest);
	printf("kvswap     %s in memory (smallest %s), %s on the storage: %s\n",
	       session_size(sums->resident, a), session_size(sums->smallest, b),
	       session_size(sums->store, c), sums->fits_with ? "fits" : "does not fit");
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static int calc_main(int argc, char **argv)
{
	struct values v = { .batch = 1, .kv_type = "f16", .budget = { .part = 1, .whole = 13 } };
	struct model_shape shape;
	struct cli_list operands;
	struct sums sums = { 0 };
	enum cli_result parsed = cli_parse(&command_calc, &v, argc, argv, &operands);
	const struct kv_type *type;
	int rc;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_calc, &operands))
		return WRONG_USAGE;
	type = find_type(v.kv_type);
	if (!type)
		return WRONG_USAGE;
	rc = shape_open(&shape, &v.shape, v.context);
	if (rc)
		return rc;
	rc = work_out(&shape, &v, type, &sums);
	if (!rc)
		rc = v.json ? write_json(&shape, &v, &sums) : write_table(&shape, &v, &sums);
	shape_close(&shape);
	return rc;
}

const struct command command_calc = {
	.name = "calc",
	.summary = "bytes of KV, and what fits this machine's memory",
	.usage = "-m MODEL.gguf | --layers N --kv-heads N --head-dim N [options]",
	.about =
		"Works out the bytes of KV per token and in all, and whether they fit the memory that is free, without\n"
		"kvswap and with it.",
	.examples = "  kvswapctl calc -m model.gguf -c 32768 --batch 8\n"
		    "  kvswapctl calc --layers 32 --kv-heads 8 --head-dim 128 -c 32768",
	.options = options,
	.n_options = CLI_N(options),
	.main = calc_main,
};
