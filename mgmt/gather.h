/* gather.h - ask lcores for their sessions, page by page, one page in flight. */
#pragma once
#include "dataplane/session_list.h"
#include "mgmt/mgmt.h"

/* An lcore that does not answer for so long is stalled: the gathering ends without it. */
#define GATHER_MS 3000

struct gather {
    struct dataplane *dataplane;
    struct session_list *page; /* in flight it is the lcore's */
    uint32_t lcore, last;      /* being asked; where to end */
    bool in_flight;
    int64_t deadline_ms;
    /* Rows of one lcore; false: enough. */
    bool (*rows)(struct gather *gather, uint32_t lcore, const struct session_row *rows, uint32_t count);
    /* The end, `whole` unless an lcore did not answer. May free the struct that holds `gather`. */
    void (*done)(struct gather *gather, bool whole);
};

/* Ask lcores first .. last. */
void gather_start(struct gather *gather, struct dataplane *dataplane, uint32_t first, uint32_t last);
/* A page came back: list->asker is the gather, or NULL when that had ended, then the page is freed. */
void gather_take(struct session_list *list);
/* Try again where a ring was full; give up after GATHER_MS. */
void gather_tick(struct gather *gather, int64_t now_ms);
