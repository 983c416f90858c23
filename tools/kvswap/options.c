// SPDX-License-Identifier: MIT
/* Owns the options: one table of names, kinds and bounds, and the help text. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum kind {
	FLAG,	   /* a bool becomes true */
	FLAG_UINT, /* a uint32_t becomes min */
	UINT,
	REAL,
	TEXT,
	CUSTOM, /* parse */
};

struct definition {
	const char *name;
	char letter;
	enum kind kind;
	size_t offset;
	double min, max;
	int (*parse)(struct options *o, const char *name, const char *arg);
};

static const char help[] =
	"usage: kvswap run -m MODEL.gguf [-f FILE | -p TEXT | -] [options]\n"
	"\n"
	"Reads a prompt and writes what the model makes of it, with the KV cache on disk.\n"
	"\n"
	"  kvswap run -m model.gguf -f book.txt -n 200\n"
	"  echo 'Why is the sky blue?' | kvswap run -m model.gguf --chat -\n"
	"  kvswap run -m model.gguf -f book.txt --budget 64M --store /mnt/nvme --json\n"
	"\n"
	"prompt and text\n"
	"  -m, --model FILE        a GGUF model: llama, qwen2, qwen3 or gemma3\n"
	"  -f, --file FILE         the prompt; once for each sequence of a batch; - is stdin\n"
	"  -p, --prompt TEXT       the prompt itself\n"
	"      --tokens FILE       the prompt as token ids apart by blanks\n"
	"  -n, --predict N         tokens to generate (256)\n"
	"  -c, --context N         context in tokens (prompt + -n)\n"
	"      --chat              put the prompt into the model's own chat template\n"
	"      --special           control tokens written in the prompt count as such\n"
	"      --stop TEXT         end where this text appears; may be repeated\n"
	"      --batch N           N sequences at once\n"
	"      --temp T            0, the default: always the most likely token\n"
	"      --top-k N, --top-p P, --min-p P, --repeat-penalty X, --seed N\n"
	"                          with --temp above 0 (40, 0.95, 0.05, 1, 1)\n"
	"  -t, --threads N         threads (all processors)\n"
	"\n"
	"KV cache\n"
	"      --kv WHERE          disk (default), memory (groups in memory), dense (all of it)\n"
	"      --store PATH        device, file or directory (the user's cache directory)\n"
	"      --backend NAME      auto (default), module, io_uring, threads\n"
	"      --budget SIZE       most memory for KV: bytes with K, M, G, or a fraction (1/13)\n"
	"      --profile NAME      nvme or emmc: defaults for the kind of storage\n"
	"      --kv-type TYPE      f16\n"
	"      --force             a device that is in use; a context beyond the model's\n"
	"      --io-timeout S      a read or write that takes longer is an error (30)\n"
	"\n"
	"selection\n"
	"      --select N|all      tokens attended to, beside the newest and the first\n"
	"      --group G           tokens of a group, a power of two\n"
	"      --reuse N           slots of the reuse buffer in each layer\n"
	"      --predictor NAME    groupmean, lowrank, exact or window\n"
	"      --rank R            of the low-rank K\n"
	"      --recent N          newest tokens always attended to (32)\n"
	"      --sinks N           first tokens always attended to (4)\n"
	"      --reduce sum|mean   over heads\n"
	"      --ahead PERCENT     groups read ahead, of the selection (100)\n"
	"      --no-correct        the estimated query alone selects\n"
	"\n"
	"output\n"
	"      --json              one JSON object instead of the text\n"
	"      --logits FILE       rows of float32 that the tokens were picked from\n"
	"      --logits-all        rows of the prompt's positions too\n"
	"      --progress          show progress even when stderr is no terminal\n"
	"  -h, --help\n"
	"\n"
	"for tests\n"
	"      --stepwise          the prompt token by token, as if it were generated\n"
	"      --no-bf16           prefill multiplies by the weights as they are in the file\n"
	"      --test-delay US     every read and write takes a random time longer\n";

static int add_prompt(struct options *o, enum source kind, const char *arg)
{
	if (o->n_prompts == MAX_PROMPTS)
		return report_usage("more than %d prompts", MAX_PROMPTS);
	o->prompts[o->n_prompts++] = (struct prompt_source){ kind, arg };
	return DONE;
}

static int parse_file(struct options *o, const char *name, const char *arg)
{
	(void)name;
	return add_prompt(o, SOURCE_FILE, arg);
}

