// SPDX-License-Identifier: MIT
/* The process of one side: takes requests on its stdin, a socket, and times what they ask for. */
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "kvswap/clock.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "worker.h"

static uint64_t cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

static void start(struct worker_reply *reply)
{
	reply->wall_ns = clock_ns();
	reply->cpu_ns = cpu_ns();
}

static void stop(struct worker_reply *reply)
{
	reply->cpu_ns = cpu_ns() - reply->cpu_ns;
	reply->wall_ns = clock_ns() - reply->wall_ns;
}

static int fill(struct engine *e, uint32_t n, struct worker_reply *reply)
{
	int rc = e->ops->renew(e);

	if (rc)
		return rc;
	start(reply);
	rc = e->ops->fill(e, n);
	stop(reply);
	return rc;
}

/* The first token after another side has run finds cold caches and is not timed. */
static int burst(struct engine *e, bool deep, uint32_t n, struct worker_reply *reply)
{
	int rc = e->ops->begin(e, deep);

	if (!rc)
		rc = e->ops->steps(e, deep, 1);
	if (rc)
		return rc;
	start(reply);
	rc = e->ops->steps(e, deep, n);
	stop(reply);
	return rc;
}

static int answer(struct engine *e, const struct worker_request *request,
		  struct worker_reply *reply)
{
	int rc = request->threads && e->ops->threads ? e->ops->threads(e, request->threads) : DONE;

	if (rc)
		return rc;
	switch ((enum worker_op)request->op) {
	case WORKER_FILL:
		return fill(e, request->n, reply);
	case WORKER_DEEP:
		return burst(e, true, request->n, reply);
	case WORKER_ZERO:
		return burst(e, false, request->n, reply);
	case WORKER_SAVE:
		return e->ops->save(e, request->fd);
	case WORKER_LOAD:
		return e->ops->load(e, request->fd);
	case WORKER_INFO:
		if (e->ops->info)
			e->ops->info(e, &reply->info);
		return DONE;
	}
	return FAILED;
}

static int serve(struct engine *e)
{
	struct worker_request request;
	int rc = DONE;

	while (recv(STDIN_FILENO, &request, sizeof(request), MSG_WAITALL) == sizeof(request)) {
		struct worker_reply reply = { 0 };

		reply.rc = rc = answer(e, &request, &reply);
		if (send(STDIN_FILENO, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply))
			break;
	}
	return rc;
}

static int kind_of(const char *name)
{
	for (int i = 0; i < N_ENGINES; i++)
		if (!strcmp(name, engine_names[i]))
			return i;
	return -1;
}

int serve_main(int argc, char **argv)
{
	struct bench b;
	struct subject subject;
	struct engine *e;
	int kind = argc > 2 ? kind_of(argv[1]) : -1, rc;

	if (kind < 0 || bench_parse(&b, argc - 2, argv + 2) != PARSED)
		return WRONG_USAGE;
	interrupt_catch();
	rc = subject_open(&subject, &b);
	if (rc)
		return rc;
	rc = (kind >= ENGINE_FLASH ? &engine_llama_ops : &engine_kvswap_ops)
		     ->open(&e, &b, &subject, (enum engine_kind)kind);
	if (!rc) {
		rc = serve(e);
		e->ops->close(e);
	}
	subject_close(&subject);
	return rc;
}
