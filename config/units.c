#include "config/units.h"

struct unit {
    const char *name; /* lower case */
    uint64_t scale;
};

/* Smallest first: printing takes the last that divides. */
static const struct unit size_units[] = {
    { "b", 1 }, { "kib", 1ull << 10 }, { "mib", 1ull << 20 }, { "gib", 1ull << 30 }, { "tib", 1ull << 40 },
};
static const char *const size_names[] = { "B", "KiB", "MiB", "GiB", "TiB" };

static const struct unit time_units[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 3600 * 1000 }, { "d", 24 * 3600 * 1000 },
};

const char *
unit_status_text(enum unit_status status)
{
    switch (status) {
    case UNIT_OK:
        return "is right";
    case UNIT_EMPTY:
        return "is empty";
    case UNIT_NOT_A_NUMBER:
        return "is not a whole decimal number";
    case UNIT_LEADING_ZERO:
        return "begins with a zero";
    case UNIT_TOO_LARGE:
        return "does not fit 64 bits";
    case UNIT_MISSING:
        return "has no unit";
    case UNIT_UNKNOWN:
        return "has an unknown unit";
    }
    return "is wrong";
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits at the start of `text`; *rest is what follows them. */
static enum unit_status
parse_digits(const char *text, uint64_t *out, const char **rest)
{
    const char *at = text;
    uint64_t value = 0;

    if (*at == '\0') {
        return UNIT_EMPTY;
    }
    if (!is_digit(*at)) {
        return UNIT_NOT_A_NUMBER;
    }
    if (at[0] == '0' && is_digit(at[1])) {
        return UNIT_LEADING_ZERO;
    }
    for (; is_digit(*at); at++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
            return UNIT_TOO_LARGE;
        }
    }
    *out = value;
    *rest = at;
    return UNIT_OK;
}

enum unit_status
unit_parse_count(const char *text, uint64_t *out)
{
    const char *rest;
    uint64_t value;
    enum unit_status status = parse_digits(text, &value, &rest);

    if (status != UNIT_OK) {
        return status;
    }
    if (*rest != '\0') {
        return UNIT_NOT_A_NUMBER;
    }
    *out = value;
    return UNIT_OK;
}

static enum unit_status
parse_scaled(const char *text, const struct unit *units, size_t unit_count, bool bare, uint64_t *out)
{
    const char *rest;
    uint64_t value;
    enum unit_status status = parse_digits(text, &value, &rest);

    if (status != UNIT_OK) {
        return status;
    }
    if (*rest == '\0') {
        *out = value;
        return bare ? UNIT_OK : UNIT_MISSING;
    }
    if (*rest == '.' || *rest == ' ') {
        return UNIT_NOT_A_NUMBER;
    }
    for (size_t i = 0; i < unit_count; i++) {
        if (slice_equal_nocase(slice_text(rest), units[i].name)) {
            return __builtin_mul_overflow(value, units[i].scale, out) ? UNIT_TOO_LARGE : UNIT_OK;
        }
    }
    return UNIT_UNKNOWN;
}

enum unit_status
unit_parse_size(const char *text, uint64_t *out)
{
    uint64_t value;
    enum unit_status status = parse_scaled(text, size_units, ARRAY_COUNT(size_units), true, &value);
    if (status == UNIT_OK) {
        *out = value;
    }
    return status;
}

enum unit_status
unit_parse_time_ms(const char *text, uint64_t *out)
{
    uint64_t value;
    enum unit_status status = parse_scaled(text, time_units, ARRAY_COUNT(time_units), false, &value);
    if (status == UNIT_OK) {
        *out = value;
    }
    return status;
}

const char *
unit_print_size(char out[UNIT_TEXT_BYTES], uint64_t bytes)
{
    size_t best = 0;
    for (size_t i = 1; i < ARRAY_COUNT(size_units) && bytes != 0; i++) {
        if (bytes % size_units[i].scale == 0) {
            best = i;
        }
    }
    snprintf(out, UNIT_TEXT_BYTES, "%llu%s", (unsigned long long)(bytes / size_units[best].scale), size_names[best]);
    return out;
}

const char *
unit_print_time_ms(char out[UNIT_TEXT_BYTES], uint64_t ms)
{
    size_t best = ms == 0 ? 1 : 0;
    for (size_t i = 1; i < ARRAY_COUNT(time_units) && ms != 0; i++) {
        if (ms % time_units[i].scale == 0) {
            best = i;
        }
    }
    snprintf(out, UNIT_TEXT_BYTES, "%llu%s", (unsigned long long)(ms / time_units[best].scale), time_units[best].name);
    return out;
}

const char *
unit_print_size_short(char out[UNIT_TEXT_BYTES], uint64_t bytes)
{
    size_t best = 0;
    while (best + 1 < ARRAY_COUNT(size_units) && bytes >= size_units[best + 1].scale) {
        best++;
    }
    /* In tenths and rounded down, so that 1023.99 KiB does not print as 1024.0. */
    uint64_t scale = size_units[best].scale, whole = bytes / scale, tenth = bytes % scale * 10 / scale;
    if (best == 0 || whole >= 100) {
        snprintf(out, UNIT_TEXT_BYTES, "%llu %s", (unsigned long long)whole, size_names[best]);
    } else {
        snprintf(out, UNIT_TEXT_BYTES, "%llu.%llu %s", (unsigned long long)whole, (unsigned long long)tenth,
                 size_names[best]);
    }
    return out;
}

