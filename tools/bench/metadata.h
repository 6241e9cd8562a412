/* metadata.h - DIR/metadata.json of a result folder: the machine, and an entry for each run that added to the folder.
 */
#pragma once
#include "config/base.h"

struct metadata;

/* Note time, load, command and libfabric's environment; the values of -a and --password are left out. */
struct metadata *metadata_begin(int argc, char *const *argv);
/* Something a reader must know: the machine was busy, the run was interrupted. */
void metadata_warn(struct metadata *metadata, const char *text);
/* Another fact of this run. */
void metadata_note(struct metadata *metadata, const char *name, const char *text);
/* Facts of another machine, as `sluice-bench machine` printed them there; what is no JSON object is ignored. */
void metadata_server_machine(struct metadata *metadata, const char *json);
/* Add the run to DIR/metadata.json; many may do so at once. False with a sentence in `why`: a file that is there and is
 * not ours is left as it is. */
bool metadata_write(struct metadata *metadata, const char *folder, char *why, size_t why_bytes);
void metadata_end(struct metadata *metadata); /* NULL is accepted */

/* Make a folder and its parents, where they are missing. False with a sentence in `why`. */
bool folder_make(const char *folder, char *why, size_t why_bytes);
/* Make DIR, its parents and DIR/hlog and DIR/logs. False with a sentence in `why`. */
bool result_folder_make(const char *folder, char *why, size_t why_bytes);
