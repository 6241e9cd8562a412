/* target.c - ours and peers: options, turns, questions, results. */
#include "tools/bench/target.h"
#include "tools/bench/csv.h"
#include "tools/bench/machine.h"
#include <errno.h>

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return false;
}

/* Places are taken as options come; what a peer speaks is known after the last one. */
static bool
peer_take(struct targets *targets, const char *text)
{
    if (targets->count == TARGETS_MAX) {
        return complain("--peer", "more than 3");
    }
    targets->peers[targets->count++] = text;
    return true;
}

static bool
peer_read(struct targets *targets, uint32_t index)
{
    struct bench_peer peer;
    if (!bench_peer_read(targets->peers[index], &targets->connection.client, &peer)) {
        return false;
    }
    struct target *target = &targets->targets[index];
    *target = (struct target){ .client = peer.client, .pid = peer.pid, .may_stop = peer.pid != 0 };
    snprintf(target->label, sizeof(target->label), "%s", peer.label);
    return true;
}

void
targets_init(struct targets *targets)
{
    memset(targets, 0, sizeof(*targets));
    bench_connection_init(&targets->connection);
    targets->count = 1;
}

int
targets_option(struct targets *targets, int option, const char *value)
{
    struct target *ours = &targets->targets[0];
    uint64_t pid = 0;
    bool good = true;
    switch (option) {
    case TARGET_PEER:
        good = peer_take(targets, value);
        break;
    case TARGET_SERVER_PID:
        good = bench_number("--server-pid", value, 2, 1 << 30, &pid);
        ours->pid = (pid_t)pid;
        break;
    case TARGET_PAUSE:
        good = bench_number("--pause", value, 2, 1 << 30, &pid);
        ours->pid = (pid_t)pid;
        ours->may_stop = true;
        break;
    case TARGET_LABEL:
        targets->label = value;
        good = bench_label_is_good(value) || complain("--label", "expected letters, digits and . _ + : ; @ = -");
        break;
    case TARGET_OUT:
        targets->folder = value;
        break;
    default:
        return bench_connection_option(&targets->connection, option, value);
    }
    return good ? 1 : -1;
}

bool
targets_finish(struct targets *targets, int argc, char *const *argv)
{
    struct target *ours = &targets->targets[0];
    char why[512];
    ours->client = targets->connection.client;
    if (targets->label != NULL) {
        snprintf(ours->label, sizeof(ours->label), "%s", targets->label);
    } else {
        bench_label(&targets->connection, ours->label);
    }
    for (uint32_t i = 0; i < targets->count; i++) {
        if ((i > 0 && !peer_read(targets, i)) ||
            !bench_process_is_there(targets->targets[i].label, targets->targets[i].pid)) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(targets->targets[i].label, targets->targets[j].label) == 0) {
                return complain(targets->targets[i].label, "two of this name: --peer takes NAME=");
            }
        }
    }
    if (targets->folder != NULL) {
        if (!result_folder_make(targets->folder, why, sizeof(why))) {
            return complain("--out", why);
        }
        targets->metadata = metadata_begin(argc, argv);
    }
    return true;
}

void
targets_turn(struct targets *targets, uint32_t index)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        struct target *target = &targets->targets[i];
        if (i != index && target->may_stop && !target->is_stopped) {
            machine_process_stop(target->pid);
            target->is_stopped = true;
        }
    }
    struct target *target = &targets->targets[index];
    if (target->is_stopped) {
        machine_process_continue(target->pid);
        target->is_stopped = false;
    }
}

void
targets_resume(struct targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        if (targets->targets[i].is_stopped) {
            machine_process_continue(targets->targets[i].pid);
            targets->targets[i].is_stopped = false;
        }
    }
}

/* ---- questions ---- */

/* The digits behind "field:" at the beginning of a line of INFO. */
static bool
info_number(struct slice text, const char *field, uint64_t *number)
{
    size_t field_bytes = strlen(field);
    for (size_t at = 0; at + field_bytes + 1 < text.bytes; at++) {
        bool begins = at == 0 || text.data[at - 1] == '\n';
        if (begins && memcmp(text.data + at, field, field_bytes) == 0 && text.data[at + field_bytes] == ':') {
            uint64_t value = 0;
            size_t digit = at + field_bytes + 1, first = digit;
            for (; digit < text.bytes && text.data[digit] >= '0' && text.data[digit] <= '9'; digit++) {
                value = value * 10 + (uint64_t)(text.data[digit] - '0');
            }
            *number = value;
            return digit > first;
        }
    }
    return false;
}

