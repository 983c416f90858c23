/* SPDX-License-Identifier: MIT */
/* Writes one JSON object. key NULL: an element of an array. */
#ifndef KVSWAP_JSON_H
#define KVSWAP_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *f;
	bool comma;
};

void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
void json_uint(struct json *j, const char *key, uint64_t value);
void json_number(struct json *j, const char *key, double value); /* not finite: null */
void json_bool(struct json *j, const char *key, bool value);
/* Bytes that are not UTF-8 become U+FFFD. */
void json_bytes(struct json *j, const char *key, const char *text, size_t n);
void json_text(struct json *j, const char *key, const char *text);

#endif
