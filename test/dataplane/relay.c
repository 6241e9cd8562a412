/* relay.c - a bad network: carries frames between two taps, each in a network namespace of its own, and harms them.
 *
 *     relay SEED NAMESPACE_A TAP_A NAMESPACE_B TAP_B [KIND=RATE...] [hold=MICROSECONDS]
 *
 * A namespace is a path, such as /proc/PID/ns/net. RATE, from 0 to 1, is the share of frames that suffer KIND: loss,
 * duplicate, reorder, delay, corrupt, truncate. It makes the taps, says "ready", and carries until stdin ends; then it
 * prints what it did, one line of JSON, and the taps are gone.
 *
 * What happens to a frame depends on the seed, the direction and the frame's number in that direction, on nothing else:
 * the same frames sent again with the same seed suffer the same. `relay SEED decisions COUNT [KIND=RATE...]` prints
 * what would happen to the first COUNT frames of either direction, without a network. */
#include "config/base.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define FRAME_BYTES  2048 /* an Ethernet frame of MTU 1500, with room */
#define FRAMES_HELD  8192
#define FRAMES_BURST 64   /* from one side before the other is looked at */
#define HOLD_US      2000 /* how long a delayed frame waits: longer than a round trip */

enum harm { LOSS, DUPLICATE, REORDER, DELAY, CORRUPT, TRUNCATE, HARM_COUNT };
static const char *const harm_names[HARM_COUNT] = { "loss", "duplicate", "reorder", "delay", "corrupt", "truncate" };

struct decision {
    bool suffers[HARM_COUNT];
    uint64_t bit;     /* CORRUPT flips it, TRUNCATE cuts there; modulo what the frame has */
    uint64_t hold_ns; /* REORDER and DELAY */
};

/* A frame that waits for its time. */
struct held {
    uint64_t due_ns;
    uint64_t number; /* among equals, first come first served */
    unsigned to;
    uint32_t bytes;
    uint8_t data[FRAME_BYTES];
};

struct relay {
    uint64_t seed;
    double rate[HARM_COUNT];
    uint64_t hold_us;
    int tap[2];
    uint64_t frames[2]; /* read from either side: the number of the next one */
    uint64_t harmed[HARM_COUNT];
    uint64_t overrun;               /* frames lost because too many were held, or the other side took none */
    struct held *heap[FRAMES_HELD]; /* [0] is due first */
    struct held *spare[FRAMES_HELD];
    uint32_t heap_count, spare_count;
    uint64_t held_count; /* ever */
};

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators (SplitMix64). */
static uint64_t
random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static struct decision
relay_decide(const struct relay *relay, unsigned from, uint64_t number)
{
    uint64_t key = number * 2 + from;
    uint64_t state = relay->seed ^ random_next(&key);
    struct decision decision = { .bit = 0 };

    for (unsigned i = 0; i < HARM_COUNT; i++) {
        decision.suffers[i] = (double)(random_next(&state) >> 11) * 0x1p-53 < relay->rate[i];
    }
    decision.bit = random_next(&state);
    /* A delayed frame is late; a reordered one is late by so little that its successors overtake it. */
    decision.hold_ns = decision.suffers[DELAY]     ? relay->hold_us * (500 + random_next(&state) % 1000)
                       : decision.suffers[REORDER] ? relay->hold_us * (50 + random_next(&state) % 100)
                                                   : 0;
    return decision;
}

/* ---- frames that wait ---- */

static uint64_t
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool
held_before(const struct held *a, const struct held *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void
heap_push(struct relay *relay, struct held *held)
{
    uint32_t at = relay->heap_count++;

    for (; at > 0 && held_before(held, relay->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        relay->heap[at] = relay->heap[(at - 1) / 2];
    }
    relay->heap[at] = held;
}

static struct held *
heap_pop(struct relay *relay)
{
    struct held *first = relay->heap[0], *last = relay->heap[--relay->heap_count];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < relay->heap_count && held_before(relay->heap[child + 1], relay->heap[child])) {
            child++;
        }
        if (child >= relay->heap_count || !held_before(relay->heap[child], last)) {
            break;
        }
        relay->heap[at] = relay->heap[child];
        at = child;
    }
    relay->heap[at] = last;
    return first;
}

