#include "tools/bench/lane_result.h"
#include "tools/bench/csv.h"
#include "tools/bench/hlog.h"
#include "tools/bench/machine.h"
#include "tools/bench/metadata.h"
#include <errno.h>
#include <unistd.h>

/* Rows go out together, or an error is known. */
static bool
table_close(FILE *file, const char *path, char *why, size_t why_bytes)
{
    bool good = !ferror(file);
    good &= fclose(file) == 0;
    if (!good) {
        snprintf(why, why_bytes, "%.300s: %s", path, strerror(errno));
    }
    return good;
}

static FILE *
table_open(const char *folder, const char *name, const char *header, char path[2048], char *why, size_t why_bytes)
{
    char error[CSV_ERROR_BYTES];
    snprintf(path, 2048, "%s/%s", folder, name);
    FILE *file = csv_append(path, header, error);
    if (file == NULL) {
        snprintf(why, why_bytes, "%s", error);
    }
    return file;
}

static bool
labels_are_new(const char *folder, const struct lanes *lanes, char *why, size_t why_bytes)
{
    char path[2048];
    struct csv csv;
    uint32_t column;
    snprintf(path, sizeof(path), "%s/latency.csv", folder);
    if (access(path, F_OK) != 0) {
        return true;
    }
    bool good = csv_init(&csv, path) && csv_column(&csv, "label", &column);
    if (!good) {
        snprintf(why, why_bytes, "%s", csv.error);
    }
    for (uint32_t row = 0; good && row < csv.rows; row++) {
        for (uint32_t i = 0; good && i < lanes->count; i++) {
            if (strcmp(csv_cell(&csv, row, column), lanes->lanes[i].label) == 0) {
                snprintf(why, why_bytes, "%.300s has '%s' already: name another --label or folder", path,
                         lanes->lanes[i].label);
                good = false;
            }
        }
    }
    csv_fini(&csv);
    return good;
}

bool
lane_result_open(const struct lane_result *result, const struct lanes *lanes, char *why, size_t why_bytes)
{
    char path[2048];
    if (result->hlog_folder != NULL && !folder_make(result->hlog_folder, why, why_bytes)) {
        return false;
    }
    if (result->folder == NULL) {
        return true;
    }
    if (!result_folder_make(result->folder, why, why_bytes) || !labels_are_new(result->folder, lanes, why, why_bytes)) {
        return false;
    }
    FILE *file = table_open(result->folder, "latency.csv", LATENCY_CSV_HEADER, path, why, why_bytes);
    return file != NULL && table_close(file, path, why, why_bytes);
}

static bool
log_make(const struct lane_result *result, const struct lane *lane, enum operation_id id, double began_s,
         double seconds, char *why, size_t why_bytes)
{
    char path[4096];
    const char *folder = result->hlog_folder != NULL ? result->hlog_folder : result->folder;
    if (folder == NULL) {
        return true;
    }
    snprintf(path, sizeof(path), "%s%s/%s-%s.hlog", folder, result->hlog_folder != NULL ? "" : "/hlog", lane->label,
             operation_names[id]);
    return hlog_write(path, lane->ticks, lane->done, machine_ns_per_cycle(), began_s, seconds, why, why_bytes);
}

bool
lane_result_row(const struct lane_result *result, const struct lane *lane, enum operation_id id, double began_s,
                double seconds, char *why, size_t why_bytes)
{
    char path[2048];
    if (!log_make(result, lane, id, began_s, seconds, why, why_bytes)) {
        return false;
    }
    if (result->folder == NULL) {
        return true;
    }
    FILE *file = table_open(result->folder, "latency.csv", LATENCY_CSV_HEADER, path, why, why_bytes);
    if (file == NULL) {
        return false;
    }
    summary_csv_row(file, lane->label, operation_names[id], &lane->results[id]);
    return table_close(file, path, why, why_bytes);
}

