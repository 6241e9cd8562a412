#include "mgmt/live.h"
#include "mgmt/log.h"
#include "mgmt/mgmt.h"

static enum store_policy
policy_of(const char *name)
{
    const struct setting *setting = &settings_table[SETTING_ID_memory_policy];

    CHECK(setting->choice_count == STORE_VOLATILE_TTL + 1);
    for (size_t i = 0; i < setting->choice_count; i++) {
        if (strcmp(setting->choices[i], name) == 0) {
            return (enum store_policy)i;
        }
    }
    return STORE_NOEVICTION;
}

void
live_apply(struct mgmt *mgmt)
{
    const struct settings *settings = mgmt->settings;

    log_set_level(settings->log_level);
    store_set_policy(mgmt->dataplane->store, policy_of(settings->memory_policy));
    store_set_limit(mgmt->dataplane->store, settings->memory_limit);
}

bool
live_set(struct mgmt *mgmt, const struct live_change *changes, size_t count, size_t *wrong, char *why, size_t why_bytes)
{
    struct settings trial = *mgmt->settings;
    char before[SETTING_PRINT_BYTES], after[SETTING_PRINT_BYTES];

    for (size_t i = 0; i < count; i++) {
        if (!setting_change(&trial, changes[i].setting, changes[i].value, why, why_bytes)) {
            if (wrong != NULL) {
                *wrong = i;
            }
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct setting *setting = changes[i].setting;
        setting_print(mgmt->settings, setting, before);
        CHECK(setting_change(mgmt->settings, setting, changes[i].value, why, why_bytes));
        log_info("%s: %s is now %s", setting->name, before, setting_print(mgmt->settings, setting, after));
    }
    live_apply(mgmt);
    return true;
}
