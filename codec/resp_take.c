/* resp_take.c - decoding the requests that nearly all are: short bulks, all there, framing compared a word at a time.
 */
#include "codec/command_name.h"
#include "codec/resp.h"

#define TAKE_ARGS       8   /* with the name, one digit of bulks */
#define TAKE_BULK_BYTES 999 /* three digits */
#define TAKE_NAME_BYTES 8   /* a word */
#define HEAD_BYTES      (sizeof("*1\r\n$1\r\n") - 1)
#define REQUEST_BYTES   (HEAD_BYTES + TAKE_NAME_BYTES + 2 + TAKE_ARGS * (sizeof("$123\r\n\r\n") - 1 + TAKE_BULK_BYTES))

/* Lines as little-endian words, without their digits: "*1\r\n$1\r\n", "$1\r\n", "$12\r\n", "$123\r\n". */
#define HEAD        0x0a0d00240a0d002aull
#define HEAD_MASK   0xffff00ffffff00ffull
#define BULK_1      0x000000000a0d0024ull
#define BULK_1_MASK 0x00000000ffff00ffull
#define BULK_2      0x0000000a0d000024ull
#define BULK_2_MASK 0x000000ffff0000ffull
#define BULK_3      0x00000a0d00000024ull
#define BULK_3_MASK 0x0000ffff000000ffull
#define LINE_END    0x0a0d
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are little-endian");
static_assert(HEAD_BYTES == sizeof(uint64_t), "a head is a word");

static inline bool
line_ends(const uint8_t *at)
{
    uint16_t word;
    memcpy(&word, at, sizeof(word));
    return word == LINE_END;
}

/* Above 9: no digit. */
static inline uint32_t
digit_of(uint64_t word, uint32_t index)
{
    return (uint8_t)(word >> 8 * index) - (uint32_t)'0';
}

/* A whole bulk of at most TAKE_BULK_BYTES at offset `at` of `bytes`, a word's at least. Returns the offset behind it, 0
 * for anything else. */
static inline size_t
bulk_take(const uint8_t *wire, size_t at, size_t bytes, struct slice *out)
{
    uint64_t word;

    if (LIKELY(at <= bytes - sizeof(word))) {
        word = load8(wire + at);
    } else if (at < bytes) { /* the wire's last word; the zeros behind it are no line's end */
        word = load8(wire + bytes - sizeof(word)) >> 8 * (at + sizeof(word) - bytes);
    } else {
        return 0;
    }
    size_t length = digit_of(word, 1);
    if ((word & BULK_1_MASK) == BULK_1 && length <= 9) {
        at += sizeof("$1\r\n") - 1;
    } else if ((word & BULK_2_MASK) == BULK_2 && length - 1 <= 8 && digit_of(word, 2) <= 9) {
        length = length * 10 + digit_of(word, 2);
        at += sizeof("$12\r\n") - 1;
    } else if ((word & BULK_3_MASK) == BULK_3 && length - 1 <= 8 && digit_of(word, 2) <= 9 && digit_of(word, 3) <= 9) {
        length = length * 100 + digit_of(word, 2) * 10 + digit_of(word, 3);
        at += sizeof("$123\r\n") - 1;
    } else {
        return 0;
    }
    size_t next = at + length + 2;
    if (UNLIKELY(next > bytes || !line_ends(wire + next - 2))) {
        return 0;
    }
    *out = slice_of(wire + at, length);
    return next;
}

uint32_t
resp_take(const uint8_t *wire, size_t wire_bytes, const struct decode_limits *limits, struct arg_room *room,
          struct request *requests, uint32_t max)
{
    struct request *request = requests, *stop = requests + MIN(max, (room->count - room->used) / TAKE_ARGS);
    struct arg *arg = room->args + room->used;
    uint32_t args_max = MIN(limits->args_max, TAKE_ARGS), args_count = 0;
    const struct command *command = NULL;
    uint64_t head, name = 0; /* of the request before: neighbours are often of one command */
    size_t name_bytes = 0, at = 0;

    if (UNLIKELY(limits->request_bytes_max < REQUEST_BYTES || limits->arg_bytes_max < TAKE_BULK_BYTES ||
                 wire_bytes < HEAD_BYTES)) {
        return 0; /* every limit has to be looked at, or nothing is all there */
    }
    head = ~load8(wire); /* the first request has no neighbour, whatever its bytes are */
    while (request < stop && at <= wire_bytes - HEAD_BYTES) {
        uint64_t word = load8(wire + at);
        bool known = word == head;
        if (!known) {
            args_count = digit_of(word, 1) - 1;
            name_bytes = digit_of(word, 5);
            if ((word & HEAD_MASK) != HEAD || args_count > args_max || name_bytes - 1 >= sizeof(name)) {
                break;
            }
            head = word;
        }
        size_t next = at + HEAD_BYTES + name_bytes + 2;
        if (UNLIKELY(next > wire_bytes || !line_ends(wire + next - 2))) {
            break;
        }
        word = load8(wire + at + name_bytes); /* the name's bytes end a word that begins within the head */
        if (!known || word != name) {
            const struct command_name *row = command_name_find(word >> 8 * (sizeof(word) - name_bytes), 0, name_bytes);
            if (UNLIKELY(row != NULL && row->careful)) {
                break;
            }
            command = row != NULL ? row->command : NULL;
            name = word;
        }
        request->command = command;
        request->name = slice_of(wire + at + HEAD_BYTES, name_bytes);
        request->args = arg;
        request->args_count = args_count;
        request->correlation = 0;
        request->error = NULL;
        for (uint32_t left = args_count; left > 0; left--) {
            next = bulk_take(wire, next, wire_bytes, &arg->bytes);
            if (UNLIKELY(next == 0)) {
                arg = request->args;
                goto out;
            }
            arg->kind = ARG_BYTES;
            arg++;
        }
        request->wire_bytes = next - at;
        request++;
        at = next;
        if (UNLIKELY(command != NULL && (command->flags & CMD_BARRIER) != 0)) {
            break;
        }
    }
out:
    room->used = (uint32_t)(arg - room->args);
    return (uint32_t)(request - requests);
}
