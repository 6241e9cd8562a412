/* command_name.h - a command's name as words: what command_find() and the RESP decoder look up. For codec/ only. */
#pragma once
#include "codec/command.h"
#include "codec/command_hash.h" /* generated from command_table.h */

/* Up to 8 bytes are in `first`, of a longer name the first and the last 8, all folded: with the length they decide, but
 * for names that are very long or not all letters. */
struct command_name {
    uint64_t first, last;
    const struct command *command;
    uint8_t bytes;
    bool careful;
};

extern const struct command_name command_names[1 << COMMAND_HASH_BITS];

/* The row whose name has these words, as words() and key() in command_hash.py, and this length; NULL: none. Words not
 * yet folded; a careful row's whole name is still to be compared. */
static inline const struct command_name *
command_name_find(uint64_t first, uint64_t last, size_t bytes)
{
    const uint64_t fold = 0x2020202020202020ull;
    first |= fold;
    last |= bytes > sizeof(last) ? fold : 0;
    uint64_t key = first ^ (last << 7 | last >> 57) ^ bytes;
    const struct command_name *row = &command_names[key * COMMAND_HASH_MULTIPLIER >> (64 - COMMAND_HASH_BITS)];
    return ((row->first ^ first) | (row->last ^ last) | (row->bytes ^ bytes)) == 0 ? row : NULL;
}
