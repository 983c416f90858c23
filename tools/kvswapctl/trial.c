// SPDX-License-Identifier: MIT
/* See trial.h. The child's object goes to an unnamed place in /tmp, its last line on stderr is the reason of a failure. */
#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvswap/interrupt.h"
#include "kvswap/report.h"

#define ARGS_MAX 32

extern char **environ;

void trial_program(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 16);

	if (n > 0) {
		path[n] = '\0';
		if (strrchr(path, '/'))
			strcpy(strrchr(path, '/'), "/kvswap");
		if (!access(path, X_OK))
			return;
	}
	snprintf(path, PATH_MAX, "kvswap");
}

struct command_line {
	const char *arg[ARGS_MAX];
	char number[8][24];
	int n, numbers;
};

static void add(struct command_line *c, const char *name, const char *value)
{
	c->arg[c->n++] = name;
	if (value)
		c->arg[c->n++] = value;
}

static void add_number(struct command_line *c, const char *name, uint64_t value)
{
	char *text = c->number[c->numbers++];

	if (value == 0) {
		c->numbers--;
		return;
	}
	snprintf(text, sizeof(c->number[0]), "%" PRIu64, value);
	add(c, name, text);
}

static void make(const struct trial_run *r, const struct trial *t, struct command_line *c)
{
	memset(c, 0, sizeof(*c));
	add(c, r->program, "run");
	add(c, "-m", r->model);
	add(c, "-f", r->text);
	add(c, "--json", NULL);
	if (r->store)
		add(c, "--store", r->store);
	add_number(c, "-n", r->tokens);
	add_number(c, "-t", r->threads);
	add_number(c, "--budget", r->budget);
	add_number(c, "--group", t->group);
	add_number(c, "--select", t->select);
	add_number(c, "--ahead", t->ahead);
}

static void last_line(const char *path, char *line, size_t bytes)
{
	FILE *f = fopen(path, "re");
	char at[512];

	line[0] = '\0';
	while (f && fgets(at, sizeof(at), f))
		snprintf(line, bytes, "%.*s", (int)strcspn(at, "\n"), at);
	if (f)
		fclose(f);
}

/* Exit status of the child, or -errno. */
static int start_and_wait(const struct command_line *c, const char *out, const char *err)
{
	posix_spawn_file_actions_t files;
	int status, rc;
	pid_t pid;

	rc = posix_spawn_file_actions_init(&files);
	if (rc)
		return -rc;
	posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_addopen(&files, 2, err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	rc = posix_spawnp(&pid, c->arg[0], &files, NULL, (char *const *)(uintptr_t)c->arg, environ);
	posix_spawn_file_actions_destroy(&files);
	if (rc)
		return -rc;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int take(const char *out, struct trial *t)
{
	doc_value *root;
	double rate;
	int rc = doc_open(out, &root);

	if (rc)
		return rc;
	rate = doc_number(doc_get(root, "decode.tokens_per_s"), 0);
	/* Of several runs the best: what else the machine does only ever makes it slower. */
	if (rate > t->tokens_per_s) {
		t->tokens_per_s = rate;
		t->p50_ms = doc_number(doc_get(root, "decode.p50_ms"), 0);
	}
	t->coverage = doc_number(doc_get(root, "selection.coverage"), 0);
	t->hit_rate = doc_number(doc_get(root, "selection.hit_rate"), 0);
	t->group = (uint32_t)doc_number(doc_get(root, "settings.group"), t->group);
	t->select = (uint32_t)doc_number(doc_get(root, "settings.select"), t->select);
	t->reuse = (uint32_t)doc_number(doc_get(root, "settings.reuse"), 0);
	t->record_bytes = (uint32_t)doc_number(doc_get(root, "settings.record_bytes"), 0);
	t->runs++;
	doc_close(root);
	return rate > 0 ? DONE : report_fail("kvswap run generated nothing to measure");
}

int trial_measure(const struct trial_run *r, struct trial *t)
{
	char dir[] = "/tmp/kvswap-tune-XXXXXX", out[64], err[64], line[512];
	struct command_line c;
	int rc;

	if (!mkdtemp(dir))
		return report_fail("%s: %s", dir, strerror(errno));
	snprintf(out, sizeof(out), "%s/out", dir);
	snprintf(err, sizeof(err), "%s/err", dir);
	make(r, t, &c);
	rc = start_and_wait(&c, out, err);
	last_line(err, line, sizeof(line));
	if (interrupt_check())
		rc = interrupt_check();
	else if (rc < 0)
		rc = report_fail("%s: %s", r->program, strerror(-rc));
	else if (rc)
		rc = report_fail("kvswap run failed: %s", line);
	else
		rc = take(out, t);
	unlink(out);
	unlink(err);
	rmdir(dir);
	return rc;
}
