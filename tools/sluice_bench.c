/* sluice_bench.c - load and latency. */
#include "config/cpu.h"
#include "tools/bench/bench.h"
#include <errno.h>

static const char usage[] = "Usage: sluice-bench COMMAND [OPTIONS]\n"
                            "  latency      the eight operations one after the other, exact ranks of every sample\n"
                            "  matrix       the eight operations over every transport and wire, on one host or two\n"
                            "  throughput   closed loop with many requests in flight\n"
                            "  open         a fixed rate, whether or not the server answers: shows its pauses\n"
                            "  sweep        SET and GET by value size: transports and rails beside each other\n"
                            "  goals        the numbers to reach, against redis-server on this machine\n"
                            "  floor-peer   the far end of a bare transport between two hosts\n"
                            "  machine      CPUs, devices, providers and builds, as JSON\n"
                            "  rank         modes of a latency.csv beside each other, by average p50\n"
                            "  report       a result folder as one HTML page with plots\n"
                            "sluice-bench COMMAND --help shows the options.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "latency", bench_latency },
    { "matrix", bench_matrix },
    { "throughput", bench_throughput },
    { "open", bench_open },
    { "sweep", bench_sweep },
    { "goals", bench_goals },
    { "floor-peer", bench_floor_peer },
    { "machine", bench_machine },
    { "rank", bench_rank },
    { "report", bench_report },
};

/* What was printed is there, or the exit code says that it is not. */
static int
output_finish(int code)
{
    bool flushed = fflush(stdout) == 0;
    if (flushed && !ferror(stdout)) {
        return code;
    }
    fprintf(stderr, "sluice-bench: the output cannot be written%s%s\n", flushed ? "" : ": ",
            flushed ? "" : strerror(errno));
    return code != 0 ? code : 1;
}

int
main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    cpu_require("sluice-bench");
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return output_finish(commands[i].run(argc - 1, argv + 1));
        }
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        printf("%s", usage);
        return output_finish(0);
    }
    if (strcmp(name, "--version") == 0) {
        printf("sluice-bench %s\n", SLUICE_VERSION);
        return output_finish(0);
    }
    fprintf(stderr, "%s%s%s%s", *name != '\0' ? "sluice-bench: unknown command '" : "", name,
            *name != '\0' ? "'\n" : "", usage);
    return BENCH_USAGE_ERROR;
}
