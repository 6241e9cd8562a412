/* test_port_fabric.c - FABRIC commands, sessions, strangers on the fabric port. */
#include "codec/sbe.h"
#include "test/dataplane/port_fabric_test.h"
#include "test/store/refuse_memory.h"

/* ---- FABRIC commands ---- */

static void
what_is_no_fabric_command_is_refused(void)
{
    open_port(calm());
    CU_ASSERT_TRUE(begins(ask("NOSUCH", NULL, NULL, NULL, NULL, NULL), "-ERR unknown subcommand"));
    CU_ASSERT_TRUE(begins(ask("HELP", NULL, NULL, NULL, NULL, NULL), "*11\r\n+FABRIC"));
    CU_ASSERT_TRUE(begins(ask("PORTS", "x", NULL, NULL, NULL, NULL), "-ERR wrong number of arguments"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "fault", "fault:9", NULL, NULL, NULL), "-ERR wrong number of arguments"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "nosuch", "fault:9", "resp2", NULL, NULL), "-ERR no fabric port"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "fault", "fault:9", "resp4", NULL, NULL), "-ERR syntax"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "fault", "fault:9", "resp2", "CREDIT", NULL), "-ERR syntax"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "fault", "fault:9", "resp2", "CREDIT", "0"), "-ERR syntax"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "fault", "fault:9", "resp2", "CREDIT", "65536"), "-ERR syntax"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "fault", "fault:9", "resp2", "FRAME", "255"), "-ERR syntax"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "fault", "fault:9", "resp2", "FRAME", "abc"), "-ERR syntax"));
    CU_ASSERT_TRUE(begins(ask("ATTACH", "fault", "fault:9", "resp2", "NOSUCH", "5"), "-ERR syntax"));
    CU_ASSERT_TRUE(begins(ask("RESUME", "1", "x", "fault:9", NULL, NULL), "-ERR wrong number of arguments"));
    CU_ASSERT_TRUE(begins(ask("RESUME", "one", "x", "fault:9", "0", NULL), "-ERR value is not an integer"));
    CU_ASSERT_TRUE(begins(ask("RESUME", "0", "x", "fault:9", "0", NULL), "-SESSION_LOST"));
    CU_ASSERT_TRUE(begins(ask("RESUME", "-1", "x", "fault:9", "0", NULL), "-SESSION_LOST"));
    CU_ASSERT_TRUE(begins(ask("RESUME", "9223372036854775807", "x", "fault:9", "0", NULL), "-SESSION_LOST"));
    CU_ASSERT_TRUE(begins(ask("DETACH", "1", NULL, NULL, NULL, NULL), "-ERR wrong number of arguments"));
    CU_ASSERT_TRUE(begins(ask("DETACH", "1", "x", NULL, NULL, NULL), "-SESSION_LOST"));
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 0);
    close_port();
}

static void
bytes_that_are_no_address_are_refused(void)
{
    static const struct {
        const char *text;
        size_t bytes;
    } rows[] = {
        { "", 0 },        { "garbage", 7 }, { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16 }, { "0x", 2 }, { "0x1", 3 },
        { "0xzz", 4 },    { "fault:1", 7 }, /* without its NUL */
        { "fault:0", 8 },
    };
    static char long_address[400];
    const char *const words[] = { "FABRIC", "ATTACH", "fault", "@", "resp2", NULL };

    open_port(calm());
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *reply = rig_ask(&rig, words, slice_of(rows[i].text, rows[i].bytes));
        CU_ASSERT_TRUE(begins(reply, "-ERR"));
    }
    memset(long_address, 'x', sizeof(long_address));
    CU_ASSERT_TRUE(begins(rig_ask(&rig, words, slice_of(long_address, 256)), "-ERR these bytes are no address"));
    CU_ASSERT_TRUE(begins(rig_ask(&rig, words, slice_of(long_address, 257)), "-ERR an address is at most"));
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 0);
    close_port();
}

