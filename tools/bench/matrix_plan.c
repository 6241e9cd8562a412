#include "tools/bench/matrix_plan.h"

#define WORDS_MAX  16
#define WORD_BYTES MATRIX_PROVIDER_MAX

/* "a,b" taken apart. */
struct words {
    char word[WORDS_MAX][WORD_BYTES];
    uint32_t count;
};

static const char *const wire_words[] = { "resp", "resp3", "sbe" };   /* enum client_wire */
static const char *const send_words[] = { "auto", "inject", "send" }; /* enum client_send */
static const char *const stream_words[] = { "kernel-tcp", "unix", "ethernet" };

static bool
say(char *why, size_t why_bytes, const char *option, const char *word, const char *reason)
{
    snprintf(why, why_bytes, "--%s: '%s' %s", option, word, reason);
    return false;
}

/* The empty list has no words. */
static bool
words_read(const char *option, const char *text, struct words *words, char *why, size_t why_bytes)
{
    words->count = 0;
    while (*text != '\0') {
        size_t bytes = strcspn(text, ",");
        char word[WORD_BYTES];
        snprintf(word, sizeof(word), "%.*s", (int)MIN(bytes, WORD_BYTES - 1), text);
        if (bytes == 0 || bytes >= WORD_BYTES || (text[bytes] == ',' && text[bytes + 1] == '\0')) {
            return say(why, why_bytes, option, text, "is no list of words with commas between them");
        }
        for (uint32_t i = 0; i < words->count; i++) {
            if (strcmp(words->word[i], word) == 0) {
                return say(why, why_bytes, option, word, "is there twice");
            }
        }
        if (words->count == WORDS_MAX) {
            return say(why, why_bytes, option, text, "is one too many");
        }
        memcpy(words->word[words->count++], word, sizeof(word));
        text += bytes + (text[bytes] == ',');
    }
    return true;
}

