/* doctor_fixture.h - a host made of files in a temporary directory, and what the doctor says of it. */
#pragma once
#include "mgmt/doctor_probe.h"

extern struct settings settings;
extern struct doctor doctor;

void doctor_fixture_open(void);
int doctor_fixture_close(void);
const char *doctor_fixture_root(void);

/* Files of the host: their text gets a line's end; folders are made. */
void host_file(const char *path, const char *text);
void host_file_gone(const char *path);
void host_link(const char *path, const char *target);

/* doctor_examine() of this host with `settings`. */
void examine(void);
/* One without a name when there is none. */
const struct doctor_finding *finding_of(const char *name);
/* Prints what came instead, because a bare failure says nothing. */
bool is_level(const char *name, enum doctor_level level);
