// SPDX-License-Identifier: MIT
/* `kvswapctl plot`: a picture of a probe, a plan or a benchmark, drawn by gnuplot. */
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "doc.h"
#include "kvswap/report.h"
#include "plotscript.h"

extern char **environ;

struct values {
	const char *output;
};

static const struct cli_option options[] = {
	{ "output", 'o', CLI_TEXT, offsetof(struct values, output), 0, 0, "FILE",
	  "a .svg or .png (FILE.svg beside each file)" },
};

static bool ends(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

/* The picture is drawn beside its place and then renamed. */
static int output_of(const char *file, const struct values *v, char *out, size_t bytes)
{
	size_t n = strlen(file) - (ends(file, ".json") ? 5 : 0);

	if (v->output)
		snprintf(out, bytes, "%s", v->output);
	else
		snprintf(out, bytes, "%.*s.svg", (int)n, file);
	if (ends(out, ".svg") || ends(out, ".png"))
		return DONE;
	return report_usage("--output is '%s', must end in .svg or .png", out);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return report_fail("gnuplot: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return report_fail("no gnuplot to draw with: install gnuplot-nox");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return report_fail("gnuplot failed: its message is above");
	return DONE;
}

static int draw(const char *script)
{
	char *const argv[] = { "gnuplot", (char *)(uintptr_t)script, NULL };
	pid_t pid;
	int err = posix_spawnp(&pid, "gnuplot", NULL, NULL, argv, environ);

	if (err == ENOENT)
		return report_fail("no gnuplot to draw with: install gnuplot-nox");
	return err ? report_fail("gnuplot: %s", strerror(err)) : wait_for(pid);
}

static int write_script(doc_value *root, const char *title, const char *picture, char *script)
{
	int fd = mkstemp(script), rc;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f) {
		if (fd >= 0)
			close(fd);
		return report_fail("%s: %s", script, strerror(errno));
	}
	rc = plot_script(f, root, title, ends(picture, ".png.new") ? "pngcairo" : "svg", picture);
	if (fclose(f) && !rc)
		rc = report_fail("%s: %s", script, strerror(errno));
	return rc;
}

static int plot_one(const char *file, const struct values *v)
{
	char out[PATH_MAX], picture[PATH_MAX + 8], script[] = "/tmp/kvswap-plot-XXXXXX";
	doc_value *root;
	int rc = output_of(file, v, out, sizeof(out));

	if (!rc)
		rc = doc_open(file, &root);
	if (rc)
		return rc;
	snprintf(picture, sizeof(picture), "%s.new", out);
	rc = write_script(root, file, picture, script);
	doc_close(root);
	if (!rc)
		rc = draw(script);
	unlink(script);
	if (!rc && rename(picture, out))
		rc = report_fail("%s: %s", out, strerror(errno));
	if (rc)
		unlink(picture);
	else
		printf("%s\n", out);
	return rc;
}

static int plot_main(int argc, char **argv)
{
	struct values v = { 0 };
	struct cli_list files;
	enum cli_result parsed = cli_parse(&command_plot, &v, argc, argv, &files);
	int rc = DONE;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (files.n == 0)
		return report_usage("no file: give the JSON of a probe, a plan or a benchmark");
	if (v.output && files.n > 1)
		return report_usage("--output goes with one file, these are %d", files.n);
	for (int i = 0; !rc && i < files.n; i++)
		rc = plot_one(files.arg[i], &v);
	return rc;
}

const struct command command_plot = {
	.name = "plot",
	.summary = "a picture of a probe, a plan or a benchmark",
	.usage = "FILE.json... [-o FILE.svg|FILE.png]",
	.about =
		"Draws by gnuplot: of a probe reads a second and latency by record size and depth, of a plan the time of\n"
		"each stage, of build/bench/summary.json the ratios.",
	.examples = "  kvswapctl probe /mnt/nvme --json > nvme.json && kvswapctl plot nvme.json\n"
		    "  kvswapctl plot build/bench/summary.json -o bench.png",
	.options = options,
	.n_options = CLI_N(options),
	.main = plot_main,
};
