// SPDX-License-Identifier: MIT
/* Owns the signal handlers. */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

#include "report.h"

static volatile sig_atomic_t caught;

static void catch (int signal)
{
	caught = signal;
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
