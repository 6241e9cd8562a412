#include "tools/bench/servers.h"
#include "tools/bench/machine.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TIMEOUT_NS 20000000000
#define STOP_TIMEOUT_NS  8000000000

/* Free now: somebody else may take it before the server does, which then says so and does not start. */
static uint16_t
port_free(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof(address);
    uint16_t port = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &bytes) == 0) {
        port = ntohs(address.sin_port);
    }
    close(fd);
    return port;
}

static void
cpus_restrict(const int *cpus, uint32_t count)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < count; i++) {
        CPU_SET((size_t)cpus[i], &set);
    }
    sched_setaffinity(0, sizeof(set), &set);
}

static _Noreturn void
server_exec(const struct server_plan *plan, const char *const *argv, const char *log)
{
    int output = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    setpgid(0, 0); /* Ctrl-C is ours, not the server's */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    cpus_restrict(plan->cpus, plan->cpu_count);
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
    }
    execv(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* The last line of the log, for people. */
static void
log_last_line(const char *log, char *why, size_t why_bytes)
{
    char line[512];
    FILE *file = fopen(log, "r");
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(why, why_bytes, "%.*s", (int)why_bytes - 1, line);
    }
    fclose(file);
}

static bool
server_answers(uint16_t port)
{
    struct client_options options;
    struct client_reply reply;
    char why[CLIENT_WHY_BYTES];
    const char *words[] = { "PING" };
    client_options_init(&options);
    options.port = port;
    struct client *client = client_open(&options, why, sizeof(why));
    bool answers = client != NULL && client_call_words(client, words, 1, &reply) == CLIENT_OK &&
                   client_reply_is_text(&reply, "PONG");
    client_close(client);
    return answers;
}

static bool
server_launch(struct server *server, const struct server_plan *plan, const char *const *argv, const char *log,
              char *why, size_t why_bytes)
{
    int64_t begin = machine_now_ns();
    fflush(NULL);
    server->pid = fork();
    CHECK(server->pid >= 0);
    if (server->pid == 0) {
        server_exec(plan, argv, log);
    }
    while (!server_answers(server->port)) {
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            snprintf(why, why_bytes, "%s ended at once", argv[0]);
            log_last_line(log, why, why_bytes);
            server->pid = 0;
            return false;
        }
        if (machine_now_ns() - begin > START_TIMEOUT_NS || machine_interrupted()) {
            snprintf(why, why_bytes, "%s did not answer", argv[0]);
            server_stop(server);
            return false;
        }
        usleep(1000);
    }
    server->ready_s = (double)(machine_now_ns() - begin) * 1e-9;
    return true;
}

static void
config_write(const char *path, const struct server_plan *plan)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (plan->provider != NULL && strncmp(plan->provider, "net_", 4) == 0) {
        /* A documentation address on a device without a wire: only sluiced itself is reached, over loopback. */
        fprintf(file,
                "ports = ( { type = \"ethernet\"; device = \"%s\"; address = \"192.0.2.1/24\"; } );\n"
                "auth: { protected_mode = false; };\n",
                plan->provider);
    } else if (plan->provider != NULL) {
        /* shm names no address; the others bind to loopback */
        fprintf(file, "ports = ( { type = \"fabric\"; provider = \"%s\"; %s } );\n", plan->provider,
                strcmp(plan->provider, "shm") == 0 ? "" : "node = \"127.0.0.1\";");
    }
    CHECK(fclose(file) == 0);
}

bool
server_start_sluice(struct server *server, const struct server_plan *plan, char *why, size_t why_bytes)
{
    char config[320], port[48], control[360], log[320], memory[64], keys[64], cpus[64];
    *server = (struct server){ .port = port_free() };
    snprintf(config, sizeof(config), "%s/sluice.conf", plan->folder);
    snprintf(log, sizeof(log), "%s/sluiced.log", plan->folder);
    snprintf(control, sizeof(control), "management.socket=%s/ctl.sock", plan->folder);
    snprintf(port, sizeof(port), "streams.port=%u", server->port);
    snprintf(memory, sizeof(memory), "memory.reserve=%lluMiB", (unsigned long long)(plan->memory_bytes >> 20));
    snprintf(keys, sizeof(keys), "store.keys_expected=%llu", (unsigned long long)plan->keys);
    snprintf(cpus, sizeof(cpus), "lcores.cpus=%d", plan->cpus[0]);
    if (plan->lcores > 1) {
        snprintf(cpus, sizeof(cpus), "lcores.cpus=%d-%d", plan->cpus[0], plan->cpus[plan->lcores - 1]);
    }
    config_write(config, plan);
    const char *const argv[] = {
        plan->program,
        "-c",
        config,
        "--set",
        port,
        "--set",
        control,
        "--set",
        memory,
        "--set",
        keys,
        "--set",
        cpus,
        "--set",
        "lcores.idle=spin",
        "--set",
        "streams.address=127.0.0.1",
        "--set",
        "streams.unix=",
        "--set",
        "memory.ahead=16MiB",
        NULL,
    };
    return server_launch(server, plan, argv, log, why, why_bytes);
}