static void
an_address_may_be_written_in_hex(void)
{
    const char *const words[] = { "FABRIC", "ATTACH", "fault", "0X6661756c743A3900", "resp3", NULL }; /* "fault:9" */
    struct slice value;

    open_port(calm());
    CU_ASSERT_TRUE(begins(rig_ask(&rig, words, NO_ADDRESS), "*20\r\n"));
    CU_ASSERT_TRUE(rig_reply_field(&rig, "provider", &value));
    CU_ASSERT_TRUE(slice_equal(value, SLICE_LITERAL("fault")));
    CU_ASSERT_TRUE(rig_reply_field(&rig, "lease_ms", &value));
    CU_ASSERT_TRUE(slice_equal(value, SLICE_LITERAL("100")));
    CU_ASSERT_TRUE(rig_reply_field(&rig, "taken", &value));
    CU_ASSERT_TRUE(slice_equal(value, SLICE_LITERAL("0")));
    CU_ASSERT_TRUE(begins(ask("PORTS", NULL, NULL, NULL, NULL, NULL), "*1\r\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(rig.reply, "sessions\r\n:1\r\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(rig.reply, "sessions_max\r\n:8\r\n"));
    const struct endpoint_info *info = &rig_port(&rig)->info;
    const char *address = strstr(rig.reply, "address\r\n$");
    CU_ASSERT_PTR_NOT_NULL_FATAL(address);
    CU_ASSERT_EQUAL(strtoul(address + 10, NULL, 10), info->address_bytes);
    CU_ASSERT_PTR_NOT_NULL(
        memmem(address, (size_t)(rig.reply + rig.reply_bytes - address), info->address, info->address_bytes));
    close_port();
}

static void
sizes_that_do_not_divide_are_refused_at_boot(void)
{
    static const struct {
        uint32_t rx, tx, sessions;
        const char *says;
    } rows[] = {
        { 16, 64, 6, "6 sessions need at least 18 receive slots" },
        { 128, 5, 6, "send slots" },
        { 257, 64, 6, "the fault fabric has 256 slots" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fault_config config = calm();
        rig.port_settings.rx_slots = rows[i].rx;
        rig.port_settings.tx_slots = rows[i].tx;
        rig.port_settings.sessions = rows[i].sessions;
        CU_ASSERT_EQUAL(rig_open_port(&rig, &config, 7, why, sizeof(why)), -EINVAL);
        if (strstr(why, rows[i].says) == NULL) {
            fprintf(stderr, "%s\n", why);
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(why, rows[i].says));
        memset(&rig.port_settings, 0, sizeof(rig.port_settings));
    }
}

/* ---- a session ---- */

static void
a_session_speaks_the_wire_it_was_attached_for(void)
{
    static const char *const wires[] = { "resp2", "RESP3" };

    open_port(calm());
    for (size_t i = 0; i < ARRAY_COUNT(wires); i++) {
        struct fabric_end end;
        rig_end_open(&rig, &end, ENDPOINT_SEND_AUTO);
        CU_ASSERT_TRUE_FATAL(rig_attach(&rig, &end, wires[i]));
        CU_ASSERT_EQUAL(end.attachment.credit, 14); /* its share of 128, less two for control frames */
        CU_ASSERT_EQUAL(end.attachment.frame_bytes, FAULT_FRAME);
        CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        CU_ASSERT_TRUE(exchange(&end, "*2\r\n$3\r\nGET\r\n$6\r\nnosuch\r\n", i == 1 ? "_\r\n" : "$-1\r\n"));
        CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 1);
        fabric_end_close(&end);
        rig_turns(&rig, 4);
        CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 0);
    }
    close_port();
}

/* Pages are populated by the management core: between two of its looks there may be none. */
static void
an_attach_waits_for_a_page_and_is_told_when_there_is_none(void)
{
    static const struct {
        uint64_t refused; /* takes: the question's own, then one a turn */
        enum memory_refusal why;
        const char *says; /* NULL: attached */
    } rows[] = { { 1, MEMORY_NO_PAGE, NULL },
                 { 100, MEMORY_NO_PAGE, NULL },
                 { UINT64_MAX / 2, MEMORY_NO_PAGE, "-BUSY " },
                 { UINT64_MAX / 2, MEMORY_AT_LIMIT, "-OOM " } };

    open_port(calm());
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fabric_end end;
        rig_end_open(&rig, &end, ENDPOINT_SEND_AUTO);
        refuse_memory(1, rows[i].refused, rows[i].why);
        bool attached = rig_attach(&rig, &end, "resp2");
        CU_ASSERT_EQUAL(attached, rows[i].says == NULL);
        CU_ASSERT(attached || strncmp(rig.reply, rows[i].says, strlen(rows[i].says)) == 0);
        CU_ASSERT(load_relaxed(&refusals.refused) > 0);
        refuse_memory(0, 0, MEMORY_NO_PAGE);
        CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), attached);
        CU_ASSERT(!attached || exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        fabric_end_close(&end);
        rig_turns(&rig, 4);
    }
    close_port();
}

