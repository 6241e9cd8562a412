/* inventory.h - what a result was measured on: CPUs, nodes, network devices, providers of libfabric, builds. */
#pragma once
#include "config/base.h"
#include <jansson.h>

/* A new reference. What cannot be known is absent.
 * Cost: some 0.3 s: libfabric is asked in a process of its own, as it takes over signals. */
json_t *inventory_make(void);

/* The GNU build id of an ELF file, in hex; empty when it has none. */
#define BUILD_ID_HEX_BYTES 65
void build_id_read(const char *path, char hex[BUILD_ID_HEX_BYTES]);

/* Path of a program in the folder of this one. */
void program_path_beside(const char *name, char *path, size_t path_bytes);
