// SPDX-License-Identifier: MIT
/* `kvswapctl doctor`: goes through what goes wrong, each finding with the measured value and the remedy. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands.h"
#include "doc.h"
#include "findings.h"
#include "kvswap/json.h"
#include "kvswap/report.h"
#include "memory.h"
#include "module.h"
#include "nvme.h"
#include "publish.h"
#include "sysfile.h"
#include "target.h"

struct values {
	const char *store, *dir;
	double seconds;
	bool json;
};

#define AT(field) offsetof(struct values, field)

static const struct cli_option options[] = {
	{ "store", 0, CLI_TEXT, AT(store), 0, 0, "PATH",
	  "look at this storage (of the sessions, else of the cache)" },
	{ "seconds", 's', CLI_REAL, AT(seconds), 0, 60, "S", "watch the sessions for so long (1)" },
	{ "dir", 0, CLI_TEXT, AT(dir), 0, 0, "DIR", "where sessions publish" },
	{ "json", 0, CLI_FLAG, AT(json), 0, 0, NULL, "one JSON object" },
};

static void check_swap(struct findings *f)
{
	uint64_t total = memory_field("SwapTotal"), used = total - memory_field("SwapFree");

	if (used > (64u << 20))
		finding(f, FINDING_WARN, "swap", (double)used, "bytes",
			"free memory, or give kvswap a smaller --budget: what is swapped is read back at swap's speed");
	else
		finding(f, FINDING_OK, "swap", (double)used, "bytes", "");
}

static void check_memlock(struct findings *f)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (64u << 20) && geteuid())
		finding(f, FINDING_WARN, "memlock", (double)limit.rlim_cur, "bytes",
			"raise it above the budget (ulimit -l, LimitMEMLOCK=): buffers are not registered or pinned otherwise");
	else
		finding(f, FINDING_OK, "memlock",
			limit.rlim_cur == RLIM_INFINITY ? -1 : (double)limit.rlim_cur, "bytes", "");
}

static void check_io_uring(struct findings *f)
{
	uint64_t disabled = sys_number(0, "/proc/sys/kernel/io_uring_disabled");

	if (disabled == 2 || (disabled == 1 && geteuid()))
		finding(f, FINDING_WARN, "io_uring", (double)disabled, "disabled",
			"sysctl kernel.io_uring_disabled=0: the threads backend costs more per read");
	else
		finding(f, FINDING_OK, "io_uring", (double)disabled, "disabled", "");
}

static void check_module(struct findings *f)
{
	struct module_state s;
	char why[512];

	module_look(&s);
	module_refusal(why, sizeof(why));
	if (s.loaded && s.device_error == -EACCES)
		finding(f, FINDING_WARN, "module", 1, "loaded",
			"join the group kvswap: " MODULE_DEVICE " is not yours to open");
	else if (s.loaded && s.device_error)
		finding(f, FINDING_WARN, "module", 1, "loaded", strerror(-s.device_error));
	else
		finding(f, FINDING_OK, "module", s.loaded, "loaded",
			s.loaded ? ""
			: *why	 ? why
				 : "not loaded, io_uring serves (kvswapctl load)");
}

/* Millidegrees of the hottest zone, and how often the processors were slowed down for it. */
static void check_processor(struct findings *f)
{
	double hottest = 0, throttled = 0;

	for (int i = 0; i < 64 && sys_exists("/sys/class/thermal/thermal_zone%d", i); i++) {
		double t =
			(double)sys_number(0, "/sys/class/thermal/thermal_zone%d/temp", i) / 1000;

		hottest = t > hottest && t < 200 ? t : hottest;
	}
	for (int i = 0; i < 512 && sys_exists("/sys/devices/system/cpu/cpu%d", i); i++)
		throttled += (double)sys_number(
			0, "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", i);
	if (hottest > 0)
		finding(f, hottest >= 85 ? FINDING_WARN : FINDING_OK, "processor temperature",
			hottest, "degrees",
			hottest >= 85 ? "cool it: the processors slow down at this temperature"
				      : "");
	if (throttled > 0)
		finding(f, FINDING_WARN, "processor throttling", throttled, "times",
			"cool it, or lower -t");
}

static void check_disk(struct findings *f, const char *disk)
{
	struct nvme_facts nvme;
	struct warnings w = { 0 };

	if (strncmp(disk, "nvme", 4) || nvme_look(disk, &nvme))
		return;
	if (nvme.temperature_c != INT_MIN)
		finding(f, nvme.temperature_c >= 70 ? FINDING_WARN : FINDING_OK, "disk temperature",
			nvme.temperature_c, "degrees",
			nvme.temperature_c >= 70 ? "cool it: the disk slows down" : "");
	nvme_warn(disk, &nvme, &w);
	for (int i = 0; i < w.n; i++)
		finding(f, FINDING_WARN, "disk health", 0, "", w.text[i]);
}

static int check_storage(struct findings *f, const char *path)
{
	struct target *t = calloc(1, sizeof(*t));
	struct kvs_store store;
	struct warnings w = { 0 };
	char message[KVS_MESSAGE_BYTES] = "";
	int rc = t ? target_look(t, path) : report_fail("out of memory");

	if (rc) {
		free(t);
		return rc;
	}
	device_warn(&t->device, &w);
	for (int i = 0; i < w.n; i++)
		finding(f, FINDING_WARN, "storage", 0, "", w.text[i]);
	check_disk(f, t->device.disk);
	if (!kvs_store_probe(path, &store, message))
		finding(f, store.direct ? FINDING_OK : FINDING_WARN, "direct I/O", store.direct, "",
			store.direct ? "" : store.direct_why);
	else
		finding(f, FINDING_WARN, "store", 0, "", message);
	free(t);
	return DONE;
}

