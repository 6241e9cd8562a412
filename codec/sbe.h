/* sbe.h - SBE messages on a stream: a magic, then u32 length + message, little-endian. Schema: sluice_sbe.xml. */
#pragma once
#include "codec/command.h"
#include "codec/reply.h"

#define SBE_STREAM_MAGIC       "SLUICE\x01\n" /* first 8 bytes of a stream that speaks SBE; never answered */
#define SBE_STREAM_MAGIC_BYTES 8
#define SBE_FRAME_HEADER_BYTES 4 /* u32 length of the message that follows, itself excluded */

/* Decode the first message in `wire` (at its length word) into `request`.
 *
 * Typed templates become the argument vector of their command with native numbers, so that handlers see one form:
 * SET key value [NX] [XX] [GET] [PX n | PXAT n | KEEPTTL]; option words are static bytes, and those that exclude each
 * other are all written, for the handler to refuse as on RESP.
 *
 * Returns  CODEC_OK; CODEC_SHORT with request->wire_bytes = what the whole message needs, 0 while unknown;
 *          CODEC_REJECTED: well framed, but does not validate (block length for its version, group, length, value,
 *          unknown template) or is over a limit: take request->wire_bytes, answer request->error with
 *          request->correlation (0 where it could not be read), go on;
 *          CODEC_MALFORMED: the length word itself is out of bounds: answer, close.
 *          On both errors command is NULL, there are no arguments, and nothing was taken from `room`.
 *
 * Room     as much as limits->args_max; a request that needs more than there is is rejected.
 *
 * Lifetime request->args borrow from `wire`. Threads: pure.
 *
 * Cost     one validating pass over heads and lengths, none over data; limits->args_max bounds its entries also when a
 *          message lies about its groups. */
enum codec_status sbe_decode(struct slice wire, const struct decode_limits *limits, struct arg_room *room,
                             struct request *request);