/* On a stream of its own: INFO is no part of the load. */
static struct client *
control_open(const struct target *target, char *why, size_t why_bytes)
{
    struct client_options options = target->client;
    options.fabric = (struct client_fabric){ 0 };
    options.wire = CLIENT_RESP2;
    options.spin = false;
    return client_open(&options, why, why_bytes);
}

static bool
number_ask(struct client *client, const char *field, uint64_t *number)
{
    const char *words[] = { field != NULL ? "INFO" : "DBSIZE" };
    struct client_reply reply;
    if (client_call_words(client, words, 1, &reply) != CLIENT_OK) {
        return false;
    }
    const struct value *value = &reply.values[0];
    if (field != NULL) {
        return (value->kind == VALUE_BULK || value->kind == VALUE_VERBATIM) && info_number(value->bytes, field, number);
    }
    *number = value->kind == VALUE_INTEGER && value->integer >= 0 ? (uint64_t)value->integer : 0;
    return value->kind == VALUE_INTEGER;
}

bool
target_ask(struct target *target, char *why, size_t why_bytes)
{
    uint64_t lcores;
    struct client *client = control_open(target, why, why_bytes);
    if (client == NULL) {
        return false;
    }
    target->lcores[0] = '\0';
    if (number_ask(client, "lcores", &lcores)) {
        snprintf(target->lcores, sizeof(target->lcores), "%u", (uint32_t)lcores);
    }
    client_close(client);
    return true;
}

bool
target_number(const struct target *target, const char *field, uint64_t *number)
{
    char why[CLIENT_WHY_BYTES];
    struct client *client = control_open(target, why, sizeof(why));
    bool good = client != NULL && number_ask(client, field, number);
    client_close(client);
    return good;
}

/* ---- results ---- */

void
targets_warn(struct targets *targets, const char *text)
{
    fprintf(stderr, "sluice-bench: %s\n", text);
    if (targets->metadata != NULL) {
        metadata_warn(targets->metadata, text);
    }
}

FILE *
targets_table(struct targets *targets, const char *name, const char *header)
{
    char path[2048], error[CSV_ERROR_BYTES];
    if (targets->folder == NULL) {
        return NULL;
    }
    snprintf(path, sizeof(path), "%s/%s", targets->folder, name);
    FILE *file = csv_append(path, header, error);
    if (file == NULL) {
        targets->failed = true;
        complain("--out", error);
    }
    return file;
}

void
targets_table_close(struct targets *targets, FILE *file, const char *name)
{
    bool good = !ferror(file);
    good &= fclose(file) == 0;
    if (!good) {
        fprintf(stderr, "sluice-bench: --out: %s/%s: %s\n", targets->folder, name, strerror(errno));
        targets->failed = true;
    }
}

void
targets_unavailable(struct targets *targets, const char *label, const char *error)
{
    const char *cells[] = { label, error };
    FILE *file = targets_table(targets, "unavailable.csv", "label,error");
    if (file != NULL) {
        csv_row_write(file, cells, ARRAY_COUNT(cells));
        targets_table_close(targets, file, "unavailable.csv");
    }
}

bool
targets_end(struct targets *targets)
{
    char why[512];
    targets_resume(targets);
    if (targets->metadata == NULL) {
        return true;
    }
    if (machine_interrupted()) {
        metadata_warn(targets->metadata, "interrupted: what was measured until then is kept");
    }
    if (!metadata_write(targets->metadata, targets->folder, why, sizeof(why))) {
        targets->failed = true;
        complain("--out", why);
    }
    metadata_end(targets->metadata);
    targets->metadata = NULL;
    return !targets->failed;
}

uint32_t
targets_pids(const struct targets *targets, pid_t quiet[TARGETS_MAX])
{
    for (uint32_t i = 0; i < targets->count; i++) {
        if (targets->targets[i].pid == 0) {
            return 0;
        }
        quiet[i] = targets->targets[i].pid;
    }
    return targets->count;
}
