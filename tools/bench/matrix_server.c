#include "tools/bench/matrix_server.h"
#include "tools/bench/floor.h"
#include "tools/bench/inventory.h"
#include "tools/bench/machine.h"
#include "tools/bench/matrix_veth.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netdb.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static_assert(MATRIX_PASSWORD_BYTES == FLOOR_TOKEN_BYTES + 1, "one secret for both");

#define READY_NS     60000000000
#define STOP_NS      30000000000
#define POLL_US      5000
#define LOG_TAIL     65536
#define SCRIPT_BYTES 32768 /* fits an empty pipe */

/* For a shell that knows $sluiced, in a printf format. */
#define BENCH_BESIDE "case $sluiced in */*) bench=${sluiced%%/*}/sluice-bench ;; *) bench=sluice-bench ;; esac\n"

/* ---- the host ---- */

/* The address in numbers of a name, and the one of ours that packets to it leave from. */
static bool
addresses_find(const char *name, char address[64], char our_address[64], char *why, size_t why_bytes)
{
    struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *list = NULL;
    struct sockaddr_storage ours;
    socklen_t bytes = sizeof(ours);
    int rc = getaddrinfo(name, "9", &hints, &list);
    if (rc != 0) {
        snprintf(why, why_bytes, "%.200s: %s: --address names the host as seen from here", name, gai_strerror(rc));
        return false;
    }
    int fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 && /* sends nothing */
                getsockname(fd, (struct sockaddr *)&ours, &bytes) == 0 &&
                getnameinfo(list->ai_addr, list->ai_addrlen, address, 64, NULL, 0, NI_NUMERICHOST) == 0 &&
                getnameinfo((struct sockaddr *)&ours, bytes, our_address, 64, NULL, 0, NI_NUMERICHOST) == 0;
    if (!good) {
        snprintf(why, why_bytes, "%.200s: no way to it: %s", name, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    freeaddrinfo(list);
    return good;
}

bool
matrix_host_init(struct matrix_host *host, const struct matrix_plan *plan, char *why, size_t why_bytes)
{
    uint8_t random[(MATRIX_PASSWORD_BYTES - 1) / 2];
    *host = (struct matrix_host){ .ssh_target = plan->server };
    if (plan->sluiced != NULL) {
        snprintf(host->sluiced, sizeof(host->sluiced), "%s", plan->sluiced);
    } else {
        program_path_beside("sluiced", host->sluiced, sizeof(host->sluiced));
    }
    if (plan->server == NULL && access(host->sluiced, X_OK) != 0) {
        snprintf(why, why_bytes, "%.300s: %s: --sluiced names the server's program", host->sluiced, strerror(errno));
        return false;
    }
    CHECK(getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random));
    for (size_t i = 0; i < sizeof(random); i++) {
        snprintf(host->password + 2 * i, 3, "%02x", random[i]);
    }
    const char *name = "127.0.0.1";
    if (plan->server != NULL) {
        const char *at = strrchr(plan->server, '@');
        name = plan->address != NULL ? plan->address : at != NULL ? at + 1 : plan->server;
    }
    return addresses_find(name, host->address, host->our_address, why, why_bytes);
}

/* ---- a shell that reads from us ---- */

/* One word for a shell. */
static void
quoted_print(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text != '\0'; text++) {
        fputs(*text == '\'' ? "'\\''" : (const char[]){ *text, '\0' }, to);
    }
    fputc('\'', to);
}

static _Noreturn void
shell_exec(const char *ssh_target, int input, const char *log)
{
    const char *const here[] = { "sh", NULL };
    const char *const there[] = {
        "ssh",      "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
        ssh_target, "sh", NULL
    };
    int output = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    setpgid(0, 0); /* Ctrl-C is ours, not the server's */
    signal(SIGPIPE, SIG_DFL);
    dup2(input, STDIN_FILENO);
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
    }
    const char *const *argv = ssh_target != NULL ? there : here;
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Start it with `script`, which is NUL-terminated. */
static void
shell_start(struct matrix_server *server, const char *ssh_target, const char *script, char *why, size_t why_bytes)
{
    int input[2];
    CHECK(pipe2(input, O_CLOEXEC) == 0);
    unlink(server->log); /* nobody must read what an earlier server said */
    fflush(NULL);
    server->shell = fork();
    CHECK(server->shell >= 0);
    if (server->shell == 0) {
        shell_exec(ssh_target, input[0], server->log);
    }
    close(input[0]);
    server->lifeline = input[1];
    size_t bytes = strlen(script);
    if (write(server->lifeline, script, bytes) != (ssize_t)bytes) {
        snprintf(why, why_bytes, "the shell takes no commands: %s", strerror(errno));
    }
}

