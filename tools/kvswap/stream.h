/* SPDX-License-Identifier: MIT */
/* The text of one sequence as it grows, cut at the first stop string. */
#ifndef KVSWAP_STREAM_H
#define KVSWAP_STREAM_H

#include <stdbool.h>
#include <stddef.h>

struct stream {
	const char *const *stops;
	size_t n_stops;
	char *text;
	size_t n, room;
	size_t shown; /* bytes that have gone out */
	bool stopped;
};

int stream_add(struct stream *s, const char *bytes, size_t n);
/*
 * Bytes that may go out now: all but an end that could be the beginning of a stop string; with
 * `all`, that too. *n of them; they count as shown.
 */
const char *stream_take(struct stream *s, bool all, size_t *n);
void stream_close(struct stream *s);

#endif
