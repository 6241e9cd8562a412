#include "tools/bench/metadata.h"
#include "tools/bench/inventory.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct metadata {
    json_t *run, *warnings;
    json_t *server_machine; /* NULL: this one */
};

static json_t *
time_now(void)
{
    char text[64];
    struct tm utc;
    time_t now = time(NULL);
    gmtime_r(&now, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_string(text);
}

static json_t *
loads_now(void)
{
    double loads[3] = { 0 };
    json_t *list = json_array();
    int count = getloadavg(loads, 3);
    for (int i = 0; i < count; i++) {
        json_array_append_new(list, json_real(loads[i]));
    }
    return list;
}

/* Variables that change what libfabric does. */
static json_t *
environment_now(void)
{
    json_t *object = json_object();
    for (char *const *entry = environ; *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals != NULL && (strncmp(*entry, "FI_", 3) == 0 || strncmp(*entry, "RDMAV_", 6) == 0)) {
            json_object_setn_new(object, *entry, (size_t)(equals - *entry), json_string(equals + 1));
        }
    }
    return object;
}

struct metadata *
metadata_begin(int argc, char *const *argv)
{
    struct metadata *metadata = calloc(1, sizeof(*metadata));
    CHECK(metadata != NULL);
    json_t *command = json_array();
    json_array_append_new(command, json_string("sluice-bench"));
    for (int i = 0; i < argc; i++) {
        bool secret = i > 0 && (strcmp(argv[i - 1], "-a") == 0 || strcmp(argv[i - 1], "--password") == 0);
        bool joined = strncmp(argv[i], "-a", 2) == 0 && argv[i][2] != '\0';
        json_t *word = json_string(secret ? "(hidden)" : joined ? "-a(hidden)" : argv[i]);
        json_array_append_new(command, word != NULL ? word : json_string("(not UTF-8)"));
    }
    metadata->warnings = json_array();
    metadata->run = json_pack("{s:o,s:o,s:o,s:o,s:O}", "command", command, "environment", environment_now(), "began",
                              time_now(), "load_before", loads_now(), "warnings", metadata->warnings);
    CHECK(metadata->run != NULL);
    return metadata;
}

void
metadata_warn(struct metadata *metadata, const char *text)
{
    json_array_append_new(metadata->warnings, json_string(text));
}

void
metadata_note(struct metadata *metadata, const char *name, const char *text)
{
    json_object_set_new(metadata->run, name, json_string(text));
}

void
metadata_server_machine(struct metadata *metadata, const char *json)
{
    json_decref(metadata->server_machine);
    metadata->server_machine = json_loads(json, 0, NULL);
}

void
metadata_end(struct metadata *metadata)
{
    if (metadata != NULL) {
        json_decref(metadata->run);
        json_decref(metadata->warnings);
        json_decref(metadata->server_machine);
        free(metadata);
    }
}

/* Asking libfabric takes time: an answer of this host and these builds is kept. */
static bool
machine_is_known(json_t *root)
{
    char host[256] = "", path[4096], hex[BUILD_ID_HEX_BYTES];
    const char *known_host = NULL, *known_build = NULL;
    gethostname(host, sizeof(host) - 1);
    program_path_beside("sluiced", path, sizeof(path));
    build_id_read(path, hex);
    return json_unpack(root, "{s:{s:s,s:{s:s}}}", "machine", "host", &known_host, "builds", "sluiced", &known_build) ==
               0 &&
           strcmp(known_host, host) == 0 && strcmp(known_build, hex) == 0;
}

/* What is there, or the beginning of it. NULL with a sentence. */
static json_t *
root_read(const char *path, char *why, size_t why_bytes)
{
    json_error_t error;
    if (access(path, F_OK) != 0) {
        return json_pack("{s:{},s:[]}", "machine", "runs");
    }
    json_t *root = json_load_file(path, 0, &error);
    if (!json_is_array(json_object_get(root, "runs"))) {
        snprintf(why, why_bytes, "%.300s is not what sluice-bench writes: %s", path,
                 root == NULL ? error.text : "it has no list of runs");
        json_decref(root);
        return NULL;
    }
    return root;
}

/* Whole, or not at all. */
static bool
root_write(const json_t *root, const char *path, char *why, size_t why_bytes)
{
    char beside[4096];
    snprintf(beside, sizeof(beside), "%.4000s.new", path);
    if (json_dump_file(root, beside, JSON_INDENT(2)) != 0 || rename(beside, path) != 0) {
        snprintf(why, why_bytes, "%.300s: %s", path, strerror(errno));
        unlink(beside);
        return false;
    }
    return true;
}

bool
metadata_write(struct metadata *metadata, const char *folder, char *why, size_t why_bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%.4000s/metadata.json", folder);
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) != 0) {
        snprintf(why, why_bytes, "%.300s: %s", folder, strerror(errno));
        if (lock >= 0) {
            close(lock);
        }
        return false;
    }
    json_t *root = root_read(path, why, why_bytes);
    bool good = root != NULL;
    if (good) {
        if (!machine_is_known(root)) {
            json_object_set_new(root, "machine", inventory_make());
        }
        if (metadata->server_machine != NULL) {
            json_object_set(root, "server_machine", metadata->server_machine);
        }
        json_object_set_new(metadata->run, "ended", time_now());
        json_object_set_new(metadata->run, "load_after", loads_now());
        json_array_append(json_object_get(root, "runs"), metadata->run);
        good = root_write(root, path, why, why_bytes);
    }
    json_decref(root);
    close(lock);
    return good;
}

/* ---- the folder ---- */

bool
folder_make(const char *folder, char *why, size_t why_bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s", folder);
    for (char *at = path + 1;; at++) {
        char end = *at;
        if (end == '/' || end == '\0') {
            *at = '\0';
            struct stat status;
            if ((mkdir(path, 0777) != 0 && errno != EEXIST) || stat(path, &status) != 0) {
                snprintf(why, why_bytes, "%.300s: %s", path, strerror(errno));
                return false;
            }
            if (!S_ISDIR(status.st_mode)) {
                snprintf(why, why_bytes, "%.300s: not a folder", path);
                return false;
            }
            *at = end;
        }
        if (end == '\0') {
            return true;
        }
    }
}

bool
result_folder_make(const char *folder, char *why, size_t why_bytes)
{
    static const char *const parts[] = { "", "/hlog", "/logs" };
    if (folder[0] == '\0' || strlen(folder) > 1024) {
        snprintf(why, why_bytes, "'%.40s': not the name of a folder", folder);
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        char path[2048];
        snprintf(path, sizeof(path), "%s%s", folder, parts[i]);
        if (!folder_make(path, why, why_bytes)) {
            return false;
        }
    }
    return true;
}
