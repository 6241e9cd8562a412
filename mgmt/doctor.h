/* doctor.h - what keeps this host from being the appliance that its settings describe: found, wanted, why, the remedy.
 *
 * Reads /proc, /sys, limits and devices; changes nothing. Management thread, or a program that does not serve. */
#pragma once
#include "config/settings.h"
#include "mgmt/text.h"
#include <jansson.h>

#define DOCTOR_FINDINGS_MAX 128

enum doctor_level {
    DOCTOR_GOOD,   /* as wanted */
    DOCTOR_ADVICE, /* serves, but slower or less steadily than it could */
    DOCTOR_WRONG,  /* what the settings ask for cannot be done, or will fail under load */
};

struct doctor_finding {
    enum doctor_level level;
    char name[24];
    char found[192];
    char wanted[128];
    const char *why; /* static; "" where `found` says all */
    char remedy[384];
};

/* How an interface of the kernel's gathers packets before it interrupts. */
struct doctor_coalescing {
    uint32_t rx_us, tx_us;
    bool adaptive_rx;
};

struct endpoint_info;

struct doctor {
    const char *root; /* before the paths of /proc, /sys and /dev: "" but in tests */
    const struct settings *settings;
    const struct dataplane *dataplane; /* NULL: not serving, so that fabric ports are tried by opening them */
    uint32_t allowed_cpus;             /* to the appliance; 0: those of this thread, which a serving one has narrowed */
    /* What no file says; NULL: asked of the kernel and of libfabric. False: there is none. */
    bool (*coalescing)(const char *interface, struct doctor_coalescing *out);
    bool (*provider)(const struct port_settings *port, struct endpoint_info *out, char *why, size_t why_bytes);
    const char *elsewhere; /* what settings_check() says this host cannot do; "" for nothing */
    struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
    uint32_t count;
};

/* Fill in the findings.
 *
 * Cost     milliseconds; 0.3 s where fabric ports are tried: libfabric looks for its providers. */
void doctor_examine(struct doctor *doctor);

/* The worst level among the findings. */
enum doctor_level doctor_worst(const struct doctor *doctor);

/* For people, within 80 columns: what is as wanted on one line, the rest with its remedy. */
void doctor_print(const struct doctor *doctor, struct text *out);
void doctor_print_finding(const struct doctor_finding *finding, struct text *out);
/* An array of objects: level, name, found, wanted, why, remedy, text (as doctor_print_finding()). */
json_t *doctor_json(const struct doctor *doctor);
const char *doctor_level_text(enum doctor_level level);