static void
frame_hold(struct relay *relay, unsigned to, const uint8_t *data, uint32_t bytes, uint64_t due_ns)
{
    if (relay->spare_count == 0) {
        relay->overrun++;
        return;
    }
    struct held *held = relay->spare[--relay->spare_count];
    held->due_ns = due_ns;
    held->number = relay->held_count++;
    held->to = to;
    held->bytes = bytes;
    memcpy(held->data, data, bytes);
    heap_push(relay, held);
}

static void
frame_send(struct relay *relay, unsigned to, const uint8_t *data, uint32_t bytes)
{
    if (write(relay->tap[to], data, bytes) != (ssize_t)bytes) {
        relay->overrun++; /* the tap is down or full: a network loses frames */
    }
}

static void
held_send_due(struct relay *relay)
{
    uint64_t now = now_ns();

    while (relay->heap_count > 0 && relay->heap[0]->due_ns <= now) {
        struct held *held = heap_pop(relay);
        frame_send(relay, held->to, held->data, held->bytes);
        relay->spare[relay->spare_count++] = held;
    }
}

/* ---- one frame ---- */

static bool
frame_is_ipv4(const uint8_t *data, uint32_t bytes)
{
    return bytes > ETHER_HDR_LEN && data[12] == 0x08 && data[13] == 0x00;
}

static void
relay_carry(struct relay *relay, unsigned from, uint8_t *data, uint32_t bytes)
{
    struct decision decision = relay_decide(relay, from, relay->frames[from]++);

    for (unsigned i = 0; i < HARM_COUNT; i++) {
        relay->harmed[i] += decision.suffers[i];
    }
    if (decision.suffers[LOSS]) {
        return;
    }
    if (decision.suffers[CORRUPT]) {
        /* On a wire the frame check sequence keeps a damaged ARP message out; it has no checksum of its own, and what
         * it would leave in a table for minutes is no test of TCP. One bit: more of them cancel out in a TCP checksum
         * once in 65,536 frames, and then a wrong reply would be nobody's fault. */
        if (!frame_is_ipv4(data, bytes)) {
            return;
        }
        uint64_t bit = decision.bit % ((bytes - ETHER_HDR_LEN) * 8);
        data[ETHER_HDR_LEN + bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    if (decision.suffers[TRUNCATE]) {
        bytes = ETHER_HDR_LEN + (uint32_t)(decision.bit % (bytes - ETHER_HDR_LEN + 1));
    }
    for (unsigned copies = decision.suffers[DUPLICATE] ? 2 : 1; copies > 0; copies--) {
        if (decision.hold_ns != 0) {
            frame_hold(relay, 1 - from, data, bytes, now_ns() + decision.hold_ns);
        } else {
            frame_send(relay, 1 - from, data, bytes);
        }
    }
}

static void
relay_drain(struct relay *relay, unsigned from)
{
    uint8_t data[FRAME_BYTES];

    for (unsigned i = 0; i < FRAMES_BURST; i++) {
        ssize_t got = read(relay->tap[from], data, sizeof(data));
        if (got < ETHER_HDR_LEN) {
            return;
        }
        relay_carry(relay, from, data, (uint32_t)got);
    }
}

static void
relay_run(struct relay *relay)
{
    struct pollfd watched[3] = {
        { .fd = relay->tap[0], .events = POLLIN },
        { .fd = relay->tap[1], .events = POLLIN },
        { .fd = STDIN_FILENO, .events = POLLIN },
    };

    for (;;) {
        struct timespec wait = { .tv_sec = 1 };
        if (relay->heap_count > 0) {
            uint64_t now = now_ns(), due = relay->heap[0]->due_ns;
            wait.tv_sec = 0;
            wait.tv_nsec = due > now ? (long)MIN(due - now, 999999999u) : 0;
        }
        if (ppoll(watched, ARRAY_COUNT(watched), &wait, NULL) < 0 && errno != EINTR) {
            perror("relay: ppoll");
            return;
        }
        if (watched[2].revents != 0) {
            return;
        }
        held_send_due(relay);
        relay_drain(relay, 0);
        relay_drain(relay, 1);
    }
}

/* ---- start and end ---- */

/* A tap in another namespace; the caller is back in its own. A negative errno. */
static int
tap_open(const char *namespace, const char *name)
{
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
    int status = -ENODEV, fd = -1;
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there = open(namespace, O_RDONLY | O_CLOEXEC);

    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET) != 0) {
        status = -errno;
        goto out;
    }
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    status = fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0 ? -errno : fd;
    if (setns(home, CLONE_NEWNET) != 0) {
        status = -errno;
    }
out:
    if (status < 0) {
        fprintf(stderr, "relay: %s in %s: %s\n", name, namespace, strerror(-status));
    }
    close(home);
    close(there);
    return status;
}

