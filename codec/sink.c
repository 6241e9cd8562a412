/* sink.c - copying into a sink across its chunks. */
#include "codec/sink.h"

void
sink_write(struct sink *sink, struct slice bytes)
{
    while (bytes.bytes > 0) {
        size_t room = (size_t)(sink->end - sink->at);
        if (room == 0) {
            if (!sink->ops->more(sink, 1)) {
                return;
            }
            continue; /* more() made room for at least one byte */
        }
        size_t piece = MIN(room, bytes.bytes);
        bytes_copy(sink->at, bytes.data, piece);
        sink->at += piece;
        bytes.data += piece;
        bytes.bytes -= piece;
    }
}
