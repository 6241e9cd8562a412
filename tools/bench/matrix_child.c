#include "tools/bench/matrix_child.h"
#include "tools/bench/floor.h"
#include "tools/bench/machine.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX     64
#define SILENCE_NS    600000000000 /* an operation takes seconds; a client that hangs must not hang us */
#define NO_CONNECTION 3            /* exit codes of latency */
#define INTERRUPTED   130

struct arguments {
    const char *words[WORDS_MAX];
    uint32_t count;
    char texts[8][32]; /* numbers */
    uint32_t text_count;
    char floor_peer[80];
};

static void
word_add(struct arguments *arguments, const char *word)
{
    CHECK(arguments->count < WORDS_MAX - 1);
    arguments->words[arguments->count++] = word;
    arguments->words[arguments->count] = NULL;
}

static void
option_add(struct arguments *arguments, const char *option, const char *value)
{
    word_add(arguments, option);
    word_add(arguments, value);
}

static void
number_add(struct arguments *arguments, const char *option, uint64_t number)
{
    CHECK(arguments->text_count < ARRAY_COUNT(arguments->texts));
    char *text = arguments->texts[arguments->text_count++];
    snprintf(text, sizeof(arguments->texts[0]), "%llu", (unsigned long long)number);
    option_add(arguments, option, text);
}

static void
arguments_make(struct arguments *arguments, const struct matrix_plan *plan, const struct matrix_row *row,
               const struct matrix_server *server, const char *node)
{
    static const char *const wires[] = { "resp2", "resp3", "sbe" }, *const sends[] = { "auto", "inject", "send" };
    word_add(arguments, "sluice-bench");
    word_add(arguments, "latency");
    word_add(arguments, "--csv");
    option_add(arguments, "--out", plan->out);
    option_add(arguments, "--label", row->label);
    option_add(arguments, "--wire", wires[row->wire]);
    number_add(arguments, "--samples", plan->samples);
    number_add(arguments, "--warmup", plan->warmup);
    number_add(arguments, "-d", plan->value_bytes);
    number_add(arguments, "--cpu", (uint64_t)plan->cpu);
    if (plan->user != NULL) {
        option_add(arguments, "--user", plan->user);
    }
    if (row->transport == MATRIX_UNIX) {
        option_add(arguments, "-s", server->unix_path);
    } else {
        option_add(arguments, "-h", server->host);
        number_add(arguments, "-p", server->port);
    }
    if (row->transport == MATRIX_ETHERNET) {
        word_add(arguments, "--ethernet");
    }
    if (row->transport == MATRIX_FABRIC) {
        option_add(arguments, "--provider", row->provider);
        option_add(arguments, "--send", sends[row->send]);
        if (node != NULL && bench_provider_has_node(row->provider)) {
            option_add(arguments, "--node", node);
        }
    }
    if (plan->with_floor && server->floor_port != 0) {
        snprintf(arguments->floor_peer, sizeof(arguments->floor_peer), "%s:%u", server->host, server->floor_port);
        option_add(arguments, "--floor-peer", arguments->floor_peer);
    } else if (plan->with_floor) {
        word_add(arguments, "--floor");
        number_add(arguments, "--server-cpu", (uint64_t)plan->server_cpu);
    }
    if (server->pid != 0) {
        number_add(arguments, "--pause", (uint64_t)server->pid);
    }
}

static _Noreturn void
child_exec(const struct arguments *arguments, const char *password, int output, const char *log)
{
    int errors = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    setpgid(0, 0); /* Ctrl-C reaches it once, from us */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    if (password != NULL) {
        setenv("REDISCLI_AUTH", password, 1);
        setenv(FLOOR_TOKEN_VARIABLE, password, 1);
    }
    dup2(output, STDOUT_FILENO);
    if (errors >= 0) {
        dup2(errors, STDERR_FILENO);
    }
    execv("/proc/self/exe", (char *const *)arguments->words);
    dprintf(STDERR_FILENO, "sluice-bench: %s\n", strerror(errno));
    _exit(127);
}

/* Count the lines it prints until it ends. Returns its wait status. */
static int
child_follow(pid_t child, int output, struct progress *progress, uint64_t done)
{
    int64_t heard = machine_now_ns();
    bool told = false;
    struct pollfd from = { .fd = output, .events = POLLIN };
    for (;;) {
        char piece[4096];
        ssize_t got = poll(&from, 1, 200) > 0 ? read(output, piece, sizeof(piece)) : -1;
        if (got == 0) {
            break;
        }
        for (ssize_t i = 0; i < got; i++) {
            done += piece[i] == '\n';
        }
        heard = got > 0 ? machine_now_ns() : heard;
        progress_show(progress, done);
        if (machine_interrupted() && !told) {
            kill(child, SIGINT);
            told = true;
        }
        if (machine_now_ns() - heard > SILENCE_NS) {
            kill(child, SIGKILL);
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

/* The last thing that went wrong. A sanitizer may have its say behind it. */
static void
log_last_error(const char *log, char *why, size_t why_bytes)
{
    static const char ours[] = "sluice-bench: ", warning[] = "sluice-bench: warning: ";
    char line[1024];
    FILE *file = fopen(log, "re");
    snprintf(why, why_bytes, "the client said nothing");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, ours, strlen(ours)) == 0 && strncmp(line, warning, strlen(warning)) != 0) {
            snprintf(why, why_bytes, "%s", line + strlen(ours));
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

enum matrix_outcome
matrix_child_run(const struct matrix_plan *plan, const struct matrix_row *row, const struct matrix_server *server,
                 const char *node, const char *password, struct progress *progress, uint64_t done, char *why,
                 size_t why_bytes)
{
    struct arguments arguments = { 0 };
    char log[MATRIX_PATH_BYTES];
    int output[2];
    arguments_make(&arguments, plan, row, server, node);
    snprintf(log, sizeof(log), "%s/logs/%s.log", plan->out, row->label);
    CHECK(pipe2(output, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        child_exec(&arguments, password, output[1], log);
    }
    close(output[1]);
    int status = child_follow(child, output[0], progress, done);
    close(output[0]);
    if (server->pid > 0) {
        kill(server->pid, SIGCONT); /* whatever became of the child */
    }
    why[0] = '\0';
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return MATRIX_MEASURED;
    }
    log_last_error(log, why, why_bytes);
    if (WIFSIGNALED(status)) {
        snprintf(why, why_bytes, "the client ended by signal %d", WTERMSIG(status));
        return machine_interrupted() ? MATRIX_INTERRUPTED : MATRIX_FAILED;
    }
    switch (WEXITSTATUS(status)) {
    case NO_CONNECTION:
        return MATRIX_UNAVAILABLE;
    case INTERRUPTED:
        return MATRIX_INTERRUPTED;
    default:
        return MATRIX_FAILED;
    }
}
