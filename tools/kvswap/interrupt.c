// SPDX-License-Identifier: MIT
/* Owns the signal handlers. */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "ggml.h"
#include "report.h"

static volatile sig_atomic_t caught;

static void catch (int signal)
{
	caught = signal;
}

/* A C++ exception that nobody caught: the C++ library has said which. */
static void catch_abort(int signal)
{
	static const char line[] = "kvswap: libllama cannot go on: the model may be damaged\n";

	(void)signal;
	if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		_exit(FAILED);
	_exit(FAILED);
}

static void catch_assertion(const char *text)
{
	const char *file = strrchr(text, '/');

	report_fail("libllama cannot go on, the model may be damaged: %s", file ? file + 1 : text);
	_exit(FAILED);
}

void interrupt_catch_abort(void)
{
	signal(SIGABRT, catch_abort);
	ggml_set_abort_callback(catch_assertion);
}

void interrupt_catch(void)
{
	struct sigaction action = { .sa_handler = catch, .sa_flags = (int)SA_RESETHAND };
	const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
	/* A reader that has gone shows as a write error, which is reported and cleaned up after. */
	signal(SIGPIPE, SIG_IGN);
}

int interrupt_check(void)
{
	return caught ? 128 + (int)caught : DONE;
}
