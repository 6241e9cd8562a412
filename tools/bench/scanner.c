/* scanner.c - replies counted. */
#include "tools/bench/scanner.h"
#include "codec/sbe_client.h"

void
scanner_init(struct scanner *scanner, enum client_wire wire, uint32_t value_bytes)
{
    *scanner = (struct scanner){ .wire = wire, .value_bytes = value_bytes };
    for (int kind = 0; kind <= EXPECT_DOUBLE; kind++) {
        char *prefix = scanner->shapes[kind].prefix;
        size_t room = sizeof(scanner->shapes[kind].prefix);
        int bytes = kind == EXPECT_OK      ? snprintf(prefix, room, "+OK\r\n")
                    : kind == EXPECT_PONG  ? snprintf(prefix, room, "+PONG\r\n")
                    : kind == EXPECT_VALUE ? snprintf(prefix, room, "$%u\r\n", value_bytes)
                                           : 0;
        struct scanner_shape *shape = &scanner->shapes[kind];
        shape->prefix_bytes = (uint32_t)bytes;
        shape->bytes = (uint32_t)bytes + (kind == EXPECT_VALUE ? value_bytes + 2 : 0);
        if (bytes > 0 && bytes <= (int)sizeof(shape->word)) {
            memset(&shape->mask, 0xff, (size_t)bytes);
            memcpy(&shape->word, prefix, (size_t)bytes);
        }
    }
}

void
scanner_expect(struct scanner *scanner, enum expected_kind kind)
{
    CHECK(scanner->schedule_count < SCANNER_SCHEDULE_MAX);
    scanner->schedule[scanner->schedule_count++] = kind;
}

static void
first_error_keep(struct scanner *scanner, struct slice text)
{
    if (scanner->first_error[0] == '\0') {
        snprintf(scanner->first_error, sizeof(scanner->first_error), "%.*s", (int)MIN(text.bytes, 120),
                 (const char *)text.data);
    }
}

static void
count_error(struct scanner *scanner, struct slice text)
{
    scanner->errors++;
    first_error_keep(scanner, text);
}

static void
count_surprise(struct scanner *scanner, const char *what)
{
    scanner->surprises++;
    first_error_keep(scanner, slice_text(what));
}

/* ---- RESP ---- */

