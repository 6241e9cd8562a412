/* http.h - the optional HTTP port for metrics and probes: GET and HEAD of /metrics, /healthz, /readyz.
 *
 * libmicrohttpd without threads of its own: it turns when the management core's loop says so. Nothing can be changed
 * over it and it asks for no password: metrics.address is loopback unless the operator says otherwise. */
#pragma once
#include "mgmt/listener.h"
#include "mgmt/loop.h"

struct mgmt;
struct settings;
struct MHD_Daemon;

struct http {
    struct watch watch; /* of libmicrohttpd's epoll; first */
    struct listener listener;
    struct MHD_Daemon *daemon; /* NULL: off */
    struct loop *loop;
};

/* Listen on metrics.address and metrics.port; nothing when the port is 0. Before anything slow, so that a taken port is
 * known at once. 0 or -errno with a sentence in `why`. */
int http_open(struct http *http, const struct settings *settings, char *why, size_t why_bytes);
/* Answer from now on. */
void http_start(struct http *http, struct loop *loop, struct mgmt *mgmt);
/* About every 100 ms: connections that are too slow end. */
void http_tick(struct http *http);
void http_close(struct http *http);
