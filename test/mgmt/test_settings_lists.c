#include "test/mgmt/settings_fixture.h"
#include <CUnit/Basic.h>

/* ---- lists ---- */

static void
ports_are_read_with_their_defaults(void)
{
    CU_ASSERT_EQUAL(
        parse_file("ports = (\n"
                   "  { type = \"fabric\"; provider = \"shm\"; },\n"
                   "  { type = \"fabric\"; provider = \"tcp;ofi_rxm\"; name = \"two\"; node = \"127.0.0.1\";\n"
                   "    domain = \"lo\"; send = \"inject\"; rx_slots = 2048; tx_slots = 16; sessions = 16384;\n"
                   "    frame = \"8KiB\"; lease = \"3s\"; } );\n"),
        0);
    CU_ASSERT_EQUAL_FATAL(settings.port_count, 2);
    const struct port_settings *one = &settings.ports[0], *two = &settings.ports[1];
    CU_ASSERT_STRING_EQUAL(one->name, "shm");
    CU_ASSERT_STRING_EQUAL(one->provider, "shm");
    CU_ASSERT_STRING_EQUAL(one->send, "auto");
    CU_ASSERT_STRING_EQUAL(one->node, "");
    CU_ASSERT_EQUAL(one->rx_slots, 0);
    CU_ASSERT_EQUAL(one->frame_bytes, 0);
    CU_ASSERT_EQUAL(one->lease_ms, 10000);
    CU_ASSERT_STRING_EQUAL(two->name, "two");
    CU_ASSERT_STRING_EQUAL(two->provider, "tcp;ofi_rxm");
    CU_ASSERT_STRING_EQUAL(two->node, "127.0.0.1");
    CU_ASSERT_STRING_EQUAL(two->domain, "lo");
    CU_ASSERT_STRING_EQUAL(two->send, "inject");
    CU_ASSERT_EQUAL(two->rx_slots, 2048);
    CU_ASSERT_EQUAL(two->tx_slots, 16);
    CU_ASSERT_EQUAL(two->sessions, 16384);
    CU_ASSERT_EQUAL(two->frame_bytes, 8192);
    CU_ASSERT_EQUAL(two->lease_ms, 3000);
}

#define SHM "type = \"fabric\"; provider = \"shm\"; "
#define FIVE_PORTS                                                                                                     \
    "{ " SHM "name = \"1\"; }, { " SHM "name = \"2\"; }, { " SHM "name = \"3\"; }, { " SHM "name = \"4\"; }, { " SHM   \
    "name = \"5\"; }"

static void
bad_ports_say_which_and_why(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "ports = { };", "ports: is not a list, expected ( { ... }, { ... } )" },
        { "ports = ( 1 );", "ports[0]: is not a group" },
        { "ports = ( { } );", "ports[0]: type is missing, expected one of \"fabric\", \"ethernet\"" },
        { "ports = ( { type = \"fabric\"; } );", "ports[0]: provider is missing, expected one of \"shm\", \"net\"" },
        { "ports = ( { type = \"ether\"; } );", "type: \"ether\" is not known, expected one of \"fabric\"" },
        { "ports = ( { " SHM "mtu = 1500; } );", "ports[0]: mtu is not a setting of fabric ports" },
        { "ports = (\n{ " SHM "},\n{ type = \"fabric\"; provider = \"efa-diret\"; } );",
          "sluice.conf:3: ports[1]: provider: \"efa-diret\" is not known" },
        { "ports = ( { type = \"fabric\"; provider = \"efa-diret\"; } );", "did you mean \"efa-direct\"?" },
        { "ports = ( { " SHM "}, { " SHM "} );", "ports[1]: name \"shm\" is taken by ports[0]" },
        { "ports = ( { " SHM "slots = 1; } );", "ports[0]: unknown name \"slots\"" },
        { "ports = ( { " SHM "rx_slot = 64; } );", "did you mean \"rx_slots\"?" },
        { "ports = ( { " SHM "rx_slots = 15; } );", "rx_slots: \"15\" is too small, expected a whole number from 16" },
        { "ports = ( { " SHM "tx_slots = 65537; } );", "tx_slots: \"65537\" is too large" },
        { "ports = ( { " SHM "sessions = 0; } );", "sessions: \"0\" is too small" },
        { "ports = ( { " SHM "sessions = 16385; } );", "sessions: \"16385\" is too large" },
        { "ports = ( { " SHM "frame = \"8193\"; } );", "frame: \"8193\" is too large" },
        { "ports = ( { " SHM "frame = 255; } );", "frame: \"255\" is too small" },
        { "ports = ( { " SHM "lease = \"99ms\"; } );", "lease: \"99ms\" is too small" },
        { "ports = ( { " SHM "lease = 1; } );", "lease: is a number, expected a time" },
        { "ports = ( { " SHM "send = \"automatic\"; } );", "send: \"automatic\" is not known" },
        { "ports = ( { " SHM "name = \"12345678901234567890123456789012\"; } );", "name: " },
        { "ports = ( " FIVE_PORTS ", " FIVE_PORTS " );", "ports: has 10 entries, expected at most 8" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_file(rows[i].text), -1);
        CU_ASSERT(why_has(rows[i].why));
    }
}