static bool
relay_options(struct relay *relay, char **words)
{
    for (; *words != NULL; words++) {
        char *value = strchr(*words, '='), *end = NULL;
        if (value == NULL) {
            goto bad;
        }
        size_t name_bytes = (size_t)(value++ - *words);
        double number = strtod(value, &end);
        if (*end != '\0' || end == value || number < 0) {
            goto bad;
        }
        if (strncmp(*words, "hold", name_bytes) == 0 && name_bytes == strlen("hold")) {
            relay->hold_us = (uint64_t)number;
            continue;
        }
        unsigned i = 0;
        while (i < HARM_COUNT &&
               (strlen(harm_names[i]) != name_bytes || strncmp(*words, harm_names[i], name_bytes) != 0)) {
            i++;
        }
        if (i == HARM_COUNT || number > 1) {
            goto bad;
        }
        relay->rate[i] = number;
        continue;
    bad:
        fprintf(stderr, "relay: bad option '%s'\n", *words);
        return false;
    }
    return true;
}

static void
decisions_print(const struct relay *relay, uint64_t count)
{
    for (uint64_t number = 0; number < count; number++) {
        for (unsigned from = 0; from < 2; from++) {
            struct decision decision = relay_decide(relay, from, number);
            printf("%c%lu", "ab"[from], (unsigned long)number);
            for (unsigned i = 0; i < HARM_COUNT; i++) {
                printf("%s%s", decision.suffers[i] ? " " : "", decision.suffers[i] ? harm_names[i] : "");
            }
            printf(" %lu\n", (unsigned long)decision.bit);
        }
    }
}

static void
result_print(const struct relay *relay)
{
    printf("{\"a\": %lu, \"b\": %lu, \"overrun\": %lu", (unsigned long)relay->frames[0],
           (unsigned long)relay->frames[1], (unsigned long)relay->overrun);
    for (unsigned i = 0; i < HARM_COUNT; i++) {
        printf(", \"%s\": %lu", harm_names[i], (unsigned long)relay->harmed[i]);
    }
    printf("}\n");
}

int
main(int count, char **words)
{
    static struct relay relay = { .hold_us = HOLD_US };
    bool dry = count >= 4 && strcmp(words[2], "decisions") == 0;

    if (count < 4 || (!dry && count < 6)) {
        fprintf(stderr, "usage: relay SEED NAMESPACE_A TAP_A NAMESPACE_B TAP_B [KIND=RATE...] [hold=MICROSECONDS]\n");
        return 2;
    }
    relay.seed = strtoull(words[1], NULL, 10);
    if (!relay_options(&relay, words + (dry ? 4 : 6))) {
        return 2;
    }
    if (dry) {
        decisions_print(&relay, strtoull(words[3], NULL, 10));
        return 0;
    }
    struct held *room = calloc(FRAMES_HELD, sizeof(*room));
    CHECK(room != NULL);
    for (uint32_t i = 0; i < FRAMES_HELD; i++) {
        relay.spare[relay.spare_count++] = &room[i];
    }
    relay.tap[0] = tap_open(words[2], words[3]);
    relay.tap[1] = relay.tap[0] < 0 ? -1 : tap_open(words[4], words[5]);
    if (relay.tap[1] < 0) {
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    relay_run(&relay);
    result_print(&relay);
    free(room);
    return 0;
}