static int parse_prompt(struct options *o, const char *name, const char *arg)
{
	(void)name;
	return add_prompt(o, SOURCE_TEXT, arg);
}

static int parse_tokens(struct options *o, const char *name, const char *arg)
{
	(void)name;
	return add_prompt(o, SOURCE_IDS, arg);
}

static int parse_stop(struct options *o, const char *name, const char *arg)
{
	if (!*arg)
		return report_usage("--%s must not be empty", name);
	if (o->n_stops == MAX_STOPS)
		return report_usage("more than %d times --%s", MAX_STOPS, name);
	o->stops[o->n_stops++] = arg;
	return DONE;
}

/* The position of arg in names (separated by |), or -1 and said so. */
static int choice(const char *name, const char *arg, const char *names)
{
	const char *at = names;

	for (int i = 0;; i++) {
		size_t length = strcspn(at, "|");

		if (strlen(arg) == length && !strncmp(arg, at, length))
			return i;
		if (!at[length])
			break;
		at += length + 1;
	}
	report_usage("--%s is '%s', must be one of %s", name, arg, names);
	return -1;
}

static int parse_kv(struct options *o, const char *name, const char *arg)
{
	static const enum kvs_where wheres[] = { KVS_DISK, KVS_MEMORY, KVS_DENSE };
	int i = choice(name, arg, "disk|memory|dense");

	if (i < 0)
		return WRONG_USAGE;
	o->session.where = wheres[i];
	return DONE;
}

static int parse_profile(struct options *o, const char *name, const char *arg)
{
	int i = choice(name, arg, "nvme|emmc");

	if (i < 0)
		return WRONG_USAGE;
	o->session.profile = i ? PROFILE_EMMC : PROFILE_NVME;
	return DONE;
}

static int parse_kv_type(struct options *o, const char *name, const char *arg)
{
	(void)o;
	return strcmp(arg, "f16") ? report_usage("--%s is '%s': only f16 is there", name, arg)
				  : DONE;
}

static int parse_backend(struct options *o, const char *name, const char *arg)
{
	if (choice(name, arg, "auto|module|io_uring|threads") < 0)
		return WRONG_USAGE;
	o->session.backend = arg;
	return DONE;
}

static int parse_reduce(struct options *o, const char *name, const char *arg)
{
	int i = choice(name, arg, "sum|mean");

	if (i < 0)
		return WRONG_USAGE;
	o->session.settings.reduce = i ? KVS_REDUCE_MEAN : KVS_REDUCE_SUM;
	return DONE;
}

static int parse_number(const char *name, const char *arg, double min, double max, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(arg, &end);
	if (end == arg || *end || errno || !(*value >= min && *value <= max))
		return report_usage("--%s is '%s', must be %.10g to %.10g", name, arg, min, max);
	return DONE;
}

static int parse_uint(const char *name, const char *arg, double min, double max, uint32_t *value)
{
	double number;

	if (parse_number(name, arg, min, max, &number))
		return WRONG_USAGE;
	if (number != floor(number))
		return report_usage("--%s is '%s', must be a whole number", name, arg);
	*value = (uint32_t)number;
	return DONE;
}

static int parse_select(struct options *o, const char *name, const char *arg)
{
	if (strcmp(arg, "all"))
		return parse_uint(name, arg, 1, INT32_MAX, &o->session.settings.select);
	o->session.settings.select = KVS_ALL;
	return DONE;
}

static int parse_sinks(struct options *o, const char *name, const char *arg)
{
	if (parse_uint(name, arg, 0, INT32_MAX, &o->session.settings.sinks))
		return WRONG_USAGE;
	if (o->session.settings.sinks == 0)
		o->session.settings.sinks = KVS_ALL;
	return DONE;
}

static int parse_timeout(struct options *o, const char *name, const char *arg)
{
	double seconds;

	if (parse_number(name, arg, 0.001, 1e6, &seconds))
		return WRONG_USAGE;
	o->session.io_timeout_ms = (uint32_t)(seconds * 1000 + 0.5);
	return DONE;
}

static int parse_fraction(const char *name, const char *arg, struct budget *b)
{
	char *end;
	unsigned long part = strtoul(arg, &end, 10), whole = 0;

	if (end != arg && *end == '/')
		whole = strtoul(end + 1, &end, 10);
	if (*end || part == 0 || whole == 0 || part > whole || whole > UINT32_MAX ||
	    strchr(arg, '-'))
		return report_usage("--%s is '%s', must be a size or a fraction like 1/13", name,
				    arg);
	b->part = (uint32_t)part;
	b->whole = (uint32_t)whole;
	return DONE;
}

