// SPDX-License-Identifier: MIT
/* The storage that a plan is for; see plan.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "doc.h"
#include "kvswap/report.h"
#include "plan.h"
#include "probe.h"

#define PROBE_SECONDS 3.0
#define PROBE_BYTES ((uint64_t)4 << 30)
#define TYPICAL_RECORD 16384u

/* CPU of a read at some depth, where submission and completion are batched as in a step. */
static double cpu_of(const struct cells *cells)
{
	double sum = 0;
	int n = 0;

	for (int i = 0; i < cells->n; i++)
		if (cells->cell[i].bytes == TYPICAL_RECORD && cells->cell[i].depth >= 8 &&
		    cells->cell[i].cpu_us > 0) {
			sum += cells->cell[i].cpu_us;
			n++;
		}
	return n ? sum / n : 0;
}

static int from_probe(struct plan_device *d, const char *path, bool quiet)
{
	struct probe_options o = { .seconds = PROBE_SECONDS, .bytes = PROBE_BYTES, .quiet = quiet };
	struct probe *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return report_fail("out of memory");
	rc = probe_run(p, path, &o);
	d->reads = p->reads;
	d->slow = p->target.device.slow;
	d->direct = p->target.direct;
	d->block = p->target.block;
	snprintf(d->name, sizeof(d->name), "%s", p->target.device.path);
	snprintf(d->kind, sizeof(d->kind), "%s", device_kind_name(p->target.device.kind));
	snprintf(d->model, sizeof(d->model), "%s", p->target.device.model);
	snprintf(d->path, sizeof(d->path), "%s", path);
	probe_close(p);
	free(p);
	return rc;
}

static void read_cells(doc_value *array, struct cells *out)
{
	for (size_t i = 0; i < doc_length(array) && out->n < CELLS_MAX; i++) {
		doc_value *v = doc_at(array, i);
		struct cell c = {
			.bytes = (uint32_t)doc_number(doc_get(v, "bytes"), 0),
			.depth = (uint32_t)doc_number(doc_get(v, "depth"), 0),
			.iops = doc_number(doc_get(v, "iops"), 0),
			.mib_s = doc_number(doc_get(v, "mib_s"), 0),
			.p50_us = doc_number(doc_get(v, "p50_us"), 0),
			.p99_us = doc_number(doc_get(v, "p99_us"), 0),
			.cpu_us = doc_number(doc_get(v, "cpu_us"), 0),
		};

		if (c.bytes && c.depth && c.iops > 0)
			out->cell[out->n++] = c;
	}
}

static int check_host(const char *path, const char *host)
{
	struct utsname here;

	if (!*host || uname(&here) || !strcmp(here.nodename, host))
		return DONE;
	return report_fail(
		"%s was measured on %s, this is %s: probe here, or --force to plan with it", path,
		host, here.nodename);
}

static int from_file(struct plan_device *d, const char *path, bool force)
{
	doc_value *root;
	int rc = doc_open(path, &root);

	if (rc)
		return rc;
	/* A plan or a profile has the probe within. */
	if (doc_get(root, "device.reads"))
		read_cells(doc_get(root, "device.reads"), &d->reads);
	else
		read_cells(doc_get(root, "reads"), &d->reads);
	read_cells(doc_get(root, "writes"), &d->writes);
	snprintf(d->kind, sizeof(d->kind), "%s",
		 doc_text(doc_get(root, "kind"), doc_text(doc_get(root, "device.kind"), "")));
	snprintf(d->name, sizeof(d->name), "%s",
		 doc_text(doc_get(root, "device"), doc_text(doc_get(root, "device.device"), "")));
	snprintf(d->model, sizeof(d->model), "%s", doc_text(doc_get(root, "model"), ""));
	snprintf(d->path, sizeof(d->path), "%s",
		 doc_text(doc_get(root, "path"), doc_text(doc_get(root, "device.path"), "")));
	snprintf(d->from, sizeof(d->from), "%s", path);
	d->slow = !strcmp(d->kind, "emmc") || !strcmp(d->kind, "sd");
	d->direct = doc_bool(doc_get(root, "direct_io"),
			     doc_bool(doc_get(root, "device.direct_io"), false));
	d->block = (uint32_t)doc_number(doc_get(root, "logical_block"), 512);
	if (!force)
		rc = check_host(path, doc_text(doc_get(root, "host"), ""));
	if (!rc && d->reads.n == 0)
		rc = report_fail("%s has no measured reads: make it by kvswapctl probe --json",
				 path);
	doc_close(root);
	return rc;
}

/* The library's own place for stores, or its nearest parent that exists. */
static void default_place(char *path, size_t bytes)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (cache && *cache == '/')
		snprintf(path, bytes, "%s/kvswap", cache);
	else
		snprintf(path, bytes, "%s/.cache/kvswap", home && *home == '/' ? home : "");
	while (access(path, F_OK) && strrchr(path, '/') != path)
		*strrchr(path, '/') = '\0';
	if (access(path, F_OK))
		snprintf(path, bytes, "/");
}

static bool is_json(const char *path)
{
	FILE *f = fopen(path, "re");
	bool json;

	if (!f)
		return false;
	json = fgetc(f) == '{';
	fclose(f);
	return json;
}

int plan_device_open(struct plan_device *d, const char *arg, bool force, bool quiet)
{
	char place[4096];
	struct stat st;
	int rc;

	memset(d, 0, sizeof(*d));
	if (!*arg)
		default_place(place, sizeof(place));
	else
		snprintf(place, sizeof(place), "%s", arg);
	if (stat(place, &st))
		return report_fail("%s: %s", place, strerror(errno));
	rc = S_ISREG(st.st_mode) && is_json(place) ? from_file(d, place, force)
						   : from_probe(d, place, quiet);
	d->cpu_us = cpu_of(&d->reads);
	return rc;
}
