// SPDX-License-Identifier: MIT
/* `kvswapctl metrics`: running sessions and the module in Prometheus' text format, once, to stdout. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "contexts.h"
#include "kvswap/report.h"
#include "module.h"
#include "publish.h"

struct values {
	const char *dir;
};

static const struct cli_option options[] = {
	{ "dir", 0, CLI_TEXT, offsetof(struct values, dir), 0, 0, "DIR",
	  "where sessions publish ($XDG_RUNTIME_DIR/kvswap, of all users for root)" },
};

/* A metric of one counter; units as Prometheus wants them: bytes, seconds. */
struct metric {
	const char *name, *type, *help;
	enum kvs_counter counter;
	double scale;
};

#define NS 1e-9

static const struct metric metrics[] = {
	{ "kvswap_decode_steps_total", "counter", "Decode steps.", KVS_COUNT_STEPS, 1 },
	{ "kvswap_sequences", "gauge", "Sequences in use.", KVS_COUNT_SEQUENCES, 1 },
	{ "kvswap_tokens", "gauge", "Tokens of all sequences.", KVS_COUNT_TOKENS, 1 },
	{ "kvswap_resident_bytes", "gauge", "Memory held for the sake of KV.",
	  KVS_COUNT_RESIDENT_BYTES, 1 },
	{ "kvswap_resident_peak_bytes", "gauge", "Most memory held for the sake of KV.",
	  KVS_COUNT_RESIDENT_PEAK_BYTES, 1 },
	{ "kvswap_read_records_total", "counter", "Records read from the store.",
	  KVS_COUNT_RECORDS_READ, 1 },
	{ "kvswap_read_bytes_total", "counter", "Bytes read from the store.", KVS_COUNT_BYTES_READ,
	  1 },
	{ "kvswap_written_records_total", "counter", "Records written to the store.",
	  KVS_COUNT_RECORDS_WRITTEN, 1 },
	{ "kvswap_written_bytes_total", "counter", "Bytes written to the store.",
	  KVS_COUNT_BYTES_WRITTEN, 1 },
	{ "kvswap_late_records_total", "counter",
	  "Records asked for only when the true query was known.", KVS_COUNT_RECORDS_LATE, 1 },
	{ "kvswap_io_wait_seconds_total", "counter",
	  "Time that attention and appending waited for the store.", KVS_COUNT_WAIT_NS, NS },
	{ "kvswap_selected_groups_total", "counter",
	  "Groups attended to beside the rolling buffer.", KVS_COUNT_GROUPS_SELECTED, 1 },
	{ "kvswap_hit_groups_total", "counter", "Selected groups that were in memory already.",
	  KVS_COUNT_GROUPS_HIT, 1 },
	{ "kvswap_predicted_groups_total", "counter",
	  "Selected groups that the estimated query had chosen.", KVS_COUNT_GROUPS_PREDICTED, 1 },
	{ "kvswap_selected_tokens_total", "counter",
	  "Tokens attended to beside the rolling buffer.", KVS_COUNT_TOKENS_SELECTED, 1 },
};

/* Time by stage: one metric with a label. */
static const struct {
	const char *stage;
	enum kvs_counter counter;
} stages[] = {
	{ "append", KVS_COUNT_APPEND_NS }, { "prefetch", KVS_COUNT_PREFETCH_NS },
	{ "score", KVS_COUNT_SCORE_NS },   { "attend", KVS_COUNT_ATTEND_NS },
	{ "train", KVS_COUNT_TRAIN_NS },   { "prefill_attend", KVS_COUNT_PREFILL_ATTEND_NS },
};

/* What does not change during a session. */
static const struct {
	const char *name, *help;
	size_t offset; /* of a uint64_t in struct kvs_page_head */
} constants[] = {
	{ "kvswap_budget_bytes", "Memory allowed for KV; 0: no limit.",
	  offsetof(struct kvs_page_head, budget_bytes) },
	{ "kvswap_full_bytes", "KV of all sequences at the whole context, in f16.",
	  offsetof(struct kvs_page_head, full_bytes) },
	{ "kvswap_metadata_bytes", "Memory for K metadata, checksums, tables.",
	  offsetof(struct kvs_page_head, metadata_bytes) },
	{ "kvswap_slot_bytes", "Memory for the reuse buffer.",
	  offsetof(struct kvs_page_head, slot_bytes) },
	{ "kvswap_store_bytes", "Size of the store.", offsetof(struct kvs_page_head, store_bytes) },
	{ "kvswap_start_time_seconds", "When the session was opened, since the epoch.",
	  offsetof(struct kvs_page_head, started_s) },
};

struct sessions {
	struct kvs_published *session;
	int n;
	bool lost; /* no memory */
};

static void collect(const struct kvs_published *session, void *arg)
{
	struct sessions *all = arg;
	struct kvs_published *more = realloc(all->session, ((size_t)all->n + 1) * sizeof(*more));

	if (!more) {
		all->lost = true;
		return;
	}
	all->session = more;
	all->session[all->n++] = *session;
}

static void label(const char *text)
{
	for (; *text; text++)
		if (*text == '\n')
			fputs("\\n", stdout);
		else if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else
			putchar(*text);
}

/* A session is known by the name of its page: PID or PID.N. */
static void session_label(const struct kvs_published *s)
{
	printf("session=\"");
	label(strrchr(s->path, '/') + 1);
	putchar('"');
}

