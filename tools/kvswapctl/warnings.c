// SPDX-License-Identifier: MIT
/* See warnings.h. */
#include "warnings.h"

#include <stdarg.h>
#include <stdio.h>

void warn(struct warnings *w, const char *format, ...)
{
	va_list args;

	if (w->n == WARNINGS_MAX) {
		w->lost++;
		return;
	}
	va_start(args, format);
	vsnprintf(w->text[w->n], sizeof(w->text[0]), format, args);
	va_end(args);
	w->n++;
}
