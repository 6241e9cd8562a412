/* matrix.c - sluice-bench matrix: latency over every transport, send mode and wire, on one host or two. */
#include "tools/bench/inventory.h"
#include "tools/bench/lane_result.h"
#include "tools/bench/machine.h"
#include "tools/bench/matrix_child.h"
#include "tools/bench/matrix_state.h"
#include "tools/bench/matrix_veth.h"
#include "tools/bench/metadata.h"
#include <getopt.h> /* optind */
#include <signal.h>
#include <unistd.h>

#define WHY_BYTES 1024

enum { EXIT_FAILED = 1, EXIT_NO_HOST = 3, EXIT_INTERRUPTED = 130 };

struct matrix {
    struct matrix_plan plan;
    struct matrix_host host;
    struct matrix_state state;
    struct metadata *metadata;
    struct progress progress;
    json_t *server_machine;     /* of another host; NULL: unknown, or this one */
    char last_error[WHY_BYTES]; /* of the row before */
    uint32_t measured, unavailable, failed;
};

static int
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return EXIT_FAILED;
}

/* ---- what the figures depend on ---- */

/* One lcore serves: on the last CPU that may be used, here or there. */
static bool
server_cpu_settle(struct matrix *matrix, char *why, size_t why_bytes)
{
    struct matrix_plan *plan = &matrix->plan;
    const char *allowed = NULL;
    if (plan->server_cpu >= 0) {
        return true;
    }
    if (plan->server == NULL) {
        plan->server_cpu = machine_cpu(machine_cpu_count() - 1);
        return true;
    }
    if (json_unpack(matrix->server_machine, "{s:{s:s}}", "cpus", "allowed", &allowed) != 0 || allowed[0] == '\0') {
        snprintf(why, why_bytes, "%.100s has no sluice-bench that tells its CPUs: --server-cpu names one",
                 plan->server);
        return false;
    }
    size_t last = strlen(allowed);
    while (last > 0 && strchr("0123456789", allowed[last - 1]) != NULL) {
        last--;
    }
    plan->server_cpu = atoi(allowed + last);
    return true;
}

static json_t *
config_make(const struct matrix *matrix)
{
    const struct matrix_plan *plan = &matrix->plan;
    char host[256] = "", path[MATRIX_PATH_BYTES], bench[BUILD_ID_HEX_BYTES], sluiced[BUILD_ID_HEX_BYTES] = "";
    const char *there = NULL;
    json_t *settings = json_array();
    gethostname(host, sizeof(host) - 1);
    program_path_beside("sluice-bench", path, sizeof(path));
    build_id_read(path, bench);
    if (plan->running.host == NULL && plan->server == NULL) {
        build_id_read(matrix->host.sluiced, sluiced);
    } else if (json_unpack(matrix->server_machine, "{s:{s:s}}", "builds", "sluiced", &there) == 0) {
        snprintf(sluiced, sizeof(sluiced), "%s", there);
    }
    for (uint32_t i = 0; i < plan->setting_count; i++) {
        json_array_append_new(settings, json_string(plan->settings[i]));
    }
    snprintf(path, sizeof(path), "%s:%u", plan->running.host != NULL ? plan->running.host : "", plan->running.port);
    json_t *config =
        json_pack("{s:i,s:i,s:i,s:b,s:i,s:i,s:s,s:s,s:s,s:s,s:s,s:o}", "samples", (int)plan->samples, "warmup",
                  (int)plan->warmup, "value_bytes", (int)plan->value_bytes, "floor", plan->with_floor, "cpu", plan->cpu,
                  "server_cpu", plan->server_cpu, "host", host, "server",
                  plan->server != NULL         ? plan->server
                  : plan->running.host != NULL ? path
                                               : "started here",
                  "address", plan->running.host != NULL ? plan->running.host : matrix->host.address, "bench_build",
                  bench, "sluiced_build", sluiced, "settings", settings);
    CHECK(config != NULL);
    return config;
}

/* ---- rows ---- */

