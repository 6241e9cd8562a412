#include "mgmt/gather.h"

static void
gather_ask(struct gather *gather)
{
    struct mail mail = { .kind = MAIL_SESSIONS_LIST, .p = gather->page };

    gather->page->lcore = gather->lcore;
    gather->page->count = 0;
    gather->in_flight = dataplane_post(gather->dataplane, gather->lcore, &mail);
}

static void
gather_end(struct gather *gather, bool whole)
{
    if (gather->in_flight) {
        gather->page->asker = NULL; /* freed when it comes back; never, when its lcore is gone for good */
    } else {
        free(gather->page);
    }
    gather->page = NULL;
    gather->done(gather, whole);
}

void
gather_start(struct gather *gather, struct dataplane *dataplane, uint32_t first, uint32_t last)
{
    gather->dataplane = dataplane;
    gather->page = calloc(1, sizeof(*gather->page));
    CHECK(gather->page != NULL);
    gather->page->asker = gather;
    gather->lcore = first;
    gather->last = last;
    gather->deadline_ms = loop_now_ms() + GATHER_MS;
    gather_ask(gather);
}

void
gather_take(struct session_list *list)
{
    struct gather *gather = list->asker;

    if (gather == NULL) {
        free(list);
        return;
    }
    gather->in_flight = false;
    gather->deadline_ms = loop_now_ms() + GATHER_MS;
    bool go_on = gather->rows(gather, list->lcore, list->rows, MIN(list->count, SESSION_LIST_ROWS));
    if (go_on && list->cursor == 0) {
        go_on = gather->lcore++ < gather->last;
    }
    if (go_on) {
        gather_ask(gather);
    } else {
        gather_end(gather, true);
    }
}

void
gather_tick(struct gather *gather, int64_t now_ms)
{
    if (now_ms >= gather->deadline_ms) {
        gather_end(gather, false);
    } else if (!gather->in_flight) {
        gather_ask(gather);
    }
}
