/* live.h - settings that change while the appliance runs: one way for the management socket, CONFIG SET and the file.
 */
#pragma once
#include "config/settings.h"
#include <jansson.h>

struct mgmt;

struct live_change {
    const struct setting *setting;
    char value[SETTING_PRINT_BYTES];
};

/* Every change is checked before the first takes effect, and logged with who asked: `by`. False: `why` names what is
 * wrong, *wrong (may be NULL) is the index of that change, and nothing has happened. */
bool live_set(struct mgmt *mgmt, const struct live_change *changes, size_t count, const char *by, size_t *wrong,
              char *why, size_t why_bytes);

/* As live_set() of one, and written into the settings file first: settings_save(). Without a file it is refused. */
bool live_save(struct mgmt *mgmt, const struct live_change *change, const char *by, char *why, size_t why_bytes);

/* Read the settings file again. What is wrong in it is `why`, and nothing has happened. Else every live setting is as
 * the file says, also those that live_set() had changed, and `changed` gets an object for each: name, before, value;
 * `restart` gets the names of those that only a start can change. */
bool live_reload(struct mgmt *mgmt, const char *by, json_t *changed, json_t *restart, char *why, size_t why_bytes);
/* Remember what the file says at start, because only differences from that need another start. */
void live_open(struct mgmt *mgmt);

/* What live settings say takes effect: at start, and after each change. */
void live_apply(struct mgmt *mgmt);