/* The server of a row: of its own, or one that runs already. A row without one is unavailable. */
static bool
row_server(const struct matrix *matrix, const struct matrix_row *row, const char *device, struct matrix_server *server,
           char *why, size_t why_bytes)
{
    const struct matrix_plan *plan = &matrix->plan;
    bool ethernet = row->transport == MATRIX_ETHERNET && plan->ethernet.host != NULL;
    if (ethernet || plan->running.host != NULL) {
        const struct client_options *at = ethernet ? &plan->ethernet : &plan->running;
        *server = (struct matrix_server){ .port = at->port };
        snprintf(server->host, sizeof(server->host), "%s", at->host);
        snprintf(server->unix_path, sizeof(server->unix_path), "%s",
                 plan->running_unix != NULL ? plan->running_unix : "");
        return true;
    }
    char log[MATRIX_PATH_BYTES];
    snprintf(log, sizeof(log), "%s/logs/%s-server.log", plan->out, row->label);
    return matrix_server_start(server, plan, &matrix->host, row, device, log, why, why_bytes);
}

static enum matrix_outcome
row_measure(struct matrix *matrix, const struct matrix_row *row, uint64_t done, char *why, size_t why_bytes)
{
    const struct matrix_plan *plan = &matrix->plan;
    struct matrix_server server = { 0 };
    enum matrix_outcome outcome = MATRIX_UNAVAILABLE;
    bool runs = plan->running.host != NULL || (row->transport == MATRIX_ETHERNET && plan->ethernet.host != NULL);
    bool link = row->transport == MATRIX_ETHERNET && !runs;
    int home = link ? matrix_veth_open(why, why_bytes) : -1;
    if (link && home < 0) {
        return MATRIX_UNAVAILABLE;
    }
    if (row_server(matrix, row, link ? MATRIX_VETH_DEVICE : NULL, &server, why, why_bytes)) {
        outcome =
            matrix_child_run(plan, row, &server, runs ? NULL : matrix->host.our_address,
                             runs ? plan->password : matrix->host.password, &matrix->progress, done, why, why_bytes);
        if (outcome != MATRIX_MEASURED && outcome != MATRIX_INTERRUPTED) {
            outcome = matrix_server_is_dead(&server, why, why_bytes) ? MATRIX_FAILED : outcome;
        }
    } else if (machine_interrupted()) {
        outcome = MATRIX_INTERRUPTED;
    }
    matrix_server_stop(&server);
    matrix_veth_close(home);
    /* Without a card or a provider there is nothing to measure; a kernel's sockets are always there. */
    if (outcome == MATRIX_UNAVAILABLE && row->transport != MATRIX_FABRIC && row->transport != MATRIX_ETHERNET) {
        outcome = MATRIX_FAILED;
    }
    return outcome;
}

static bool
row_note(struct matrix *matrix, const struct matrix_row *row, enum matrix_outcome outcome, const char *why,
         double seconds)
{
    char error[512], text[WHY_BYTES + BENCH_LABEL_BYTES];
    progress_end(&matrix->progress);
    switch (outcome) {
    case MATRIX_MEASURED:
        matrix->measured++;
        printf("%-24s measured in %.0f s\n", row->label, seconds);
        break;
    case MATRIX_INTERRUPTED:
        printf("%-24s interrupted\n", row->label);
        break;
    case MATRIX_UNAVAILABLE:
    case MATRIX_FAILED:
        matrix->unavailable += outcome == MATRIX_UNAVAILABLE;
        matrix->failed += outcome == MATRIX_FAILED;
        printf("%-24s %s: %s\n", row->label, outcome == MATRIX_FAILED ? "failed" : "unavailable",
               strcmp(why, matrix->last_error) == 0 ? "as above" : why);
        snprintf(matrix->last_error, sizeof(matrix->last_error), "%s", why);
        snprintf(text, sizeof(text), "%s: %s", row->label, why);
        metadata_warn(matrix->metadata, text);
        if (!lane_result_unavailable(matrix->plan.out, row->label, why, error, sizeof(error))) {
            complain("--out", error);
            return false;
        }
        break;
    }
    fflush(stdout);
    return true;
}