/* ---- CPU lists ---- */

const char *
cpu_list_status_text(enum cpu_list_status status)
{
    switch (status) {
    case CPU_LIST_OK:
        return "is right";
    case CPU_LIST_EMPTY:
        return "is empty or has an empty part";
    case CPU_LIST_BAD:
        return "is not a list of CPUs";
    case CPU_LIST_BACKWARDS:
        return "has a range that runs backwards";
    case CPU_LIST_TWICE:
        return "names a CPU twice";
    case CPU_LIST_TOO_LARGE:
        return "has a CPU number that no machine has";
    case CPU_LIST_TOO_MANY:
        return "names too many CPUs";
    }
    return "is wrong";
}

static enum cpu_list_status
parse_cpu(const char **at, int *out)
{
    uint64_t value;
    const char *rest;

    switch (parse_digits(*at, &value, &rest)) {
    case UNIT_OK:
        break;
    case UNIT_EMPTY:
        return CPU_LIST_EMPTY;
    case UNIT_TOO_LARGE:
        return CPU_LIST_TOO_LARGE;
    default:
        return **at == ',' ? CPU_LIST_EMPTY : CPU_LIST_BAD;
    }
    if (value > CPU_NUMBER_MAX) {
        return CPU_LIST_TOO_LARGE;
    }
    *out = (int)value;
    *at = rest;
    return CPU_LIST_OK;
}

static enum cpu_list_status
append_range(int first, int last, int *cpus, uint32_t room, uint32_t *count)
{
    for (int cpu = first; cpu <= last; cpu++) {
        for (uint32_t i = 0; i < *count; i++) {
            if (cpus[i] == cpu) {
                return CPU_LIST_TWICE;
            }
        }
        if (*count == room) {
            return CPU_LIST_TOO_MANY;
        }
        cpus[(*count)++] = cpu;
    }
    return CPU_LIST_OK;
}

enum cpu_list_status
cpu_list_parse(const char *text, int *cpus, uint32_t room, uint32_t *count)
{
    const char *at = text;

    *count = 0;
    for (;;) {
        int first, last;
        enum cpu_list_status status = parse_cpu(&at, &first);
        if (status != CPU_LIST_OK) {
            return status;
        }
        last = first;
        if (*at == '-') {
            at++;
            status = parse_cpu(&at, &last);
            if (status != CPU_LIST_OK) {
                return status == CPU_LIST_EMPTY ? CPU_LIST_BAD : status;
            }
        }
        if (last < first) {
            return CPU_LIST_BACKWARDS;
        }
        status = append_range(first, last, cpus, room, count);
        if (status != CPU_LIST_OK) {
            return status;
        }
        if (*at == '\0') {
            return CPU_LIST_OK;
        }
        if (*at != ',') {
            return CPU_LIST_BAD;
        }
        at++;
    }
}

const char *
cpu_list_print(char *out, size_t bytes, const int *cpus, uint32_t count)
{
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < count;) {
        uint32_t last = i;
        char part[32];
        while (last + 1 < count && cpus[last + 1] == cpus[last] + 1) {
            last++;
        }
        int length = last == i ? snprintf(part, sizeof(part), "%s%d", i ? "," : "", cpus[i])
                               : snprintf(part, sizeof(part), "%s%d-%d", i ? "," : "", cpus[i], cpus[last]);
        if (used + (size_t)length + sizeof("...") > bytes) {
            snprintf(out + used, bytes - used, "...");
            break;
        }
        memcpy(out + used, part, (size_t)length + 1);
        used += (size_t)length;
        i = last + 1;
    }
    return out;
}

/* ---- words for error messages ---- */

const char *
quote_text(char out[QUOTE_BYTES], const char *text)
{
    size_t used = 0;

    out[used++] = '"';
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (used + sizeof("\\xNN...\"") > QUOTE_BYTES) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (*at >= 0x20 && *at < 0x7f) {
            out[used++] = (char)*at;
        } else {
            used += (size_t)snprintf(out + used, QUOTE_BYTES - used, "\\x%02x", *at);
        }
    }
    out[used++] = '"';
    out[used] = '\0';
    return out;
}

#define NAME_BYTES_MAX 64

/* Edits (insert, remove, replace, swap of neighbours counts two) from a to b; both at most NAME_BYTES_MAX long. */
static size_t
edit_distance(const char *a, const char *b)
{
    size_t row[NAME_BYTES_MAX + 1], b_bytes = strlen(b);

    for (size_t j = 0; j <= b_bytes; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = MIN(MIN(row[j], row[j - 1]) + 1, replaced);
        }
    }
    return row[b_bytes];
}

const char *
nearest_name(const char *text, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t text_bytes = strlen(text), best_distance = MAX(2, text_bytes / 3) + 1;

    if (text_bytes > NAME_BYTES_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t distance = strlen(names[i]) > NAME_BYTES_MAX ? SIZE_MAX : edit_distance(text, names[i]);
        if (distance < best_distance && distance < strlen(names[i])) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}
