/* settings_fixture.h - a folder for settings files, and one place for what comes of them. */
#pragma once
#include "config/settings.h"
#include <limits.h>

extern char why[SETTINGS_WHY_BYTES];
extern struct settings settings;
extern char path[PATH_MAX]; /* of the file written last */
extern struct host host;    /* what resolve() takes for this machine */

int settings_fixture_open(void);
int settings_fixture_close(void);
const char *settings_fixture_dir(void);

/* Write a file of the given name in the fixture's folder; returns `path`. */
const char *file_write(const char *name, const char *bytes, size_t count);
/* settings_parse() of a file with this text, or of one --set. */
int parse_file(const char *text);
int parse_set(const char *override);
int resolve(void);
/* Prints what was expected and what came, because a bare failure says nothing. */
bool why_has(const char *part);
