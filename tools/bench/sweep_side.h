/* sweep_side.h - one of what a sweep compares: a transport, and one or several rails over it.
 *
 * Each rail is a connection of its own, over the fabric an endpoint of its own with a thread that drives it; the first
 * one is driven by whoever calls. Between two transfers the other threads sleep; they spin before the clock starts. */
#pragma once
#include "tools/bench/bench.h"
#include "tools/bench/sweep_rail.h"

/* A comma-separated list of options; rail i takes element i % count. */
struct sweep_list {
    const char *words[SWEEP_RAILS_MAX];
    uint32_t count;
};

/* Where a transport is found: --at NAME=ADDRESS,ADDRESS... */
struct sweep_address {
    const char *host, *path; /* one of them */
    uint16_t port;
};

struct sweep_place {
    const char *name;
    struct sweep_address addresses[SWEEP_RAILS_MAX];
    uint32_t count;
};

struct sweep_places {
    struct sweep_place places[SWEEP_SIDES_MAX];
    uint32_t count;
};

/* Of rails over the fabric, our ends' devices and addresses, and the server's ports. */
struct sweep_rail_lists {
    struct sweep_list domains, nodes, ports;
};

/* Split `text` in place. False: more than SWEEP_RAILS_MAX words, or an empty one. */
bool sweep_list_split(struct sweep_list *list, char *text);
/* NAME=ADDRESS,... False: not that, and complained. The name is borrowed, addresses live as long as the program. */
bool sweep_place_read(struct sweep_place *place, char *text);

struct sweep_side;

/* What sides have in common; borrowed, with its strings. */
struct sweep_common {
    const struct bench_connection *connection;
    const struct sweep_places *places;
    const uint8_t *pattern;
};

/* Side number `index`: `rail_count` rails over `transport`, not yet connected. `lists` may be NULL; borrowed. */
struct sweep_side *sweep_side_open(uint32_t index, const struct sweep_transport *transport, uint32_t rail_count,
                                   const struct sweep_rail_lists *lists, const struct sweep_common *common);
/* False with a sentence in `why`: nobody answers there, or there is no such provider; never another one. */
bool sweep_side_connect(struct sweep_side *side, char why[SWEEP_WHY_BYTES]);
/* Deletes the keys, if the server still listens. NULL is accepted. */
void sweep_side_close(struct sweep_side *side);

/* From now on transfers are cut like this. Learns requests and replies; nothing is timed. */
enum sweep_status sweep_side_prepare(struct sweep_side *side, const struct sweep_cut *cut, char why[SWEEP_WHY_BYTES]);
/* One transfer over all rails: SET writes another value than the one before, GET must find the last one.
 * *ticks: cycles from the first request to the last reply, every byte of the replies compared. */
enum sweep_status sweep_side_transfer(struct sweep_side *side, enum sweep_operation operation, uint64_t *ticks,
                                      char why[SWEEP_WHY_BYTES]);
/* Between transfers, several times within a lease: the server must not take us for dead. */
void sweep_side_poll(struct sweep_side *side);

/* "shm-resp-auto-2rails": what results are filed under. */
const char *sweep_side_label(const struct sweep_side *side);
/* For people, connected: "fabric shm, frames of 4096 bytes". */
void sweep_side_describe(const struct sweep_side *side, char *text, size_t text_bytes);
