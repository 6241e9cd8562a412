#include "mgmt/doctor_probe.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#define COLUMNS     80
#define LABEL_WIDTH 18 /* level and name, or what a line says */

/* ---- reading the host ---- */

static bool
path_print(const struct doctor *doctor, char path[PATH_MAX], const char *format, va_list args)
{
    size_t bytes = (size_t)snprintf(path, PATH_MAX, "%s", doctor->root);

    return bytes < PATH_MAX && (size_t)vsnprintf(path + bytes, PATH_MAX - bytes, format, args) < PATH_MAX - bytes;
}

static bool
file_read(const char *path, char out[DOCTOR_TEXT_BYTES])
{
    size_t used = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    out[0] = '\0';
    if (fd < 0) {
        return false;
    }
    while (got > 0 && used < DOCTOR_TEXT_BYTES - 1) {
        got = read(fd, out + used, DOCTOR_TEXT_BYTES - 1 - used);
        used += got > 0 ? (size_t)got : 0;
        got = got < 0 && errno == EINTR ? 1 : got;
    }
    close(fd);
    while (used > 0 && (out[used - 1] == '\n' || out[used - 1] == '\0')) {
        used--;
    }
    out[used] = '\0';
    return got >= 0;
}

bool
doctor_read(const struct doctor *doctor, char out[DOCTOR_TEXT_BYTES], const char *format, ...)
{
    char path[PATH_MAX];
    va_list args;

    va_start(args, format);
    bool fits = path_print(doctor, path, format, args);
    va_end(args);
    out[0] = '\0';
    return fits && file_read(path, out);
}

bool
doctor_link(const struct doctor *doctor, char out[DOCTOR_TEXT_BYTES], const char *format, ...)
{
    char path[PATH_MAX], target[PATH_MAX];
    va_list args;

    va_start(args, format);
    bool fits = path_print(doctor, path, format, args);
    va_end(args);
    out[0] = '\0';
    ssize_t bytes = fits ? readlink(path, target, sizeof(target) - 1) : -1;
    if (bytes <= 0) {
        return false;
    }
    target[bytes] = '\0';
    const char *slash = strrchr(target, '/');
    snprintf(out, DOCTOR_TEXT_BYTES, "%s", slash == NULL ? target : slash + 1);
    return true;
}

bool
doctor_number(const struct doctor *doctor, const char *path, const char *key, uint64_t *out)
{
    char text[DOCTOR_TEXT_BYTES];
    size_t bytes = strlen(key);

    if (!doctor_read(doctor, text, "%s", path)) {
        return false;
    }
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, bytes) == 0) {
            *out = strtoull(line + bytes, NULL, 10);
            return true;
        }
    }
    return false;
}

static rlim_t
limit_number(const char *word)
{
    return strncmp(word, "unlimited", 9) == 0 ? RLIM_INFINITY : strtoull(word, NULL, 10);
}

void
doctor_limit(const struct doctor *doctor, const char *name, int resource, struct rlimit *out)
{
    char text[DOCTOR_TEXT_BYTES];
    const char *line = doctor_read(doctor, text, "/proc/self/limits") ? strstr(text, name) : NULL;

    out->rlim_cur = out->rlim_max = RLIM_INFINITY;
    if (line == NULL) {
        getrlimit((__rlimit_resource_t)resource, out);
        return;
    }
    line += strlen(name);
    line += strspn(line, " ");
    out->rlim_cur = limit_number(line);
    line += strcspn(line, " ");
    line += strspn(line, " ");
    out->rlim_max = limit_number(line);
}

/* ---- findings ---- */

struct doctor_finding *
doctor_add(struct doctor *doctor, enum doctor_level level, const char *name, const char *why)
{
    if (doctor->count == DOCTOR_FINDINGS_MAX) {
        doctor->count--; /* a host with so many devices: the last finding is the last one looked at */
    }
    struct doctor_finding *finding = &doctor->findings[doctor->count++];
    *finding = (struct doctor_finding){ .level = level, .why = why };
    snprintf(finding->name, sizeof(finding->name), "%s", name);
    return finding;
}

#define PRINT_INTO(member)                                                                                             \
    do {                                                                                                               \
        va_list args;                                                                                                  \
        va_start(args, format);                                                                                        \
        vsnprintf(finding->member, sizeof(finding->member), format, args);                                             \
        va_end(args);                                                                                                  \
    } while (0)

void
doctor_found(struct doctor_finding *finding, const char *format, ...)
{
    PRINT_INTO(found);
}

void
doctor_wanted(struct doctor_finding *finding, const char *format, ...)
{
    PRINT_INTO(wanted);
}

