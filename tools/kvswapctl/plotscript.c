// SPDX-License-Identifier: MIT
/* See plotscript.h. */
#include "plotscript.h"

#include <stdint.h>

#include "kvswap/report.h"

#define SIZES_MAX 16

/* In double quotes, as gnuplot reads them; _ and the like mean nothing where enhanced text is off. */
static void quoted(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else if ((unsigned char)*text >= ' ')
			fputc(*text, f);
	fputc('"', f);
}

static void head(FILE *f, const char *title, const char *terminal, const char *output)
{
	fprintf(f, "set terminal %s size 960,640 noenhanced\nset output ", terminal);
	quoted(f, output);
	fputs("\nset grid\nset key outside right\nset title ", f);
	quoted(f, title);
	fputc('\n', f);
}

static double number(doc_value *v, const char *name)
{
	return doc_number(doc_get(v, name), 0);
}

/* Sizes in order of appearance. */
static int sizes_of(doc_value *cells, uint32_t *sizes)
{
	int n = 0;

	for (size_t i = 0; i < doc_length(cells); i++) {
		uint32_t bytes = (uint32_t)number(doc_at(cells, i), "bytes");
		int k = 0;

		while (k < n && sizes[k] != bytes)
			k++;
		if (k == n && n < SIZES_MAX)
			sizes[n++] = bytes;
	}
	return n;
}

static void blocks(FILE *f, doc_value *cells, const uint32_t *sizes, int n)
{
	for (int k = 0; k < n; k++) {
		fprintf(f, "$s%d << EOD\n", k);
		for (size_t i = 0; i < doc_length(cells); i++) {
			doc_value *c = doc_at(cells, i);

			if ((uint32_t)number(c, "bytes") == sizes[k])
				fprintf(f, "%g %g %g %g\n", number(c, "depth"), number(c, "mib_s"),
					number(c, "p50_us"), number(c, "p99_us"));
		}
		fputs("EOD\n", f);
	}
}

static void curves(FILE *f, const uint32_t *sizes, int n, int column)
{
	for (int k = 0; k < n; k++)
		fprintf(f, "%s $s%d using 1:%d with linespoints title \"%u KiB\"", k ? "," : "plot",
			k, column, sizes[k] / 1024);
	fputc('\n', f);
}

static void probe(FILE *f, doc_value *cells)
{
	uint32_t sizes[SIZES_MAX];
	int n = sizes_of(cells, sizes);

	blocks(f, cells, sizes, n);
	fputs("set logscale x 2\nset xlabel \"depth\"\nset multiplot layout 2,1\nset ylabel \"MiB/s\"\nset logscale y\n",
	      f);
	curves(f, sizes, n, 2);
	fputs("unset title\nset ylabel \"99 % of reads within, us\"\n", f);
	curves(f, sizes, n, 4);
	fputs("unset multiplot\n", f);
}

static void bars(FILE *f, const char *ylabel)
{
	fprintf(f,
		"set style data histograms\nset style fill solid 0.6\nset boxwidth 0.8\nset xtics rotate by -40\n"
		"set ylabel \"%s\"\nset yrange [0:*]\nplot $d using 2:xtic(1) notitle\n",
		ylabel);
}

static void stages(FILE *f, doc_value *all)
{
	doc_value *value;
	const char *name;

	fputs("$d << EOD\n", f);
	for (size_t i = 0; (name = doc_member(all, i, &value)); i++) {
		quoted(f, name);
		fprintf(f, " %g\n", doc_number(value, 0));
	}
	fputs("EOD\n", f);
	bars(f, "ms");
}

static void ratios(FILE *f, doc_value *all)
{
	fputs("$d << EOD\n", f);
	for (size_t i = 0; i < doc_length(all); i++) {
		quoted(f, doc_text(doc_get(doc_at(all, i), "name"), "?"));
		fprintf(f, " %g\n", number(doc_at(all, i), "value"));
	}
	fputs("EOD\nset arrow 1 from graph 0, first 1 to graph 1, first 1 nohead dashtype 2\n", f);
	bars(f, "ratio");
}

int plot_script(FILE *f, doc_value *root, const char *title, const char *terminal,
		const char *output)
{
	doc_value *reads = doc_get(root, "reads"), *expected = doc_get(root, "expected.stages"),
		  *run = doc_get(root, "stages"), *bench = doc_get(root, "ratios");

	head(f, title, terminal, output);
	if (doc_length(reads))
		probe(f, reads);
	else if (expected || run)
		stages(f, expected ? expected : run);
	else if (doc_length(bench))
		ratios(f, bench);
	else
		return report_fail(
			"%s: nothing to draw: neither a probe, a plan, a run nor a benchmark",
			title);
	return DONE;
}
