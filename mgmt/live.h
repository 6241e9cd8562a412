/* live.h - settings that change while the appliance runs: one way for the management socket and for CONFIG SET. */
#pragma once
#include "config/settings.h"

struct mgmt;

struct live_change {
    const struct setting *setting;
    char value[SETTING_TEXT_BYTES];
};

/* Every change is checked before the first takes effect. False: `why` names what is wrong, *wrong (may be NULL) is the
 * index of that change, and nothing has happened. */
bool live_set(struct mgmt *mgmt, const struct live_change *changes, size_t count, size_t *wrong, char *why,
              size_t why_bytes);

/* What live settings say takes effect: at start, and after each change. */
void live_apply(struct mgmt *mgmt);
