#include "mgmt/http.h"
#include "mgmt/log.h"
#include "mgmt/openmetrics.h"
#include <errno.h>
#include <microhttpd.h>
#include <unistd.h>

#define CONNECTION_IDLE_S 5
#define CONNECTION_BYTES  (16 * KIB) /* request line and headers of one */

/* ---- answers ---- */

static enum MHD_Result
answer_text(struct MHD_Connection *connection, unsigned status, const char *type, struct text *text)
{
    enum MHD_ResponseMemoryMode mode = MHD_RESPMEM_MUST_FREE;
    struct MHD_Response *response = MHD_create_response_from_buffer(text->used, text->bytes, mode);

    if (response == NULL) {
        text_fini(text);
        return MHD_NO; /* out of memory: the connection ends */
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result
answer_line(struct MHD_Connection *connection, unsigned status, const char *line)
{
    struct text text = { 0 };

    text_print(&text, "%s\n", line);
    return answer_text(connection, status, "text/plain; charset=utf-8", &text);
}

static enum MHD_Result
answer_metrics(struct MHD_Connection *connection, struct mgmt *mgmt)
{
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    bool open = accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
    struct text text = { 0 };

    openmetrics_print(mgmt, open ? OPENMETRICS_FORM_1 : OPENMETRICS_PROMETHEUS, &text);
    return answer_text(connection, MHD_HTTP_OK, open ? OPENMETRICS_TYPE_1 : OPENMETRICS_TYPE_PROMETHEUS, &text);
}

/* Called once with the headers, then for the end of the request, which is when it is answered. */
static enum MHD_Result
answer(void *context, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
       const char *upload, size_t *upload_bytes, void **seen)
{
    static char headers;
    struct mgmt *mgmt = context;

    if (*seen == NULL) {
        *seen = &headers;
        return MHD_YES;
    }
    if (*upload_bytes != 0) {
        *upload_bytes = 0; /* a body is read and forgotten */
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    }
    if (strcmp(url, "/metrics") == 0) {
        return answer_metrics(connection, mgmt);
    }
    if (strcmp(url, "/healthz") == 0) {
        return answer_line(connection, MHD_HTTP_OK, "alive");
    }
    if (strcmp(url, "/readyz") == 0) {
        bool ready = mgmt_is_ready(mgmt);
        return answer_line(connection, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                           ready ? "ready" : mgmt_state_text(mgmt));
    }
    return answer_line(connection, MHD_HTTP_NOT_FOUND, "here are /metrics, /healthz and /readyz");
}

/* ---- turning ---- */

static void
http_ready(struct watch *watch, uint32_t events)
{
    struct http *http = CONTAINER_OF(watch, struct http, watch);

    MHD_run(http->daemon);
}

void
http_tick(struct http *http)
{
    if (http->daemon != NULL) {
        MHD_run(http->daemon);
    }
}

static void
log_quietly(void *context, const char *format, va_list args)
{
    char line[256];

    vsnprintf(line, sizeof(line), format, args);
    line[strcspn(line, "\n")] = '\0';
    log_debug("metrics: %s", line);
}

int
http_open(struct http *http, const struct settings *settings, char *why, size_t why_bytes)
{
    struct address address;

    http->listener.fd = -1;
    if (settings->metrics_port == 0) {
        return 0;
    }
    if (!address_parse(slice_text(settings->metrics_address), &address)) {
        snprintf(why, why_bytes, "metrics.address: \"%s\" is no address, expected one such as 127.0.0.1 or [::1]",
                 settings->metrics_address);
        return -EINVAL;
    }
    return listener_open_tcp(&http->listener, &address, (uint16_t)settings->metrics_port, "metrics", why, why_bytes);
}

void
http_start(struct http *http, struct loop *loop, struct mgmt *mgmt)
{
    if (http->listener.fd < 0) {
        return;
    }
    http->daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, answer, mgmt, MHD_OPTION_EXTERNAL_LOGGER,
                         log_quietly, NULL, MHD_OPTION_LISTEN_SOCKET, http->listener.fd, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)LIMIT_HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_IDLE_S,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_END);
    CHECK(http->daemon != NULL);
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    CHECK(info != NULL);
    http->loop = loop;
    http->watch = (struct watch){ .fd = info->epoll_fd, .events = EPOLLIN, .ready = http_ready };
    loop_add(loop, &http->watch);
}

void
http_close(struct http *http)
{
    if (http->daemon != NULL) {
        loop_remove(http->loop, &http->watch);
        http->listener.fd = MHD_quiesce_daemon(http->daemon); /* ours to close */
        MHD_stop_daemon(http->daemon);
        http->daemon = NULL;
    }
    listener_close(&http->listener);
}
