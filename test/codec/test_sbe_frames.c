/* test_sbe_frames.c - kept frames and what several SBE tests share. */
#include "test/codec/test_sbe_frames.h"
#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

struct frame frames[FRAMES_MAX];
uint32_t frames_count;

static void
frame_hex(struct frame *frame, const char *text)
{
    unsigned byte;
    for (int used; sscanf(text, " %2x%n", &byte, &used) == 1; text += used) {
        CHECK(frame->bytes_count < sizeof(frame->bytes));
        frame->bytes[frame->bytes_count++] = (uint8_t)byte;
    }
}

static void
frame_read(const char *path, const char *name, uint16_t version)
{
    CHECK(frames_count < FRAMES_MAX);
    struct frame *frame = &frames[frames_count++];
    FILE *file = fopen(path, "r");
    char line[1024];

    CHECK(file != NULL);
    snprintf(frame->name, sizeof(frame->name), "%.*s", (int)strcspn(name, "."), name);
    frame->version = version;
    frame->is_reply = strncmp(name, "reply_", 6) == 0 || strncmp(name, "push_", 5) == 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "text ", 5) == 0) {
            CHECK(strlen(line) - 5 < sizeof(frame->text));
            strcpy(frame->text, line + 5);
        } else if (strncmp(line, "words ", 6) == 0) {
            CHECK(strlen(line) - 6 < sizeof(frame->words));
            strcpy(frame->words, line + 6);
        } else if (strncmp(line, "hex ", 4) == 0) {
            frame_hex(frame, line + 4);
        } else {
            CHECK(line[0] == '#');
        }
    }
    fclose(file);
    CHECK(frame->bytes_count > 0 && frame->text[0] != '\0');
}

static void
version_read(uint16_t version)
{
    char path[512];
    uint32_t before = frames_count;

    snprintf(path, sizeof(path), "%s/v%u", FRAMES_DIR, version);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/v%u/%s", FRAMES_DIR, version, entry->d_name);
            frame_read(path, entry->d_name, version);
        }
    }
    closedir(dir);
    CHECK(frames_count > before);
}

void
frames_load(void)
{
    for (uint16_t version = 0; version <= SBE_SCHEMA_VERSION; version++) {
        version_read(version);
    }
}

const struct frame *
frame_named(const char *name)
{
    for (uint32_t i = frames_count; i > 0; i--) {
        if (strcmp(frames[i - 1].name, name) == 0) {
            return &frames[i - 1];
        }
    }
    fprintf(stderr, "no frame %s\n", name);
    abort();
}

uint32_t
words_split(const char *line, struct slice words[FRAME_ARGS_MAX], uint8_t room[FRAME_TEXT_MAX])
{
    uint32_t count = 0;

    while (*line != '\0') {
        bool quoted = *line == '"';
        uint8_t *begin = room;
        line += quoted;
        while (*line != '\0' && *line != (quoted ? '"' : ' ')) {
            unsigned byte = (unsigned char)*line;
            int used = 1;
            if (*line == '\\') {
                CHECK(sscanf(line, "\\x%2x%n", &byte, &used) == 1);
            }
            *room++ = (uint8_t)byte;
            line += used;
        }
        line += quoted && *line == '"';
        line += *line == ' ';
        CHECK(count < FRAME_ARGS_MAX);
        words[count++] = slice_of(begin, (size_t)(room - begin));
    }
    return count;
}

struct text {
    char *at, *end;
};

static void __attribute__((format(printf, 2, 3))) text_put(struct text *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int bytes = vsnprintf(text->at, (size_t)(text->end - text->at), format, list);
    va_end(list);
    CHECK(bytes >= 0 && bytes < text->end - text->at);
    text->at += bytes;
}

static void
text_bytes(struct text *text, struct slice bytes)
{
    for (size_t i = 0; i < bytes.bytes; i++) {
        uint8_t c = bytes.data[i];
        text_put(text, isprint(c) && c != '\\' ? "%c" : "\\x%02x", c);
    }
}

void
request_text(const struct request *request, char *out, size_t out_bytes)
{
    struct text text = { out, out + out_bytes };

    text_put(&text, "%#llx ", (unsigned long long)request->correlation);
    if (request->command == NULL) {
        text_put(&text, "?");
        text_bytes(&text, request->name);
    } else {
        for (const char *c = request->command->name; *c != '\0'; c++) {
            text_put(&text, "%c", toupper((unsigned char)*c));
        }
    }
    for (uint32_t i = 0; i < request->args_count; i++) {
        const struct arg *arg = &request->args[i];
        switch (arg->kind) {
        case ARG_BYTES:
            text_put(&text, " b:");
            text_bytes(&text, arg->bytes);
            break;
        case ARG_INT:
            text_put(&text, " i:%lld", (long long)arg->integer);
            break;
        case ARG_DOUBLE:
            text_put(&text, " d:%.17g", arg->real);
            break;
        }
    }
}

static void
value_text(struct text *text, const struct sbe_value *value)
{
    static const char *const names[] = { "nil",     "status", "error", "integer", "double", "bulk",
                                         "boolean", "array",  "map",   "set",     "push" };
    text_put(text, " %s", names[value->kind]);
    switch (value->kind) {
    case SBE_VALUE_KIND_NIL:
        break;
    case SBE_VALUE_KIND_STATUS:
    case SBE_VALUE_KIND_ERROR:
    case SBE_VALUE_KIND_BULK:
        text_put(text, ":");
        text_bytes(text, value->bytes);
        break;
    case SBE_VALUE_KIND_INTEGER:
    case SBE_VALUE_KIND_BOOLEAN:
        text_put(text, ":%lld", (long long)value->integer);
        break;
    case SBE_VALUE_KIND_DOUBLE:
        text_put(text, ":%.17g", value->real);
        break;
    default:
        text_put(text, ":%u", value->count);
    }
}

void
reply_text(struct slice wire, char *out, size_t out_bytes)
{
    struct text text = { out, out + out_bytes };
    struct sbe_reply reply;
    struct sbe_value value;
    enum codec_status status = sbe_reply_open(wire, SIZE_MAX, &reply);

    if (status != CODEC_OK) {
        text_put(&text, status == CODEC_SHORT ? "short" : "malformed");
        return;
    }
    text_put(&text, "%#llx", (unsigned long long)reply.correlation);
    uint32_t count = 0;
    for (; sbe_reply_next(&reply, &value); count++) {
        value_text(&text, &value);
    }
    CHECK(count == reply.values_count);
}

#define GUARDED_PAGES 512

/* Pages that can be used, between two that cannot. */
static uint8_t *
guard_pages(size_t page)
{
    static uint8_t *pages;
    if (pages == NULL) {
        uint8_t *all = mmap(NULL, (GUARDED_PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(all != MAP_FAILED);
        pages = all + page;
        CHECK(mprotect(pages, GUARDED_PAGES * page, PROT_READ | PROT_WRITE) == 0);
    }
    return pages;
}

uint8_t *
guard_end(const void *bytes, size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *at = guard_pages(page) + GUARDED_PAGES * page - count;
    CHECK(count <= GUARDED_PAGES * page);
    memcpy(at, bytes, count);
    return at;
}

uint8_t *
guard_begin(const void *bytes, size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(count <= GUARDED_PAGES * page);
    return memcpy(guard_pages(page), bytes, count);
}