#define ETH "type = \"ethernet\"; device = \"net_ring0\"; address = \"10.0.0.2/24\"; "

static void
an_ethernet_port_is_read_with_its_defaults(void)
{
    static const uint8_t address[4] = { 10, 0, 0, 2 }, gateway[4] = { 10, 0, 0, 1 }, mac[6] = { 2, 0, 0, 0, 0, 0xfe };

    CU_ASSERT_EQUAL(parse_file("auth: { protected_mode = false; };\nports = ( { " ETH "} );"), 0);
    CU_ASSERT_EQUAL_FATAL(settings.port_count, 1);
    const struct port_settings *port = &settings.ports[0];
    CU_ASSERT_EQUAL(port->type, PORT_ETHERNET);
    CU_ASSERT_STRING_EQUAL(port->name, "ethernet");
    CU_ASSERT_STRING_EQUAL(port->device, "net_ring0");
    CU_ASSERT(memcmp(port->address, address, 4) == 0);
    CU_ASSERT_EQUAL(port->prefix_bits, 24);
    CU_ASSERT_FALSE(port->has_gateway);
    CU_ASSERT_FALSE(port->has_mac);
    CU_ASSERT_EQUAL(port->mtu, 1500);
    CU_ASSERT_EQUAL(port->rx_descriptors, 1024);
    CU_ASSERT_EQUAL(port->tx_descriptors, 1024);
    CU_ASSERT_EQUAL(port->listen_count, 0);
    CU_ASSERT_STRING_EQUAL(port->eal, "");

    CU_ASSERT_EQUAL(parse_file("ports = ( { " ETH
                               "name = \"ena\"; gateway = \"10.0.0.1\"; mac = \"02:00:00:00:00:fe\"; "
                               "mtu = 9001; listen = \"1,65535\"; rx_descriptors = 64; tx_descriptors = 8192; "
                               "lcore = 47; sessions = 16384; eal = \"-m 64\"; } );"),
                    0);
    CU_ASSERT_STRING_EQUAL(port->name, "ena");
    CU_ASSERT_TRUE(port->has_gateway);
    CU_ASSERT(memcmp(port->gateway, gateway, 4) == 0);
    CU_ASSERT_TRUE(port->has_mac);
    CU_ASSERT(memcmp(port->mac, mac, 6) == 0);
    CU_ASSERT_EQUAL(port->mtu, 9001);
    CU_ASSERT_EQUAL_FATAL(port->listen_count, 2);
    CU_ASSERT_EQUAL(port->listen[0], 1);
    CU_ASSERT_EQUAL(port->listen[1], 65535);
    CU_ASSERT_EQUAL(port->rx_descriptors, 64);
    CU_ASSERT_EQUAL(port->tx_descriptors, 8192);
    CU_ASSERT_EQUAL(port->lcore, 47);
    CU_ASSERT_EQUAL(port->sessions, 16384);
    CU_ASSERT_STRING_EQUAL(port->eal, "-m 64");
    CU_ASSERT_EQUAL(parse_file("ports = ( { " ETH "mtu = 576; listen = \"1,2,3,4,5,6,7,8\"; } );"), 0);
    CU_ASSERT_EQUAL(port->listen_count, 8);
}

