/* sandbox_files.c - Landlock: which directories a thread reaches, and whether it may use TCP of its own.
 *
 * Descriptors that are open stay what they were: only what is opened later is looked at. */
#include "mgmt/mgmt.h"
#include "mgmt/sandbox_private.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Newer than the headers of Debian 12, whose kernel has version 2: version 3 adds TRUNCATE, 4 the network, 5 IOCTL_DEV,
 * 6 scopes. */
#define ACCESS_ALL_1        ((1ull << 13) - 1)
#define ACCESS_REFER        (1ull << 13)
#define ACCESS_TRUNCATE     (1ull << 14)
#define ACCESS_IOCTL_DEVICE (1ull << 15)
#define NETWORK_TCP         3 /* bind and connect */
#define SCOPE_ABSTRACT_UNIX 1

struct ruleset {
    uint64_t files, network, scoped;
};

#define ACCESS_READ   (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ACCESS_REMOVE LANDLOCK_ACCESS_FS_REMOVE_FILE
#define ACCESS_MAKE   (LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_WRITE_FILE)
#define ACCESS_SAVE   (ACCESS_READ | ACCESS_MAKE | ACCESS_REMOVE)
#define ACCESS_SHARE  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE)

static const struct access_kind {
    uint32_t access;
    uint64_t bits;
    const char *text;
} kinds[] = {
    { SANDBOX_READ, ACCESS_READ, "reads" },       { SANDBOX_SAVE, ACCESS_SAVE, "saves in" },
    { SANDBOX_MAKE, ACCESS_MAKE, "writes to" },   { SANDBOX_REMOVE, ACCESS_REMOVE, "removes from" },
    { SANDBOX_SHARE, ACCESS_SHARE, "shares in" },
};

int
sandbox_files_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

static uint64_t
handled_files(int abi)
{
    return ACCESS_ALL_1 | (abi >= 2 ? ACCESS_REFER : 0) | (abi >= 3 ? ACCESS_TRUNCATE : 0) |
           (abi >= 5 ? ACCESS_IOCTL_DEVICE : 0);
}

/* ---- places ---- */

void
sandbox_files_add(struct sandbox_files *files, const char *path, uint32_t access)
{
    char real[PATH_MAX];
    uint32_t at = 0;

    path = realpath(path, real) != NULL ? real : path;
    while (at < files->count && strcmp(files->places[at].path, path) != 0) {
        at++;
    }
    CHECK(at < SANDBOX_PLACES_MAX && strlen(path) < sizeof(files->places[at].path));
    if (at == files->count) {
        strcpy(files->places[files->count++].path, path);
    }
    files->places[at].access |= access;
}

static void
add_directory_of(struct sandbox_files *files, const char *path, uint32_t access)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');

    snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 1 : (int)MAX(slash - path, 1), slash == NULL ? "." : path);
    sandbox_files_add(files, dir, access);
}

/* Where the name stands, and where the file lies that it links to: either may be given a new one. */
static void
add_settings_file(void *context, const char *path)
{
    char real[PATH_MAX];

    add_directory_of(context, path, SANDBOX_SAVE);
    if (realpath(path, real) != NULL) {
        add_directory_of(context, real, SANDBOX_SAVE);
    }
}