/* Lines are short: a newline is mostly within a word. Its byte becomes 0, and 0 - 1 borrows into the byte's top bit. */
static inline const uint8_t *
newline_find(const uint8_t *from, size_t bytes)
{
    if (LIKELY(bytes >= sizeof(uint64_t))) {
        uint64_t word;
        memcpy(&word, from, sizeof(word));
        word ^= 0x0a0a0a0a0a0a0a0aull;
        uint64_t found = (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
        if (LIKELY(found != 0)) {
            return from + (__builtin_ctzll(found) >> 3);
        }
    }
    return memchr(from, '\n', bytes);
}

/* The line at `at`, its type byte excluded. Returns the offset after it, 0: incomplete. */
static inline size_t
line_end(struct slice view, size_t at, struct slice *line)
{
    const uint8_t *end = newline_find(view.data + at, view.bytes - at);
    if (end == NULL) {
        return 0;
    }
    size_t after = (size_t)(end - view.data) + 1;
    *line = slice_of(view.data + at + 1, after - at >= 3 ? after - at - 3 : 0);
    return after;
}

/* -1 for "-1", and for what is no length. */
static int64_t
length_of(struct slice line)
{
    int64_t length = 0;
    if (line.bytes == 0 || line.bytes > 10) {
        return -1;
    }
    for (size_t i = 0; i < line.bytes; i++) {
        if (line.data[i] < '0' || line.data[i] > '9') {
            return -1;
        }
        length = length * 10 + (line.data[i] - '0');
    }
    return length;
}

/* Step over one reply, nested ones included, without looking at what it is. 0: incomplete. */
static size_t
resp_skip(struct scanner *scanner, struct slice view, size_t at)
{
    for (uint64_t left = 1; left > 0; left--) {
        struct slice line;
        if (at >= view.bytes) {
            return 0;
        }
        uint8_t type = view.data[at];
        size_t after = line_end(view, at, &line);
        if (after == 0) {
            return 0;
        }
        int64_t length = 0;
        switch (type) {
        case '$':
        case '=':
        case '!':
            length = length_of(line);
            at = length < 0 ? after : after + (size_t)length + 2;
            break;
        case '*':
        case '~':
        case '>':
        case '%':
            length = length_of(line);
            left += length < 0 ? 0 : (uint64_t)length * (type == '%' ? 2 : 1);
            at = after;
            break;
        case '+':
        case '-':
        case ':':
        case ',':
        case '#':
        case '_':
        case '(':
            at = after;
            break;
        default:
            scanner->malformed = "a byte that begins no reply";
            return 0;
        }
        if (at > view.bytes) {
            return 0;
        }
    }
    return at;
}

static bool
is_resp_nil(struct slice view, size_t at)
{
    return view.data[at] == '_' || ((view.data[at] == '$' || view.data[at] == '*') && view.data[at + 1] == '-');
}

/* A reply that is not of its fixed shape: `at` to `end`. */
static void
resp_judge(struct scanner *scanner, enum expected_kind kind, struct slice view, size_t at)
{
    uint8_t type = view.data[at];
    bool may_miss = kind == EXPECT_VALUE || kind == EXPECT_BULK || kind == EXPECT_DOUBLE;
    if (type == '-' || type == '!') {
        struct slice line = { NULL, 0 };
        (void)line_end(view, at, &line);
        count_error(scanner, line);
    } else if (may_miss && is_resp_nil(view, at)) {
        scanner->misses++;
    } else if (kind == EXPECT_VALUE) {
        count_surprise(scanner, "a value of another length");
    } else if (kind == EXPECT_OK || kind == EXPECT_PONG) {
        count_surprise(scanner, "another status than OK or PONG");
    } else if (kind == EXPECT_INTEGER && type != ':') {
        count_surprise(scanner, "no integer");
    } else if (kind == EXPECT_BULK && type != '$') {
        count_surprise(scanner, "no bulk string");
    } else if (kind == EXPECT_DOUBLE && type != '$' && type != ',') {
        count_surprise(scanner, "no score");
    }
}

/* Replies of one fixed shape, as many as follow each other. What is not one of them, or whose first word is not there
 * yet, is left to the caller. Returns the bytes they take. Cost: ten instructions a reply. */
static size_t
resp_scan_shape(struct scanner *scanner, const struct scanner_shape *shape, struct slice view)
{
    size_t at = 0, least = MAX((size_t)shape->bytes, sizeof(shape->word));
    while (view.bytes - at >= least) {
        uint64_t word;
        memcpy(&word, view.data + at, sizeof(word));
        if ((word & shape->mask) != shape->word || view.data[at + shape->bytes - 1] != '\n') {
            break;
        }
        at += shape->bytes;
        scanner->replies++;
    }
    return at;
}

static size_t
resp_scan(struct scanner *scanner, struct slice view)
{
    const struct scanner_shape *only = &scanner->shapes[scanner->schedule[0]];
    size_t at = scanner->schedule_count == 1 && only->mask != 0 ? resp_scan_shape(scanner, only, view) : 0;
    while (at < view.bytes) {
        enum expected_kind kind = scanner->schedule[scanner->position];
        uint32_t prefix_bytes = scanner->shapes[kind].prefix_bytes;
        size_t end = at + scanner->shapes[kind].bytes;
        bool fixed = prefix_bytes > 0 && view.bytes - at >= prefix_bytes &&
                     memcmp(view.data + at, scanner->shapes[kind].prefix, prefix_bytes) == 0;
        if (LIKELY(fixed)) {
            if (end > view.bytes) {
                break;
            }
            if (UNLIKELY(view.data[end - 1] != '\n')) {
                scanner->malformed = "a bulk string that does not end in CR LF";
                break;
            }
        } else if (kind == EXPECT_INTEGER && view.data[at] == ':') {
            struct slice line;
            end = line_end(view, at, &line);
            if (end == 0) {
                break;
            }
        } else {
            end = resp_skip(scanner, view, at);
            if (end == 0) {
                break;
            }
            resp_judge(scanner, kind, view, at);
        }
        at = end;
        scanner->replies++;
        scanner->position = scanner->position + 1 == scanner->schedule_count ? 0 : scanner->position + 1;
    }
    return at;
}

/* ---- SBE ---- */

static void
sbe_judge(struct scanner *scanner, enum expected_kind kind, uint16_t template_id, struct slice frame)
{
    bool may_miss = kind == EXPECT_VALUE || kind == EXPECT_BULK || kind == EXPECT_DOUBLE;
    struct sbe_reply reply;
    struct sbe_value value;
    if (template_id == SBE_ERROR_REPLY_TEMPLATE) {
        bool readable = sbe_reply_open(frame, frame.bytes, &reply) == CODEC_OK && sbe_reply_next(&reply, &value);
        count_error(scanner, readable ? value.bytes : slice_text("an error"));
    } else if (may_miss && template_id == SBE_NIL_REPLY_TEMPLATE) {
        scanner->misses++;
    } else if (kind == EXPECT_VALUE && template_id == SBE_BULK_REPLY_TEMPLATE) {
        count_surprise(scanner, "a value of another length");
    } else {
        count_surprise(scanner, "a reply of another type");
    }
}

static size_t
sbe_scan(struct scanner *scanner, struct slice view)
{
    static const uint16_t templates[EXPECT_DOUBLE + 1] = {
        [EXPECT_OK] = SBE_STATUS_REPLY_TEMPLATE,       [EXPECT_PONG] = SBE_STATUS_REPLY_TEMPLATE,
        [EXPECT_INTEGER] = SBE_INTEGER_REPLY_TEMPLATE, [EXPECT_VALUE] = SBE_BULK_REPLY_TEMPLATE,
        [EXPECT_BULK] = SBE_BULK_REPLY_TEMPLATE,       [EXPECT_DOUBLE] = SBE_DOUBLE_REPLY_TEMPLATE,
    };
    uint32_t value_bytes = SBE_BULK_REPLY_HEAD_BYTES + SBE_LENGTH_BYTES + scanner->value_bytes; /* a frame's */
    size_t at = 0;
    while (view.bytes - at >= SBE_FRAME_HEADER_BYTES + SBE_HEADER_BYTES) {
        uint32_t bytes = sbe_load_uint32(view.data + at);
        uint16_t template_id = sbe_load_uint16(view.data + at + SBE_FRAME_HEADER_BYTES + 2);
        if (bytes < SBE_HEADER_BYTES) {
            scanner->malformed = "a frame shorter than its header";
            break;
        }
        if (view.bytes - at - SBE_FRAME_HEADER_BYTES < bytes) {
            break;
        }
        enum expected_kind kind = scanner->schedule[scanner->position];
        bool right = kind == EXPECT_ANY
                         ? template_id != SBE_ERROR_REPLY_TEMPLATE
                         : template_id == templates[kind] && (kind != EXPECT_VALUE || bytes == value_bytes);
        if (UNLIKELY(!right)) {
            sbe_judge(scanner, kind, template_id, slice_of(view.data + at, SBE_FRAME_HEADER_BYTES + bytes));
        }
        at += SBE_FRAME_HEADER_BYTES + bytes;
        scanner->replies++;
        scanner->position = scanner->position + 1 == scanner->schedule_count ? 0 : scanner->position + 1;
    }
    return at;
}

size_t
scanner_scan(struct scanner *scanner, struct slice view)
{
    return scanner->wire == CLIENT_SBE ? sbe_scan(scanner, view) : resp_scan(scanner, view);
}
