// SPDX-License-Identifier: MIT
/*
 * `kvswap-bench io`: random record reads through each backend, checked by checksum, against fio
 * with the same size and depth on the same file, in turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "bench.h"
#include "fio.h"
#include "kvswap.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "load.h"
#include "results.h"
#include "store.h"

static const char help[] =
	"usage: kvswap-bench io [--store PATH] [--record BYTES] [--depth N] [options]\n"
	"\n"
	"Bandwidth of random record reads through every I/O backend of the library, each record checked\n"
	"by its checksum, against fio with the same size and depth on the same file.\n"
	"\n"
	"  kvswap-bench io --record 16K --depth 32\n"
	"  kvswap-bench io --store /mnt/nvme --record 4K --depth 64 --json\n"
	"\n"
	"      --store PATH        directory, file or device (the user's cache directory)\n"
	"      --record BYTES      size of a record (16K)\n"
	"      --depth N           reads in flight (32)\n"
	"      --file BYTES        of the file that is written and read (512M)\n"
	"      --ms N              of one measurement (1000)\n"
	"      --repeat N          measurements of each side (5)\n"
	"      --force             a device that is in use\n"
	"      --no-check          leave the checksums out, as fio has none\n"
	"      --json              one JSON object instead of the table\n"
	"  -h, --help\n"
	"\n"
	"fio is optional: without it only our side is measured.\n";

#define N_BACKENDS 3
#define N_FIO 2

static const char *const backends[N_BACKENDS] = { "module", "io_uring", "threads" };
static const char *const fio_engines[N_FIO] = { "io_uring", "libaio" };

struct io_bench {
	int argc;
	char **argv;
	const char *store_path;
	uint32_t record, depth, file, ms, repeat;
	bool force, unchecked, json, help;
	struct kvs_store store;
	struct load_file load;
	struct kvs_io *io[N_BACKENDS]; /* NULL: not available */
	bool fio;
	struct series ours[N_BACKENDS], other[N_FIO];
};

static int parse(struct io_bench *b, int argc, char **argv)
{
	const struct arg args[] = {
		{ .name = "--store", .text = &b->store_path },
		{ .name = "--record", .number = &b->record, .min = 512, .max = 64u << 20 },
		{ .name = "--depth", .number = &b->depth, .min = 1, .max = KVS_IO_DEPTH_MAX },
		{ .name = "--file", .number = &b->file, .min = 1u << 20, .max = UINT32_MAX },
		{ .name = "--ms", .number = &b->ms, .min = 10, .max = 3600000 },
		{ .name = "--repeat", .number = &b->repeat, .min = 1, .max = MOST_REPEATS },
		{ .name = "--force", .flag = &b->force },
		{ .name = "--no-check", .flag = &b->unchecked },
		{ .name = "--json", .flag = &b->json },
		{ .name = "--help", .flag = &b->help },
		{ .name = "-h", .flag = &b->help },
	};
	char **copy = calloc((size_t)argc + 1, sizeof(*copy));
	int n = argc, rc;

	if (!copy)
		return report_fail("out of memory");
	memcpy(copy, argv, (size_t)argc * sizeof(*copy));
	rc = args_take(args, sizeof(args) / sizeof(args[0]), &n, copy);
	if (!rc)
		rc = args_end(n, copy);
	free(copy);
	if (!rc && b->file / b->record < b->depth)
		rc = report_usage("--file is %u, must hold at least --depth records", b->file);
	return rc;
}

static int open_file(struct io_bench *b)
{
	char message[KVS_MESSAGE_BYTES] = "";

	if (kvs_store_open(b->store_path, b->file, b->force, &b->store, message))
		return report_fail("%s", message);
	b->load = (struct load_file){
		.fd = b->store.fd,
		.direct = b->store.direct,
		.unchecked = b->unchecked,
		.block_bytes = b->store.block_bytes,
		.record_bytes = b->record,
		.n_records = b->file / b->record,
	};
	if (b->record % b->store.block_bytes)
		return report_fail("--record is %u, must be a multiple of the store's block of %u",
				   b->record, b->store.block_bytes);
	if (!b->store.direct)
		report_note("%s: no direct I/O (%s): this measures memory", b->store.path,
			    b->store.direct_why);
	return load_write(&b->load);
}

static void name_series(struct series *s, const char *who, const char *what)
{
	snprintf(s->name, sizeof(s->name), "%s %s", who, what);
	s->unit = "MiB/s";
}

