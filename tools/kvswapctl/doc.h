/* SPDX-License-Identifier: MIT */
/* Reads JSON files that these programs have written, by json-c. Values live as long as the document. */
#ifndef KVSWAPCTL_DOC_H
#define KVSWAPCTL_DOC_H

#include <stdbool.h>
#include <stddef.h>

#define DOC_FORMAT 1 /* of profiles and probes: a higher one is of a newer version */

struct json_object;
typedef struct json_object doc_value;

/* DONE or FAILED, said why: cannot be read, is cut short, is no object, or of a newer format. */
int doc_open(const char *path, doc_value **root);
void doc_close(doc_value *root);

/* NULL stands for what is not there; all of these take it. path: "a.b.c" */
doc_value *doc_get(doc_value *v, const char *path);
size_t doc_length(doc_value *v); /* of an array, else 0 */
doc_value *doc_at(doc_value *v, size_t i);
double doc_number(doc_value *v, double absent);
const char *doc_text(doc_value *v, const char *absent);
bool doc_bool(doc_value *v, bool absent);
/* Member i of an object: its name and value; NULL after the last. */
const char *doc_member(doc_value *v, size_t i, doc_value **value);

#endif