static int parse_budget(struct options *o, const char *name, const char *arg)
{
	static const char units[] = "KMG";
	struct budget *b = &o->session.budget;
	const char *unit;
	char *end;
	double value;

	*b = (struct budget){ .given = true };
	if (strchr(arg, '/'))
		return parse_fraction(name, arg, b);
	value = strtod(arg, &end);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		value *= (double)((uint64_t)1 << 10 * (unit - units + 1));
		end++;
	}
	if (end == arg || *end || !(value >= 1 && value <= 1e15))
		return report_usage("--%s is '%s', must be a size like 64M or a fraction like 1/13",
				    name, arg);
	b->bytes = (uint64_t)value;
	return DONE;
}

#define AT(field) offsetof(struct options, field)

static const struct definition definitions[] = {
	{ "model", 'm', TEXT, AT(model), 0, 0, NULL },
	{ "file", 'f', CUSTOM, 0, 0, 0, parse_file },
	{ "prompt", 'p', CUSTOM, 0, 0, 0, parse_prompt },
	{ "tokens", 0, CUSTOM, 0, 0, 0, parse_tokens },
	{ "predict", 'n', UINT, AT(n_predict), 0, INT32_MAX, NULL },
	{ "context", 'c', UINT, AT(n_ctx), 1, INT32_MAX, NULL },
	{ "threads", 't', UINT, AT(n_threads), 1, 512, NULL },
	{ "batch", 0, UINT, AT(batch), 1, KVS_MAX_SEQS, NULL },
	{ "chat", 0, FLAG, AT(how.chat), 0, 0, NULL },
	{ "special", 0, FLAG, AT(how.special), 0, 0, NULL },
	{ "stop", 0, CUSTOM, 0, 0, 0, parse_stop },
	{ "temp", 0, REAL, AT(sampling.temp), 0, 100, NULL },
	{ "top-k", 0, UINT, AT(sampling.top_k), 0, INT32_MAX, NULL },
	{ "top-p", 0, REAL, AT(sampling.top_p), 0, 1, NULL },
	{ "min-p", 0, REAL, AT(sampling.min_p), 0, 1, NULL },
	{ "repeat-penalty", 0, REAL, AT(sampling.repeat_penalty), 0.01, 100, NULL },
	{ "seed", 0, UINT, AT(sampling.seed), 0, UINT32_MAX - 1.0, NULL },
	{ "kv", 0, CUSTOM, 0, 0, 0, parse_kv },
	{ "store", 0, TEXT, AT(session.store), 0, 0, NULL },
	{ "backend", 0, CUSTOM, 0, 0, 0, parse_backend },
	{ "budget", 0, CUSTOM, 0, 0, 0, parse_budget },
	{ "profile", 0, CUSTOM, 0, 0, 0, parse_profile },
	{ "kv-type", 0, CUSTOM, 0, 0, 0, parse_kv_type },
	{ "force", 0, FLAG, AT(session.force), 0, 0, NULL },
	{ "io-timeout", 0, CUSTOM, 0, 0, 0, parse_timeout },
	{ "select", 0, CUSTOM, 0, 0, 0, parse_select },
	{ "group", 0, UINT, AT(session.settings.group), 1, 256, NULL },
	{ "reuse", 0, UINT, AT(session.settings.reuse), 1, INT32_MAX, NULL },
	{ "predictor", 0, TEXT, AT(session.settings.predictor), 0, 0, NULL },
	{ "rank", 0, UINT, AT(session.settings.rank), 1, INT32_MAX, NULL },
	{ "recent", 0, UINT, AT(session.settings.recent), 1, INT32_MAX, NULL },
	{ "sinks", 0, CUSTOM, 0, 0, 0, parse_sinks },
	{ "reduce", 0, CUSTOM, 0, 0, 0, parse_reduce },
	{ "ahead", 0, UINT, AT(session.settings.ahead_percent), 1, 1000, NULL },
	{ "no-correct", 0, FLAG_UINT, AT(session.settings.no_correct), 1, 0, NULL },
	{ "json", 0, FLAG, AT(json), 0, 0, NULL },
	{ "logits", 0, TEXT, AT(logits), 0, 0, NULL },
	{ "logits-all", 0, FLAG, AT(logits_all), 0, 0, NULL },
	{ "progress", 0, FLAG, AT(progress), 0, 0, NULL },
	{ "stepwise", 0, FLAG, AT(stepwise), 0, 0, NULL },
	{ "no-bf16", 0, FLAG, AT(no_bf16), 0, 0, NULL },
	{ "test-delay", 0, UINT, AT(session.test_delay_us), 0, 10000000, NULL },
	{ "help", 'h', CUSTOM, 0, 0, 0, NULL },
};