static int open_sides(struct io_bench *b)
{
	char why[KVS_MESSAGE_BYTES];
	int rc = DONE;

	for (int i = 0; !rc && i < N_BACKENDS; i++) {
		rc = load_open(&b->load, backends[i], b->depth, &b->io[i], why);
		if (!rc && !b->io[i])
			report_note("not measured, %s", why);
		name_series(&b->ours[i], "kvswap", backends[i]);
	}
	b->fio = fio_there();
	if (!b->fio)
		report_note("not measured, fio: it is not installed (apt-get install fio)");
	for (int i = 0; i < N_FIO; i++)
		name_series(&b->other[i], "fio", fio_engines[i]);
	return rc;
}

static int measure_ours(struct io_bench *b, int i)
{
	struct load_result result;
	int rc = load_run(&b->load, b->io[i], b->depth, b->ms, &result);

	if (!rc)
		series_add(&b->ours[i], result.bytes_per_s / (1 << 20), result.cpu_ms);
	return rc;
}

static int measure_fio(struct io_bench *b, int i)
{
	uint64_t bytes = (uint64_t)b->load.n_records * b->record;
	struct fio_result result;
	int rc = fio_run(fio_engines[i], b->store.fd, bytes, b->record, b->depth, b->ms, &result);

	if (!rc)
		series_add(&b->other[i], result.bytes_per_s / (1 << 20), result.cpu_ms);
	return rc;
}

static int measure(struct io_bench *b)
{
	int n = N_BACKENDS + N_FIO, rc = DONE;

	for (uint32_t repetition = 0; !rc && repetition < b->repeat; repetition++)
		for (int k = 0; !rc && k < n; k++) {
			int i = (int)((repetition + (uint32_t)k) % (uint32_t)n);

			if (i < N_BACKENDS && b->io[i])
				rc = measure_ours(b, i);
			else if (i >= N_BACKENDS && b->fio)
				rc = measure_fio(b, i - N_BACKENDS);
			if (!rc)
				rc = interrupt_check();
		}
	return rc;
}

static const struct series *best(const struct series *s, int n)
{
	const struct series *best = NULL;

	for (int i = 0; i < n; i++)
		if (s[i].n && (!best || series_rate(&s[i]) > series_rate(best)))
			best = &s[i];
	return best;
}

/* The backend that `auto` takes: the first that there is. */
static const struct series *chosen(const struct io_bench *b)
{
	for (int i = 0; i < N_BACKENDS; i++)
		if (b->ours[i].n)
			return &b->ours[i];
	return NULL;
}

static void json_more(struct json *j, const void *arg)
{
	const struct io_bench *b = arg;

	json_text(j, "store", b->store.path);
	json_bool(j, "direct_io", b->store.direct);
	json_uint(j, "record_bytes", b->record);
	json_uint(j, "io_depth", b->depth);
	json_uint(j, "file_bytes", (uint64_t)b->load.n_records * b->record);
}

static int show(struct io_bench *b)
{
	const struct series *series[N_BACKENDS + N_FIO], *other = best(b->other, N_FIO);
	char title[512];
	struct results r = {
		.argc = b->argc,
		.argv = b->argv,
		.json = b->json,
		.title = title,
		.series = series,
		.more = json_more,
		.arg = b,
	};

	for (int i = 0; i < N_BACKENDS; i++)
		if (b->ours[i].n)
			series[r.n_series++] = &b->ours[i];
	for (int i = 0; i < N_FIO; i++)
		if (b->other[i].n)
			series[r.n_series++] = &b->other[i];
	if (other && chosen(b))
		results_add(&r, ratio_of("bandwidth_over_fio", chosen(b), other));
	snprintf(title, sizeof(title), "records of %u bytes, %u in flight, from %.400s, %s",
		 b->record, b->depth, b->store.path,
		 b->store.direct ? "direct I/O" : "no direct I/O");
	return results_write(&r);
}

static void close_all(struct io_bench *b)
{
	for (int i = 0; i < N_BACKENDS; i++)
		if (b->io[i])
			b->io[i]->ops->close(b->io[i]);
	load_clear(&b->load);
	kvs_store_close(&b->store);
}

static int run(struct io_bench *b)
{
	int rc = open_file(b);

	if (!rc)
		rc = open_sides(b);
	results_start();
	if (!rc)
		rc = measure(b);
	if (!rc)
		rc = show(b);
	close_all(b);
	return rc;
}

int io_main(int argc, char **argv)
{
	struct io_bench *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return report_fail("out of memory");
	b->argc = argc;
	b->argv = argv;
	b->record = 16384;
	b->depth = 32;
	b->file = 512u << 20;
	b->ms = 1000;
	b->repeat = 5;
	b->store.fd = -1;
	b->store.dir_fd = -1;
	rc = parse(b, argc, argv);
	if (!rc && b->help) {
		fputs(help, stdout);
	} else if (!rc) {
		interrupt_catch();
		rc = run(b);
	}
	free(b);
	return rc;
}