static void heading(const char *name, const char *type, const char *help)
{
	printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void sample(const char *name, const struct kvs_published *s, const char *key,
		   const char *value, double number)
{
	printf("%s{", name);
	session_label(s);
	if (key)
		printf(",%s=\"%s\"", key, value);
	printf("} %.17g\n", number);
}

static void write_info(const struct sessions *all)
{
	heading("kvswap_session_info", "gauge", "What a session is; always 1.");
	for (int i = 0; i < all->n; i++) {
		const struct kvs_published *s = &all->session[i];
		const struct kvs_page_head *h = &s->head;

		printf("kvswap_session_info{");
		session_label(s);
		printf(",program=\"");
		label(h->program);
		printf("\",backend=\"");
		label(h->backend);
		printf("\",predictor=\"");
		label(h->predictor);
		printf("\",direct_io=\"%u\",group=\"%u\",select=\"%u\",reuse=\"%u\",record_bytes=\"%u\",store=\"",
		       h->direct_io, h->group, h->select, h->reuse, h->record_bytes);
		label(h->store);
		printf("\"} 1\n");
	}
}

static void write_stages(const struct sessions *all)
{
	heading("kvswap_stage_seconds_total", "counter", "Time in a stage of the library.");
	for (int i = 0; i < all->n; i++)
		for (size_t k = 0; k < CLI_N(stages); k++)
			sample("kvswap_stage_seconds_total", &all->session[i], "stage",
			       stages[k].stage,
			       (double)all->session[i].counters[stages[k].counter] * NS);
}

static void write_coverage(const struct sessions *all)
{
	heading("kvswap_selection_coverage_ratio", "summary",
		"Estimated share of the attention mass that was attended to, by selection.");
	for (int i = 0; i < all->n; i++) {
		const struct kvs_published *s = &all->session[i];

		sample("kvswap_selection_coverage_ratio_sum", s, NULL, NULL,
		       (double)s->counters[KVS_COUNT_COVERAGE_MILLIONTHS] / 1e6);
		sample("kvswap_selection_coverage_ratio_count", s, NULL, NULL,
		       (double)s->counters[KVS_COUNT_SELECTIONS]);
	}
}

static void write_sessions(const struct sessions *all)
{
	heading("kvswap_sessions", "gauge", "Sessions that run.");
	printf("kvswap_sessions %d\n", all->n);
	if (all->n == 0)
		return;
	write_info(all);
	for (size_t k = 0; k < CLI_N(constants); k++) {
		heading(constants[k].name, "gauge", constants[k].help);
		for (int i = 0; i < all->n; i++)
			sample(constants[k].name, &all->session[i], NULL, NULL,
			       (double)*(const uint64_t *)((const char *)&all->session[i].head +
							   constants[k].offset));
	}
	for (size_t k = 0; k < CLI_N(metrics); k++) {
		heading(metrics[k].name, metrics[k].type, metrics[k].help);
		for (int i = 0; i < all->n; i++)
			sample(metrics[k].name, &all->session[i], NULL, NULL,
			       (double)all->session[i].counters[metrics[k].counter] *
				       metrics[k].scale);
	}
	write_stages(all);
	write_coverage(all);
}

static void write_module(void)
{
	struct contexts *c = calloc(1, sizeof(*c));
	struct module_state s;

	module_look(&s);
	heading("kvswap_module_loaded", "gauge", "1 when the kernel module is loaded.");
	printf("kvswap_module_loaded %d\n", s.loaded);
	if (!s.device_error) {
		heading("kvswap_module_pinned_bytes", "gauge",
			"Memory pinned by the module, all contexts.");
		printf("kvswap_module_pinned_bytes %" PRIu64 "\n", s.pinned_bytes);
		heading("kvswap_module_pinned_limit_bytes", "gauge",
			"Most memory that the module pins.");
		printf("kvswap_module_pinned_limit_bytes %" PRIu64 "\n", s.pinned_bytes_max);
	}
	if (c)
		contexts_read(CONTEXTS_PATH, c);
	if (c && !c->why[0]) {
		heading("kvswap_module_errors_total", "counter", "Requests that the store failed.");
		for (int i = 0; i < c->n; i++)
			printf("kvswap_module_errors_total{context=\"%d\",pid=\"%u\"} %" PRIu64
			       "\n",
			       i, c->context[i].pid, context_field(&c->context[i], "errors"));
		heading("kvswap_module_in_flight", "gauge", "Requests under way.");
		for (int i = 0; i < c->n; i++)
			printf("kvswap_module_in_flight{context=\"%d\",pid=\"%u\"} %" PRIu64 "\n",
			       i, c->context[i].pid, context_field(&c->context[i], "in_flight"));
	}
	free(c);
}

static int metrics_main(int argc, char **argv)
{
	struct values v = { 0 };
	struct sessions all = { 0 };
	struct cli_list operands;
	enum cli_result parsed = cli_parse(&command_metrics, &v, argc, argv, &operands);
	int err;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_metrics, &operands))
		return WRONG_USAGE;
	err = kvs_published_each(v.dir, collect, &all);
	if (err || all.lost) {
		free(all.session);
		return report_fail("cannot read the sessions: %s",
				   all.lost ? "out of memory" : strerror(-err));
	}
	write_sessions(&all);
	write_module();
	free(all.session);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

const struct command command_metrics = {
	.name = "metrics",
	.summary = "running sessions in Prometheus' text format",
	.usage = "[--dir DIR]",
	.about =
		"Writes the counters of every running session and of the kernel module to stdout, once, in Prometheus'\n"
		"text format: for the textfile collector of node_exporter, from a timer.",
	.examples =
		"  kvswapctl metrics\n"
		"  kvswapctl metrics > kvswap.prom.new && mv kvswap.prom.new /var/lib/prometheus/node-exporter/kvswap.prom",
	.options = options,
	.n_options = CLI_N(options),
	.main = metrics_main,
};