static int
word_find(const char *word, const char *const *known, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(word, known[i]) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* A list whose words are among `known`. */
static bool
choices_read(const char *option, const char *text, const char *const *known, uint32_t known_count, struct words *words,
             char *why, size_t why_bytes)
{
    if (!words_read(option, text, words, why, why_bytes)) {
        return false;
    }
    for (uint32_t i = 0; i < words->count; i++) {
        if (word_find(words->word[i], known, known_count) < 0) {
            char reason[128];
            snprintf(reason, sizeof(reason), "is not among %s, %s, %s", known[0], known[1], known[2]);
            return say(why, why_bytes, option, words->word[i], reason);
        }
    }
    return true;
}

/* A shell takes ';' for its own: "tcp-rxm" is "tcp;ofi_rxm". */
static void
provider_name(const char *word, char provider[MATRIX_PROVIDER_MAX])
{
    size_t bytes = strlen(word);
    bool layered = bytes > 4 && (strcmp(word + bytes - 4, "-rxm") == 0 || strcmp(word + bytes - 4, "-rxd") == 0);
    if (layered) {
        snprintf(provider, MATRIX_PROVIDER_MAX, "%.*s;ofi_%s", (int)MIN(bytes - 4, 20), word, word + bytes - 3);
    } else {
        snprintf(provider, MATRIX_PROVIDER_MAX, "%.*s", MATRIX_PROVIDER_MAX - 1, word);
    }
}

static bool
row_add(struct matrix_plan *plan, const struct matrix_row *row, char *why, size_t why_bytes)
{
    if (plan->row_count == MATRIX_ROWS_MAX) {
        snprintf(why, why_bytes, "more than %u rows", MATRIX_ROWS_MAX);
        return false;
    }
    struct matrix_row *added = &plan->rows[plan->row_count];
    struct bench_connection connection = { .ethernet = row->transport == MATRIX_ETHERNET };
    connection.client.wire = row->wire;
    connection.client.path = row->transport == MATRIX_UNIX ? "" : NULL;
    connection.client.fabric.provider = row->transport == MATRIX_FABRIC ? row->provider : NULL;
    connection.client.fabric.send = row->send;
    *added = *row;
    bench_label(&connection, added->label);
    if (!bench_label_is_good(added->label)) {
        return say(why, why_bytes, "providers", row->provider, "is no provider's name");
    }
    for (uint32_t i = 0; i < plan->row_count; i++) {
        if (strcmp(plan->rows[i].label, added->label) == 0) {
            return say(why, why_bytes, "providers", row->provider, "is there twice");
        }
    }
    plan->row_count++;
    return true;
}

static bool
fabric_expand(struct matrix_plan *plan, const struct words *providers, const struct words *sends,
              const struct words *wires, char *why, size_t why_bytes)
{
    for (uint32_t p = 0; p < providers->count; p++) {
        struct matrix_row row = { .transport = MATRIX_FABRIC };
        provider_name(providers->word[p], row.provider);
        if (strcmp(row.provider, "shm") == 0 && plan->server != NULL) {
            return say(why, why_bytes, "providers", "shm", "does not reach another host");
        }
        for (uint32_t w = 0; w < wires->count; w++) {
            for (uint32_t s = 0; s < sends->count; s++) {
                row.wire = (enum client_wire)word_find(wires->word[w], wire_words, ARRAY_COUNT(wire_words));
                row.send = (enum client_send)word_find(sends->word[s], send_words, ARRAY_COUNT(send_words));
                if (!row_add(plan, &row, why, why_bytes)) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool
streams_expand(struct matrix_plan *plan, const struct words *streams, const struct words *wires, char *why,
               size_t why_bytes)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        int stream = word_find(streams->word[i], stream_words, ARRAY_COUNT(stream_words));
        struct matrix_row row = { .transport = (enum matrix_transport)(MATRIX_KERNEL_TCP + stream) };
        bool elsewhere = plan->server != NULL || plan->running.host != NULL;
        if (row.transport == MATRIX_UNIX && elsewhere && plan->running_unix == NULL) {
            return say(why, why_bytes, "streams", "unix",
                       plan->server != NULL ? "does not reach another host" : "needs the path of its socket: --unix");
        }
        if (row.transport == MATRIX_ETHERNET && elsewhere && plan->ethernet.host == NULL) {
            return say(why, why_bytes, "streams", "ethernet",
                       "needs the address of a port that runs there: --ethernet");
        }
        for (uint32_t w = 0; w < wires->count; w++) {
            row.wire = (enum client_wire)word_find(wires->word[w], wire_words, ARRAY_COUNT(wire_words));
            if (!row_add(plan, &row, why, why_bytes)) {
                return false;
            }
        }
    }
    return true;
}

/* What the arrangement can have: on one host all, between two what was published. */
static void
defaults_set(struct matrix_plan *plan)
{
    bool one_host = plan->server == NULL && plan->running.host == NULL;
    if (plan->providers == NULL) {
        plan->providers = one_host ? "shm,net,tcp-rxm,udp-rxd" : "efa,tcp";
    }
    if (plan->streams == NULL) {
        plan->streams = one_host                                                    ? "kernel-tcp,unix,ethernet"
                        : plan->ethernet.host != NULL && plan->running_unix != NULL ? "kernel-tcp,unix,ethernet"
                        : plan->ethernet.host != NULL                               ? "kernel-tcp,ethernet"
                        : plan->running_unix != NULL                                ? "kernel-tcp,unix"
                                                                                    : "kernel-tcp";
    }
    plan->wires = plan->wires != NULL ? plan->wires : "sbe,resp";
    plan->sends = plan->sends != NULL ? plan->sends : "auto,send";
}

bool
matrix_plan_expand(struct matrix_plan *plan, char *why, size_t why_bytes)
{
    struct words providers, streams, wires, sends;
    defaults_set(plan);
    plan->row_count = 0;
    if (!words_read("providers", plan->providers, &providers, why, why_bytes) ||
        !choices_read("streams", plan->streams, stream_words, ARRAY_COUNT(stream_words), &streams, why, why_bytes) ||
        !choices_read("wires", plan->wires, wire_words, ARRAY_COUNT(wire_words), &wires, why, why_bytes) ||
        !choices_read("sends", plan->sends, send_words, ARRAY_COUNT(send_words), &sends, why, why_bytes) ||
        !fabric_expand(plan, &providers, &sends, &wires, why, why_bytes) ||
        !streams_expand(plan, &streams, &wires, why, why_bytes)) {
        return false;
    }
    if (plan->row_count == 0) {
        snprintf(why, why_bytes, "nothing to measure: no provider and no stream, or no wire, or no send mode");
        return false;
    }
    return true;
}