static void
a_credit_set_live_holds_for_new_sessions_and_reaches_old_ones(void)
{
    static const struct {
        uint32_t wanted, given;
    } rows[] = { { 1, 1 }, { 5, 5 }, { 64, 14 }, { 0, 14 } }; /* never more than its share of the slots */
    struct fabric_end old, new;

    open_port(calm());
    attach(&old);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        store_relaxed(&rig.dataplane->live.fabric_credit, rows[i].wanted);
        CU_ASSERT_EQUAL(port_fabric_credit(rig.port), rows[i].given);
        rig_turns(&rig, 10); /* a tick looks at it */
        CU_ASSERT_TRUE(exchange(&old, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        CU_ASSERT_EQUAL(old.stream.config.peer_credit, rows[i].given);
        attach(&new);
        CU_ASSERT_EQUAL(new.attachment.credit, rows[i].given);
        for (uint32_t n = 0; n < 40; n++) { /* more than any credit, at once */
            fabric_end_write(&new, "*1\r\n$4\r\nPING\r\n", 14, rig.now_us);
        }
        char got[40 * 7 + 1];
        size_t have = 0;
        for (uint32_t n = 0; n < 2000 && have < 40 * 7; n++) {
            rig_turn(&rig);
            have += fabric_end_read(&new, got + have, sizeof(got) - have, rig.now_us);
        }
        CU_ASSERT_EQUAL(have, 40 * 7);
        fabric_end_close(&new);
        rig_turns(&rig, 4);
    }
    CU_ASSERT_EQUAL(load_relaxed(&rig.lcore->counters->fabric_frames_bad), 0);
    store_relaxed(&rig.dataplane->live.fabric_credit, 0);
    fabric_end_close(&old);
    close_port();
}

/* The provider says to try again, and while the client does, the server takes credit back. */
static void
a_credit_that_shrinks_while_a_frame_is_tried_again_is_kept(void)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    struct fault_config config = calm();
    uint8_t ack[ENVELOPE_BYTES];
    uint32_t kept = 0;

    config.storm = 500;
    open_port(config);
    for (uint32_t round = 0; round < 20; round++) {
        struct fabric_end end;
        attach(&end);
        for (uint32_t i = 0; i < 3; i++) {
            fabric_end_write(&end, ping, 14, rig.now_us);
        }
        struct envelope envelope = { .kind = ENVELOPE_ACK,
                                     .credit = 1,
                                     .wire_id = end.attachment.wire_id,
                                     .incarnation = end.attachment.incarnation,
                                     .acknowledged = 14 };
        envelope_write(ack, &envelope);
        fault_fabric_forge(rig.fabric, rig_port(&rig)->endpoint, end.endpoint, ack, sizeof(ack));
        fault_fabric_step(rig.fabric);
        fabric_end_write(&end, ping, 14, rig.now_us);
        bool heard = end.stream.config.peer_credit == 1;
        CU_ASSERT_EQUAL(end.stream.flight_count, heard ? 2 : 4);
        kept += heard;
        fabric_end_close(&end);
        rig_turns(&rig, 20);
    }
    CU_ASSERT(kept > 0);
    close_port();
}

static void
an_sbe_stream_begins_with_its_magic_here_too(void)
{
    struct fabric_end end;

    open_port(calm());
    rig_end_open(&rig, &end, ENDPOINT_SEND_AUTO);
    CU_ASSERT_TRUE_FATAL(rig_attach(&rig, &end, "sbe"));
    CU_ASSERT_EQUAL(rig_session(&rig, &end)->session.wire, WIRE_UNKNOWN);
    fabric_end_write(&end, SBE_STREAM_MAGIC, SBE_STREAM_MAGIC_BYTES, rig.now_us);
    rig_turns(&rig, 3);
    CU_ASSERT_EQUAL(rig_session(&rig, &end)->session.wire, WIRE_SBE);
    fabric_end_close(&end);
    close_port();
}

