#include "mgmt/reply_memory.h"
#include <sys/mman.h>

static bool
more(struct sink *sink, size_t bytes)
{
    /* All the room there is was given at the start. Nothing small may slip in behind what did not fit. */
    sink->end = sink->at;
    sink->failed = true;
    return false;
}

static void
rewind_to(struct sink *sink, uint64_t offset)
{
    struct reply_memory *memory = (struct reply_memory *)sink;

    sink->at = memory->bytes + offset;
    sink->end = memory->bytes + memory->room;
    sink->failed = false;
}

static const struct sink_ops memory_ops = { .more = more, .rewind = rewind_to };

void
reply_memory_open(struct reply_memory *memory, size_t room)
{
    memset(memory, 0, sizeof(*memory));
    memory->bytes = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory->bytes != MAP_FAILED);
    memory->room = room;
    memory->sink.ops = &memory_ops;
    reply_memory_reset(memory);
}

void
reply_memory_close(struct reply_memory *memory)
{
    munmap(memory->bytes, memory->room);
}

void
reply_memory_reset(struct reply_memory *memory)
{
    memory->sink.chunk = memory->bytes;
    memory->sink.chunk_offset = 0;
    rewind_to(&memory->sink, 0);
}

struct slice
reply_memory_bytes(const struct reply_memory *memory)
{
    return slice_of(memory->bytes, (size_t)(memory->sink.at - memory->bytes));
}
