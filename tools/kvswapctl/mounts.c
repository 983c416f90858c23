// SPDX-License-Identifier: MIT
/* See mounts.h; the form of a line is in proc(5). */
#include "mounts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blanks and backslashes are written as \ooo. */
static void unescape(const char *from, char *to, size_t bytes)
{
	size_t n = 0;

	while (*from && n + 1 < bytes) {
		unsigned int code;

		if (from[0] == '\\' && sscanf(from + 1, "%3o", &code) == 1 && strlen(from) >= 4) {
			to[n++] = (char)code;
			from += 4;
		} else {
			to[n++] = *from++;
		}
	}
	to[n] = '\0';
}

static void find_upper(const char *options, char *upper, size_t bytes)
{
	static const char key[] = "upperdir=";
	const char *at = strstr(options, key);

	upper[0] = '\0';
	if (!at)
		return;
	unescape(at + strlen(key), upper, bytes);
	upper[strcspn(upper, ",")] = '\0';
}

static bool parse(char *line, struct mount *out)
{
	char *save, *word = strtok_r(line, " \n", &save), *words[64];
	int n = 0, dash = 0;

	for (; word && n < 64; word = strtok_r(NULL, " \n", &save)) {
		if (!dash && n >= 6 && !strcmp(word, "-"))
			dash = n;
		words[n++] = word;
	}
	if (!dash || n < dash + 4 || sscanf(words[2], "%u:%u", &out->major, &out->minor) != 2)
		return false;
	unescape(words[4], out->point, sizeof(out->point));
	snprintf(out->type, sizeof(out->type), "%s", words[dash + 1]);
	unescape(words[dash + 2], out->source, sizeof(out->source));
	find_upper(words[dash + 3], out->upper, sizeof(out->upper));
	return true;
}

static FILE *open_mounts(const char *root)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
	return fopen(path, "re");
}

/* Length of the mount point when path is at or below it, else 0. */
static size_t covers(const char *point, const char *path)
{
	size_t n = strlen(point);

	if (!strcmp(point, "/"))
		return 1;
	return !strncmp(point, path, n) && (path[n] == '/' || !path[n]) ? n : 0;
}

int mount_of_path(const char *root, const char *path, struct mount *out)
{
	FILE *f = open_mounts(root);
	struct mount *m = malloc(sizeof(*m));
	char *line = NULL;
	size_t room = 0, best = 0;

	/* Of several mounts on one point the last hides the others. */
	while (f && m && getline(&line, &room, f) > 0)
		if (parse(line, m) && covers(m->point, path) >= best && covers(m->point, path)) {
			best = covers(m->point, path);
			*out = *m;
		}
	free(line);
	free(m);
	if (!f)
		return -errno;
	fclose(f);
	return best ? 0 : -ENOENT;
}

void mount_of_device(const char *root, unsigned int major, unsigned int minor, char point[PATH_MAX])
{
	FILE *f = open_mounts(root);
	struct mount *m = malloc(sizeof(*m));
	char *line = NULL;
	size_t room = 0;

	point[0] = '\0';
	while (f && m && !point[0] && getline(&line, &room, f) > 0)
		if (parse(line, m) && m->major == major && m->minor == minor)
			snprintf(point, PATH_MAX, "%s", m->point);
	free(line);
	free(m);
	if (f)
		fclose(f);
}
