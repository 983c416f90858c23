// SPDX-License-Identifier: MIT
/* See results.h. */
#include "results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvswap/report.h"

void results_add(struct results *r, struct ratio ratio)
{
	if (r->n_ratios < MOST_RATIOS)
		r->ratios[r->n_ratios++] = ratio;
}

static double load; /* of the machine without us */

void results_start(void)
{
	if (getloadavg(&load, 1) != 1)
		load = 0;
}

static void note_load(void)
{
	if (load > 0.5)
		report_note(
			"the machine was busy (load %.1f on %ld processors): compare ratios, not figures",
			load, sysconf(_SC_NPROCESSORS_ONLN));
}

static void processor(char *out, size_t bytes)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[256];

	snprintf(out, bytes, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (!colon || strncmp(line, "model name", 10))
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(out, bytes, "%s", colon + 2);
		break;
	}
	if (f)
		fclose(f);
}

static bool plain(const char *word)
{
	return *word &&
	       !word[strspn(
		       word,
		       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%")];
}

/* The command line as a shell would take it again. A buffer that is too small cuts it. */
static void command_line(const struct results *r, char *out, size_t bytes)
{
	const char *kernels = getenv("KVSWAP_KERNELS");
	size_t n =
		(size_t)snprintf(out, bytes, "%s%s%skvswap-bench", kernels ? "KVSWAP_KERNELS=" : "",
				 kernels ? kernels : "", kernels ? " " : "");

	for (int i = 0; i < r->argc && n < bytes; i++) {
		const char *quote = plain(r->argv[i]) ? "" : "'";

		n += (size_t)snprintf(out + n, bytes - n, " %s%s%s", quote, r->argv[i], quote);
	}
}

static void json_values(struct json *j, const char *key, const double *values, uint32_t n)
{
	json_open(j, key, '[');
	for (uint32_t i = 0; i < n; i++)
		json_number(j, NULL, values[i]);
	json_close(j, ']');
}

static void json_series(struct json *j, const struct series *s)
{
	json_open(j, NULL, '{');
	json_text(j, "name", s->name);
	json_text(j, "how", s->how);
	json_text(j, "unit", s->unit);
	json_number(j, "median", series_rate(s));
	json_number(j, "low", stats_quantile(s->rate, s->n, 0.25));
	json_number(j, "high", stats_quantile(s->rate, s->n, 0.75));
	json_values(j, "values", s->rate, s->n);
	json_values(j, "cpu_ms", s->cpu_ms, s->n);
	json_close(j, '}');
}

static void json_ratio(struct json *j, const struct ratio *ratio, const char *command)
{
	json_open(j, NULL, '{');
	json_text(j, "name", ratio->name);
	json_number(j, "value", ratio->value);
	json_number(j, "spread", ratio->high - ratio->low);
	json_number(j, "low", ratio->low);
	json_number(j, "high", ratio->high);
	json_number(j, "a", ratio->a);
	json_number(j, "b", ratio->b);
	json_text(j, "unit", ratio->unit);
	if (ratio->cpu > 0)
		json_number(j, "cpu_value", ratio->cpu);
	json_text(j, "command", command);
	json_close(j, '}');
}

static void json_machine(struct json *j)
{
	char name[128];

	processor(name, sizeof(name));
	json_open(j, "machine", '{');
	json_text(j, "processor", name);
	json_uint(j, "processors", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	json_number(j, "load", load);
	json_close(j, '}');
}

static void write_json(const struct results *r)
{
	struct json j = { .f = stdout };
	char command[4096];

	command_line(r, command, sizeof(command));
	json_open(&j, NULL, '{');
	json_text(&j, "command", command);
	json_machine(&j);
	if (r->more)
		r->more(&j, r->arg);
	json_open(&j, "sides", '[');
	for (uint32_t i = 0; i < r->n_series; i++)
		json_series(&j, r->series[i]);
	json_close(&j, ']');
	json_open(&j, "ratios", '[');
	for (uint32_t i = 0; i < r->n_ratios; i++)
		json_ratio(&j, &r->ratios[i], command);
	json_close(&j, ']');
	json_close(&j, '}');
	putchar('\n');
}

static void write_table(const struct results *r)
{
	if (r->title)
		printf("%s\n\n", r->title);
	printf("%-34s %10s %21s %12s\n", "side", "median", "quartiles", "CPU ms each");
	for (uint32_t i = 0; i < r->n_series; i++) {
		const struct series *s = r->series[i];

		printf("%-34s %10.4g %10.4g to %-7.4g %12.4g  %s%s%s\n", s->name, series_rate(s),
		       stats_quantile(s->rate, s->n, 0.25), stats_quantile(s->rate, s->n, 0.75),
		       stats_quantile(s->cpu_ms, s->n, 0.5), s->unit, *s->how ? ", " : "", s->how);
	}
	printf("\n%-34s %10s %21s %12s\n", "ratio", "value", "quartiles", "by CPU time");
	for (uint32_t i = 0; i < r->n_ratios; i++) {
		const struct ratio *x = &r->ratios[i];

		printf("%-34s %10.3f %10.3f to %-7.3f ", x->name, x->value, x->low, x->high);
		if (x->cpu > 0)
			printf("%12.3f", x->cpu);
		else
			printf("%12s", "");
		printf("  %.4g / %.4g %s\n", x->a, x->b, x->unit);
	}
}

int results_write(const struct results *r)
{
	if (r->json)
		write_json(r);
	else
		write_table(r);
	note_load();
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}
