#include "tools/bench/sweep_memcached.h"
#include "tools/bench/machine.h"
#include <stdarg.h>

#define DELETE_NS 2000000000

static void
piece_print(struct sweep_piece *piece, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf((char *)piece->data, sizeof(piece->data), format, arguments);
    va_end(arguments);
    CHECK(bytes >= 0 && (size_t)bytes < sizeof(piece->data));
    piece->bytes = (uint32_t)bytes;
}

void
sweep_memcached_form(struct sweep_form *form, uint32_t side, uint64_t value_bytes)
{
    char key[SWEEP_KEY_BYTES];
    uint32_t key_bytes = sweep_key_print(key, side, 0), chunk_at = 3 + key_bytes - SWEEP_CHUNK_DIGITS;
    struct sweep_frame *set = &form->request[SWEEP_SET], *get = &form->request[SWEEP_GET];
    struct sweep_frame *stored = &form->answer[SWEEP_SET], *found = &form->answer[SWEEP_GET];
    *form = (struct sweep_form){ 0 };
    set->chunk_at = get->chunk_at = chunk_at;
    set->value_bytes = found->value_bytes = value_bytes;
    piece_print(&set->head, "ms %s %llu\r\n", key, (unsigned long long)value_bytes);
    piece_print(&set->tail, "\r\n");
    piece_print(&stored->head, "HD\r\n");
    piece_print(&get->head, "mg %s v\r\n", key);
    piece_print(&found->head, "VA %llu\r\n", (unsigned long long)value_bytes);
    piece_print(&found->tail, "\r\n");
}

enum client_status
sweep_memcached_decode(struct slice view, struct value *root, size_t *bytes)
{
    static const char *const errors[] = { "ERROR", "CLIENT_ERROR", "SERVER_ERROR" };
    const uint8_t *end = memchr(view.data, '\n', view.bytes);
    if (end == NULL && view.bytes < SWEEP_WHY_BYTES) {
        return CLIENT_TIMEOUT;
    }
    *bytes = end == NULL ? view.bytes : (size_t)(end - view.data) + 1;
    size_t length = end != NULL && end > view.data && end[-1] == '\r' ? *bytes - 2 : *bytes;
    *root = (struct value){ .kind = VALUE_STATUS, .bytes = slice_of(view.data, length) };
    if (slice_equal(root->bytes, SLICE_LITERAL("EN"))) {
        root->kind = VALUE_NIL;
    }
    for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
        size_t word = strlen(errors[i]);
        if (length >= word && memcmp(view.data, errors[i], word) == 0) {
            root->kind = VALUE_ERROR;
        }
    }
    return CLIENT_OK;
}

void
sweep_memcached_delete(struct client *client, uint32_t side, uint64_t count)
{
    char key[SWEEP_KEY_BYTES], request[SWEEP_KEY_BYTES + 16];
    int64_t deadline = machine_now_ns() + DELETE_NS;
    struct slice view = { 0 };
    for (uint64_t chunk = 0; chunk <= count && machine_now_ns() < deadline; chunk++) {
        sweep_key_print(key, side, chunk);
        size_t bytes = (size_t)(chunk < count ? snprintf(request, sizeof(request), "md %s q\r\n", key)
                                              : snprintf(request, sizeof(request), "mn\r\n"));
        for (size_t sent = 0; sent < bytes;) {
            ssize_t now = client_raw_send(client, request + sent, bytes - sent);
            if (now < 0 || machine_now_ns() > deadline) {
                return;
            }
            sent += (size_t)now;
        }
    }
    /* q: deletions are silent, mn answers behind the last one. */
    while (view.bytes == 0 && client_raw_receive(client, &view) == CLIENT_OK && machine_now_ns() < deadline) {
        ;
    }
}