static void
bad_ethernet_ports_say_what_is_wrong(void)
{
#define ADDRESS(text) "ports = ( { type = \"ethernet\"; device = \"net_ring0\"; address = \"" text "\"; } );"
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "ports = ( { type = \"ethernet\"; } );", "ports[0]: device is missing, expected printable text" },
        { "ports = ( { type = \"ethernet\"; device = \"net_ring0\"; } );", "ports[0]: address is missing" },
        { "ports = (\n{ " ETH "provider = \"shm\"; } );",
          "sluice.conf:2: ports[0]: provider is not a setting of ethernet ports" },
        { "ports = ( { " ETH "}, { " ETH "name = \"two\"; } );",
          "ports[1]: is a second ethernet port beside ports[0]" },
        { ADDRESS("10.0.0.2"), "address: \"10.0.0.2\" is no host's address" },
        { ADDRESS("10.0.0.2/0"), "is no host's address" },
        { ADDRESS("10.0.0.2/33"), "is no host's address" },
        { ADDRESS("10.0.0.0/24"), "is no host's address" },
        { ADDRESS("10.0.0.255/24"), "is no host's address" },
        { ADDRESS("127.0.0.1/8"), "is no host's address" },
        { ADDRESS("224.0.0.1/24"), "is no host's address" },
        { ADDRESS("0.0.0.1/24"), "is no host's address" },
        { ADDRESS("fe80::1/64"), "is no host's address" },
        { ADDRESS("10.0.0.2/24x"), "is no host's address" },
        { "ports = ( { " ETH "gateway = \"10.0.1.1\"; } );", "gateway: \"10.0.1.1\" is outside the port's subnet" },
        { "ports = ( { " ETH "gateway = \"10.0.0.2\"; } );", "gateway: \"10.0.0.2\" is the port itself" },
        { "ports = ( { " ETH "gateway = \"router\"; } );", "gateway: \"router\" is no IPv4 address" },
        { "ports = ( { " ETH "mac = \"01:00:00:00:00:01\"; } );", "mac: \"01:00:00:00:00:01\" is no address of one" },
        { "ports = ( { " ETH "mac = \"02:00:00:00:00\"; } );", "mac: " },
        { "ports = ( { " ETH "mac = \"02:00:00:00:00:0g\"; } );", "mac: " },
        { "ports = ( { " ETH "mtu = 575; } );", "mtu: \"575\" is too small" },
        { "ports = ( { " ETH "mtu = 9002; } );", "mtu: \"9002\" is too large" },
        { "ports = ( { " ETH "rx_descriptors = 63; } );", "rx_descriptors: \"63\" is too small" },
        { "ports = ( { " ETH "rx_descriptors = 8193; } );", "rx_descriptors: \"8193\" is too large" },
        { "ports = ( { " ETH "tx_descriptors = 63; } );", "tx_descriptors: \"63\" is too small" },
        { "ports = ( { " ETH "tx_descriptors = 8193; } );", "tx_descriptors: \"8193\" is too large" },
        { "ports = ( { " ETH "lcore = 48; } );", "lcore: \"48\" is too large" },
        { "ports = ( { " ETH "listen = \"0\"; } );", "listen: \"0\" is no list of TCP ports" },
        { "ports = ( { " ETH "listen = \"65536\"; } );", "listen: \"65536\" is no list of TCP ports" },
        { "ports = ( { " ETH "listen = \"1,\"; } );", "listen: " },
        { "ports = ( { " ETH "listen = \"1,1\"; } );", "listen: " },
        { "ports = ( { " ETH "listen = \"1,2,3,4,5,6,7,8,9\"; } );", "expected 1 to 8 different numbers" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_file(rows[i].text), -1);
        CU_ASSERT(why_has(rows[i].why));
    }
}

static void
an_ethernet_port_counts_as_beyond_loopback(void)
{
    CU_ASSERT_EQUAL(parse_file("ports = ( { " ETH "} );"), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("ports: \"ethernet\" is beyond loopback and there is no password"));
    CU_ASSERT_EQUAL(parse_file("auth: { password = \"p\"; };\nports = ( { " ETH "} );"), 0);
    CU_ASSERT_EQUAL(resolve(), 0);
    CU_ASSERT_TRUE(settings.exposed);
    CU_ASSERT_EQUAL_FATAL(settings.ports[0].listen_count, 1);
    CU_ASSERT_EQUAL(settings.ports[0].listen[0], 6379);
    CU_ASSERT_EQUAL(
        parse_file("auth: { protected_mode = false; };\nstreams: { port = 7000; };\nlcores: { cpus = \"0\"; };\n"
                   "ports = ( { " ETH "} );"),
        0);
    CU_ASSERT_EQUAL(resolve(), 0);
    CU_ASSERT_EQUAL(settings.ports[0].listen[0], 7000);
    CU_ASSERT_EQUAL(parse_file("auth: { protected_mode = false; };\nlcores: { cpus = \"0\"; };\n"
                               "ports = ( { " ETH "lcore = 1; } );"),
                    0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("\"ethernet\" wants lcore 1, expected at most 0"));
}

