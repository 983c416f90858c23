// SPDX-License-Identifier: MIT
/* Runs fio and reads its terse output; see fio.h. */
#include "fio.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvswap/interrupt.h"
#include "kvswap/report.h"

/* Fields of terse version 3, from 1. */
#define FIELD_ERROR 5
#define FIELD_KIB 6   /* read in all */
#define FIELD_MS 9    /* that it took */
#define FIELD_USER 88 /* processor time, percent */
#define FIELD_SYSTEM 89

int fio_there(void)
{
	static int there = -1;

	if (there < 0)
		there = system("command -v fio >/dev/null 2>&1") == 0;
	return there;
}

static double field(const char *line, int n)
{
	for (int i = 1; i < n && line; i++) {
		line = strchr(line, ';');
		line = line ? line + 1 : NULL;
	}
	return line ? strtod(line, NULL) : -1;
}

static int parse(const char *line, uint32_t record_bytes, struct fio_result *out)
{
	double kib = field(line, FIELD_KIB), ms = field(line, FIELD_MS);
	double busy = (field(line, FIELD_USER) + field(line, FIELD_SYSTEM)) / 100;

	if (line[0] != '3' || field(line, FIELD_ERROR) != 0 || kib <= 0 || ms <= 0 || busy < 0)
		return report_fail("fio said what is not understood: '%.60s'", line);
	out->bytes_per_s = kib * 1024 / (ms / 1000);
	out->cpu_ms = busy * ms / (kib * 1024 / record_bytes);
	return DONE;
}

/* fio's best: fixed buffers, a registered file, submissions and completions by the batch. */
static void command_line(char *out, size_t bytes, const char *engine, int fd, uint64_t file_bytes,
			 uint32_t record_bytes, uint32_t depth, uint32_t ms)
{
	bool uring = !strcmp(engine, "io_uring");

	snprintf(
		out, bytes,
		"exec fio --name=records --filename=/proc/%d/fd/%d --allow_file_create=0 --size=%llu "
		"--rw=randread --norandommap=1 --randrepeat=0 --bs=%u --direct=1 --ioengine=%s "
		"--iodepth=%u --iodepth_batch_submit=%u --iodepth_batch_complete_min=1 "
		"--iodepth_batch_complete_max=%u %s --gtod_reduce=1 --time_based=1 --runtime=%ums "
		"--output-format=terse --terse-version=3",
		(int)getpid(), fd, (unsigned long long)file_bytes, record_bytes, engine, depth,
		depth > 4 ? depth / 4 : 1, depth, uring ? "--fixedbufs=1 --registerfiles=1" : "",
		ms);
}

int fio_run(const char *engine, int fd, uint64_t file_bytes, uint32_t record_bytes, uint32_t depth,
	    uint32_t ms, struct fio_result *out)
{
	char command[1024], line[4096];
	bool got;
	FILE *f;
	int status;

	command_line(command, sizeof(command), engine, fd, file_bytes, record_bytes, depth, ms);
	f = popen(command, "re");
	if (!f)
		return report_fail("cannot run fio");
	got = fgets(line, sizeof(line), f);
	status = pclose(f);
	if (interrupt_check())
		return interrupt_check();
	if (!got || status)
		return report_fail("fio failed: %s", command);
	return parse(line, record_bytes, out);
}
