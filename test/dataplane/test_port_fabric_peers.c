/* test_port_fabric_peers.c - peers that stop, die, stay silent and come back; shares of slots. */
#include "test/dataplane/port_fabric_test.h"

/* ---- seats and shares ---- */

static void
attach_is_refused_when_every_seat_is_taken_and_works_again_after(void)
{
    struct fabric_end ends[9];

    open_port(calm());
    for (uint32_t i = 0; i < 8; i++) {
        attach(&ends[i]);
    }
    rig_end_open(&rig, &ends[8], ENDPOINT_SEND_AUTO);
    CU_ASSERT_FALSE(rig_attach(&rig, &ends[8], "resp2"));
    CU_ASSERT_TRUE(begins(rig.reply, "-ERR no receive slots are left"));
    fabric_end_close(&ends[3]);
    rig_turns(&rig, 4);
    CU_ASSERT_TRUE(rig_attach(&rig, &ends[8], "resp2"));
    for (uint32_t i = 0; i < 9; i++) {
        if (i != 3) {
            CU_ASSERT_TRUE(exchange(&ends[i], "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
            fabric_end_close(&ends[i]);
        }
    }
    close_port();
}

static void
a_lost_session_makes_room_when_every_seat_is_taken(void)
{
    struct fabric_end ends[9];
    char secret[33], id[24];

    open_port(calm());
    for (uint32_t i = 0; i < 8; i++) {
        attach(&ends[i]);
    }
    snprintf(secret, sizeof(secret), "%s", ends[5].attachment.secret);
    snprintf(id, sizeof(id), "%llu", (unsigned long long)ends[5].attachment.session);
    rig_end_open(&rig, &ends[8], ENDPOINT_SEND_AUTO);
    CU_ASSERT_FALSE(rig_attach(&rig, &ends[8], "resp2")); /* nobody is silent yet */
    for (uint32_t i = 0; i < 4 * LEASE_TURNS; i++) {
        rig_turn(&rig);
        for (uint32_t k = 0; k < 8; k++) {
            if (k != 5) {
                fabric_end_progress(&ends[k], rig.now_us);
            }
        }
    }
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 8); /* kept: its client might only be busy */
    CU_ASSERT_TRUE(rig_attach(&rig, &ends[8], "resp2"));
    CU_ASSERT_TRUE(begins(ask("RESUME", id, secret, "fault:9", "0", NULL), "-SESSION_LOST"));
    fabric_end_close(&ends[5]);
    for (uint32_t i = 0; i < 9; i++) {
        if (i != 5) {
            CU_ASSERT_TRUE(exchange(&ends[i], "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
            fabric_end_close(&ends[i]);
        }
    }
    close_port();
}

/* A client that asks for much and takes nothing. */
static void
fill(struct fabric_end *end)
{
    char request[160];
    snprintf(request, sizeof(request), "*2\r\n$4\r\nECHO\r\n$100\r\n%0100d\r\n", 7);
    for (uint32_t i = 0; i < 300; i++) {
        fabric_end_write(end, request, strlen(request), rig.now_us);
    }
}

static void
stopped_clients_hold_no_slots_of_others(void)
{
    struct fault_config config = { .inject_bytes = 0, .source_reliable = true };
    struct fabric_end ends[8];

    open_port(config);
    const struct fabric_port *port = rig_port(&rig);
    for (uint32_t i = 0; i < 8; i++) {
        attach(&ends[i]);
    }
    for (uint32_t i = 0; i < 7; i++) {
        fill(&ends[i]);
        rig_turns(&rig, 1);
        fault_endpoint_stop(ends[i].endpoint, true);
    }
    for (uint32_t i = 0; i < 40; i++) {
        CU_ASSERT_TRUE(exchange(&ends[7], "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        CU_ASSERT(port->tx_free_count >= port->tx_share - 1);
        for (uint32_t k = 0; k < port->seat_count; k++) {
            CU_ASSERT(port->seats[k].in_flight <= port->tx_cap);
        }
    }
    CU_ASSERT(port->tx_free_count < port->info.tx_slots - 7); /* they do hold some */
    for (uint32_t i = 0; i < 8; i++) {
        fault_endpoint_stop(ends[i].endpoint, false);
        fabric_end_close(&ends[i]);
    }
    close_port();
}

static void
overdue_peers_share_an_eighth_and_are_then_detached(void)
{
    struct fault_config config = { .inject_bytes = 0, .source_reliable = true };
    struct lcore_counters *counters = rig.lcore->counters;
    struct fabric_end ends[8];

    open_port(config);
    rig_port(&rig)->lease_us = 1000000000; /* it is not the lease that does it */
    for (uint32_t i = 0; i < 8; i++) {
        attach(&ends[i]);
    }
    uint64_t lost = counter(&counters->fabric_lost);
    for (uint32_t i = 0; i < 7; i++) {
        fill(&ends[i]);
        rig_turns(&rig, 1);
        fault_endpoint_stop(ends[i].endpoint, true);
    }
    for (uint32_t i = 0; i < 2 * FABRIC_OVERDUE_US / RIG_STEP_US; i++) {
        rig_turn(&rig);
        fabric_end_progress(&ends[7], rig.now_us);
    }
    const struct fabric_port *port = rig_port(&rig);
    uint32_t attached_overdue = 0;
    for (uint32_t k = 0; k < port->seat_count; k++) {
        attached_overdue +=
            port->seats[k].overdue && port->seats[k].state == SEAT_ATTACHED ? port->seats[k].in_flight : 0;
    }
    CU_ASSERT(attached_overdue <= port->tx_cap);
    CU_ASSERT(counter(&counters->fabric_lost) >= lost + 6);
    CU_ASSERT_TRUE(exchange(&ends[7], "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    for (uint32_t i = 0; i < 8; i++) {
        fault_endpoint_stop(ends[i].endpoint, false);
        fabric_end_close(&ends[i]);
    }
    rig_port(&rig)->lease_us = RIG_LEASE_MS * 1000;
    close_port();
}

static void
a_seat_is_free_only_when_its_sends_are_done(void)
{
    struct fault_config config = { .inject_bytes = 0, .source_reliable = true };
    struct fabric_end end;
    char id[24];

    open_port(config);
    attach(&end);
    fill(&end);
    rig_turns(&rig, 1);
    fault_endpoint_stop(end.endpoint, true);
    rig_turns(&rig, 3);
    const struct fabric_port *port = rig_port(&rig);
    CU_ASSERT(port->tx_free_count < port->info.tx_slots);
    snprintf(id, sizeof(id), "%llu", (unsigned long long)end.attachment.session);
    CU_ASSERT_TRUE(begins(ask("DETACH", id, end.attachment.secret, NULL, NULL, NULL), "+OK"));
    rig_turns(&rig, 3);
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 1); /* draining */
    CU_ASSERT_EQUAL(fault_endpoint_peers(port->endpoint), 1);
    fault_endpoint_stop(end.endpoint, false);
    rig_turns(&rig, 3);
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 0);
    fabric_end_close(&end);
    close_port();
}

static void
two_sessions_of_one_address_share_its_peer(void)
{
    struct fabric_end end;
    char second_id[24];
    struct slice value, secret;
    char text[33] = { 0 };
    const char *const words[] = { "FABRIC", "ATTACH", "fault", "@", "resp2", NULL };

    open_port(calm());
    attach(&end);
    uint64_t inserts = counter(&rig.lcore->counters->fabric_av_inserts);
    CU_ASSERT_TRUE(begins(rig_ask(&rig, words, fabric_end_address(&end)), "*20\r\n"));
    CU_ASSERT_EQUAL(counter(&rig.lcore->counters->fabric_av_inserts), inserts);
    CU_ASSERT_EQUAL(fault_endpoint_peers(rig_port(&rig)->endpoint), 1);
    CU_ASSERT_TRUE(rig_reply_field(&rig, "session", &value));
    snprintf(second_id, sizeof(second_id), "%.*s", (int)value.bytes, (const char *)value.data);
    CU_ASSERT_TRUE(rig_reply_field(&rig, "secret", &secret));
    memcpy(text, secret.data, secret.bytes);
    CU_ASSERT_TRUE(begins(ask("DETACH", second_id, text, NULL, NULL, NULL), "+OK"));
    rig_turns(&rig, 3);
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 1);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n")); /* its peer is still there */
    fabric_end_close(&end);
    close_port();
}

/* ---- loss and resumption ---- */

/* Lose the peer by an error completion. */
static void
break_peer(struct fabric_end *end)
{
    fault_endpoint_kill(end->endpoint);
    for (uint32_t i = 0; i < 2 * LEASE_TURNS; i++) {
        struct fabric_session *session = rig_session(&rig, end);
        if (session == NULL || session->seat->state == SEAT_LOST) {
            return;
        }
        rig_turn(&rig);
    }
    CU_FAIL_FATAL("the server does not notice");
}

static void
reopen(struct fabric_end *end)
{
    struct endpoint_config config = { .provider = "fault" };
    end->state = FABRIC_END_LOST;
    CU_ASSERT_EQUAL_FATAL(fabric_end_reopen(end, &config, why, sizeof(why)), 0);
}

static void
a_repeated_request_gets_its_first_reply(void)
{
    struct fault_config config = { .inject_bytes = 0, .source_reliable = true };
    struct fabric_attachment attachment;
    const char *const forget[] = { "DEL", "once", NULL };
    struct fabric_end end;
    char got[64];

    open_port(config);
    rig_ask(&rig, forget, NO_ADDRESS);
    attach(&end);
    /* executed, but its reply meets a dead endpoint */
    fabric_end_write(&end, "*2\r\n$4\r\nINCR\r\n$4\r\nonce\r\n", 24, rig.now_us);
    fault_fabric_step(rig.fabric);
    break_peer(&end);
    CU_ASSERT_EQUAL(stream_out_pending(&rig_session(&rig, &end)->session.out), 4);
    reopen(&end);
    CU_ASSERT_TRUE_FATAL(rig_resume(&rig, &end, fabric_end_received(&end), &attachment));
    CU_ASSERT_EQUAL(attachment.taken, end.out_end); /* it was taken: nothing is sent again */
    CU_ASSERT_EQUAL_FATAL(fabric_end_resume(&end, &attachment, rig.now_us), 0);
    size_t have = 0;
    for (uint32_t i = 0; i < 20 && have < 4; i++) {
        rig_turn(&rig);
        have += fabric_end_read(&end, got + have, sizeof(got) - have, rig.now_us);
    }
    CU_ASSERT_EQUAL(have, 4);
    CU_ASSERT_EQUAL(memcmp(got, ":1\r\n", 4), 0);
    CU_ASSERT_TRUE(exchange(&end, "*2\r\n$3\r\nGET\r\n$4\r\nonce\r\n", "$1\r\n1\r\n"));
    fabric_end_close(&end);
    close_port();
}

static void
resume_fences_the_incarnation_before_even_while_it_lives(void)
{
    struct fabric_attachment attachment;
    struct fabric_end end;

    open_port(calm());
    attach(&end);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    struct fabric_attachment old = end.attachment;
    uint64_t stale = counter(&rig.lcore->counters->fabric_frames_stale);
    CU_ASSERT_TRUE_FATAL(rig_resume(&rig, &end, fabric_end_received(&end), &attachment));
    CU_ASSERT(attachment.wire_id != old.wire_id || attachment.incarnation != old.incarnation);
    CU_ASSERT_EQUAL(strcmp(attachment.secret, old.secret), 0);
    fabric_end_write(&end, "*1\r\n$4\r\nPING\r\n", 14, rig.now_us); /* the old incarnation does not know */
    rig_turns(&rig, 4);
    CU_ASSERT_EQUAL(counter(&rig.lcore->counters->fabric_frames_stale), stale + 1);
    end.state = FABRIC_END_LOST;
    CU_ASSERT_EQUAL_FATAL(fabric_end_resume(&end, &attachment, rig.now_us), 0);
    CU_ASSERT_TRUE(exchange(&end, "", "+PONG\r\n")); /* asked again, answered once */
    fabric_end_close(&end);
    close_port();
}

static void
resume_needs_the_secret_the_user_and_an_offset_that_fits(void)
{
    struct fabric_attachment attachment;
    struct fabric_end end;

    open_port(calm());
    attach(&end);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    uint64_t received = fabric_end_received(&end);
    CU_ASSERT_FALSE(rig_resume(&rig, &end, received + 1, &attachment));
    CU_ASSERT_TRUE(begins(rig.reply, "-ERR `taken`"));
    CU_ASSERT_FALSE(rig_resume(&rig, &end, 1ull << 62, &attachment));
    CU_ASSERT_TRUE(begins(rig.reply, "-ERR `taken`"));
    end.attachment.secret[0] ^= 1;
    CU_ASSERT_FALSE(rig_resume(&rig, &end, received, &attachment));
    CU_ASSERT_TRUE(begins(rig.reply, "-SESSION_LOST"));
    end.attachment.secret[0] ^= 1;
    rig_session(&rig, &end)->session.user = 5;
    CU_ASSERT_FALSE(rig_resume(&rig, &end, received, &attachment));
    CU_ASSERT_TRUE(begins(rig.reply, "-SESSION_LOST"));
    rig_session(&rig, &end)->session.user = 0;
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n")); /* none of it did any harm */
    fabric_end_close(&end);
    close_port();
}

static void
the_three_ways_a_dead_peer_is_reported_free_it_and_nobody_else(void)
{
    static const int errors[] = { EHOSTUNREACH, ETIMEDOUT, EREMOTEIO };
    struct fault_config config = { .inject_bytes = 0, .source_reliable = true };
    struct fabric_end dead, alive;

    for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
        open_port(config);
        attach(&dead);
        attach(&alive);
        fault_endpoint_stop(dead.endpoint, true);
        fabric_end_write(&dead, "*1\r\n$4\r\nPING\r\n", 14, rig.now_us);
        rig_turns(&rig, 3);
        struct fabric_session *session = rig_session(&rig, &dead);
        struct fabric_port *port = rig_port(&rig);
        CU_ASSERT_EQUAL(session->seat->in_flight, 1);
        fault_endpoint_fail_sends(port->endpoint, errors[i]);
        rig_turns(&rig, 2);
        CU_ASSERT_EQUAL(session->seat->state, SEAT_LOST);
        CU_ASSERT_FALSE(session->silent);
        CU_ASSERT_EQUAL(session->seat->in_flight, 0);
        CU_ASSERT_TRUE(exchange(&alive, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        for (uint32_t k = 0; k < 3 * LEASE_TURNS; k++) {
            rig_turn(&rig);
            fabric_end_progress(&alive, rig.now_us);
        }
        CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 1);
        CU_ASSERT_TRUE(exchange(&alive, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        fabric_end_close(&dead);
        fabric_end_close(&alive);
        close_port();
    }
}

static void
a_late_failure_of_an_old_incarnation_does_not_end_the_new_one(void)
{
    struct fault_config config = { .inject_bytes = 0, .source_reliable = true };
    struct fabric_attachment attachment;
    struct fabric_end end;

    open_port(config);
    attach(&end);
    fault_endpoint_stop(end.endpoint, true);
    fabric_end_write(&end, "*1\r\n$4\r\nPING\r\n", 14, rig.now_us);
    rig_turns(&rig, 3);
    struct fabric_session *session = rig_session(&rig, &end);
    CU_ASSERT_EQUAL(session->seat->in_flight, 1); /* the reply, on its way to a stopped peer */
    struct endpoint *old = end.endpoint;
    end.state = FABRIC_END_LOST;
    struct endpoint_config same = { .provider = "fault" };
    struct endpoint *fresh;
    CU_ASSERT_EQUAL_FATAL(fault_fabric_ops.open(&same, &fresh, why, sizeof(why)), 0);
    end.endpoint = fresh; /* the old endpoint stays open, or its sends would fail at once */
    end.has_peer = false;
    fault_fabric_ops.info(fresh, &end.info);
    CU_ASSERT_TRUE_FATAL(rig_resume(&rig, &end, fabric_end_received(&end), &attachment));
    CU_ASSERT_EQUAL_FATAL(fabric_end_resume(&end, &attachment, rig.now_us), 0);
    fault_endpoint_kill(old);
    rig_turns(&rig, 3);
    CU_ASSERT_EQUAL(session->seat->state, SEAT_ATTACHED);
    CU_ASSERT_TRUE(exchange(&end, "", "+PONG\r\n"));
    fault_fabric_ops.close(old);
    fabric_end_close(&end);
    close_port();
}

static void
a_dead_peer_is_noticed_by_a_ping_and_gone_after_its_grace(void)
{
    struct fabric_end end;

    for (uint32_t hangs = 0; hangs < 2; hangs++) {
        struct fault_config config = calm();
        open_port(config);
        attach(&end);
        CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
        if (hangs != 0) {
            fault_endpoint_refuse(rig_port(&rig)->endpoint, true); /* `again` for ever, as net does */
        } else {
            fault_endpoint_kill(end.endpoint);
        }
        uint64_t again = counter(&rig.lcore->counters->fabric_eagain);
        rig_turns(&rig, 3 * LEASE_TURNS / 2);
        CU_ASSERT_EQUAL(rig_session(&rig, &end)->seat->state, SEAT_LOST);
        CU_ASSERT_FALSE(rig_session(&rig, &end)->silent);
        CU_ASSERT(counter(&rig.lcore->counters->fabric_eagain) - again < 200); /* not a try a turn */
        rig_turns(&rig, 2 * LEASE_TURNS);
        CU_ASSERT_PTR_NULL(rig_session(&rig, &end));
        fault_endpoint_refuse(rig_port(&rig)->endpoint, false);
        fabric_end_close(&end);
        close_port();
    }
}

static void
a_silent_peer_is_fenced_at_its_lease_and_may_come_back(void)
{
    struct fabric_attachment attachment;
    struct fabric_end end;

    open_port(calm());
    attach(&end);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    rig_turns(&rig, LEASE_TURNS / 2);
    CU_ASSERT_EQUAL(rig_session(&rig, &end)->seat->state, SEAT_ATTACHED);
    rig_turns(&rig, LEASE_TURNS);
    CU_ASSERT_EQUAL(rig_session(&rig, &end)->seat->state, SEAT_LOST);
    CU_ASSERT_TRUE(rig_session(&rig, &end)->silent);
    rig_turns(&rig, 30 * LEASE_TURNS); /* it does something else for a while */
    fabric_end_progress(&end, rig.now_us);
    CU_ASSERT_EQUAL(end.state, FABRIC_END_LOST); /* it was told: no lease to wait for */
    CU_ASSERT_TRUE_FATAL(rig_resume(&rig, &end, fabric_end_received(&end), &attachment));
    CU_ASSERT_EQUAL_FATAL(fabric_end_resume(&end, &attachment, rig.now_us), 0);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    rig_turns(&rig, 70 * LEASE_TURNS);
    CU_ASSERT_PTR_NULL(rig_session(&rig, &end)); /* for ever is too long */
    CU_ASSERT_FALSE(rig_resume(&rig, &end, fabric_end_received(&end), &attachment));
    CU_ASSERT_TRUE(begins(rig.reply, "-SESSION_LOST"));
    fabric_end_close(&end);
    close_port();
}

static void
a_client_that_writes_into_a_fenced_session_is_told(void)
{
    struct fabric_attachment attachment;
    struct fabric_end end;

    open_port(calm());
    attach(&end);
    CU_ASSERT_TRUE(exchange(&end, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"));
    fabric_lose(rig_port(&rig), rig_session(&rig, &end), false);
    uint64_t tx = counter(&rig.lcore->counters->fabric_frames_tx);
    for (uint32_t i = 0; i < 10; i++) {
        fabric_end_write(&end, "*1\r\n$4\r\nPING\r\n", 14, rig.now_us);
    }
    rig_turns(&rig, 1);
    CU_ASSERT_EQUAL(counter(&rig.lcore->counters->fabric_frames_tx), tx + 1); /* once for all of them */
    rig_turns(&rig, 1);
    fabric_end_progress(&end, rig.now_us);
    CU_ASSERT_EQUAL(end.state, FABRIC_END_LOST);
    CU_ASSERT_TRUE_FATAL(rig_resume(&rig, &end, fabric_end_received(&end), &attachment));
    CU_ASSERT_EQUAL(attachment.taken, 14);
    CU_ASSERT_EQUAL_FATAL(fabric_end_resume(&end, &attachment, rig.now_us), 0);
    CU_ASSERT_TRUE(exchange(&end, "",
                            "+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n"
                            "+PONG\r\n+PONG\r\n"));
    fabric_lose(rig_port(&rig), rig_session(&rig, &end), false);
    fabric_end_close(&end); /* its good-bye counts though it is fenced */
    rig_turns(&rig, 3);
    CU_ASSERT_EQUAL(port_fabric_sessions(rig.port), 0);
    close_port();
}

static void
a_client_that_only_answers_pings_stays(void)
{
    struct fabric_end end;

    open_port(calm());
    attach(&end);
    uint64_t tx = counter(&rig.lcore->counters->fabric_frames_tx);
    for (uint32_t i = 0; i < 20 * LEASE_TURNS; i++) {
        rig_turn(&rig);
        fabric_end_progress(&end, rig.now_us);
    }
    CU_ASSERT_EQUAL(end.state, FABRIC_END_UP);
    CU_ASSERT_EQUAL(rig_session(&rig, &end)->seat->state, SEAT_ATTACHED);
    CU_ASSERT(counter(&rig.lcore->counters->fabric_frames_tx) - tx < 20 * 4 * 2); /* not one a turn */
    fabric_end_close(&end);
    close_port();
}

static void
an_eagain_storm_loses_and_doubles_nothing(void)
{
    struct fault_config config = { .inject_bytes = 64, .source_reliable = true, .storm = 400 };
    struct fabric_end end;
    char want[16], request[] = "*2\r\n$4\r\nINCR\r\n$5\r\nstorm\r\n";

    open_port(config);
    attach(&end);
    CU_ASSERT_TRUE(exchange(&end, "*3\r\n$3\r\nSET\r\n$5\r\nstorm\r\n$1\r\n0\r\n", "+OK\r\n"));
    uint64_t again = counter(&rig.lcore->counters->fabric_eagain);
    for (uint32_t i = 1; i <= 200; i++) {
        snprintf(want, sizeof(want), ":%u\r\n", i);
        bool right = exchange(&end, request, want);
        CU_ASSERT_TRUE_FATAL(right);
    }
    CU_ASSERT(counter(&rig.lcore->counters->fabric_eagain) > again);
    fault_fabric_calm(rig.fabric);
    fabric_end_close(&end);
    close_port();
}

static void
ten_thousand_attachments_leave_nothing_behind(void)
{
    struct store_stats before, after;

    open_port(calm());
    for (uint32_t i = 0; i < 10000; i++) {
        struct fabric_end end;
        rig_end_open(&rig, &end, ENDPOINT_SEND_AUTO);
        CU_ASSERT_TRUE_FATAL(rig_attach(&rig, &end, "resp2"));
        fabric_end_close(&end);
        rig_turns(&rig, 3);
        if (i == 100) {
            store_stats(rig.dataplane->store, &before);
        }
    }
    store_stats(rig.dataplane->store, &after);
    CU_ASSERT(after.memory.used_bytes <= before.memory.used_bytes + 65536);
    close_port();
}

int
main(void)
{
    rig_start(&rig);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("port_fabric_peers", NULL, NULL);
    CU_ADD_TEST(suite, attach_is_refused_when_every_seat_is_taken_and_works_again_after);
    CU_ADD_TEST(suite, a_lost_session_makes_room_when_every_seat_is_taken);
    CU_ADD_TEST(suite, stopped_clients_hold_no_slots_of_others);
    CU_ADD_TEST(suite, overdue_peers_share_an_eighth_and_are_then_detached);
    CU_ADD_TEST(suite, a_seat_is_free_only_when_its_sends_are_done);
    CU_ADD_TEST(suite, two_sessions_of_one_address_share_its_peer);
    CU_ADD_TEST(suite, a_repeated_request_gets_its_first_reply);
    CU_ADD_TEST(suite, resume_fences_the_incarnation_before_even_while_it_lives);
    CU_ADD_TEST(suite, resume_needs_the_secret_the_user_and_an_offset_that_fits);
    CU_ADD_TEST(suite, the_three_ways_a_dead_peer_is_reported_free_it_and_nobody_else);
    CU_ADD_TEST(suite, a_late_failure_of_an_old_incarnation_does_not_end_the_new_one);
    CU_ADD_TEST(suite, a_dead_peer_is_noticed_by_a_ping_and_gone_after_its_grace);
    CU_ADD_TEST(suite, a_silent_peer_is_fenced_at_its_lease_and_may_come_back);
    CU_ADD_TEST(suite, a_client_that_writes_into_a_fenced_session_is_told);
    CU_ADD_TEST(suite, a_client_that_only_answers_pings_stays);
    CU_ADD_TEST(suite, an_eagain_storm_loses_and_doubles_nothing);
    CU_ADD_TEST(suite, ten_thousand_attachments_leave_nothing_behind);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    rig_stop(&rig);
    return failures != 0;
}