/* SHA-256 of "secret", from sha256sum. */
#define SECRET_HEX "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

static void
passwords_are_kept_as_digests(void)
{
    static const uint8_t digest[4] = { 0x2b, 0xb8, 0x0d, 0x53 };

    CU_ASSERT_EQUAL(
        parse_file("auth: { password = \"secret\"; };\nusers = ( { name = \"ops\"; password = \"#" SECRET_HEX
                   "\"; } );"),
        0);
    CU_ASSERT_EQUAL_FATAL(settings.user_count, 2);
    CU_ASSERT_STRING_EQUAL(settings.users[0].name, "default");
    CU_ASSERT_STRING_EQUAL(settings.users[1].name, "ops");
    CU_ASSERT(memcmp(settings.users[0].sha256, settings.users[1].sha256, 32) == 0);
    CU_ASSERT(memcmp(settings.users[0].sha256, digest, sizeof(digest)) == 0);
    CU_ASSERT_STRING_EQUAL(settings.auth_password, "#" SECRET_HEX);

    CU_ASSERT_EQUAL(parse_file("users = ( { name = \"ops\"; password = \"x\"; } );"), 0);
    CU_ASSERT_EQUAL_FATAL(settings.user_count, 1);
    CU_ASSERT_STRING_EQUAL(settings.users[0].name, "ops");
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(settings.user_count, 0);
}

static void
bad_users_are_refused_and_no_message_repeats_a_password(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "auth: { password = \"#sesame\"; };", "auth.password: \"#\" is not followed by a SHA-256" },
        { "auth: { password = \"#sesame" SECRET_HEX "\"; };", "auth.password: \"#\" is not followed by" },
        { "auth: { password = \"sesame\\x01\"; };", "auth.password: the value does not print" },
        { "users = ( { name = \"a\"; password = \"#sesame\"; } );", "users[0]: \"#\" is not followed by" },
        { "users = ( { name = \"a\"; password = \"sesame\\n\"; } );", "users[0]: password: the value does not print" },
        { "users = ( { name = \"a\"; password = \"\"; } );", "users[0]: password: the value is too short" },
        { "users = ( { name = \"a\"; } );", "users[0]: password is missing" },
        { "users = ( { name = \"\"; password = \"sesame\"; } );", "users[0]: name: \"\" is too short" },
        { "users = ( { name = \"a b\"; password = \"sesame\"; } );", "users[0]: name \"a b\" has blanks" },
        { "users = ( { name = \"a\"; password = \"sesame\"; }, { name = \"a\"; password = \"x\"; } );",
          "users[1]: \"a\" is there twice" },
        { "users = (\n { name = \"a\"; password = \"sesame\"; },\n { name = \"default\"; password = \"sesame\"; } );",
          "sluice.conf:3: users[1]: \"default\" is the user of auth.password" },
        { "auth: {\n password = \"#sesame\"; };", "sluice.conf:2: auth.password: \"#\" is not followed by a SHA-256" },
        { "users = ( { name = \"default\"; password = \"sesame\"; } );", "\"default\" is the user of auth.password" },
        { "users = ( { nme = \"a\"; password = \"sesame\"; } );", "unknown name \"nme\", did you mean \"name\"?" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_file(rows[i].text), -1);
        CU_ASSERT(why_has(rows[i].why));
        CU_ASSERT_PTR_NULL(strstr(why, "sesame"));
    }
    char text[600];
    memset(text, 'z', sizeof(text));
    memcpy(text, "auth.password=", 14);
    text[14 + 256] = '\0';
    CU_ASSERT_EQUAL(parse_set(text), -1);
    CU_ASSERT(why_has("the value is too long"));
    CU_ASSERT_PTR_NULL(strstr(why, "zz"));
}

static void
there_is_room_for_63_users_beside_default(void)
{
    static char text[16384];
    for (int count = 63; count <= 64; count++) {
        size_t used = (size_t)snprintf(text, sizeof(text), "auth: { password = \"p\"; };\nusers = ( ");
        for (int i = 0; i < count; i++) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s{ name = \"u%d\"; password = \"p\"; }",
                                     i ? ", " : "", i);
        }
        snprintf(text + used, sizeof(text) - used, " );");
        CU_ASSERT_EQUAL(parse_file(text), count == 63 ? 0 : -1);
    }
    CU_ASSERT(why_has("users: has 64 entries, expected at most 63"));
}