static void
small_frames_are_decoded_in_one_burst(void)
{
    struct fabric_end end;
    char got[256];
    size_t have = 0;

    open_port(calm());
    attach(&end);
    uint64_t before = rig.lcore->histograms->burst.max;
    for (uint32_t i = 0; i < 10; i++) {
        fabric_end_write(&end, "*1\r\n$4\r\nPING\r\n", 14, rig.now_us); /* a frame each */
    }
    for (uint32_t i = 0; i < 20; i++) {
        rig_turn(&rig);
        have += fabric_end_read(&end, got + have, sizeof(got) - have, rig.now_us);
    }
    CU_ASSERT_EQUAL(have, 70);
    CU_ASSERT(before < 10);
    CU_ASSERT(rig.lcore->histograms->burst.max >= 10);
    fabric_end_close(&end);
    close_port();
}

static void
the_server_says_goodbye(void)
{
    struct fabric_end end;
    char byte;

    open_port(calm());
    attach(&end);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nQUIT\r\n", "+OK\r\n"));
    for (uint32_t i = 0; i < LEASE_TURNS && end.state == FABRIC_END_UP; i++) {
        rig_turn(&rig);
        CU_ASSERT_EQUAL(fabric_end_read(&end, &byte, 1, rig.now_us), 0);
    }
    CU_ASSERT_EQUAL(end.state, FABRIC_END_ENDED);
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 0);
    fabric_end_close(&end);
    close_port();
}

static void
a_closing_session_does_not_wait_for_a_client_that_sleeps(void)
{
    struct fabric_end end;
    char got[8];

    open_port(calm());
    rig_port(&rig)->lease_us = 100 * FABRIC_DONE_US; /* it is not the lease that does it */
    attach(&end);
    fabric_end_write(&end, "*1\r\n$4\r\nQUIT\r\n", 14, rig.now_us);
    rig_turns(&rig, 2);
    CU_ASSERT_PTR_NOT_NULL(rig_session(&rig, &end)); /* its reply is not acknowledged */
    rig_turns(&rig, FABRIC_DONE_US / RIG_STEP_US + 4);
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 0);
    CU_ASSERT_EQUAL(fabric_end_read(&end, got, sizeof(got), rig.now_us), 5);
    CU_ASSERT_EQUAL(memcmp(got, "+OK\r\n", 5), 0);
    CU_ASSERT_EQUAL(end.state, FABRIC_END_ENDED);
    CU_ASSERT_STRING_EQUAL(end.error, "the server ended the session");
    fabric_end_close(&end);
    close_port();
}

static void
a_goodbye_that_overtakes_the_last_reply_loses_nothing(void)
{
    struct fabric_end end;
    uint8_t bye[ENVELOPE_BYTES];
    char got[8];

    open_port(calm());
    attach(&end);
    struct envelope envelope = { .kind = ENVELOPE_DETACH,
                                 .credit = 4,
                                 .wire_id = end.attachment.wire_id,
                                 .incarnation = end.attachment.incarnation,
                                 .offset = 7 };
    envelope_write(bye, &envelope);
    fault_fabric_forge(rig.fabric, rig_port(&rig)->endpoint, end.endpoint, bye, sizeof(bye));
    rig_turns(&rig, 2);
    CU_ASSERT_EQUAL(fabric_end_read(&end, got, sizeof(got), rig.now_us), 0);
    CU_ASSERT_EQUAL(end.state, FABRIC_END_UP);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    CU_ASSERT_EQUAL(end.state, FABRIC_END_ENDED);
    fabric_end_close(&end);
    close_port();
}

static void
a_client_says_where_its_session_stands(void)
{
    struct fabric_end end;
    char text[256], want[256];

    open_port(calm());
    attach(&end);
    fabric_end_write(&end, "*1\r\n$4\r\nPING\r\n", 14, rig.now_us);
    fabric_end_describe(&end, rig.now_us + 7999, text, sizeof(text));
    snprintf(want, sizeof(want),
             "session %llu is up; unsent 0, unacknowledged 14 bytes in 1 frames, credit 14, free send slots 64; held 0 "
             "frames, missing 0 bytes; heard 7 ms ago",
             (unsigned long long)end.attachment.session);
    CU_ASSERT_STRING_EQUAL(text, want);
    fabric_end_describe(&end, rig.now_us, text, 10); /* a short room is kept */
    CU_ASSERT_EQUAL(strlen(text), 9);
    fabric_end_close(&end);
    close_port();
}