/* False: the folder cannot be written. */
static bool
rows_measure(struct matrix *matrix)
{
    const struct matrix_plan *plan = &matrix->plan;
    uint64_t lines = 1 + OPERATION_COUNT * (plan->with_floor ? 2 : 1);
    for (uint32_t i = 0; i < plan->row_count && !machine_interrupted(); i++) {
        const struct matrix_row *row = &plan->rows[i];
        char why[WHY_BYTES] = "";
        if (matrix->state.finished[i]) {
            printf("%-24s finished before\n", row->label);
            continue;
        }
        int64_t begun = machine_now_ns();
        progress_begin(&matrix->progress, row->label, plan->row_count * lines);
        progress_show(&matrix->progress, i * lines);
        enum matrix_outcome outcome = row_measure(matrix, row, i * lines, why, sizeof(why));
        if (!row_note(matrix, row, outcome, why, (double)(machine_now_ns() - begun) * 1e-9)) {
            return false;
        }
    }
    return true;
}

/* ---- the whole ---- */

static bool
other_host_probe(struct matrix *matrix, char *why, size_t why_bytes)
{
    char log[MATRIX_PATH_BYTES], *json = NULL;
    if (matrix->plan.server == NULL) {
        return true;
    }
    snprintf(log, sizeof(log), "%s/logs/host.log", matrix->plan.out);
    if (!result_folder_make(matrix->plan.out, why, why_bytes) ||
        !matrix_host_probe(&matrix->host, log, &json, why, why_bytes)) {
        return false;
    }
    if (json != NULL) {
        matrix->server_machine = json_loads(json, 0, NULL);
        metadata_server_machine(matrix->metadata, json);
    }
    free(json);
    return true;
}

static int
matrix_finish(struct matrix *matrix, bool good)
{
    char why[WHY_BYTES];
    char *words[] = { "rank", (char *)matrix->plan.out, NULL };
    bool any = matrix->measured + matrix->state.finished_count > 0;
    if (machine_interrupted()) {
        metadata_warn(matrix->metadata, "interrupted: what was measured until then is kept");
        fprintf(stderr, "sluice-bench: interrupted: the same command goes on from here\n");
    }
    if (!metadata_write(matrix->metadata, matrix->plan.out, why, sizeof(why))) {
        complain("--out", why);
        good = false;
    }
    printf("\n%u rows measured, %u finished before, %u unavailable, %u failed\n\n", matrix->measured,
           matrix->state.finished_count, matrix->unavailable, matrix->failed);
    fflush(stdout);
    optind = 0; /* rank reads a command line of its own */
    if (any && bench_rank(2, words) != 0) {
        good = false;
    }
    return machine_interrupted() ? EXIT_INTERRUPTED : !good || matrix->failed > 0 || !any ? EXIT_FAILED : 0;
}

static int
matrix_run(struct matrix *matrix)
{
    char why[WHY_BYTES];
    struct matrix_plan *plan = &matrix->plan;
    if (!matrix_host_init(&matrix->host, plan, why, sizeof(why))) {
        return complain("matrix", why);
    }
    if (!other_host_probe(matrix, why, sizeof(why)) || !server_cpu_settle(matrix, why, sizeof(why))) {
        complain("--server", why);
        return EXIT_NO_HOST;
    }
    json_t *config = config_make(matrix);
    bool good = matrix_state_open(&matrix->state, plan, config, why, sizeof(why));
    json_decref(config);
    if (!good) {
        return complain("--out", why);
    }
    return matrix_finish(matrix, rows_measure(matrix));
}

int
bench_matrix(int argc, char **argv)
{
    static struct matrix matrix;
    matrix.state.lock = -1;
    matrix.metadata = metadata_begin(argc, argv); /* getopt reorders the words */
    int code = matrix_options_read(&matrix.plan, argc, argv);
    if (code < 0 && matrix.plan.list) {
        for (uint32_t i = 0; i < matrix.plan.row_count; i++) {
            printf("%s\n", matrix.plan.rows[i].label);
        }
        code = 0;
    } else if (code < 0) {
        const char *password = getenv("REDISCLI_AUTH");
        matrix.plan.password = matrix.plan.password != NULL ? matrix.plan.password : password;
        signal(SIGPIPE, SIG_IGN); /* a shell that is gone is an error, not our end */
        machine_interrupts_catch();
        code = matrix_run(&matrix);
    }
    matrix_state_close(&matrix.state);
    json_decref(matrix.server_machine);
    metadata_end(matrix.metadata);
    return code;
}
