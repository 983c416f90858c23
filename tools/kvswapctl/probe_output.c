// SPDX-License-Identifier: MIT
/* What a probe says: the JSON object and the table. */
#include "probe_output.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "doc.h"
#include "kvswap/json.h"
#include "kvswap/report.h"
#include "kvswap/session.h"

static void json_known(struct json *j, const char *key, int value, int unknown)
{
	if (value != unknown)
		json_number(j, key, value);
}

static void json_limits(struct json *j, const struct device_limits *l)
{
	json_open(j, "limits", '{');
	json_uint(j, "logical_block", l->logical_block);
	json_uint(j, "physical_block", l->physical_block);
	json_uint(j, "minimum_io", l->minimum_io);
	json_uint(j, "optimal_io", l->optimal_io);
	json_uint(j, "max_transfer_bytes", l->max_transfer);
	json_uint(j, "max_hw_transfer_bytes", l->max_hw_transfer);
	json_uint(j, "max_segments", l->max_segments);
	json_uint(j, "requests", l->requests);
	json_uint(j, "read_ahead_bytes", l->read_ahead_bytes);
	json_uint(j, "discard_max_bytes", l->discard_max);
	json_text(j, "scheduler", l->scheduler);
	json_text(j, "write_cache", l->write_cache);
	json_bool(j, "rotational", l->rotational);
	json_bool(j, "read_only", l->read_only);
	json_close(j, '}');
}

