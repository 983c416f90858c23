/* SPDX-License-Identifier: MIT */
/*
 * A side as a process of its own: an OpenMP runtime reads its wait policy only once, at its
 * start, and what one side does to memory is no affair of the others. One runs at a time; where
 * a side has threads that could spin while they wait, it is stopped meanwhile.
 */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include <sys/types.h>

#include "engine.h"

enum worker_op { WORKER_FILL, WORKER_DEEP, WORKER_ZERO, WORKER_SAVE, WORKER_LOAD, WORKER_INFO };

struct worker_request {
	uint32_t op;	  /* enum worker_op */
	uint32_t n;	  /* tokens */
	uint32_t threads; /* 0: as they are */
	int32_t fd;	  /* of SAVE and LOAD */
};

struct worker_reply {
	int32_t rc;		  /* exit code, said why */
	uint64_t wall_ns, cpu_ns; /* of what counts; cpu: of all threads */
	struct engine_info info;
};

struct worker {
	pid_t pid; /* 0: not running */
	int fd;
	enum engine_kind kind;
	bool filled;	    /* has the whole prompt; the caller's to say */
	bool stops;	    /* is stopped between requests */
	const char *policy; /* OMP_WAIT_POLICY; NULL: as it is in our environment */
};

/* more: NULL, or options beside those of the command line, ended by NULL. */
int worker_start(struct worker *w, const struct bench *b, enum engine_kind kind, const char *policy,
		 char *const *more);
/* DONE, or the reply's code, or FAILED when the process has ended. */
int worker_call(struct worker *w, const struct worker_request *request, struct worker_reply *reply);
void worker_end(struct worker *w);

#endif