#define N_DEFINITIONS (sizeof(definitions) / sizeof(definitions[0]))
#define LONG_BASE 256 /* getopt's value of definition i is LONG_BASE + i */

static void defaults(struct options *o)
{
	cpu_set_t cpus;

	memset(o, 0, sizeof(*o));
	o->n_predict = 256;
	o->batch = 1;
	o->n_threads = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
	o->session.budget = (struct budget){ .part = 1, .whole = 13 };
	o->sampling = (struct sampling){
		.top_k = 40,
		.top_p = 0.95f,
		.min_p = 0.05f,
		.repeat_penalty = 1,
		.seed = 1,
	};
}

static int apply(struct options *o, const struct definition *d, const char *arg)
{
	void *at = (char *)o + d->offset;
	double number;

	switch (d->kind) {
	case FLAG:
		*(bool *)at = true;
		return DONE;
	case FLAG_UINT:
		*(uint32_t *)at = (uint32_t)d->min;
		return DONE;
	case UINT:
		return parse_uint(d->name, arg, d->min, d->max, at);
	case REAL:
		if (parse_number(d->name, arg, d->min, d->max, &number))
			return WRONG_USAGE;
		*(float *)at = (float)number;
		return DONE;
	case TEXT:
		*(const char **)at = arg;
		return DONE;
	case CUSTOM:
		return d->parse(o, d->name, arg);
	}
	return WRONG_USAGE;
}

static int check(struct options *o, int argc, char **argv)
{
	for (int i = optind; i < argc; i++) {
		if (strcmp(argv[i], "-"))
			return report_usage("'%s' is not an option; a prompt goes to -p or -f",
					    argv[i]);
		if (add_prompt(o, SOURCE_FILE, "-"))
			return WRONG_USAGE;
	}
	if (!o->model)
		return report_usage("no model: give -m MODEL.gguf");
	if (o->n_prompts == 0)
		return report_usage("no prompt: give -f FILE, -p TEXT, --tokens FILE or -");
	if (o->batch == 1)
		o->batch = o->n_prompts;
	if (o->n_prompts != 1 && o->n_prompts != o->batch)
		return report_usage("%u prompts for a batch of %u: give one, or one each",
				    o->n_prompts, o->batch);
	if (o->logits_all && !o->logits)
		return report_usage("--logits-all goes with --logits FILE");
	if (o->session.settings.group & (o->session.settings.group - 1))
		return report_usage("--group is %u, must be a power of two",
				    o->session.settings.group);
	return DONE;
}

static void getopt_tables(struct option *longs, char *shorts)
{
	*shorts++ = ':';
	for (size_t i = 0; i < N_DEFINITIONS; i++) {
		const struct definition *d = &definitions[i];
		bool has_arg = d->kind != FLAG && d->kind != FLAG_UINT && strcmp(d->name, "help");

		longs[i] = (struct option){ d->name, has_arg, NULL, LONG_BASE + (int)i };
		if (!d->letter)
			continue;
		*shorts++ = d->letter;
		if (has_arg)
			*shorts++ = ':';
	}
	longs[N_DEFINITIONS] = (struct option){ 0 };
	*shorts = '\0';
}

static const struct definition *definition_of(int c)
{
	if (c >= LONG_BASE)
		return &definitions[c - LONG_BASE];
	for (size_t i = 0; i < N_DEFINITIONS; i++)
		if (definitions[i].letter == c)
			return &definitions[i];
	return NULL;
}

enum parsed options_parse(struct options *o, int argc, char **argv)
{
	struct option longs[N_DEFINITIONS + 1];
	char shorts[2 * N_DEFINITIONS + 2];
	int c;

	defaults(o);
	getopt_tables(longs, shorts);
	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct definition *d = definition_of(c);

		if (!d) {
			report_usage(c == ':' ? "%s needs a value: see kvswap run --help"
					      : "%s is not an option: see kvswap run --help",
				     argv[optind - 1]);
			return PARSED_BAD;
		}
		if (d->letter == 'h') {
			fputs(help, stdout);
			return PARSED_HELP;
		}
		if (apply(o, d, optarg))
			return PARSED_BAD;
	}
	return check(o, argc, argv) ? PARSED_BAD : PARSED;
}