/* Frames come in any order: a client that only reads goes on while it holds some and lacks the one before. */
static void
a_reply_whose_frames_overtake_each_other_is_read_whole(void)
{
    static const char get[] = "*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n";
    char set[6100] = "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$6000\r\n", got[6100];
    struct fault_config config = calm();
    struct fabric_end end;
    uint32_t overtaken = 0;

    config.delay = 500;
    config.delay_steps = 8;
    open_port(config);
    attach(&end);
    size_t head = strlen(set);
    for (size_t i = 0; i < 6000; i++) {
        set[head + i] = (char)('a' + i % 26);
    }
    memcpy(set + head + 6000, "\r\n", 3);
    CU_ASSERT_TRUE(exchange(&end, set, "+OK\r\n"));
    for (uint32_t round = 0; round < 20; round++) {
        size_t have = 0, want = 7 + 6000 + 2;
        fabric_end_write(&end, get, sizeof(get) - 1, rig.now_us);
        for (uint32_t i = 0; i < LEASE_TURNS && have < want; i++) {
            rig_turn(&rig);
            have += fabric_end_read(&end, got + have, sizeof(got) - have, rig.now_us);
            overtaken += end.stream.held_count > 0 && !fabric_end_has_bytes(&end);
        }
        CU_ASSERT_EQUAL(have, want);
        CU_ASSERT_EQUAL(memcmp(got, set + head - 7, want), 0);
    }
    CU_ASSERT(overtaken > 0);
    fabric_end_close(&end);
    close_port();
}

static void
fabric_detach_ends_the_session_of_whoever_knows_its_secret(void)
{
    struct fabric_end end;
    char id[24], wrong[33];

    open_port(calm());
    attach(&end);
    snprintf(id, sizeof(id), "%llu", (unsigned long long)end.attachment.session);
    snprintf(wrong, sizeof(wrong), "%s", end.attachment.secret);
    wrong[31] = wrong[31] == '0' ? '1' : '0';
    CU_ASSERT_TRUE(begins(ask("DETACH", id, wrong, NULL, NULL, NULL), "-SESSION_LOST"));
    wrong[31] = '\0';
    CU_ASSERT_TRUE(begins(ask("DETACH", id, wrong, NULL, NULL, NULL), "-SESSION_LOST"));
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    CU_ASSERT_TRUE(begins(ask("DETACH", id, end.attachment.secret, NULL, NULL, NULL), "+OK"));
    rig_turns(&rig, 2);
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 0);
    CU_ASSERT_TRUE(begins(ask("DETACH", id, end.attachment.secret, NULL, NULL, NULL), "-SESSION_LOST"));
    fabric_end_close(&end);
    close_port();
}

/* ---- strangers ---- */

static void
forge(const struct endpoint *from, const struct envelope *envelope, const char *payload)
{
    uint8_t message[FAULT_FRAME];
    envelope_write(message, envelope);
    memcpy(message + ENVELOPE_BYTES, payload, envelope->payload_bytes);
    fault_fabric_forge(rig.fabric, from, rig_port(&rig)->endpoint, message, ENVELOPE_BYTES + envelope->payload_bytes);
    rig_turns(&rig, 3);
}

