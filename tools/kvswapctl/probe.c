// SPDX-License-Identifier: MIT
/* `kvswapctl probe`: looks at the storage, measures it, within bounds of time and bytes. */
#include "probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "probe_output.h"

#define RANGE_GOOD (256u << 20)

static const uint32_t sizes[] = { 4096, 8192, 16384, 32768, 65536, 131072, 262144 };
static const uint32_t depths[] = { 1, 2, 4, 8, 16, 32, 64 };

struct values {
	struct probe_options probe;
	bool json, progress, look;
};

#define AT(field) offsetof(struct values, field)

static const struct cli_option options[] = {
	{ "seconds", 's', CLI_REAL, AT(probe.seconds), 0.1, 3600, "S",
	  "time for measuring, about (10)" },
	{ "bytes", 0, CLI_SIZE, AT(probe.bytes), 0, 0, "SIZE",
	  "most bytes to read, and to write (8G)" },
	{ "look", 0, CLI_FLAG, AT(look), 0, 0, NULL, "only tell what it is: measure nothing" },
	{ "scratch", 0, CLI_TEXT, AT(probe.scratch), 0, 0, "PATH",
	  "measure writes too, in a new file, directory or device (what is in it is lost)" },
	{ "scratch-size", 0, CLI_SIZE, AT(probe.scratch_bytes), 0, 0, "SIZE",
	  "size of the scratch (1G)" },
	{ "force", 0, CLI_FLAG, AT(probe.force), 0, 0, NULL,
	  "a scratch device that is mounted or carries a signature" },
	{ "json", 0, CLI_FLAG, AT(json), 0, 0, NULL, "one JSON object instead of the table" },
	{ "progress", 0, CLI_FLAG, AT(progress), 0, 0, NULL,
	  "show progress even when stderr is no terminal" },
};

static void show_progress(const struct probe_options *o, const char *what, uint32_t bytes,
			  uint32_t depth, double done)
{
	if (!o->quiet)
		report_progress("%s of %u KiB at depth %u, %.0f %%", what, bytes / 1024, depth,
				100 * done);
}

static int cell(struct probe *p, struct measure *m, enum measure_kind kind, uint32_t bytes,
		uint32_t depth, struct cells *cells)
{
	struct cell *c = &cells->cell[cells->n];
	int err = measure_cell(m, kind, bytes, depth, c);

	if (err == -EINTR)
		return interrupt_check();
	if (err)
		return report_fail("%s: %s", p->target.measured, m->message);
	cells->n++;
	return DONE;
}

/* Sizes in the outer loop: a measurement that is cut short has the small records complete. */
static int measure_reads(struct probe *p, struct measure *m, const struct probe_options *o)
{
	const size_t n = CLI_N(sizes) * CLI_N(depths);

	for (size_t i = 0; i < n; i++) {
		uint32_t bytes = sizes[i / CLI_N(depths)], depth = depths[i % CLI_N(depths)];
		int rc;

		if (bytes < m->block || bytes > m->bytes)
			continue;
		show_progress(o, "reads", bytes, depth, (double)i / (double)n);
		rc = cell(p, m, MEASURE_READ, bytes, depth, &p->reads);
		if (rc)
			return rc;
	}
	return DONE;
}

static int measure_mixed(struct probe *p, struct measure *m, const struct probe_options *o)
{
	for (size_t i = 0; i < CLI_N(sizes); i += 2) {
		int rc;

		if (sizes[i] < m->block || sizes[i] > m->bytes)
			continue;
		show_progress(o, "reads beside writes", sizes[i], 16, (double)i / CLI_N(sizes));
		rc = cell(p, m, MEASURE_MIXED, sizes[i], 16, &p->mixed);
		if (rc)
			return rc;
	}
	return DONE;
}

static int measure_writes(struct probe *p, struct measure *m, const struct probe_options *o)
{
	int err;

	show_progress(o, "writes", MEASURE_BYTES_MAX, 8, 0);
	err = measure_fill(m, o->seconds / 2, &p->writes.cell[0]);
	if (err == -EINTR)
		return interrupt_check();
	if (err)
		return report_fail("%s: %s", p->target.measured, m->message);
	p->writes.n = 1;
	for (size_t i = 0; i < CLI_N(sizes); i += 2) {
		int rc = sizes[i] < m->block ? DONE
					     : cell(p, m, MEASURE_WRITE, sizes[i], 1, &p->writes);

		if (rc)
			return rc;
	}
	return DONE;
}

