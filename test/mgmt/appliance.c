#include "test/mgmt/appliance.h"
#include "mgmt/live.h"

static struct settings settings;
static struct host host;

void
appliance_open(struct mgmt *mgmt, const char *const *overrides, size_t count)
{
    const char *all[32] = { "memory.reserve=64MiB", "memory.ahead=4MiB", "store.keys_expected=1024", "lcores.cpus=0" };
    char why[1024] = "";
    size_t used = 4;

    for (size_t i = 0; i < count; i++) {
        all[used++] = overrides[i];
    }
    memset(mgmt, 0, sizeof(*mgmt));
    if (settings_load(NULL, all, used, &settings, why, sizeof(why)) != 0 ||
        dataplane_open(&settings, &mgmt->dataplane, why, sizeof(why)) != 0) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    host_read("", &host);
    mgmt->host = &host;
    mgmt->settings = &settings;
    mgmt->settings_path = "";
    live_open(mgmt);
    mgmt->state = MGMT_RUN;
    mgmt->stalled_lcore = -1;
    mgmt->streams.port = 6379;
    mgmt->streams.held_fd = -1;
    mgmt->begun_ms = mgmt->ready_ms = loop_now_ms();
    strcpy(mgmt->ctl_path, "/tmp/test/ctl.sock");
    CHECK(loop_open(&mgmt->loop) == 0);
    metrics_open(&mgmt->metrics, mgmt->dataplane);
    answers_open(&mgmt->answers);
}

void
appliance_close(struct mgmt *mgmt)
{
    answers_close(&mgmt->answers);
    metrics_close(&mgmt->metrics);
    loop_close(&mgmt->loop);
    dataplane_close(mgmt->dataplane);
    free(mgmt->written);
}

bool
appliance_mail(struct mgmt *mgmt, uint32_t lcore, struct mail *mail)
{
    bool got = false;
    while (mail_take(mgmt->dataplane->to_lcore[lcore], mail)) {
        got = true;
    }
    return got;
}

const char *
appliance_ask(struct mgmt *mgmt, enum later_kind kind, enum wire wire, const char *const *args, size_t count)
{
    static struct later later;
    static char text[LIMIT_REPLY_BYTES + 1];
    struct mail mail;
    size_t used = 0;

    memset(&later, 0, sizeof(later));
    later.kind = kind;
    later.session_id = 7;
    later.wire = wire;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strlen(args[i]);
        memcpy(later.text + used, args[i], bytes);
        later.args[later.args_count++] = slice_of(later.text + used, bytes);
        used += bytes;
    }
    answers_take(mgmt, &later);
    if (!later.answered) {
        return NULL;
    }
    CHECK(appliance_mail(mgmt, 0, &mail) && mail.kind == MAIL_LATER_REPLY && mail.p == &later);
    memcpy(text, later.answer_big != NULL ? later.answer_big : later.answer, later.answer_bytes);
    text[later.answer_bytes] = '\0';
    if (later.answer_big != NULL) {
        /* It comes back to be released, and goes back empty. */
        later.session_id = 0;
        answers_take(mgmt, &later);
        CHECK(appliance_mail(mgmt, 0, &mail) && mail.p == &later && later.answer_big == NULL &&
              later.answer_bytes == 0);
    }
    return text;
}
