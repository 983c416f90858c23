/* SPDX-License-Identifier: MIT */
/* A gnuplot script, data included, for a document of these programs. */
#ifndef KVSWAPCTL_PLOTSCRIPT_H
#define KVSWAPCTL_PLOTSCRIPT_H

#include <stdio.h>

#include "doc.h"

/* DONE, or FAILED and said why: there is nothing in it to draw. */
int plot_script(FILE *f, doc_value *root, const char *title, const char *terminal,
		const char *output);

#endif
