/* listener.h - sockets that accept: TCP, and Unix sockets whose mode and owner are right before anyone can connect.
 * Boot and management code. */
#pragma once
#include "config/address.h"
#include <sys/stat.h>
#include <sys/un.h>

struct listener {
    int fd; /* -1: closed */
    bool is_unix;
    char text[ADDRESS_TEXT_BYTES]; /* printed: "127.0.0.1:6379", "unix:/path" */
    /* Unix: removed at close when it still is what was made */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    dev_t device;
    ino_t inode;
};

/* A nonblocking listener on `port` (0: any free one). 0 or -errno with a sentence in `why`, which for a taken port
 * names the setting to change: `group`.port or `group`.address. */
int listener_open_tcp(struct listener *listener, const struct address *address, uint16_t port, const char *group,
                      char *why, size_t why_bytes);
uint16_t listener_port(const struct listener *listener);

/* At `path`, with `mode` and, unless -1, `group`. What is left of a process that is gone is replaced; a living one's
 * socket, or a file that is no socket, is an error that names `setting`. */
int listener_open_unix(struct listener *listener, const char *path, uint32_t mode, gid_t group, const char *setting,
                       char *why, size_t why_bytes);

void listener_close(struct listener *listener);
