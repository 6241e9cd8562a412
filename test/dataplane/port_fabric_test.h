/* port_fabric_test.h - what the tests of the fabric port say often. */
#pragma once
#include "test/dataplane/fabric_rig.h"
#include <CUnit/Basic.h>
#include <errno.h>

#define LEASE_TURNS (RIG_LEASE_MS * 1000 / RIG_STEP_US)

static struct rig rig; /* one a test program */
static char why[512];

static const struct slice NO_ADDRESS = { NULL, 0 };

static inline void
open_port(struct fault_config config)
{
    CU_ASSERT_EQUAL_FATAL(rig_open_port(&rig, &config, 7, why, sizeof(why)), 0);
}

static inline struct fault_config
calm(void)
{
    return (struct fault_config){ .inject_bytes = 128, .source_reliable = true };
}

/* Turn until every session is gone; then nothing may be left. */
static inline void
close_port(void)
{
    for (uint32_t i = 0; i < 80 * LEASE_TURNS && port_fabric_sessions(rig.port) > 0; i++) {
        rig_turn(&rig);
    }
    rig_turns(&rig, 4);
    CU_ASSERT_TRUE(rig_port_is_clean(&rig));
    CU_ASSERT_TRUE_FATAL(rig_close_port(&rig));
}

static inline const char *
ask(const char *a, const char *b, const char *c, const char *d, const char *e, const char *f)
{
    const char *const words[] = { "FABRIC", a, b, c, d, e, f, NULL };
    return rig_ask(&rig, words, NO_ADDRESS);
}

static inline bool
begins(const char *text, const char *with)
{
    bool same = strncmp(text, with, strlen(with)) == 0;
    if (!same) {
        fprintf(stderr, "got %.120s, not %s\n", text, with);
    }
    return same;
}

static inline uint64_t
counter(_Atomic uint64_t *at)
{
    return load_relaxed(at);
}

/* Send a request and read its whole reply, of `bytes`. */
static inline bool
exchange(struct fabric_end *end, const char *request, const char *reply)
{
    char got[256];
    size_t have = 0, want = strlen(reply);

    fabric_end_write(end, request, strlen(request), rig.now_us);
    for (uint32_t i = 0; i < 2 * LEASE_TURNS && have < want; i++) {
        rig_turn(&rig);
        have += fabric_end_read(end, got + have, sizeof(got) - have, rig.now_us);
    }
    return have == want && memcmp(got, reply, want) == 0;
}

static inline void
attach(struct fabric_end *end)
{
    rig_end_open(&rig, end, ENDPOINT_SEND_AUTO);
    bool attached = rig_attach(&rig, end, "resp2");
    if (!attached) {
        fprintf(stderr, "attach: %s\n", rig.reply);
    }
    CU_ASSERT_TRUE_FATAL(attached);
}
