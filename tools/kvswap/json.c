// SPDX-License-Identifier: MIT
/* JSON by RFC 8259; see json.h. */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Bytes of the UTF-8 character at p, 0 when it is none. */
static size_t character(const unsigned char *p, size_t n)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = *p < 0x80 ? 1 : *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
	uint32_t code = *p & (0xffu >> (length + 1));

	if (length == 1)
		return 1;
	if (*p < 0xc2 || *p > 0xf4 || length > n)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)
		       ? 0
		       : length;
}

static void quoted(FILE *f, const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + n;

	fputc('"', f);
	while (p < end) {
		size_t length = character(p, (size_t)(end - p));

		if (length == 0)
			fputs("\\ufffd", f);
		else if (*p == '"' || *p == '\\')
			fprintf(f, "\\%c", *p);
		else if (*p < 0x20)
			fprintf(f, "\\u%04x", *p);
		else
			fwrite(p, 1, length, f);
		p += length ? length : 1;
	}
	fputc('"', f);
}

static void begin(struct json *j, const char *key)
{
	if (j->comma)
		fputs(", ", j->f);
	j->comma = true;
	if (!key)
		return;
	quoted(j->f, key, strlen(key));
	fputs(": ", j->f);
}

void json_open(struct json *j, const char *key, char bracket)
{
	begin(j, key);
	fputc(bracket, j->f);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	fputc(bracket, j->f);
	j->comma = true;
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	begin(j, key);
	fprintf(j->f, "%" PRIu64, value);
}

void json_number(struct json *j, const char *key, double value)
{
	begin(j, key);
	if (isfinite(value))
		fprintf(j->f, "%.6g", value);
	else
		fputs("null", j->f);
}

void json_bool(struct json *j, const char *key, bool value)
{
	begin(j, key);
	fputs(value ? "true" : "false", j->f);
}

void json_bytes(struct json *j, const char *key, const char *text, size_t n)
{
	begin(j, key);
	quoted(j->f, text, n);
}

void json_text(struct json *j, const char *key, const char *text)
{
	json_bytes(j, key, text, strlen(text));
}
