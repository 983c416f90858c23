/* SPDX-License-Identifier: MIT */
/*
 * Ctrl-C: a flag that the loops look at between layers. A second one ends the process at once; the
 * store is an unnamed file and goes with it.
 */
#ifndef KVSWAP_INTERRUPT_H
#define KVSWAP_INTERRUPT_H

void interrupt_catch(void);
/* ggml and libllama abort on some damaged files: that becomes one line and an exit with 1. */
void interrupt_catch_abort(void);
/* DONE, or the exit code that goes with the signal that has come: 130 for Ctrl-C. */
int interrupt_check(void);

#endif