/* ---- what follows ---- */

static void
memory_is_half_of_what_there_is_unless_said(void)
{
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(resolve(), 0);
    CU_ASSERT_EQUAL(settings.memory_reserve, 2 * GIB);
    CU_ASSERT_EQUAL(settings.memory_limit, 2 * GIB);
    CU_ASSERT_EQUAL(settings.memory_ahead, 64 * MIB);

    host.memory_bytes = 256 * MIB;
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(resolve(), 0);
    CU_ASSERT_EQUAL(settings.memory_reserve, 128 * MIB);
    CU_ASSERT_EQUAL(settings.memory_ahead, 32 * MIB);

    host.memory_bytes = 127 * MIB;
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("memory.reserve: half of the 127 MiB available is less than 64MiB"));
    host.memory_by_cgroup = true;
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("to this control group"));
    host.memory_by_cgroup = false;
    host.memory_bytes = 4 * GIB;

    CU_ASSERT_EQUAL(parse_file("memory: { reserve = \"1GiB\"; limit = \"1025MiB\"; };"), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("memory.limit: 1025MiB is more than memory.reserve, expected at most 1GiB"));
    CU_ASSERT_EQUAL(parse_file("memory: { reserve = \"64MiB\"; ahead = \"33MiB\"; };"), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("memory.ahead: 33MiB is more than half of memory.reserve"));
}

static void
expect_cpus(const char *setting, const struct host *on, const char *expected)
{
    char text[128];
    CU_ASSERT_EQUAL(parse_set(setting), 0);
    CU_ASSERT_EQUAL(settings_resolve(&settings, on, why, sizeof(why)), 0);
    cpu_list_print(text, sizeof(text), settings.cpus, settings.cpu_count);
    if (strcmp(text, expected) != 0) {
        printf("\n    %s gave %s\n", setting, text);
    }
    CU_ASSERT_STRING_EQUAL(text, expected);
}

static void
cpus_are_chosen_among_the_allowed(void)
{
    static struct host one = { .memory_bytes = GIB, .cpu_count = 1, .cpus = { 5 } };
    static struct host box = { .memory_bytes = GIB, .cpu_count = 4, .cpus = { 8, 9, 10, 11 } };
    static struct host quota = {
        .memory_bytes = GIB, .cpu_count = 8, .cpu_quota = 3, .cpus = { 0, 1, 2, 3, 4, 5, 6, 7 }
    };
    static struct host large = { .memory_bytes = GIB, .cpu_count = 128 };

    for (int i = 0; i < 128; i++) {
        large.cpus[i] = i;
    }
    expect_cpus("lcores.cpus=auto", &host, "1-3");
    expect_cpus("lcores.cpus=auto", &one, "5");
    expect_cpus("lcores.cpus=auto", &box, "9-11");
    expect_cpus("lcores.cpus=auto", &quota, "1-2");
    expect_cpus("lcores.cpus=auto", &large, "1-48");
    expect_cpus("lcores.cpus=8-9", &box, "8-9");
    expect_cpus("lcores.cpus=0-1", &box, "8-9"); /* none of them is allowed: positions */
    expect_cpus("lcores.cpus=3,1", &box, "11,9");
    expect_cpus("lcores.cpus=0", &one, "5");

    static const struct {
        const char *set, *why;
    } rows[] = {
        { "lcores.cpus=4", "CPU 4 is not allowed to this process, expected some of 8-11, or numbers below 4" },
        { "lcores.cpus=8,0", "CPU 8 is not allowed to this process" }, /* neither all numbers nor all positions */
        { "lcores.cpus=", "lcores.cpus: \"\" is empty" },
        { "lcores.cpus=1-", "is not a list of CPUs" },
        { "lcores.cpus=1,1", "names a CPU twice" },
        { "lcores.cpus=0-48", "names too many CPUs" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_set(rows[i].set), 0);
        CU_ASSERT_EQUAL(settings_resolve(&settings, &box, why, sizeof(why)), -1);
        CU_ASSERT(why_has(rows[i].why));
    }
}