bool
server_start_redis(struct server *server, const struct server_plan *plan, char *why, size_t why_bytes)
{
    char port[16], log[320];
    *server = (struct server){ .port = port_free() };
    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(log, sizeof(log), "%s/redis.log", plan->folder);
    const char *const argv[] = {
        plan->program,  "--port", port,    "--bind",     "127.0.0.1", "--save", "",
        "--appendonly", "no",     "--dir", plan->folder, NULL,
    };
    return server_launch(server, plan, argv, log, why, why_bytes);
}

void
server_stop(struct server *server)
{
    if (server->pid <= 0) {
        return;
    }
    int64_t begin = machine_now_ns();
    kill(server->pid, SIGCONT);
    kill(server->pid, SIGTERM);
    while (waitpid(server->pid, NULL, WNOHANG) == 0) {
        if (machine_now_ns() - begin > STOP_TIMEOUT_NS) {
            kill(server->pid, SIGKILL);
            waitpid(server->pid, NULL, 0);
            break;
        }
        usleep(2000);
    }
    server->pid = 0;
}

void
server_pause(const struct server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGSTOP);
    }
}

void
server_resume(const struct server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGCONT);
    }
}

/* ---- programs ---- */

static _Noreturn void
program_exec(const char *const *argv, int cpu, int output, int errors)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (cpu >= 0) {
        cpus_restrict(&cpu, 1);
    }
    dup2(output, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Append what a pipe holds; what does not fit is read and dropped. False: its other end is closed. */
static bool
pipe_drain(int fd, char *text, size_t room, size_t *used)
{
    char piece[4096];
    ssize_t got = read(fd, piece, sizeof(piece));
    if (got <= 0) {
        return got < 0 && errno == EINTR;
    }
    size_t kept = MIN((size_t)got, room - 1 - *used);
    memcpy(text + *used, piece, kept);
    *used += kept;
    text[*used] = '\0';
    return true;
}

/* Until both pipes end. False: too late. */
static bool
pipes_read(int output_fd, int error_fd, int timeout_s, char *output, size_t room, char *why, size_t why_bytes)
{
    size_t used = 0, why_used = 0;
    int64_t deadline = machine_now_ns() + timeout_s * 1000000000ll;
    struct pollfd fds[2] = { { .fd = output_fd, .events = POLLIN }, { .fd = error_fd, .events = POLLIN } };
    output[0] = why[0] = '\0';
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        int64_t left_ms = (deadline - machine_now_ns()) / 1000000;
        if (left_ms <= 0) {
            return false;
        }
        if (poll(fds, 2, (int)MIN(left_ms, 1000)) <= 0) {
            continue;
        }
        if (fds[0].revents != 0 && !pipe_drain(output_fd, output, room, &used)) {
            fds[0].fd = -1;
        }
        if (fds[1].revents != 0 && !pipe_drain(error_fd, why, why_bytes, &why_used)) {
            fds[1].fd = -1;
        }
    }
    return true;
}

bool
program_run(const char *const *argv, int cpu, int timeout_s, char *output, size_t room, char *why, size_t why_bytes)
{
    int outputs[2], errors[2], status = 0;
    CHECK(pipe2(outputs, O_CLOEXEC) == 0 && pipe2(errors, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        program_exec(argv, cpu, outputs[1], errors[1]);
    }
    close(outputs[1]);
    close(errors[1]);
    bool in_time = pipes_read(outputs[0], errors[0], timeout_s, output, room, why, why_bytes);
    if (!in_time) {
        kill(pid, SIGKILL);
        snprintf(why, why_bytes, "%s took longer than %d s", argv[0], timeout_s);
    }
    close(outputs[0]);
    close(errors[0]);
    waitpid(pid, &status, 0);
    why[strcspn(why, "\n")] = '\0';
    bool good = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good && why[0] == '\0') {
        snprintf(why, why_bytes, "%s failed", argv[0]);
    }
    return good;
}

uint64_t
process_resident_bytes(pid_t pid)
{
    char path[64], line[256];
    uint64_t total = 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long long kib;
        if (sscanf(line, "Rss: %llu kB", &kib) == 1 || sscanf(line, "Private_Hugetlb: %llu kB", &kib) == 1 ||
            sscanf(line, "Shared_Hugetlb: %llu kB", &kib) == 1) {
            total += kib * 1024;
        }
    }
    fclose(file);
    return total;
}
