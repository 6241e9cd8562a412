/* paths.h - where the appliance and its tools meet when nobody says otherwise. */
#pragma once
#include "config/base.h"

#define PATHS_SOCKET_BYTES 108 /* sizeof(sun_path), its NUL included */

/* Directory of the sockets: /run/sluice as root, else $XDG_RUNTIME_DIR/sluice, else /tmp/sluice-UID. Returns `out`. */
const char *paths_runtime_dir(char *out, size_t bytes);

/* Make that directory where it is missing and see that only its owner (and root) can put things there: it lies in /tmp,
 * where others may have been first. False with a sentence in `why`. */
bool paths_runtime_dir_make(const char *dir, char *why, size_t why_bytes);

/* $SLUICE_CTL, else ctl.sock in the runtime directory. Returns `out`. */
const char *paths_management_socket(char *out, size_t bytes);

/* Where `management.socket = "auto"` of an appliance started as root is. */
#define PATHS_SYSTEM_MANAGEMENT_SOCKET "/run/sluice/ctl.sock"
#define PATHS_SYSTEM_SETTINGS          "/etc/sluice/sluice.conf"