static void
a_strangers_frames_are_counted_and_change_nothing(void)
{
    struct lcore_counters *counters = rig.lcore->counters;
    struct fabric_end end, other;

    for (uint32_t reliable = 0; reliable < 2; reliable++) {
        struct fault_config config = calm();
        config.source_reliable = reliable != 0;
        open_port(config);
        attach(&end);
        attach(&other);
        uint64_t stale = counter(&counters->fabric_frames_stale), bad = counter(&counters->fabric_frames_bad);
        uint64_t inserts = counter(&counters->fabric_av_inserts), tx = counter(&counters->fabric_frames_tx);
        struct envelope right = { .kind = ENVELOPE_DATA,
                                  .payload_bytes = 14,
                                  .credit = 4,
                                  .wire_id = end.attachment.wire_id,
                                  .incarnation = end.attachment.incarnation };
        struct envelope wrong = right;

        wrong.wire_id ^= 1;
        forge(end.endpoint, &wrong, "*1\r\n$4\r\nPING\r\n");
        wrong = right;
        wrong.incarnation ^= 0x80000000;
        forge(end.endpoint, &wrong, "*1\r\n$4\r\nPING\r\n");
        CU_ASSERT_EQUAL(counter(&counters->fabric_frames_stale), stale + 2);
        wrong = right;
        wrong.kind = ENVELOPE_PING; /* with a payload */
        forge(end.endpoint, &wrong, "*1\r\n$4\r\nPING\r\n");
        wrong = right;
        wrong.acknowledged = 1; /* of nothing sent */
        forge(end.endpoint, &wrong, "*1\r\n$4\r\nPING\r\n");
        CU_ASSERT_EQUAL(counter(&counters->fabric_frames_bad), bad + 2);
        if (reliable != 0) {
            /* all ids right, but sent by somebody else: a stranger, and another session's client */
            forge(NULL, &right, "*1\r\n$4\r\nPING\r\n");
            forge(other.endpoint, &right, "*1\r\n$4\r\nPING\r\n");
            CU_ASSERT_EQUAL(counter(&counters->fabric_frames_stale), stale + 4);
        }
        CU_ASSERT_EQUAL(counter(&counters->fabric_av_inserts), inserts);
        CU_ASSERT_EQUAL(counter(&counters->fabric_frames_tx), tx); /* nobody was answered */
        CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        CU_ASSERT_TRUE(exchange(&other, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        fabric_end_close(&end);
        fabric_end_close(&other);
        close_port();
    }
}

static void
every_cut_and_every_flipped_byte_of_a_frame_is_survived(void)
{
    struct fabric_end end;
    uint8_t frame[ENVELOPE_BYTES + 14], changed[sizeof(frame)];

    open_port(calm());
    attach(&end);
    struct endpoint *server = rig_port(&rig)->endpoint;
    struct envelope envelope = { .kind = ENVELOPE_DATA,
                                 .payload_bytes = 14,
                                 .credit = 4,
                                 .wire_id = end.attachment.wire_id,
                                 .incarnation = end.attachment.incarnation };
    envelope_write(frame, &envelope);
    memcpy(frame + ENVELOPE_BYTES, "*1\r\n$4\r\nPING\r\n", 14);
    for (uint32_t cut = 1; cut < sizeof(frame); cut++) {
        fault_fabric_forge(rig.fabric, end.endpoint, server, frame, cut);
        rig_turn(&rig);
    }
    for (uint32_t at = 0; at < sizeof(frame); at++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            memcpy(changed, frame, sizeof(frame));
            changed[at] ^= (uint8_t)(1u << bit);
            fault_fabric_forge(rig.fabric, end.endpoint, server, changed, sizeof(changed));
            rig_turn(&rig);
        }
    }
    fault_endpoint_kill(end.endpoint);
    fabric_end_close(&end);
    /* whatever became of that session, the next one is served */
    attach(&end);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    fabric_end_close(&end);
    close_port();
}

int
main(void)
{
    rig_start(&rig);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("port_fabric", NULL, NULL);
    CU_ADD_TEST(suite, what_is_no_fabric_command_is_refused);
    CU_ADD_TEST(suite, bytes_that_are_no_address_are_refused);
    CU_ADD_TEST(suite, an_address_may_be_written_in_hex);
    CU_ADD_TEST(suite, sizes_that_do_not_divide_are_refused_at_boot);
    CU_ADD_TEST(suite, a_session_speaks_the_wire_it_was_attached_for);
    CU_ADD_TEST(suite, an_attach_waits_for_a_page_and_is_told_when_there_is_none);
    CU_ADD_TEST(suite, an_sbe_stream_begins_with_its_magic_here_too);
    CU_ADD_TEST(suite, small_frames_are_decoded_in_one_burst);
    CU_ADD_TEST(suite, a_credit_set_live_holds_for_new_sessions_and_reaches_old_ones);
    CU_ADD_TEST(suite, a_credit_that_shrinks_while_a_frame_is_tried_again_is_kept);
    CU_ADD_TEST(suite, the_server_says_goodbye);
    CU_ADD_TEST(suite, a_closing_session_does_not_wait_for_a_client_that_sleeps);
    CU_ADD_TEST(suite, a_goodbye_that_overtakes_the_last_reply_loses_nothing);
    CU_ADD_TEST(suite, a_client_says_where_its_session_stands);
    CU_ADD_TEST(suite, a_reply_whose_frames_overtake_each_other_is_read_whole);
    CU_ADD_TEST(suite, fabric_detach_ends_the_session_of_whoever_knows_its_secret);
    CU_ADD_TEST(suite, a_strangers_frames_are_counted_and_change_nothing);
    CU_ADD_TEST(suite, every_cut_and_every_flipped_byte_of_a_frame_is_survived);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    rig_stop(&rig);
    return failures != 0;
}