static void
listening_beyond_loopback_needs_a_password(void)
{
    static const struct {
        const char *address;
        bool exposed, good;
    } rows[] = {
        { "127.0.0.1,[::1]", false, true },
        { "127.8.9.10", false, true },
        { "::1", false, true },
        { "[::ffff:127.0.0.1]", false, true },
        { "0.0.0.0", true, true },
        { "[::]", true, true },
        { "127.0.0.1,10.0.0.1", true, true },
        { "[::ffff:10.0.0.1]", true, true },
        { "", false, true },
        { "localhost", false, false },
        { "127.0.0.1,", false, false },
        { ",127.0.0.1", false, false },
        { "127.0.0.1, ::1", false, false },
        { "127.0.0", false, false },
        { "127.0.0.1:6379", false, false },
        { "[127.0.0.1]", false, false },
        { "[::1", false, false },
        { "0127.0.0.1", false, false },
        { "256.0.0.1", false, false },
        { "[]", false, false },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[128];
        snprintf(text, sizeof(text), "streams: { address = \"%s\"; };", rows[i].address);
        CU_ASSERT_EQUAL(parse_file(text), 0);
        int without = resolve();
        CU_ASSERT_EQUAL(without, rows[i].good && !rows[i].exposed ? 0 : -1);
        if (rows[i].good && rows[i].exposed) {
            CU_ASSERT(why_has("is beyond loopback and there is no password"));
        }
        snprintf(text, sizeof(text), "streams: { address = \"%s\"; };\nauth: { protected_mode = false; };",
                 rows[i].address);
        CU_ASSERT_EQUAL(parse_file(text), 0);
        CU_ASSERT_EQUAL(resolve(), rows[i].good ? 0 : -1);
        CU_ASSERT_EQUAL(!rows[i].good || settings.exposed, !rows[i].good || rows[i].exposed);
        snprintf(text, sizeof(text), "streams: { address = \"%s\"; };\nauth: { password = \"x\"; };", rows[i].address);
        CU_ASSERT_EQUAL(parse_file(text), 0);
        CU_ASSERT_EQUAL(resolve(), rows[i].good ? 0 : -1);
    }
}

static void
an_appliance_that_nobody_can_reach_is_refused(void)
{
    CU_ASSERT_EQUAL(parse_file("streams: { address = \"\"; unix = \"\"; };"), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("nobody could connect"));
}

static void
modes_are_octal_and_let_the_owner_in(void)
{
    static const struct {
        const char *text;
        int status;
        uint32_t bits;
    } rows[] = { { "0600", 0, 0600 }, { "660", 0, 0660 }, { "0777", 0, 0777 }, { "", -1, 0 },     { "0", -1, 0 },
                 { "0060", -1, 0 },   { "0680", -1, 0 },  { "07777", -1, 0 },  { "4600", -1, 0 }, { "rw", -1, 0 } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[64];
        snprintf(text, sizeof(text), "management.mode=%s", rows[i].text);
        CU_ASSERT_EQUAL(parse_set(text), 0);
        CU_ASSERT_EQUAL(resolve(), rows[i].status);
        CU_ASSERT_EQUAL(rows[i].status == 0 ? settings.management_mode_bits : 0, rows[i].bits);
    }
}

/* "x" times `count`. */
static const char *
long_text(size_t count)
{
    static char text[SETTING_TEXT_BYTES];
    memset(text, 'x', count);
    text[count] = '\0';
    return text;
}

