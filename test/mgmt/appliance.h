/* appliance.h - a management core over a small data plane whose lcores do not run, for tests: what is mailed to them
 * stays in their rings and can be looked at. */
#pragma once
#include "mgmt/mgmt.h"

/* Aborts when it cannot be made. `overrides` as for settings_load(). */
void appliance_open(struct mgmt *mgmt, const char *const *overrides, size_t count);
void appliance_close(struct mgmt *mgmt);

/* Ask as lcore 0 for session 7 would; `args` are the command's, the name excluded. The answer's bytes stay until the
 * next call. NULL: not answered yet. */
const char *appliance_ask(struct mgmt *mgmt, enum later_kind kind, enum wire wire, const char *const *args,
                          size_t count);
#define ASK(mgmt, kind, wire, ...)                                                                                     \
    appliance_ask(mgmt, kind, wire, (const char *const[]){ __VA_ARGS__ },                                              \
                  sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))
/* The last mail to lcore `lcore`; false: none. */
bool appliance_mail(struct mgmt *mgmt, uint32_t lcore, struct mail *mail);