static void json_nvme(struct json *j, const struct nvme_facts *f)
{
	json_open(j, "nvme", '{');
	json_text(j, "model", f->model);
	json_text(j, "firmware", f->firmware);
	json_uint(j, "max_transfer_bytes", f->max_transfer);
	json_uint(j, "optimal_boundary_bytes", f->optimal_boundary);
	json_uint(j, "write_unit_bytes", f->write_unit);
	json_open(j, "formats", '[');
	for (int i = 0; i < f->n_formats; i++) {
		json_open(j, NULL, '{');
		json_uint(j, "block_bytes", f->formats[i].block_bytes);
		json_uint(j, "metadata_bytes", f->formats[i].metadata_bytes);
		json_uint(j, "performance", f->formats[i].performance);
		json_bool(j, "in_use", f->formats[i].in_use);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_known(j, "temperature_c", f->temperature_c, INT_MIN);
	json_known(j, "warning_c", f->warning_c, INT_MIN);
	json_known(j, "critical_c", f->critical_c, INT_MIN);
	json_known(j, "spare_percent", f->spare_percent, -1);
	json_known(j, "spare_least_percent", f->spare_least, -1);
	json_known(j, "used_percent", f->used_percent, -1);
	json_uint(j, "media_errors", f->media_errors);
	json_uint(j, "throttled_seconds", f->throttled_seconds);
	json_uint(j, "power_states", f->power_states);
	json_bool(j, "autonomous_power_states", f->apst);
	json_bool(j, "write_cache", f->write_cache);
	json_close(j, '}');
}

static void json_cells(struct json *j, const char *key, const struct cells *cells)
{
	json_open(j, key, '[');
	for (int i = 0; i < cells->n; i++) {
		const struct cell *c = &cells->cell[i];

		json_open(j, NULL, '{');
		json_uint(j, "bytes", c->bytes);
		json_uint(j, "depth", c->depth);
		json_number(j, "iops", c->iops);
		json_number(j, "mib_s", c->mib_s);
		json_number(j, "p50_us", c->p50_us);
		json_number(j, "p99_us", c->p99_us);
		json_number(j, "cpu_us", c->cpu_us);
		json_uint(j, "ios", c->ios);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json_stack(struct json *j, const struct device *d)
{
	json_open(j, "stack", '[');
	for (int i = 0; i < d->n_layers; i++) {
		json_open(j, NULL, '{');
		json_text(j, "name", d->layers[i].name);
		json_text(j, "what", d->layers[i].what);
		json_text(j, "label", d->layers[i].label);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json_device(struct json *j, const struct device *d)
{
	json_text(j, "device", d->path);
	json_text(j, "kind", device_kind_name(d->kind));
	json_text(j, "disk", d->disk);
	json_text(j, "model", d->model);
	json_text(j, "firmware", d->firmware);
	json_text(j, "transport", d->transport);
	json_text(j, "file_system", d->file_system);
	json_text(j, "mount_point", d->mount_point);
	json_uint(j, "bytes", d->bytes);
	json_stack(j, d);
	json_known(j, "life_used_percent", d->life_percent, -1);
	if (d->pre_eol[0])
		json_text(j, "pre_eol", d->pre_eol);
}

void probe_json_members(struct json *j, const struct probe *p)
{
	const struct target *t = &p->target;
	struct utsname host;

	json_uint(j, "format", DOC_FORMAT);
	json_text(j, "host", uname(&host) ? "" : host.nodename);
	json_text(j, "path", p->path);
	json_device(j, &t->device);
	json_bool(j, "direct_io", t->direct);
	json_text(j, "direct_why", t->direct_why);
	json_uint(j, "logical_block", t->block ? t->block : t->device.limits.logical_block);
	json_limits(j, &t->device.limits);
	if (p->has_nvme)
		json_nvme(j, &p->nvme);
	json_text(j, "measured", t->measured);
	json_text(j, "backend", p->backend ? p->backend : "");
	json_cells(j, "reads", &p->reads);
	json_cells(j, "writes", &p->writes);
	json_cells(j, "mixed", &p->mixed);
	json_open(j, "warnings", '[');
	for (int i = 0; i < p->warnings.n; i++)
		json_text(j, NULL, p->warnings.text[i]);
	json_close(j, ']');
}

int probe_write_json(const struct probe *p)
{
	struct json j = { .f = stdout };

	json_open(&j, NULL, '{');
	probe_json_members(&j, p);
	json_close(&j, '}');
	fputc('\n', stdout);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static void table_cells(const char *title, const struct cells *cells)
{
	uint32_t bytes = 0;

	if (cells->n == 0)
		return;
	printf("\n%s\n%10s %6s %10s %10s %10s %10s\n", title, "record", "depth", "per s", "MiB/s",
	       "p50 us", "p99 us");
	for (int i = 0; i < cells->n; i++) {
		const struct cell *c = &cells->cell[i];

		if (c->bytes != bytes)
			printf("%6u KiB", c->bytes / 1024);
		else
			printf("%10s", "");
		printf(" %6u %10.0f %10.1f %10.1f %10.1f\n", c->depth, c->iops, c->mib_s, c->p50_us,
		       c->p99_us);
		bytes = c->bytes;
	}
}

static void table_stack(const struct device *d)
{
	printf("device    ");
	for (int i = 0; i < d->n_layers; i++)
		printf("%s%s (%s%s%s)", i ? " on " : " ", d->layers[i].name, d->layers[i].what,
		       d->layers[i].label[0] ? " " : "", d->layers[i].label);
	printf("%s\n", d->n_layers ? "" : " none");
}

static void table_nvme(const struct nvme_facts *f)
{
	char a[32], b[32], c[32];

	printf("nvme       %s, firmware %s; most per request %s, optimal boundary %s, write unit %s\n",
	       f->model, f->firmware, f->max_transfer ? session_size(f->max_transfer, a) : "any",
	       f->optimal_boundary ? session_size(f->optimal_boundary, b) : "none",
	       f->write_unit ? session_size(f->write_unit, c) : "not told");
	printf("formats   ");
	for (int i = 0; i < f->n_formats; i++)
		printf(" %u+%u%s", f->formats[i].block_bytes, f->formats[i].metadata_bytes,
		       f->formats[i].in_use ? " (in use)" : "");
	printf("\nhealth     ");
	if (f->temperature_c != INT_MIN)
		printf("%d degrees, ", f->temperature_c);
	if (f->spare_percent >= 0)
		printf("spare %d %%, ", f->spare_percent);
	if (f->used_percent >= 0)
		printf("used %d %%, ", f->used_percent);
	printf("%" PRIu64 " media errors\n", f->media_errors);
}

static void table_head(const struct probe *p)
{
	const struct device *d = &p->target.device;
	const struct device_limits *l = &d->limits;
	char size[32], most[32];

	printf("path       %s\n", p->path);
	if (d->file_system[0])
		printf("on         %s, mounted on %s\n", d->file_system, d->mount_point);
	table_stack(d);
	printf("kind       %s%s%s%s%s, %s\n", device_kind_name(d->kind), d->model[0] ? ", " : "",
	       d->model, d->transport[0] ? ", " : "", d->transport, session_size(d->bytes, size));
	printf("limits     blocks of %u, physical %u; requests up to %s, %u queued; scheduler %s; write cache %s\n",
	       l->logical_block, l->physical_block, session_size(l->max_transfer, most),
	       l->requests, l->scheduler[0] ? l->scheduler : "not told",
	       l->write_cache[0] ? l->write_cache : "not told");
	if (p->has_nvme)
		table_nvme(&p->nvme);
	if (d->life_percent >= 0)
		printf("life       used %d %%, spare blocks %s\n", d->life_percent, d->pre_eol);
	if (p->target.measured[0])
		printf("measured   %s by %s, %s\n", p->target.measured, p->backend,
		       p->target.direct ? "direct I/O" : "not direct");
}

int probe_write_table(const struct probe *p)
{
	table_head(p);
	table_cells("random reads", &p->reads);
	table_cells("writes, in order", &p->writes);
	table_cells("random reads, with a write for every 7", &p->mixed);
	for (int i = 0; i < p->warnings.n; i++)
		printf("%swarning: %s\n", i ? "" : "\n", p->warnings.text[i]);
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}
