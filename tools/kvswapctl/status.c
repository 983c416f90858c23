// SPDX-License-Identifier: MIT
/* `kvswapctl status`: the module, its contexts, what is in flight. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "contexts.h"
#include "kvswap/json.h"
#include "kvswap/report.h"
#include "kvswap/session.h"
#include "module.h"
#include "uapi/kvswap.h"

struct values {
	bool json;
};

static const struct cli_option options[] = {
	{ "json", 0, CLI_FLAG, offsetof(struct values, json), 0, 0, NULL, "one JSON object" },
};

static const char *device_state(const struct module_state *s)
{
	if (!s->device_error)
		return s->abi == KVSWAP_ABI ? "ready" : "of another ABI";
	return s->device_error == -ENOENT ? "not there" : strerror(-s->device_error);
}

static void json_contexts(struct json *j, const struct contexts *c)
{
	json_open(j, "contexts", '[');
	for (int i = 0; i < c->n; i++) {
		const struct context *at = &c->context[i];

		json_open(j, NULL, '{');
		json_uint(j, "pid", at->pid);
		json_text(j, "store", at->store);
		for (int k = 0; k < at->n_fields; k++)
			json_uint(j, at->field[k].name, at->field[k].value);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static int write_json(const struct module_state *s, const char *refusal, const char *holders,
		      const struct contexts *c)
{
	struct json j = { .f = stdout };

	json_open(&j, NULL, '{');
	json_bool(&j, "loaded", s->loaded);
	json_text(&j, "version", s->version);
	json_text(&j, "device", device_state(s));
	if (!s->device_error) {
		json_uint(&j, "abi", s->abi);
		json_uint(&j, "features", s->features);
		json_uint(&j, "pinned_bytes", s->pinned_bytes);
		json_uint(&j, "pinned_bytes_max", s->pinned_bytes_max);
		json_uint(&j, "entries_max", s->entries_max);
		json_uint(&j, "request_bytes_max", s->request_bytes_max);
	}
	json_text(&j, "refusal", refusal);
	json_text(&j, "holders", holders);
	json_contexts(&j, c);
	json_text(&j, "contexts_why", c->why);
	json_close(&j, '}');
	fputc('\n', stdout);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static void table_context(const struct context *c)
{
	char read[32], written[32], arena[32];

	printf("context    pid %u on %s: %s pinned, %" PRIu64 " in flight; %" PRIu64
	       " reads (%s), %" PRIu64 " writes (%s), %" PRIu64 " errors, %" PRIu64 " refused\n",
	       c->pid, c->store, session_size(context_field(c, "arena_bytes"), arena),
	       context_field(c, "in_flight"), context_field(c, "reads"),
	       session_size(512 * context_field(c, "read_units"), read), context_field(c, "writes"),
	       session_size(512 * context_field(c, "written_units"), written),
	       context_field(c, "errors"), context_field(c, "refused"));
}

static int write_table(const struct module_state *s, const char *refusal, const char *holders,
		       const struct contexts *c)
{
	char pinned[32], most[32];

	printf("module     %s%s%s\n", s->loaded ? "loaded" : "not loaded",
	       *s->version ? ", version " : "", s->version);
	printf("device     %s: %s\n", MODULE_DEVICE, device_state(s));
	if (!s->device_error)
		printf("           ABI %u (this program: %u), %s of %s pinned\n", s->abi,
		       KVSWAP_ABI, session_size(s->pinned_bytes, pinned),
		       session_size(s->pinned_bytes_max, most));
	if (!s->loaded && *refusal)
		printf("refusal    %s\n", refusal);
	if (*holders)
		printf("held by    %s\n", holders);
	for (int i = 0; i < c->n; i++)
		table_context(&c->context[i]);
	if (s->loaded && *c->why)
		printf("contexts   not shown: %s\n", c->why);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static int status_main(int argc, char **argv)
{
	struct values v = { 0 };
	struct cli_list operands;
	struct contexts *c;
	struct module_state s;
	char refusal[512], holders[256];
	enum cli_result parsed = cli_parse(&command_status, &v, argc, argv, &operands);
	int rc;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_status, &operands))
		return WRONG_USAGE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return report_fail("out of memory");
	module_look(&s);
	module_refusal(refusal, sizeof(refusal));
	module_holders(holders, sizeof(holders));
	contexts_read(CONTEXTS_PATH, c);
	rc = v.json ? write_json(&s, refusal, holders, c) : write_table(&s, refusal, holders, c);
	free(c);
	return rc;
}

const struct command command_status = {
	.name = "status",
	.summary = "the kernel module, its contexts, what is in flight",
	.usage = "[--json]",
	.about =
		"Tells whether the kernel module is loaded and usable, who uses it, and what each context has done.",
	.examples = "  kvswapctl status\n  sudo kvswapctl status --json",
	.options = options,
	.n_options = CLI_N(options),
	.main = status_main,
};
