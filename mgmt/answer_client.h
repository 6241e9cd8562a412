/* answer_client.h - CLIENT LIST, INFO and KILL: sessions of every lcore. */
#pragma once
#include "dataplane/later.h"
#include "dataplane/session_list.h"
#include "mgmt/text.h"

struct mgmt;
struct settings;

enum client_type { CLIENT_TYPE_ANY, CLIENT_TYPE_NORMAL, CLIENT_TYPE_PUBSUB, CLIENT_TYPE_NONE };

/* Which sessions a command means. Slices borrow from the struct later. */
struct client_filter {
    uint64_t ids[LATER_ARGS_MAX];
    uint32_t id_count; /* 0: any */
    enum client_type type;
    struct slice address, local, user; /* no data: any */
    bool skip_me;
    uint64_t me;
    bool old_form; /* CLIENT KILL addr:port: answers OK instead of a count */
};

/* Read the arguments of LIST, INFO or KILL. False: `error` is the answer. Pure. */
#define CLIENT_ERROR_BYTES 256
bool client_filter_parse(const struct later *later, const struct settings *settings, struct client_filter *filter,
                         char error[CLIENT_ERROR_BYTES]);
bool client_filter_matches(const struct client_filter *filter, const struct session_row *row);
/* Append the line of CLIENT LIST. */
void client_print(const struct session_row *row, struct text *out);

void answer_clients(struct mgmt *mgmt, struct later *later);
void answer_clients_tick(struct mgmt *mgmt, int64_t now_ms);
