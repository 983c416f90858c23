// SPDX-License-Identifier: MIT
/* See contexts.h. The name of a store may hold blanks: it reaches to the first field after it. */
#include "contexts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void parse_fields(char *at, struct context *c)
{
	char *save, *name = strtok_r(at, " \n", &save), *value;

	while (name && (value = strtok_r(NULL, " \n", &save)) && c->n_fields < CONTEXT_FIELDS) {
		snprintf(c->field[c->n_fields].name, sizeof(c->field[0].name), "%.23s", name);
		c->field[c->n_fields++].value = strtoull(value, NULL, 10);
		name = strtok_r(NULL, " \n", &save);
	}
}

static int parse(char *line, struct context *c)
{
	char *store, *fields;

	memset(c, 0, sizeof(*c));
	store = strstr(line, " store ");
	fields = strstr(line, " arena_bytes ");
	if (sscanf(line, "pid %u", &c->pid) != 1 || !store || !fields || fields < store)
		return -EINVAL;
	*fields = '\0';
	snprintf(c->store, sizeof(c->store), "%.255s", store + strlen(" store "));
	parse_fields(fields + 1, c);
	return 0;
}

void contexts_read(const char *path, struct contexts *out)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	out->n = 0;
	out->why[0] = '\0';
	if (!f) {
		snprintf(out->why, sizeof(out->why), "%s: %s", path, strerror(errno));
		return;
	}
	while (getline(&line, &room, f) > 0 && out->n < CONTEXTS_MAX)
		out->n += !parse(line, &out->context[out->n]);
	free(line);
	fclose(f);
}

uint64_t context_field(const struct context *c, const char *name)
{
	for (int i = 0; i < c->n_fields; i++)
		if (!strcmp(c->field[i].name, name))
			return c->field[i].value;
	return 0;
}