static int measure_all(struct probe *p, const struct probe_options *o)
{
	const struct target *t = &p->target;
	struct measure m;
	int rc = DONE;

	if (measure_open(&m, t->fd, t->direct, t->block, t->bytes))
		return report_fail("%s: %s", t->measured, m.message);
	p->backend = m.io->ops->name;
	m.cell_seconds = o->seconds / (double)(CLI_N(sizes) * CLI_N(depths));
	m.cell_bytes = o->bytes / (CLI_N(sizes) * CLI_N(depths));
	if (o->scratch)
		rc = measure_writes(p, &m, o);
	if (!rc)
		rc = measure_reads(p, &m, o);
	if (!rc && o->scratch)
		rc = measure_mixed(p, &m, o);
	report_progress_end();
	measure_close(&m);
	return rc;
}

static void look(struct probe *p)
{
	const struct device *d = &p->target.device;

	if (!strncmp(d->disk, "nvme", 4)) {
		p->nvme_error = nvme_look(d->disk, &p->nvme);
		p->has_nvme = !p->nvme_error;
	}
	device_warn(d, &p->warnings);
	if (p->has_nvme)
		nvme_warn(d->disk, &p->nvme, &p->warnings);
	else if (p->nvme_error == -ENOTSUP)
		warn(&p->warnings,
		     "built without libnvme: limits and health of %s are not shown (libnvme-dev)",
		     d->disk);
	else if (p->nvme_error)
		warn(&p->warnings, "%s does not tell its limits and health: %s", d->disk,
		     strerror(-p->nvme_error));
}

static int look_and_open(struct probe *p, const char *path, const struct probe_options *o)
{
	int rc;

	memset(p, 0, sizeof(*p));
	p->path = path;
	rc = target_look(&p->target, path);
	if (rc)
		return rc;
	look(p);
	if (!o)
		return DONE;
	rc = target_open(&p->target, path, o->scratch, o->scratch_bytes, o->force);
	if (!rc && !p->target.direct)
		warn(&p->warnings, "I/O is not direct: %s", p->target.direct_why);
	if (!rc && p->target.bytes < RANGE_GOOD)
		warn(&p->warnings,
		     "only %llu MiB are read again and again: a cache in the device may answer",
		     (unsigned long long)(p->target.bytes >> 20));
	return rc;
}

int probe_run(struct probe *p, const char *path, const struct probe_options *o)
{
	int rc = look_and_open(p, path, o);

	return rc ? rc : measure_all(p, o);
}

void probe_close(struct probe *p)
{
	target_close(&p->target);
}

static int run(const char *path, struct values *v)
{
	struct probe *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return report_fail("out of memory");
	p->target.fd = p->target.scratch.fd = -1;
	rc = v->look ? look_and_open(p, path, NULL) : probe_run(p, path, &v->probe);
	if (!rc)
		rc = v->json ? probe_write_json(p) : probe_write_table(p);
	if (rc > WRONG_USAGE)
		report_note("interrupted");
	probe_close(p);
	free(p);
	return rc;
}

static int probe_main(int argc, char **argv)
{
	struct values v = { .probe = { .seconds = 10,
				       .bytes = (uint64_t)8 << 30,
				       .scratch_bytes = (uint64_t)1 << 30 } };
	struct cli_list operands;
	enum cli_result parsed = cli_parse(&command_probe, &v, argc, argv, &operands);

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_one(&command_probe, &operands, "path"))
		return WRONG_USAGE;
	interrupt_catch();
	v.probe.quiet = !v.progress && !isatty(STDERR_FILENO);
	return run(operands.arg[0], &v);
}

const struct command command_probe = {
	.name = "probe",
	.summary = "what the storage is, its limits, its latency and bandwidth",
	.usage = "PATH|DEVICE [options]",
	.about =
		"Tells what a file, directory or block device stands on and measures random reads of 4 to 256 KiB at\n"
		"depths of 1 to 64. A directory means the storage beneath it. Writes nothing, unless a scratch is given.",
	.examples = "  kvswapctl probe /mnt/nvme\n"
		    "  kvswapctl probe /dev/nvme0n1 --seconds 30 --json > nvme.json\n"
		    "  kvswapctl probe /mnt/sd --scratch /mnt/sd",
	.options = options,
	.n_options = CLI_N(options),
	.main = probe_main,
};