void
doctor_remedy(struct doctor_finding *finding, const char *format, ...)
{
    PRINT_INTO(remedy);
}

/* ---- sets of CPUs ---- */

bool
doctor_cpus_parse(const char *list, struct doctor_cpus *out)
{
    int cpus[CPU_NUMBER_MAX + 1];
    uint32_t count = 0;

    memset(out, 0, sizeof(*out));
    if (list[0] == '\0' || strcmp(list, "(null)") == 0) {
        return true; /* what the kernel prints for none */
    }
    if (cpu_list_parse(list, cpus, ARRAY_COUNT(cpus), &count) != CPU_LIST_OK) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        out->has[cpus[i]] = true;
    }
    return true;
}

uint32_t
doctor_lcores_in(const struct doctor *doctor, const struct doctor_cpus *set, bool in, char *out, size_t bytes)
{
    int cpus[LIMIT_LCORES];
    uint32_t count = 0;

    for (uint32_t i = 0; i < doctor->settings->cpu_count; i++) {
        int cpu = doctor->settings->cpus[i];
        if (set->has[cpu] == in) {
            cpus[count++] = cpu;
        }
    }
    cpu_list_print(out, bytes, cpus, count);
    return count;
}

/* ---- the whole ---- */

void
doctor_examine(struct doctor *doctor)
{
    doctor->count = 0;
    if (doctor->elsewhere != NULL && doctor->elsewhere[0] != '\0') {
        struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WRONG, "settings", "the appliance will not start");
        doctor_found(finding, "%s", doctor->elsewhere);
        doctor_wanted(finding, "settings that this host can do");
        doctor_remedy(finding, "change the settings named, or run it on the host that they are for");
    }
    doctor_examine_host(doctor);
    doctor_examine_cpus(doctor);
    doctor_examine_memory(doctor);
    doctor_examine_devices(doctor);
}

enum doctor_level
doctor_worst(const struct doctor *doctor)
{
    enum doctor_level worst = DOCTOR_GOOD;

    for (uint32_t i = 0; i < doctor->count; i++) {
        worst = MAX(worst, doctor->findings[i].level);
    }
    return worst;
}

const char *
doctor_level_text(enum doctor_level level)
{
    static const char *const texts[] = { "good", "advice", "wrong" };
    return texts[level];
}

/* `words` behind `label`, broken at blanks so that it stays within the columns. */
static void
print_wrapped(struct text *out, const char *label, const char *words)
{
    size_t column = LABEL_WIDTH;

    if (words[0] == '\0') {
        return;
    }
    text_print(out, "%-*s", LABEL_WIDTH, label);
    for (const char *word = words; *word != '\0';) {
        size_t bytes = strcspn(word, " ");
        if (column > LABEL_WIDTH && column + 1 + bytes > COLUMNS) {
            text_print(out, "\n%*s", LABEL_WIDTH, "");
            column = LABEL_WIDTH;
        } else if (column > LABEL_WIDTH) {
            text_append(out, " ", 1);
            column++;
        }
        text_append(out, word, bytes);
        column += bytes;
        word += bytes;
        word += strspn(word, " ");
    }
    text_append(out, "\n", 1);
}

void
doctor_print_finding(const struct doctor_finding *finding, struct text *out)
{
    char label[64];

    snprintf(label, sizeof(label), "%-6s %-10s ", doctor_level_text(finding->level), finding->name);
    print_wrapped(out, label, finding->found);
    if (finding->level != DOCTOR_GOOD) {
        print_wrapped(out, "       wanted", finding->wanted);
        print_wrapped(out, "       why", finding->why);
        print_wrapped(out, "       remedy", finding->remedy);
    }
}

void
doctor_print(const struct doctor *doctor, struct text *out)
{
    uint32_t levels[3] = { 0 };

    for (uint32_t i = 0; i < doctor->count; i++) {
        levels[doctor->findings[i].level]++;
        doctor_print_finding(&doctor->findings[i], out);
    }
    text_print(out, "%u wrong, %u advice, %u good\n", levels[DOCTOR_WRONG], levels[DOCTOR_ADVICE], levels[DOCTOR_GOOD]);
}

json_t *
doctor_json(const struct doctor *doctor)
{
    json_t *rows = json_array();

    for (uint32_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];
        struct text text = { 0 };
        doctor_print_finding(finding, &text);
        json_array_append_new(rows,
                              json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "level", doctor_level_text(finding->level),
                                        "name", finding->name, "found", finding->found, "wanted", finding->wanted,
                                        "why", finding->why, "remedy", finding->remedy, "text", text.bytes));
        text_fini(&text);
    }
    return rows;
}