struct watch {
	struct kvs_published *before;
	int n;
	struct findings *findings;
	const char *store; /* of a session, or NULL */
	char path[PATH_MAX];
	int seen;
};

static void remember(const struct kvs_published *session, void *arg)
{
	struct watch *w = arg;
	struct kvs_published *more = realloc(w->before, ((size_t)w->n + 1) * sizeof(*more));

	if (!more)
		return;
	w->before = more;
	w->before[w->n++] = *session;
}

static double change(const struct kvs_published *a, const struct kvs_published *b,
		     enum kvs_counter which)
{
	return a && b->counters[which] >= a->counters[which]
		       ? (double)(b->counters[which] - a->counters[which])
		       : (double)b->counters[which];
}

static void check_session(const struct kvs_published *now, void *arg)
{
	struct watch *w = arg;
	const struct kvs_published *before = NULL;
	struct session_change c = { .name = strrchr(now->path, '/') + 1, .head = &now->head };

	for (int i = 0; i < w->n; i++)
		if (!strcmp(w->before[i].path, now->path))
			before = &w->before[i];
	/* Nothing has happened meanwhile: judge the whole of it. */
	if (before && change(before, now, KVS_COUNT_STEPS) < 1)
		before = NULL;
	c.selections = change(before, now, KVS_COUNT_SELECTIONS);
	c.selected = change(before, now, KVS_COUNT_GROUPS_SELECTED);
	c.hit = change(before, now, KVS_COUNT_GROUPS_HIT);
	c.predicted = change(before, now, KVS_COUNT_GROUPS_PREDICTED);
	c.coverage = change(before, now, KVS_COUNT_COVERAGE_MILLIONTHS) / 1e6;
	c.wait_s = change(before, now, KVS_COUNT_WAIT_NS) / 1e9;
	c.busy_s = (change(before, now, KVS_COUNT_ATTEND_NS) +
		    change(before, now, KVS_COUNT_APPEND_NS)) /
		   1e9;
	findings_session(w->findings, &c);
	snprintf(w->path, sizeof(w->path), "%s", now->head.store);
	w->seen++;
}

static int check_sessions(struct findings *f, const struct values *v, char store[PATH_MAX])
{
	struct watch w = { .findings = f };
	int err = kvs_published_each(v->dir, remember, &w);

	if (!err && w.n)
		usleep((useconds_t)(v->seconds * 1e6));
	if (!err)
		err = kvs_published_each(v->dir, check_session, &w);
	free(w.before);
	if (err)
		return report_fail("cannot read the sessions: %s", strerror(-err));
	finding(f, FINDING_OK, "sessions", w.seen, "running", "");
	snprintf(store, PATH_MAX, "%s", w.path);
	return DONE;
}

static const char *default_store(const char *of_session, char path[PATH_MAX])
{
	const char *home = getenv("XDG_CACHE_HOME");

	if (*of_session && !access(of_session, F_OK))
		return of_session;
	snprintf(path, PATH_MAX, "%s", home ? home : getenv("HOME") ? getenv("HOME") : "/");
	return access(path, F_OK) ? "/" : path;
}

static int write_json(const struct findings *f)
{
	struct json j = { .f = stdout };

	json_open(&j, NULL, '{');
	json_uint(&j, "format", DOC_FORMAT);
	json_uint(&j, "warnings", (uint64_t)findings_warned(f));
	json_open(&j, "findings", '[');
	for (int i = 0; i < f->n; i++) {
		json_open(&j, NULL, '{');
		json_bool(&j, "ok", f->finding[i].level == FINDING_OK);
		json_text(&j, "what", f->finding[i].what);
		json_number(&j, "value", f->finding[i].value);
		json_text(&j, "unit", f->finding[i].unit);
		json_text(&j, "remedy", f->finding[i].remedy);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	fputc('\n', stdout);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static int write_lines(const struct findings *f)
{
	for (int i = 0; i < f->n; i++) {
		const struct finding *at = &f->finding[i];

		printf("%-8s %s", at->level == FINDING_OK ? "ok" : "warning", at->what);
		if (*at->unit)
			printf(": %.6g %s", at->value, at->unit);
		printf("%s%s\n", *at->remedy ? ": " : "", at->remedy);
	}
	printf("%d warnings\n", findings_warned(f));
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static int examine(struct findings *f, const struct values *v)
{
	char store[PATH_MAX] = "", path[PATH_MAX];
	int rc = check_sessions(f, v, store);

	if (rc)
		return rc;
	check_swap(f);
	check_memlock(f);
	check_io_uring(f);
	check_module(f);
	check_processor(f);
	return check_storage(f, v->store ? v->store : default_store(store, path));
}

static int doctor_main(int argc, char **argv)
{
	struct values v = { .seconds = 1 };
	struct cli_list operands;
	enum cli_result parsed = cli_parse(&command_doctor, &v, argc, argv, &operands);
	struct findings *f;
	int rc;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_doctor, &operands))
		return WRONG_USAGE;
	f = calloc(1, sizeof(*f));
	if (!f)
		return report_fail("out of memory");
	rc = examine(f, &v);
	if (!rc)
		rc = v.json ? write_json(f) : write_lines(f);
	free(f);
	return rc;
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "what is wrong, with the measured value and the remedy",
	.usage = "[--store PATH] [options]",
	.about =
		"Goes through what goes wrong: swap in use, limits, buffered I/O, scheduler, heat, wear, and of running\n"
		"sessions a low hit rate, low coverage, and waiting for the storage. Changes nothing.",
	.examples = "  kvswapctl doctor --store /mnt/nvme\n  kvswapctl doctor --seconds 10 --json",
	.options = options,
	.n_options = CLI_N(options),
	.main = doctor_main,
};