bool
lane_result_unavailable(const char *folder, const char *label, const char *error, char *why, size_t why_bytes)
{
    char path[2048];
    const char *cells[] = { label, error };
    FILE *file = table_open(folder, "unavailable.csv", UNAVAILABLE_CSV_HEADER, path, why, why_bytes);
    if (file == NULL) {
        return false;
    }
    csv_row_write(file, cells, ARRAY_COUNT(cells));
    return table_close(file, path, why, why_bytes);
}

/* ---- config.csv ---- */

#define CELL_BYTES 512

static const char *const wire_names[] = { "RESP2", "RESP3", "SBE" };
static const char *const send_names[] = { "auto-inject", "inject", "fi_send" };

static void
transport_cell(const struct client_options *options, bool ethernet, bool bare, char cell[CELL_BYTES])
{
    const char *provider = options->fabric.provider;
    snprintf(cell, CELL_BYTES, "%s%s%s", bare ? "bare " : "",
             provider != NULL        ? "libfabric-RDM:"
             : options->path != NULL ? "unix"
             : ethernet              ? "ethernet-tcp"
                                     : "kernel-tcp",
             provider != NULL ? provider : "");
}

static void
buffers_cell(const struct lanes *lanes, const struct lane *lane, const struct client_options *options,
             char cell[CELL_BYTES])
{
    char what[256] = "TCP_NODELAY";
    if (lane->client != NULL) {
        client_describe(lane->client, what, sizeof(what));
    } else if (lane->floor != NULL && floor_frame_bytes(lane->floor) != UINT32_MAX) {
        snprintf(what, sizeof(what), "frames of %u bytes", floor_frame_bytes(lane->floor));
    }
    snprintf(cell, CELL_BYTES, "value=%llu;%s%s%s", (unsigned long long)lanes->value_bytes, what,
             options->fabric.provider != NULL ? ";send=" : "",
             options->fabric.provider != NULL ? send_names[options->fabric.send] : "");
}

static void
config_row(FILE *file, const struct lanes *lanes, const struct lane *lane, bool ethernet, uint64_t warmup)
{
    char transport[CELL_BYTES], endpoint[CELL_BYTES], buffers[CELL_BYTES], samples[32], warm[32];
    bool bare = lane->kind == LANE_FLOOR;
    const struct client_options *options = bare ? &lanes->lanes[0].options : &lane->options;
    transport_cell(options, ethernet && lane->kind == LANE_SERVER, bare, transport);
    if (bare && lanes->floor_host != NULL) {
        snprintf(endpoint, sizeof(endpoint), "%s:%u", lanes->floor_host, lanes->floor_port);
    } else if (bare) {
        snprintf(endpoint, sizeof(endpoint), "a peer process of this host");
    } else if (options->path != NULL) {
        snprintf(endpoint, sizeof(endpoint), "%s", options->path);
    } else {
        snprintf(endpoint, sizeof(endpoint), "%s:%u", options->host, options->port);
    }
    buffers_cell(lanes, lane, options, buffers);
    snprintf(samples, sizeof(samples), "samples=%llu", (unsigned long long)lanes->samples);
    snprintf(warm, sizeof(warm), "warmup=%llu", (unsigned long long)warmup);
    const char *cells[] = { lane->label, transport, bare ? "none" : wire_names[options->wire],
                            "depth=1",   endpoint,  buffers,
                            samples,     warm };
    csv_row_write(file, cells, ARRAY_COUNT(cells));
}

static bool
lane_measured(const struct lane *lane)
{
    for (uint32_t id = 0; id < OPERATION_COUNT; id++) {
        if (lane->results[id].samples > 0) {
            return true;
        }
    }
    return false;
}

bool
lane_result_config(const struct lane_result *result, const struct lanes *lanes, bool ethernet, uint64_t warmup,
                   char *why, size_t why_bytes)
{
    char path[2048];
    if (result->folder == NULL) {
        return true;
    }
    FILE *file = table_open(result->folder, "config.csv", CONFIG_CSV_HEADER, path, why, why_bytes);
    if (file == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < lanes->count; i++) {
        if (lane_measured(&lanes->lanes[i])) {
            config_row(file, lanes, &lanes->lanes[i], ethernet, warmup);
        }
    }
    return table_close(file, path, why, why_bytes);
}