static void
what_several_settings_show_says_where_it_was_written(void)
{
    static const struct {
        const char *set, *file, *why; /* %s of a file: more than a socket's path */
    } rows[] = {
        { NULL, "lcores: {\n cpus = \"1,1\"; };", "sluice.conf:2: lcores.cpus: \"1,1\" names a CPU twice" },
        { NULL, "lcores: {\n cpus = \"9\"; };", "sluice.conf:2: lcores.cpus: CPU 9 is not allowed" },
        { "lcores.cpus=9", "lcores: {\n cpus = \"0\"; };", "--set lcores.cpus: CPU 9 is not allowed" },
        { NULL, "\nstreams: { address = \"localhost\"; };", "sluice.conf:2: streams.address: \"localhost\" is no" },
        { NULL, "\nstreams: { address = \"::1,\"; };", "sluice.conf:2: streams.address: ends in a comma" },
        { NULL, "\n\nstreams: { address = \"0.0.0.0\"; };",
          "sluice.conf:3: streams.address: \"0.0.0.0\" is beyond loopback and there is no password" },
        { "streams.address=0.0.0.0", "", "--set streams.address: \"0.0.0.0\" is beyond loopback" },
        { NULL, "streams: {\n address = \"\";\n unix = \"\"; };", "sluice.conf:2: streams.address: is empty and so" },
        { NULL, "streams: { address = \"::1,127.0.0.1,::1\"; };",
          "sluice.conf:1: streams.address: address 3 is the same as address 1, expected each address once" },
        { "auth.protected_mode=false", "streams: { address = \"127.0.0.1,0.0.0.0\"; };",
          "sluice.conf:1: streams.address: address 2 covers address 1" },
        { NULL, "memory: { reserve = \"1GiB\";\n limit = \"2GiB\"; };",
          "sluice.conf:2: memory.limit: 2GiB is more than memory.reserve" },
        { "memory.reserve=1GiB", "memory: { \n limit = \"2GiB\"; };", "sluice.conf:2: memory.limit: 2GiB is more" },
        { "memory.limit=2GiB", "memory: { reserve = \"1GiB\"; };", "--set memory.limit: 2GiB is more than" },
        { "memory.limit=3GiB", "", "--set memory.limit: 3GiB is more than memory.reserve, expected at most 2GiB" },
        { "memory.ahead=1GiB", "memory: { reserve = \"1GiB\"; };", "--set memory.ahead: 1GiB is more than half" },
        { NULL, "memory: { reserve = \"9GiB\"; };",
          "sluice.conf:1: memory.reserve: 9GiB of address space cannot be reserved, expected at most 8GiB" },
        { NULL, "management: { mode = \"0\"; };", "sluice.conf:1: management.mode: \"0\" is no mode" },
        { "streams.unix_mode=8", "", "--set streams.unix_mode: \"8\" is no mode" },
        { NULL, "\nstreams: { unix = \"%s\"; };",
          "sluice.conf:2: streams.unix: has 108 bytes, expected at most the 107" },
        { NULL, "management: { socket = \"%s\"; };", "sluice.conf:1: management.socket: has 108 bytes" },
    };

    host.reservable_bytes = 8 * GIB;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[512];
        snprintf(text, sizeof(text), rows[i].file, long_text(108));
        file_write("sluice.conf", text, strlen(text));
        CU_ASSERT_EQUAL(settings_parse(path, &rows[i].set, rows[i].set != NULL, &settings, why, sizeof(why)), 0);
        CU_ASSERT_EQUAL(resolve(), -1);
        CU_ASSERT(why_has(rows[i].why));
    }
    host.memory_bytes = 100 * MIB;
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT_EQUAL(strncmp(why, "default of memory.reserve: half", 31), 0);
    host.memory_bytes = 4 * GIB;

    char text[512];
    snprintf(text, sizeof(text), "streams: { unix = \"%s\"; };\nmemory: { reserve = \"8GiB\"; };", long_text(107));
    CU_ASSERT_EQUAL(parse_file(text), 0);
    CU_ASSERT_EQUAL(resolve(), 0);
    host.reservable_bytes = 0;
}

static void
settings_of_another_host_are_good_and_say_what_this_one_lacks(void)
{
    static const struct {
        const char *file, *why, *here;
    } rows[] = {
        { "", "", "" },
        { "lcores: { cpus = \"1-47\"; };", "", "sluice.conf:1: lcores.cpus: CPU 4 is not allowed" },
        { "lcores: { cpus = \"1-47\"; };\nmemory: {\n limit = \"3GiB\"; };", "",
          "sluice.conf:3: memory.limit: 3GiB is more than memory.reserve, expected at most 2GiB; sluice.conf:1: "
          "lcores.cpus: CPU 4" },
        { "lcores: { cpus = \"1-48,1\"; };", "sluice.conf:1: lcores.cpus: ", NULL },
        { "lcores: { cpus = \"1-47\"; };\nstreams: { address = \"x\"; };", "sluice.conf:2: streams.address: \"x\"",
          NULL },
        { "lcores: { cpus = \"1-47\"; };\nmemory: { reserve = \"1GiB\"; limit = \"2GiB\"; };",
          "sluice.conf:2: memory.limit: 2GiB", NULL },
    };
    char here[2 * SETTINGS_WHY_BYTES], plain[2 * SETTINGS_WHY_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_file(rows[i].file), 0);
        int result = settings_resolve_elsewhere(&settings, &host, why, sizeof(why), here, sizeof(here));
        CU_ASSERT_EQUAL(result, rows[i].here == NULL ? -1 : 0);
        CU_ASSERT(why_has(rows[i].why));
        /* Without the folder's name, which changes. */
        size_t used = 0;
        for (const char *at = here; *at != '\0'; at++) {
            bool in_folder = strncmp(at, settings_fixture_dir(), strlen(settings_fixture_dir())) == 0;
            at += in_folder ? strlen(settings_fixture_dir()) + 1 : 0;
            plain[used++] = *at;
        }
        plain[used] = '\0';
        CU_ASSERT_EQUAL(rows[i].here == NULL || strncmp(plain, rows[i].here, strlen(rows[i].here)) == 0, true);
        CU_ASSERT_EQUAL(plain[0] == '\0', rows[i].here == NULL || rows[i].here[0] == '\0');
    }
}

