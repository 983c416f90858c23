/* SPDX-License-Identifier: MIT */
/* A file that is there whole or not at all: written beside its place, synced, renamed. */
#ifndef KVSWAP_OUTFILE_H
#define KVSWAP_OUTFILE_H

#include <stddef.h>
#include <stdio.h>

struct outfile {
	FILE *f; /* NULL: not open */
	char *path;
	char *temporary; /* NULL: path is no file of its own (a pipe, a terminal) and is written as
			    it is */
};

int outfile_open(struct outfile *o, const char *path);
int outfile_write(struct outfile *o, const void *data, size_t bytes);
int outfile_commit(struct outfile *o);
void outfile_abandon(struct outfile *o);

#endif
