#include "mgmt/live.h"
#include "mgmt/log.h"
#include "mgmt/mgmt.h"
#include "mgmt/notify.h"
#include "mgmt/placement.h"

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
    mgmt_raise_file_limit(settings);
    dataplane_live_set(&mgmt->dataplane->live, settings, mgmt->dataplane->ns_per_cycle);
    store_set_policy(mgmt->dataplane->store, policy_of(settings->memory_policy));
    store_set_limit(mgmt->dataplane->store, settings->memory_limit);
}

static size_t
index_of(const struct live_change *changes, size_t count, enum setting_id id)
{
    size_t i = 0;

    while (i + 1 < count && changes[i].setting != &settings_table[id]) {
        i++;
    }
    return i;
}

static bool
refuse(size_t index, size_t *wrong)
{
    if (wrong != NULL) {
        *wrong = index;
    }
    return false;
}

bool
live_set(struct mgmt *mgmt, const struct live_change *changes, size_t count, const char *by, size_t *wrong, char *why,
         size_t why_bytes)
{
    struct settings trial = *mgmt->settings;
    char before[SETTING_PRINT_BYTES], after[SETTING_PRINT_BYTES];

    for (size_t i = 0; i < count; i++) {
        if (!setting_change(&trial, changes[i].setting, changes[i].value, mgmt->host, why, why_bytes)) {
            return refuse(i, wrong);
        }
    }
    /* Last, because it is done at once: only the kernel knows whether it can be. */
    if (!placement_move(mgmt, trial.cpus, why, why_bytes)) {
        return refuse(index_of(changes, count, SETTING_ID_lcores_cpus), wrong);
    }
    for (size_t i = 0; i < count; i++) {
        const struct setting *setting = changes[i].setting;
        setting_print(mgmt->settings, setting, before);
        CHECK(setting_change(mgmt->settings, setting, changes[i].value, mgmt->host, why, why_bytes));
        log_info("%s: %s is now %s, by %s", setting->name, before, setting_print(mgmt->settings, setting, after), by);
    }
    live_apply(mgmt);
    return true;
}

bool
live_save(struct mgmt *mgmt, const struct live_change *change, const char *by, char *why, size_t why_bytes)
{
    struct settings trial = *mgmt->settings;
    char unused[SETTINGS_WHY_BYTES];

    if (mgmt->settings_path[0] == '\0') {
        snprintf(why, why_bytes,
                 "no file to save it in: the appliance was started without one, expected sluiced -c FILE");
        return false;
    }
    /* Moved first: the kernel may refuse, and the file would say what is not so. */
    if (!setting_change(&trial, change->setting, change->value, mgmt->host, why, why_bytes) ||
        !placement_move(mgmt, trial.cpus, why, why_bytes)) {
        return false;
    }
    if (!settings_save(mgmt->settings_path, change->setting, change->value, why, why_bytes)) {
        (void)placement_move(mgmt, mgmt->settings->cpus, unused, sizeof(unused));
        return false;
    }
    log_info("%s: saved in %s, by %s", change->setting->name, mgmt->settings_path, by);
    return live_set(mgmt, change, 1, by, NULL, why, why_bytes);
}

/* ---- reading the file again ---- */

static bool
read_file(struct mgmt *mgmt, struct settings *out, char *why, size_t why_bytes)
{
    const char *path = mgmt->settings_path[0] == '\0' ? NULL : mgmt->settings_path;

    return settings_parse(path, mgmt->overrides, mgmt->override_count, out, why, why_bytes) == 0;
}

void
live_open(struct mgmt *mgmt)
{
    char why[SETTINGS_WHY_BYTES];

    mgmt->written = malloc(sizeof(*mgmt->written));
    CHECK(mgmt->written != NULL);
    if (!read_file(mgmt, mgmt->written, why, sizeof(why))) { /* it was good a moment ago */
        *mgmt->written = *mgmt->settings;
    }
}

static bool
is_same(const struct settings *a, const struct settings *b, const struct setting *setting)
{
    char left[SETTING_PRINT_BYTES], right[SETTING_PRINT_BYTES];

    return strcmp(setting_print(a, setting, left), setting_print(b, setting, right)) == 0;
}

/* Another number of lcores: not while they run. */
static bool
waits(const struct mgmt *mgmt, const struct settings *file, size_t index)
{
    return index == SETTING_ID_lcores_cpus && file->cpu_count != mgmt->settings->cpu_count;
}

/* The values of live settings that differ from the file's. */
static size_t
gather_changes(const struct mgmt *mgmt, const struct settings *file, struct live_change *changes, json_t *changed)
{
    char before[SETTING_PRINT_BYTES];
    size_t count = 0;

    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings_table[i];
        bool as_at_start = is_same(file, mgmt->written, setting) && mgmt->settings->origins[i] != SETTING_BY_CHANGE;
        if (!setting->live || as_at_start || is_same(file, mgmt->settings, setting) || waits(mgmt, file, i)) {
            continue;
        }
        changes[count].setting = setting;
        setting_print(file, setting, changes[count].value);
        json_array_append_new(changed,
                              json_pack("{s:s,s:s,s:s}", "name", setting->name, "before",
                                        setting_print(mgmt->settings, setting, before), "value", changes[count].value));
        count++;
    }
    return count;
}

static void
gather_restart(const struct mgmt *mgmt, const struct settings *file, json_t *restart)
{
    const struct settings *start = mgmt->written;

    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        bool differs = !settings_table[i].live && !is_same(file, start, &settings_table[i]);
        if (differs || waits(mgmt, file, i)) {
            json_array_append_new(restart, json_string(settings_table[i].name));
        }
    }
    if (file->port_count != start->port_count ||
        memcmp(file->ports, start->ports, file->port_count * sizeof(file->ports[0])) != 0) {
        json_array_append_new(restart, json_string("ports"));
    }
    if (file->user_count != start->user_count ||
        memcmp(file->users, start->users, file->user_count * sizeof(file->users[0])) != 0) {
        json_array_append_new(restart, json_string("users"));
    }
}

static void
log_restart(const json_t *restart, const char *by)
{
    json_t *name;
    size_t i;

    json_array_foreach(restart, i, name)
    {
        log_warning("%s: differs in the settings file; it takes effect at the next start (reload by %s)",
                    json_string_value(name), by);
    }
}

bool
live_reload(struct mgmt *mgmt, const char *by, json_t *changed, json_t *restart, char *why, size_t why_bytes)
{
    struct live_change changes[SETTINGS_COUNT];
    struct settings *file = malloc(sizeof(*file));

    CHECK(file != NULL);
    notify_reloading();
    bool good = read_file(mgmt, file, why, why_bytes) && settings_resolve_cpus(file, mgmt->host, why, why_bytes);
    if (good) {
        size_t count = gather_changes(mgmt, file, changes, changed);
        good = live_set(mgmt, changes, count, by, NULL, why, why_bytes);
    }
    if (good) {
        gather_restart(mgmt, file, restart);
        log_restart(restart, by);
        log_info("settings read again, by %s: %zu changed, %zu wait for a start", by, json_array_size(changed),
                 json_array_size(restart));
    } else {
        json_array_clear(changed);
        log_error("settings not read again, by %s: %s", by, why);
    }
    free(file);
    notify_send("READY=1");
    return good;
}
