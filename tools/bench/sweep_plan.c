#include "tools/bench/sweep_plan.h"
#include "config/units.h"

const char *const sweep_operation_names[SWEEP_OPERATIONS] = { "SET", "GET" };

/* ---- sizes ---- */

bool
sweep_size_parse(const char *text, uint64_t *bytes)
{
    static const char units[] = "kmg";
    char digits[32];
    size_t length = strlen(text);
    const char *unit = length > 1 ? strchr(units, text[length - 1] | 0x20) : NULL;
    if (unit == NULL) {
        return unit_parse_size(text, bytes) == UNIT_OK;
    }
    uint32_t shift = 10 * ((uint32_t)(unit - units) + 1);
    if (length > sizeof(digits)) {
        return false;
    }
    snprintf(digits, sizeof(digits), "%.*s", (int)length - 1, text);
    if (unit_parse_count(digits, bytes) != UNIT_OK || *bytes > UINT64_MAX >> shift) {
        return false;
    }
    *bytes <<= shift;
    return true;
}

const char *
sweep_size_print(char out[32], uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    uint32_t unit = 0;
    while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < ARRAY_COUNT(units)) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 32, "%llu %s", (unsigned long long)bytes, units[unit]);
    return out;
}

uint32_t
sweep_sizes(uint64_t begin, uint64_t end, uint64_t factor, uint64_t sizes[SWEEP_SIZES_MAX])
{
    uint32_t count = 0;
    for (uint64_t size = begin;; size *= factor) {
        sizes[count++] = size;
        if (size > end / factor || count == SWEEP_SIZES_MAX) {
            return count;
        }
    }
}

struct sweep_cut
sweep_cut_of(uint64_t size, uint64_t chunk_max, uint32_t rails)
{
    uint64_t stripe = MAX((size + rails - 1) / rails, SWEEP_STRIPE_BYTES);
    uint64_t chunk = MIN(MIN(chunk_max, stripe), size);
    uint64_t chunks = (size + chunk - 1) / chunk;
    return (struct sweep_cut){ size, chunk, chunks, size - (chunks - 1) * chunk };
}

/* ---- transports ---- */

enum sweep_switch
sweep_switch_read(const char *text)
{
    if (text == NULL || *text == '\0') {
        return SWEEP_SWITCH_UNSET;
    }
    return strcmp(text, "true") == 0    ? SWEEP_SWITCH_ON
           : strcmp(text, "false") == 0 ? SWEEP_SWITCH_OFF
                                        : SWEEP_SWITCH_BAD;
}

static bool
is_efa(const char *provider)
{
    return strcmp(provider, "efa") == 0 || strcmp(provider, "efa-direct") == 0;
}

#define FABRIC_PREFIX "fabric-"

bool
sweep_transport_of(const char *name, enum sweep_switch efa, struct sweep_transport *out)
{
    static const struct {
        const char *name;
        enum sweep_carrier carrier;
    } streams[] = {
        { "tcp", SWEEP_TCP },   { "none", SWEEP_TCP },  { "ethernet", SWEEP_ETHERNET },
        { "unix", SWEEP_UNIX }, { "peer", SWEEP_PEER }, { "memcached", SWEEP_MEMCACHED },
    };

    *out = (struct sweep_transport){ .carrier = SWEEP_FABRIC };
    if (strlen(name) >= sizeof(out->name)) {
        return false;
    }
    snprintf(out->name, sizeof(out->name), "%s", name);
    snprintf(out->asked, sizeof(out->asked), "%s", name);
    for (size_t i = 0; i < ARRAY_COUNT(streams); i++) {
        if (strcmp(name, streams[i].name) == 0) {
            out->carrier = streams[i].carrier;
        }
    }
    if (out->carrier == SWEEP_FABRIC && efa == SWEEP_SWITCH_OFF && is_efa(sweep_provider(out))) {
        snprintf(out->name, sizeof(out->name), "none");
        out->carrier = SWEEP_TCP;
        out->switched_off = true;
    }
    return *sweep_provider(out) != '\0';
}

bool
sweep_transport_is(const struct sweep_transport *transport, const char *name)
{
    return strcmp(name, transport->name) == 0 || strcmp(name, transport->asked) == 0;
}

const char *
sweep_provider(const struct sweep_transport *transport)
{
    size_t prefix = sizeof(FABRIC_PREFIX) - 1;
    return transport->name + (strncmp(transport->name, FABRIC_PREFIX, prefix) == 0 ? prefix : 0);
}

bool
sweep_versus_split(const char *text, char names[2][SWEEP_NAME_BYTES])
{
    const char *colon = strchr(text, ':');
    if (colon == NULL || colon == text || colon[1] == '\0' || strchr(colon + 1, ':') != NULL ||
        colon - text >= SWEEP_NAME_BYTES || strlen(colon + 1) >= SWEEP_NAME_BYTES) {
        return false;
    }
    snprintf(names[0], SWEEP_NAME_BYTES, "%.*s", (int)(colon - text), text);
    snprintf(names[1], SWEEP_NAME_BYTES, "%s", colon + 1);
    return true;
}

/* ---- results and columns ---- */

struct sweep_result
sweep_result_of(uint64_t size, uint64_t *ticks, uint64_t count, double ns_per_tick)
{
    struct sweep_result result = { .times = summary_of(ticks, count, ns_per_tick) };
    if (result.times.p50_us > 0) {
        result.bytes_per_second = (double)size * 1e6 / result.times.p50_us;
    }
    return result;
}

typedef char head_text[SWEEP_NAME_BYTES + 16];

/* By how much side `of` is faster than side `over`. */
static void
speed_up_add(struct sweep_column *columns, uint32_t *count, const head_text *heads, uint32_t of, uint32_t over)
{
    struct sweep_column *column = &columns[(*count)++];
    snprintf(column->head, sizeof(column->head), "%.64s / %.64s", heads[of], heads[over]);
    column->side = of;
    column->over = (int)over;
}

uint32_t
sweep_columns(const char *a, const char *b, uint32_t rails, struct sweep_column columns[SWEEP_COLUMNS_MAX])
{
    head_text heads[SWEEP_SIDES_MAX];
    uint32_t sides = 0, count;
    if (rails > 1) {
        snprintf(heads[sides++], sizeof(heads[0]), "%u %s", rails, a);
        snprintf(heads[sides++], sizeof(heads[0]), "1 %s", a);
    } else {
        snprintf(heads[sides++], sizeof(heads[0]), "%s", a);
    }
    if (b != NULL) {
        snprintf(heads[sides++], sizeof(heads[0]), "%s", b);
    }
    for (count = 0; count < sides; count++) {
        columns[count] = (struct sweep_column){ .side = count, .over = -1 };
        snprintf(columns[count].head, sizeof(columns[count].head), "%.64s", heads[count]);
    }
    for (uint32_t of = sides - 1; b != NULL && of-- > 0;) {
        speed_up_add(columns, &count, heads, of, sides - 1);
    }
    if (rails > 1) {
        speed_up_add(columns, &count, heads, 0, 1);
    }
    return count;
}

const char *
sweep_cell_print(char out[32], const struct sweep_column *column, const struct sweep_result *results)
{
    double rate = results[column->side].bytes_per_second;
    double under = column->over < 0 ? 1e9 : results[column->over].bytes_per_second;
    if (rate > 0 && under > 0) {
        snprintf(out, 32, column->over < 0 ? "%.4f" : "%.2f", rate / under);
    } else {
        snprintf(out, 32, "-");
    }
    return out;
}
