// SPDX-License-Identifier: MIT
/*
 * Starts and ends the processes of the sides, and talks to them by a socket; serve.c is the
 * other end.
 */
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvswap/interrupt.h"
#include "kvswap/report.h"

const char *const engine_names[N_ENGINES] = { "disk", "memory", "dense", "flash", "plain" };

static int count(char *const *words)
{
	int n = 0;

	while (words && words[n])
		n++;
	return n;
}

/* kvswap-bench worker KIND COMMAND OPTIONS MORE */
static char **command_line(const struct bench *b, enum engine_kind kind, char *const *more)
{
	int n = 0, n_more = count(more);
	char **argv = calloc((size_t)b->argc + (size_t)n_more + 4, sizeof(*argv));

	if (!argv)
		return NULL;
	argv[n++] = (char *)"kvswap-bench";
	argv[n++] = (char *)"worker";
	argv[n++] = (char *)(uintptr_t)engine_names[kind];
	for (int i = 0; i < b->argc; i++)
		argv[n++] = b->argv[i];
	for (int i = 0; i < n_more; i++)
		argv[n++] = more[i];
	return argv;
}

/*
 * Of the new process. Threads of LAPACK count as threads, too; nothing but results goes to our
 * stdout.
 */
static void become(char **argv, int fd, const char *policy, uint32_t n_threads)
{
	char threads[16];

	snprintf(threads, sizeof(threads), "%u", n_threads);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (policy)
		setenv("OMP_WAIT_POLICY", policy, 1);
	setenv("OPENBLAS_NUM_THREADS", threads, 1);
	setenv("OMP_NUM_THREADS", threads, 1);
	if (dup2(fd, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
		execv("/proc/self/exe", argv);
	_exit(127);
}

int worker_start(struct worker *w, const struct bench *b, enum engine_kind kind, const char *policy,
		 char *const *more)
{
	char **argv = command_line(b, kind, more);
	int fd[2];

	memset(w, 0, sizeof(*w));
	if (!argv || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) {
		free(argv);
		return report_fail("cannot start a process: %s", strerror(errno));
	}
	w->pid = fork();
	if (w->pid == 0)
		become(argv, fd[1], policy, b->run.n_threads);
	free(argv);
	close(fd[1]);
	if (w->pid < 0) {
		close(fd[0]);
		w->pid = 0;
		return report_fail("cannot start a process: %s", strerror(errno));
	}
	w->fd = fd[0];
	w->kind = kind;
	w->policy = policy;
	w->stops = b->run.n_threads > 1;
	return DONE;
}

static int transfer(struct worker *w, const struct worker_request *request,
		    struct worker_reply *reply)
{
	if (send(w->fd, request, sizeof(*request), MSG_NOSIGNAL) != sizeof(*request))
		return report_fail("a side has ended: %s", strerror(errno));
	for (;;) {
		ssize_t n = recv(w->fd, reply, sizeof(*reply), MSG_WAITALL);
		int rc = interrupt_check();

		if (n == sizeof(*reply))
			return reply->rc;
		if (rc)
			return rc;
		if (n >= 0 || errno != EINTR)
			return report_fail("a side has ended before it was done");
	}
}

int worker_call(struct worker *w, const struct worker_request *request, struct worker_reply *reply)
{
	int rc;

	if (w->stops)
		kill(w->pid, SIGCONT);
	rc = transfer(w, request, reply);
	if (w->stops)
		kill(w->pid, SIGSTOP);
	return rc;
}

/* A side that is in the middle of something ends at the next layer or block. */
void worker_end(struct worker *w)
{
	if (w->pid <= 0)
		return;
	close(w->fd);
	kill(w->pid, SIGCONT);
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
}
