#include "codec/number.h"
#include "config/settings.h"
#include "dataplane/session.h"
#include "mgmt/answer.h"
#include "mgmt/answer_client.h"

static bool
fail(char error[CLIENT_ERROR_BYTES], const char *text)
{
    snprintf(error, CLIENT_ERROR_BYTES, "%s", text);
    return false;
}

static bool
parse_type(struct slice word, struct client_filter *filter, char error[CLIENT_ERROR_BYTES])
{
    char shown[ANSWER_WORD_BYTES];

    if (slice_equal_nocase(word, "normal")) {
        filter->type = CLIENT_TYPE_NORMAL;
    } else if (slice_equal_nocase(word, "pubsub")) {
        filter->type = CLIENT_TYPE_PUBSUB;
    } else if (slice_equal_nocase(word, "master") || slice_equal_nocase(word, "replica") ||
               slice_equal_nocase(word, "slave")) {
        filter->type = CLIENT_TYPE_NONE; /* Redis' types that nobody has here */
    } else {
        snprintf(error, CLIENT_ERROR_BYTES, "ERR Unknown client type '%s'", answer_word(word, shown));
        return false;
    }
    return true;
}

static bool
parse_id(struct slice word, struct client_filter *filter, const char *what, char error[CLIENT_ERROR_BYTES])
{
    int64_t id;

    if (!number_parse_int64(word, &id) || id <= 0 || filter->id_count == ARRAY_COUNT(filter->ids)) {
        return fail(error, what);
    }
    filter->ids[filter->id_count++] = (uint64_t)id;
    return true;
}

/* LIST [TYPE type] [ID id ...] */
static bool
parse_list(const struct later *later, struct client_filter *filter, char error[CLIENT_ERROR_BYTES])
{
    for (uint32_t i = 1; i < later->args_count; i++) {
        if (answer_argument_is(later, i, "type") && i + 1 < later->args_count) {
            if (!parse_type(later->args[++i], filter, error)) {
                return false;
            }
        } else if (answer_argument_is(later, i, "id") && i + 1 < later->args_count) {
            while (++i < later->args_count) {
                if (!parse_id(later->args[i], filter, "ERR Invalid client ID", error)) {
                    return false;
                }
            }
        } else {
            return fail(error, ERROR_SYNTAX);
        }
    }
    return true;
}

static bool
parse_user(struct slice word, const struct settings *settings, struct client_filter *filter,
           char error[CLIENT_ERROR_BYTES])
{
    char shown[ANSWER_WORD_BYTES];

    bool known = settings->user_count == 0 && slice_equal(word, SLICE_LITERAL("default"));
    for (uint32_t i = 0; i < settings->user_count; i++) {
        known = known || slice_equal(word, slice_text(settings->users[i].name));
    }
    if (!known) {
        snprintf(error, CLIENT_ERROR_BYTES, "ERR No such user '%s'", answer_word(word, shown));
        return false;
    }
    filter->user = word;
    return true;
}

/* KILL addr:port, or KILL name value [name value ...] */
static bool
parse_kill(const struct later *later, const struct settings *settings, struct client_filter *filter,
           char error[CLIENT_ERROR_BYTES])
{
    if (later->args_count == 2) {
        filter->old_form = true;
        filter->address = later->args[1];
        return true;
    }
    filter->skip_me = true;
    if (later->args_count % 2 == 0) {
        return fail(error, ERROR_SYNTAX);
    }
    for (uint32_t i = 1; i + 1 < later->args_count; i += 2) {
        struct slice value = later->args[i + 1];
        bool good = true;
        if (answer_argument_is(later, i, "id")) {
            good = parse_id(value, filter, "ERR client-id should be greater than 0", error);
        } else if (answer_argument_is(later, i, "type")) {
            good = parse_type(value, filter, error);
        } else if (answer_argument_is(later, i, "addr")) {
            filter->address = value;
        } else if (answer_argument_is(later, i, "laddr")) {
            filter->local = value;
        } else if (answer_argument_is(later, i, "user")) {
            good = parse_user(value, settings, filter, error);
        } else if (answer_argument_is(later, i, "skipme") && slice_equal_nocase(value, "yes")) {
            filter->skip_me = true;
        } else if (answer_argument_is(later, i, "skipme") && slice_equal_nocase(value, "no")) {
            filter->skip_me = false;
        } else {
            good = fail(error, ERROR_SYNTAX);
        }
        if (!good) {
            return false;
        }
    }
    return true;
}

bool
client_filter_parse(const struct later *later, const struct settings *settings, struct client_filter *filter,
                    char error[CLIENT_ERROR_BYTES])
{
    memset(filter, 0, sizeof(*filter));
    filter->me = later->session_id;
    if (later->kind == LATER_CLIENT_KILL) {
        return parse_kill(later, settings, filter, error);
    }
    if (answer_argument_is(later, 0, "info")) {
        filter->ids[filter->id_count++] = later->session_id;
        return true;
    }
    return parse_list(later, filter, error);
}

static bool
text_matches(struct slice wanted, const char *text)
{
    return wanted.data == NULL || slice_equal(wanted, slice_text(text));
}

bool
client_filter_matches(const struct client_filter *filter, const struct session_row *row)
{
    bool id = filter->id_count == 0, subscribed = row->subscriptions > 0;

    for (uint32_t i = 0; i < filter->id_count && !id; i++) {
        id = filter->ids[i] == row->id;
    }
    if (!id || filter->type == CLIENT_TYPE_NONE || (filter->type == CLIENT_TYPE_NORMAL && subscribed) ||
        (filter->type == CLIENT_TYPE_PUBSUB && !subscribed) || (filter->skip_me && row->id == filter->me)) {
        return false;
    }
    return text_matches(filter->address, row->peer) && text_matches(filter->local, row->local) &&
           (filter->user.data == NULL || (row->authenticated && text_matches(filter->user, row->user)));
}

static const char *
resp_version(uint32_t wire)
{
    return wire == WIRE_RESP3 ? "3" : wire == WIRE_SBE ? "sbe" : "2";
}

void
client_print(const struct session_row *row, struct text *out)
{
    /* Redis' fields in Redis' order, because its tools cut these lines apart; what does not exist here is 0. */
    text_print(out,
               "id=%llu addr=%s laddr=%s fd=-1 name=%s age=%lld idle=%lld flags=%s db=0 sub=%u psub=0 ssub=0 multi=-1 "
               "qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=%llu oll=0 omem=%llu tot-mem=%llu events=r "
               "cmd=%s user=%s redir=-1 resp=%s lib-name=%s lib-ver=%s\n",
               (unsigned long long)row->id, row->peer, row->local, row->name, (long long)MAX(row->age_ms, 0) / 1000,
               (long long)MAX(row->idle_ms, 0) / 1000, row->subscriptions > 0 ? "P" : "N", row->subscriptions,
               (unsigned long long)row->pending_bytes, (unsigned long long)row->pending_bytes,
               (unsigned long long)row->pending_bytes,
               row->last_command >= 0 && row->last_command < COMMAND_COUNT ? command_table[row->last_command].name
                                                                           : "NULL",
               row->authenticated ? row->user : "(superuser)", resp_version(row->wire), row->library_name,
               row->library_version);
}
