/* fuzz_ctl.c - any bytes on the management socket: every line has one answer, JSON for JSON and text for text, and the
 * appliance lives on.
 *
 * The first byte says how many bytes a piece has, so that lines are cut everywhere. */
#include "mgmt/ctl.h"
#include "test/mgmt/appliance.h"
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct mgmt mgmt;

static enum ctl_result
line_checked(void *context, struct ctl_client *client, char *line, size_t bytes, struct text *out)
{
    bool is_json = line[0] == '{';
    size_t before = out->used;
    enum ctl_result result = ctl_line(context, client, line, bytes, out);

    CHECK(result == CTL_DONE); /* a stopped appliance has no sessions to wait for */
    CHECK(out->used > before + 1 && out->bytes[out->used - 1] == '\n');
    if (is_json) {
        json_t *reply = json_loadb(out->bytes + before, out->used - before, JSON_REJECT_DUPLICATES, NULL);
        bool ok = json_is_true(json_object_get(reply, "ok"));
        CHECK(json_integer_value(json_object_get(reply, "version")) == CTL_VERSION);
        CHECK(json_is_string(json_object_get(reply, "error")) != ok &&
              json_is_object(json_object_get(reply, "result")) == ok);
        CHECK(memchr(out->bytes + before, '\n', out->used - before) == out->bytes + out->used - 1);
        json_decref(reply);
    } else {
        CHECK(out->bytes[out->used - 2] == '\n');
    }
    return result;
}

/* What the data plane owns lies in mapped memory, where a leak checker does not look for pointers. */
static void
at_exit(void)
{
    ctl_server_close(&mgmt.ctl);
    appliance_close(&mgmt);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    appliance_open(&mgmt, NULL, 0);
    mgmt.state = MGMT_STOPPED; /* `shutdown` is taken and changes nothing */
    ctl_server_open(&mgmt.ctl, &mgmt.loop, -1, line_checked, &mgmt);
    CHECK(atexit(at_exit) == 0);
    return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char heard[65536];
    int ends[2];

    if (bytes == 0) {
        return 0;
    }
    size_t piece = data[0] == 0 ? bytes : data[0];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    CHECK(ctl_server_take(&mgmt.ctl, ends[1]));
    for (size_t at = 1; at < bytes; at += piece) {
        (void)!send(ends[0], data + at, MIN(piece, bytes - at), MSG_NOSIGNAL);
        loop_turn(&mgmt.loop, 0);
        while (recv(ends[0], heard, sizeof(heard), 0) > 0) {
        }
    }
    close(ends[0]);
    for (int i = 0; i < 100 && ctl_server_clients(&mgmt.ctl) > 0; i++) {
        loop_turn(&mgmt.loop, 0);
        ctl_server_tick(&mgmt.ctl, loop_now_ms() + (i > 90 ? CTL_STALL_MS : 0));
    }
    CHECK(ctl_server_clients(&mgmt.ctl) == 0);
    return 0;
}