/* Close its input and wait for it; the code it ended with, -1: it had to be killed. */
static int
shell_end(struct matrix_server *server)
{
    int status = 0;
    int64_t deadline = machine_now_ns() + STOP_NS;
    close(server->lifeline);
    while (waitpid(server->shell, &status, WNOHANG) == 0) {
        if (machine_now_ns() > deadline) {
            kill(server->shell, SIGKILL);
            waitpid(server->shell, &status, 0);
            break;
        }
        usleep(POLL_US);
    }
    server->shell = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool
shell_is_over(const struct matrix_server *server)
{
    siginfo_t info = { 0 };
    return waitid(P_PID, (id_t)server->shell, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/* The end of the log. free() is due. */
static char *
log_read(const char *log)
{
    char *text = calloc(1, LOG_TAIL + 1);
    CHECK(text != NULL);
    int fd = open(log, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        off_t end = lseek(fd, 0, SEEK_END);
        ssize_t bytes = pread(fd, text, LOG_TAIL, end > LOG_TAIL ? end - LOG_TAIL : 0);
        text[bytes > 0 ? bytes : 0] = '\0';
        close(fd);
    }
    return text;
}

/* What went wrong in the server's words: its last line that says "error: ", else how it ended, else its last line. */
static void
log_last_words(const char *log, char *why, size_t why_bytes)
{
    char *text = log_read(log), *rest = NULL;
    const char *said = "it said nothing", *error = NULL;
    int code = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const char *at = strstr(line, "error: ");
        error = at != NULL ? at + 7 : error;
        if (sscanf(line, "sluice-matrix ended %d", &code) != 1) {
            said = line;
        }
    }
    if (error == NULL && code > 128) {
        snprintf(why, why_bytes, "it was ended by signal %d", code - 128);
    } else {
        snprintf(why, why_bytes, "%s", error != NULL ? error : said);
    }
    free(text);
}

/* ---- the other host ---- */

/* A login there is kept off CPUs that are isolated for servers. What a cpuset forbids stays forbidden. */
#define EVERY_CPU "taskset -p -c 0-1023 $$ >/dev/null 2>&1\n"

bool
matrix_host_probe(const struct matrix_host *host, const char *log, char **json, char *why, size_t why_bytes)
{
    static char script[SCRIPT_BYTES];
    struct matrix_server probe = { 0 };
    char reason[512] = "";
    *json = NULL;
    snprintf(probe.log, sizeof(probe.log), "%s", log);
    FILE *to = fmemopen(script, sizeof(script), "w");
    CHECK(to != NULL);
    fprintf(to, "sluiced=");
    quoted_print(to, host->sluiced);
    fprintf(to, "\n" EVERY_CPU BENCH_BESIDE
                "command -v \"$sluiced\" >/dev/null || { echo 'sluice-matrix absent'; exit 0; }\n"
                "\"$bench\" machine </dev/null 2>/dev/null\n"
                "echo 'sluice-matrix probed'\n");
    fclose(to);
    shell_start(&probe, host->ssh_target, script, reason, sizeof(reason));
    int code = shell_end(&probe);
    char *text = log_read(log), *end = strstr(text, "sluice-matrix probed");
    char *begin = end != NULL ? strchr(text, '{') : NULL;
    if (begin != NULL && begin < end) {
        *end = '\0';
        *json = strdup(begin);
    }
    if (end == NULL && strstr(text, "sluice-matrix absent") != NULL) {
        snprintf(why, why_bytes, "%.100s has no %.300s: --sluiced names the server's program there", host->ssh_target,
                 host->sluiced);
    } else if (end == NULL) {
        log_last_words(log, reason, sizeof(reason));
        snprintf(why, why_bytes, "%.100s cannot be reached by ssh (exit code %d): %.300s", host->ssh_target, code,
                 reason);
    }
    free(text);
    return end != NULL;
}

/* ---- sluiced ---- */

static void
ports_print(FILE *to, const struct matrix_host *host, const struct matrix_row *row, const char *device)
{
    static const char *const sends[] = { "auto", "inject", "send" };
    if (row->transport == MATRIX_FABRIC) {
        fprintf(to, "ports = ( { type = \"fabric\"; provider = \"%s\"; send = \"%s\"; ", row->provider,
                sends[row->send]);
        if (bench_provider_has_node(row->provider)) {
            fprintf(to, "node = \"%s\"; ", host->address);
        }
        fprintf(to, "} );\n");
    } else if (device != NULL) {
        fprintf(to,
                "ports = ( { type = \"ethernet\"; device = \"%s\"; address = \"" MATRIX_VETH_SERVER
                "/24\"; listen = \"6379\"; } );\n",
                device);
    }
}

/* The far end of the bare transport, where the server is: on the CPU beside it, as that one spins. */
static void
floor_peer_print(FILE *to, const struct matrix_plan *plan, const struct matrix_host *host)
{
    fprintf(to,
            BENCH_BESIDE FLOOR_TOKEN_VARIABLE "=%s \"$bench\" floor-peer --address %s --node %s --cpu %d 2>&1 &\n"
                                              "floor=$!\n",
            host->password, host->address, host->address, plan->server_cpu > 0 ? plan->server_cpu - 1 : 1);
}

static void
config_print(FILE *to, const struct matrix_host *host, const struct matrix_row *row, const char *device)
{
    bool brackets = strchr(host->address, ':') != NULL;
    fprintf(to,
            "streams: { address = \"%s%s%s\"; port = 0; };\n"
            "memory: { reserve = \"256MiB\"; ahead = \"16MiB\"; };\n"
            "store: { keys_expected = 100000; };\n"
            "log: { ready = \"json\"; };\n"
            "auth: { password = \"%s\"; };\n"
            "lcores: { idle = \"spin\"; };\n",
            brackets ? "[" : "", host->address, brackets ? "]" : "", host->password);
    ports_print(to, host, row, device);
}

/* What the shell does: start the server, wait for it, and end it when we are gone. A function, because some shells read
 * their input line by line: it is there as a whole before `cat` takes the rest of that input. */
static void
script_print(FILE *to, const struct matrix_plan *plan, const struct matrix_host *host, const struct matrix_row *row,
             const char *device)
{
    fprintf(to, "matrix() {\n"
                "trap '' HUP\n" /* which the kernel sends when we end while the server is stopped */
                "umask 077\n"
                "dir=$(mktemp -d \"${TMPDIR:-/tmp}/sluice-matrix.XXXXXX\") || exit 1\n"
                "cat >\"$dir/sluice.conf\" <<'SLUICE_MATRIX_END'\n");
    config_print(to, host, row, device);
    fprintf(to, "SLUICE_MATRIX_END\nfloor=\nsluiced=");
    quoted_print(to, host->sluiced);
    fprintf(to, "\n%s", host->ssh_target != NULL ? EVERY_CPU : "");
    if (plan->with_floor && host->ssh_target != NULL) {
        floor_peer_print(to, plan, host);
    }
    fprintf(to,
            "\"$sluiced\" -c \"$dir/sluice.conf\" --set \"management.socket=$dir/ctl.sock\" --set \"streams.unix=%s\" "
            "--set lcores.cpus=%d",
            row->transport == MATRIX_UNIX ? "$dir/data.sock" : "", plan->server_cpu);
    for (uint32_t i = 0; i < plan->setting_count; i++) {
        fprintf(to, " --set ");
        quoted_print(to, plan->settings[i]);
    }
    fprintf(to, " 2>&1 &\n"
                "pid=$!\n"
                "echo \"sluice-matrix pid $pid\"\n"
                "exec 3<&0\n" /* what runs in the background has no input of its own */
                "( cat <&3 >/dev/null\n"
                "[ -z \"$floor\" ] || kill \"$floor\"\n"
                "[ ! -e \"$dir/ended\" ] || exit\n"
                "kill -CONT \"$pid\"; kill \"$pid\"; turns=0\n"
                "while kill -0 \"$pid\" && [ $turns -lt 80 ]; do sleep 0.1; turns=$((turns + 1)); done\n"
                "kill -9 \"$pid\" ) 2>/dev/null &\n"
                "wait \"$pid\"; code=$?\n"
                ": >\"$dir/ended\"\n"
                "echo \"sluice-matrix ended $code\"\n"
                "wait\n"
                "rm -rf \"$dir\"\n"
                "}\n"
                "matrix\n");
}

/* The line of JSON that says where it listens. */
static bool
ready_find(struct matrix_server *server, char *text, bool here, bool with_floor)
{
    bool ready = false;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        int port = 0, pid = 0;
        const char *event = NULL, *path = NULL;
        if (here && sscanf(line, "sluice-matrix pid %d", &pid) == 1) {
            server->pid = (pid_t)pid;
        }
        json_t *root = line[0] == '{' ? json_loads(line, 0, NULL) : NULL;
        if (root == NULL || json_unpack(root, "{s:s,s:i,s?s}", "event", &event, "port", &port, "unix", &path) != 0) {
            event = "none";
        }
        if (strcmp(event, "ready") == 0) {
            server->port = (uint16_t)port;
            snprintf(server->unix_path, sizeof(server->unix_path), "%s", path != NULL ? path : "");
            ready = true;
        } else if (strcmp(event, "floor-peer") == 0) {
            server->floor_port = (uint16_t)port;
        }
        json_decref(root);
    }
    return ready && (!with_floor || server->floor_port != 0);
}

static bool
ready_wait(struct matrix_server *server, bool here, bool with_floor, char *why, size_t why_bytes)
{
    int64_t deadline = machine_now_ns() + READY_NS;
    while (!machine_interrupted()) {
        char *text = log_read(server->log);
        bool ended = strstr(text, "sluice-matrix ended ") != NULL,
             ready = !ended && ready_find(server, text, here, with_floor);
        free(text);
        if (ready) {
            return true;
        }
        if (ended || shell_is_over(server)) {
            log_last_words(server->log, why, why_bytes);
            return false;
        }
        if (machine_now_ns() > deadline) {
            snprintf(why, why_bytes, "the server is not ready after %d s", (int)(READY_NS / 1000000000));
            return false;
        }
        usleep(POLL_US);
    }
    snprintf(why, why_bytes, "interrupted");
    return false;
}

bool
matrix_server_start(struct matrix_server *server, const struct matrix_plan *plan, const struct matrix_host *host,
                    const struct matrix_row *row, const char *device, const char *log, char *why, size_t why_bytes)
{
    static char script[SCRIPT_BYTES];
    *server = (struct matrix_server){ 0 };
    snprintf(server->log, sizeof(server->log), "%s", log);
    snprintf(server->host, sizeof(server->host), "%s", device != NULL ? MATRIX_VETH_SERVER : host->address);
    FILE *to = fmemopen(script, sizeof(script), "w");
    CHECK(to != NULL);
    script_print(to, plan, host, row, device);
    if (fclose(to) != 0 || strlen(script) + 1 >= sizeof(script)) {
        snprintf(why, why_bytes, "too many settings");
        return false;
    }
    shell_start(server, host->ssh_target, script, why, why_bytes);
    bool here = host->ssh_target == NULL;
    if (!ready_wait(server, here, plan->with_floor && !here, why, why_bytes)) {
        matrix_server_stop(server);
        return false;
    }
    server->port = device != NULL ? 6379 : server->port;
    return true;
}

void
matrix_server_stop(struct matrix_server *server)
{
    if (server->shell > 0) {
        shell_end(server);
    }
    *server = (struct matrix_server){ 0 };
}

bool
matrix_server_is_dead(const struct matrix_server *server, char *why, size_t why_bytes)
{
    if (server->shell <= 0) {
        return false;
    }
    char *text = log_read(server->log), words[400];
    bool dead = strstr(text, "sluice-matrix ended ") != NULL || shell_is_over(server);
    free(text);
    if (dead) {
        log_last_words(server->log, words, sizeof(words));
        snprintf(why, why_bytes, "the server ended: %s", words);
    }
    return dead;
}
