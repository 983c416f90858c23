// SPDX-License-Identifier: MIT
/* Owns a sequence's text; see stream.h. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

/* Cuts at the first stop string that ends in the last n bytes. */
static void cut(struct stream *s, size_t n)
{
	size_t end = s->n;

	for (size_t i = 0; i < s->n_stops; i++) {
		size_t length = strlen(s->stops[i]);
		size_t from = s->n > n + length ? s->n - n - length : 0;
		const char *at = memmem(s->text + from, s->n - from, s->stops[i], length);

		if (at && (size_t)(at - s->text) < end)
			end = (size_t)(at - s->text);
	}
	s->stopped = end < s->n;
	s->n = end;
}

int stream_add(struct stream *s, const char *bytes, size_t n)
{
	if (s->n + n + 1 > s->room) {
		size_t room = 2 * (s->n + n) + 256;
		char *more = realloc(s->text, room);

		if (!more)
			return report_fail("out of memory");
		s->text = more;
		s->room = room;
	}
	memcpy(s->text + s->n, bytes, n);
	s->n += n;
	cut(s, n);
	return DONE;
}

static size_t held_back(const struct stream *s)
{
	size_t most = 0;

	for (size_t i = 0; i < s->n_stops; i++) {
		size_t length = strlen(s->stops[i]) - 1;

		for (length = length < s->n ? length : s->n; length > most; length--)
			if (!memcmp(s->text + s->n - length, s->stops[i], length))
				most = length;
	}
	return most;
}

const char *stream_take(struct stream *s, bool all, size_t *n)
{
	size_t end = s->n - (all || s->stopped ? 0 : held_back(s));
	const char *from = s->text + s->shown;

	*n = end > s->shown ? end - s->shown : 0;
	s->shown += *n;
	return from;
}

void stream_close(struct stream *s)
{
	free(s->text);
	memset(s, 0, sizeof(*s));
}
