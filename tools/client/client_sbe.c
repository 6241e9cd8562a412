/* client_sbe.c - the SBE wire: codec/sbe_client.h into the client's values. */
#include "codec/sbe_client.h"
#include "tools/client/client_internal.h"

size_t
client_sbe_bytes(struct client *client, const struct slice *words, uint32_t count)
{
    size_t room = sbe_request_room(words, count);
    if (room == 0) {
        snprintf(client->why, sizeof(client->why),
                 "SBE cannot carry this request: it has no name, more than %d arguments or too many bytes",
                 SBE_REQUEST_ARGS_MAX);
    }
    return room;
}

uint8_t *
client_sbe_write(struct client *client, uint8_t *out, const struct slice *words, uint32_t count, uint64_t correlation)
{
    (void)client;
    return sbe_request_write(out, correlation, words, count);
}

static enum value_kind
kind_of(enum sbe_value_kind kind)
{
    switch (kind) {
    case SBE_VALUE_KIND_NIL:
        return VALUE_NIL;
    case SBE_VALUE_KIND_STATUS:
        return VALUE_STATUS;
    case SBE_VALUE_KIND_ERROR:
        return VALUE_ERROR;
    case SBE_VALUE_KIND_INTEGER:
        return VALUE_INTEGER;
    case SBE_VALUE_KIND_DOUBLE:
        return VALUE_DOUBLE;
    case SBE_VALUE_KIND_BOOLEAN:
        return VALUE_BOOL;
    case SBE_VALUE_KIND_ARRAY:
        return VALUE_ARRAY;
    case SBE_VALUE_KIND_MAP:
        return VALUE_MAP;
    case SBE_VALUE_KIND_SET:
        return VALUE_SET;
    case SBE_VALUE_KIND_PUSH:
        return VALUE_PUSH;
    default:
        return VALUE_BULK;
    }
}

/* Aggregates that still miss values, innermost last. */
struct open_values {
    uint32_t depth;
    struct {
        uint32_t index, left;
    } level[VALUE_DEPTH_MAX];
};

/* The last value of `list` came: if it ends those around it, they know now where they end. */
static bool
value_place(struct open_values *open, struct value_list *list)
{
    struct value *value = &list->values[list->count - 1];
    if (value_is_aggregate(value) && value->count > 0) {
        if (open->depth == VALUE_DEPTH_MAX) {
            return false;
        }
        open->level[open->depth].index = list->count - 1;
        open->level[open->depth].left = value->count;
        open->depth++;
        return true;
    }
    while (open->depth > 0 && --open->level[open->depth - 1].left == 0) {
        open->depth--;
        list->values[open->level[open->depth].index].after = list->count;
    }
    return true;
}

static bool
values_read(struct client *client, struct sbe_reply *sbe)
{
    struct open_values open = { 0 };
    struct sbe_value from;
    client->values.count = 0;
    while (sbe_reply_next(sbe, &from)) {
        struct value *value = value_list_append(&client->values);
        if (value == NULL) {
            return false;
        }
        value->kind = kind_of(from.kind);
        if (value->kind == VALUE_DOUBLE) {
            value->real = from.real;
        } else if (value_is_aggregate(value)) {
            value->count = from.count;
        } else if (value->kind == VALUE_INTEGER || value->kind == VALUE_BOOL) {
            value->integer = from.integer;
        } else {
            value->bytes = from.bytes;
        }
        if (!value_place(&open, &client->values)) {
            return false;
        }
    }
    return client->values.count > 0;
}

enum client_status
client_sbe_decode(struct client *client, struct slice wire, struct client_reply *reply, size_t *bytes)
{
    struct sbe_reply sbe;
    switch (sbe_reply_open(wire, client->options.reply_bytes_max, &sbe)) {
    case CODEC_OK:
        break;
    case CODEC_SHORT:
        return CLIENT_TIMEOUT;
    default:
        return client_break(client, "the server's reply is not SBE: %s", sbe.error);
    }
    *bytes = sbe.wire_bytes;
    if (!values_read(client, &sbe)) {
        return client_break(client, "a reply nested too deeply or with too many values");
    }
    bool push = sbe.push || client->values.values[0].kind == VALUE_PUSH;
    *reply = (struct client_reply){ client->values.values, client->values.count, push };
    return CLIENT_OK;
}
