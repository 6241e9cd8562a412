/* own_server.c - a sluiced of our own. */
#include "tools/bench/own_server.h"
#include "config/limits.h"
#include "tools/bench/machine.h"
#include <unistd.h>

static bool
program_beside(char *path, size_t path_bytes)
{
    ssize_t bytes = readlink("/proc/self/exe", path, path_bytes - sizeof("sluiced"));
    if (bytes <= 0) {
        return false;
    }
    path[bytes] = '\0';
    strcpy(strrchr(path, '/') + 1, "sluiced");
    return true;
}

bool
own_server_begin(struct own_server *own, struct target *target, const struct workload *workload, const char *program,
                 uint32_t lcores, char *why, size_t why_bytes)
{
    char beside[512];
    uint64_t value_bytes = 0;
    for (uint32_t i = 0; i < workload->size_count; i++) {
        value_bytes = MAX(value_bytes, workload->sizes[i]);
    }
    *own = (struct own_server){ .folder = "/tmp/sluice-bench-XXXXXX" };
    struct server_plan plan = {
        .folder = own->folder,
        .provider = target->client.fabric.provider,
        .memory_bytes = MAX(512 * MIB, workload->keys * (2048 + 4 * value_bytes)),
        .keys = MAX(100000ull, workload->keys * 5),
        .lcores = lcores,
        .cpu_count = lcores,
    };
    if (mkdtemp(own->folder) == NULL) {
        own->folder[0] = '\0';
        snprintf(why, why_bytes, "no folder for it in /tmp");
        return false;
    }
    if (lcores > ARRAY_COUNT(plan.cpus) || lcores > machine_cpu_count()) {
        snprintf(why, why_bytes, "at most %u here", MIN((uint32_t)ARRAY_COUNT(plan.cpus), machine_cpu_count()));
        return false;
    }
    if (program == NULL && !program_beside(beside, sizeof(beside))) {
        snprintf(why, why_bytes, "no sluiced beside this program: --sluiced names one");
        return false;
    }
    plan.program = program != NULL ? program : beside;
    for (uint32_t i = 0; i < lcores; i++) {
        plan.cpus[i] = machine_cpu(machine_cpu_count() - lcores + i);
    }
    if (!server_start_sluice(&own->server, &plan, why, why_bytes)) {
        return false;
    }
    snprintf(own->control, sizeof(own->control), "%s/ctl.sock", own->folder);
    target->client.host = "127.0.0.1";
    target->client.path = NULL;
    target->client.port = own->server.port;
    target->pid = own->server.pid;
    target->control = own->control;
    target->may_stop = true;
    return true;
}

static void
log_append(const struct own_server *own, const char *path)
{
    char from[128], piece[4096];
    size_t bytes;
    snprintf(from, sizeof(from), "%s/sluiced.log", own->folder);
    FILE *in = fopen(from, "r"), *out = fopen(path, "a");
    while (in != NULL && out != NULL && (bytes = fread(piece, 1, sizeof(piece), in)) > 0) {
        fwrite(piece, 1, bytes, out);
    }
    if (in != NULL) {
        fclose(in);
    }
    if (out != NULL) {
        fclose(out);
    }
}

void
own_server_end(struct own_server *own, struct target *target, const char *log)
{
    static const char *const names[] = { "sluice.conf", "sluiced.log", "ctl.sock" };
    char path[128];
    if (target->is_stopped) {
        machine_process_continue(target->pid);
    }
    server_stop(&own->server);
    target->pid = 0;
    target->control = NULL;
    target->may_stop = target->is_stopped = false;
    if (own->folder[0] == '\0') {
        return;
    }
    if (log != NULL) {
        log_append(own, log);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", own->folder, names[i]);
        unlink(path);
    }
    rmdir(own->folder);
}