static void
address_space_is_asked_of_the_kernel(void)
{
    CU_ASSERT_EQUAL(host_reservable(64 * MIB), 64 * MIB);
    uint64_t most = host_reservable(1ull << 60); /* no user address space is as large */
    CU_ASSERT(most >= 64 * MIB && most < 1ull << 60);
}

static void
what_is_printed_reads_back_to_the_same_settings(void)
{
    static struct settings again;
    char printed[PATH_MAX];

    CU_ASSERT_EQUAL(
        parse_file("auth: { password = \"secret\"; };\nstreams: { unix = \"/a \\\"b\\\\c\"; port = 0; };\n"
                   "users = ( { name = \"o\\\"ps\"; password = \"x\"; }, { name = \"b\"; password = \"y\"; } );\n"
                   "ports = ( { " SHM " }, { " SHM "name = \"2\"; frame = 4097; lease = \"1m\"; }, { " ETH
                   "gateway = \"10.0.0.1\"; mac = \"02:00:00:00:00:fe\"; listen = \"7,8\"; eal = \"-m 64\"; } );\n"
                   "limits: { idle_timeout = \"90s\"; };\nmemory: { reserve = \"3221225472\"; };\n"),
        0);
    CU_ASSERT_EQUAL(resolve(), 0);
    file_write("printed.conf", "", 0);
    snprintf(printed, sizeof(printed), "%s", path);
    FILE *file = fopen(printed, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    settings_print(&settings, file);
    fclose(file);

    CU_ASSERT_EQUAL(settings_parse(printed, NULL, 0, &again, why, sizeof(why)), 0);
    CU_ASSERT_EQUAL(settings_resolve(&again, &host, why, sizeof(why)), 0);
    memcpy(again.origins, settings.origins, sizeof(again.origins));
    memcpy(again.places, settings.places, sizeof(again.places));
    CU_ASSERT(memcmp(&settings, &again, sizeof(settings)) == 0);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("settings_lists", settings_fixture_open, settings_fixture_close);
    CU_ADD_TEST(suite, ports_are_read_with_their_defaults);
    CU_ADD_TEST(suite, bad_ports_say_which_and_why);
    CU_ADD_TEST(suite, an_ethernet_port_is_read_with_its_defaults);
    CU_ADD_TEST(suite, bad_ethernet_ports_say_what_is_wrong);
    CU_ADD_TEST(suite, an_ethernet_port_counts_as_beyond_loopback);
    CU_ADD_TEST(suite, passwords_are_kept_as_digests);
    CU_ADD_TEST(suite, bad_users_are_refused_and_no_message_repeats_a_password);
    CU_ADD_TEST(suite, there_is_room_for_63_users_beside_default);
    CU_ADD_TEST(suite, memory_is_half_of_what_there_is_unless_said);
    CU_ADD_TEST(suite, cpus_are_chosen_among_the_allowed);
    CU_ADD_TEST(suite, listening_beyond_loopback_needs_a_password);
    CU_ADD_TEST(suite, an_appliance_that_nobody_can_reach_is_refused);
    CU_ADD_TEST(suite, modes_are_octal_and_let_the_owner_in);
    CU_ADD_TEST(suite, what_several_settings_show_says_where_it_was_written);
    CU_ADD_TEST(suite, settings_of_another_host_are_good_and_say_what_this_one_lacks);
    CU_ADD_TEST(suite, address_space_is_asked_of_the_kernel);
    CU_ADD_TEST(suite, what_is_printed_reads_back_to_the_same_settings);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
