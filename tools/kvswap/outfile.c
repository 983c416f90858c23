// SPDX-License-Identifier: MIT
/* Owns a file on its way to its place; see outfile.h. */
#include "outfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

static int open_temporary(struct outfile *o)
{
	mode_t mask = umask(0);
	int fd;

	umask(mask);
	if (asprintf(&o->temporary, "%s.XXXXXX", o->path) < 0) {
		o->temporary = NULL;
		return -1;
	}
	fd = mkstemp(o->temporary);
	if (fd < 0) {
		free(o->temporary);
		o->temporary = NULL;
		return -1;
	}
	fchmod(fd, 0666 & ~mask);
	o->f = fdopen(fd, "wb");
	if (!o->f)
		close(fd);
	return o->f ? 0 : -1;
}

int outfile_open(struct outfile *o, const char *path)
{
	struct stat st;

	memset(o, 0, sizeof(*o));
	o->path = strdup(path);
	if (!o->path)
		return report_fail("out of memory");
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		o->f = S_ISDIR(st.st_mode) ? (errno = EISDIR, NULL) : fopen(path, "wb");
	else
		open_temporary(o);
	if (o->f)
		return DONE;
	report_fail("%s: cannot be written: %s", path, strerror(errno));
	outfile_abandon(o);
	return FAILED;
}

int outfile_write(struct outfile *o, const void *data, size_t bytes)
{
	if (fwrite(data, 1, bytes, o->f) == bytes)
		return DONE;
	return report_fail("%s: cannot be written: %s", o->path, strerror(errno));
}

int outfile_commit(struct outfile *o)
{
	int rc = DONE;

	if (!o->f)
		return DONE;
	if (fflush(o->f) || (o->temporary && fsync(fileno(o->f))) ||
	    (o->temporary && rename(o->temporary, o->path)))
		rc = report_fail("%s: cannot be written: %s", o->path, strerror(errno));
	if (!rc) {
		free(o->temporary);
		o->temporary = NULL;
	}
	outfile_abandon(o);
	return rc;
}

void outfile_abandon(struct outfile *o)
{
	if (o->f)
		fclose(o->f);
	if (o->temporary)
		unlink(o->temporary);
	free(o->temporary);
	free(o->path);
	memset(o, 0, sizeof(*o));
}