static void
gather_management(struct sandbox_files *files, const struct mgmt *mgmt)
{
    static const char *const read[] = { "/proc", "/sys", "/dev/infiniband", "/dev/vfio" }; /* metrics, doctor */

    for (size_t i = 0; i < ARRAY_COUNT(read); i++) {
        sandbox_files_add(files, read[i], SANDBOX_READ);
    }
    if (mgmt->settings_path[0] != '\0') {
        settings_list_files(mgmt->settings_path, add_settings_file, files);
    }
    add_directory_of(files, mgmt->ctl_path, SANDBOX_REMOVE);
    if (mgmt->unix_path[0] != '\0') {
        add_directory_of(files, mgmt->unix_path, SANDBOX_REMOVE);
    }
    for (uint32_t i = 0; i < mgmt->settings->port_count; i++) {
        if (mgmt->settings->ports[i].type == PORT_FABRIC) {
            sandbox_files_add(files, "/dev/shm", SANDBOX_REMOVE); /* the end of a port on shm */
        }
    }
    if (strcmp(mgmt->settings->sandbox_captures, "auto") == 0) {
        add_directory_of(files, mgmt->ctl_path, SANDBOX_MAKE);
    } else {
        sandbox_files_add(files, mgmt->settings->sandbox_captures, SANDBOX_MAKE);
    }
}

void
sandbox_files_gather(struct sandbox_files *files, const struct mgmt *mgmt, uint32_t needs)
{
    const char *notify = getenv("NOTIFY_SOCKET");

    files->count = 0;
    files->connects = (needs & SANDBOX_FABRIC) != 0 && !(needs & SANDBOX_MGMT); /* to peers: lcores */
    files->abstract = notify != NULL && notify[0] == '@';
    if (needs & SANDBOX_MGMT) {
        gather_management(files, mgmt);
    }
    if (needs & (SANDBOX_SHM | SANDBOX_FABRIC_DEVICE)) { /* efa has one inside */
        sandbox_files_add(files, "/dev/shm", SANDBOX_SHARE);
    }
}

/* ---- the rule set ---- */

static int
add_rule(int ruleset, const struct sandbox_place *place, uint64_t handled)
{
    struct landlock_path_beneath_attr rule = { .parent_fd = open(place->path, O_PATH | O_DIRECTORY | O_CLOEXEC) };

    if (rule.parent_fd < 0) {
        return 0; /* not here */
    }
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        rule.allowed_access |= place->access & kinds[i].access ? kinds[i].bits & handled : 0;
    }
    long rc = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    int error = errno;
    close(rule.parent_fd);
    return rc == 0 ? 0 : -error;
}

int
sandbox_files_open(struct sandbox_files *files)
{
    int abi = sandbox_files_abi(), rc = 0;
    struct ruleset ruleset = { .files = handled_files(abi),
                               .network = files->connects ? 0 : NETWORK_TCP,
                               .scoped = files->abstract ? 0 : SCOPE_ABSTRACT_UNIX };
    size_t bytes = abi >= 6 ? sizeof(ruleset) : abi >= 4 ? offsetof(struct ruleset, scoped) : sizeof(ruleset.files);

    files->fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, bytes, 0);
    if (files->fd < 0) {
        return -errno;
    }
    for (uint32_t i = 0; i < files->count && rc == 0; i++) {
        rc = add_rule(files->fd, &files->places[i], ruleset.files);
    }
    if (rc != 0) {
        sandbox_files_close(files);
    }
    return rc;
}

void
sandbox_files_close(struct sandbox_files *files)
{
    if (files->fd >= 0) {
        close(files->fd);
        files->fd = -1;
    }
}

int
sandbox_files_take(const struct sandbox_files *files)
{
    return syscall(SYS_landlock_restrict_self, files->fd, 0) == 0 ? 0 : -errno;
}

/* ---- for people ---- */

const char *
sandbox_files_text(const struct sandbox_files *files, char *out, size_t out_bytes)
{
    size_t used = 0;

    snprintf(out, out_bytes, "none");
    for (size_t kind = 0; kind < ARRAY_COUNT(kinds); kind++) {
        bool first = true;
        for (uint32_t i = 0; i < files->count && used < out_bytes; i++) {
            if (files->places[i].access & kinds[kind].access) {
                used += (size_t)snprintf(out + used, out_bytes - used, "%s%s %s", first && used > 0 ? ", " : "",
                                         first ? kinds[kind].text : "", files->places[i].path);
                first = false;
            }
        }
    }
    return out;
}
