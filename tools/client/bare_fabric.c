#include "tools/client/bare_fabric.h"
#include "config/sync.h"
#include "dataplane/endpoint.h"

#define SLOTS      16
#define EVENTS_MAX 16

struct bare_fabric {
    const struct endpoint_ops *ops;
    struct endpoint *endpoint;
    struct endpoint_info info;
    uint64_t peer;
    bool tx_busy[SLOTS];
    uint32_t tx_next;
    struct {
        uint32_t bytes;
        uint64_t tag;
    } arrived[EVENTS_MAX]; /* messages polled and not yet handed out */
    uint32_t arrived_count, arrived_next;
    bool injects, broken;
};

struct bare_fabric *
bare_fabric_open(const struct client_fabric *fabric, char *why, size_t why_bytes)
{
    struct bare_fabric *bare = calloc(1, sizeof(*bare));
    if (bare == NULL) {
        snprintf(why, why_bytes, "no memory");
        return NULL;
    }
    const struct endpoint_config config = {
        .provider = fabric->provider,
        .node = fabric->node,
        .domain = fabric->domain,
        .rx_slots = SLOTS,
        .tx_slots = SLOTS,
        .send = (enum endpoint_send)fabric->send,
    };
    static_assert((int)CLIENT_SEND_AUTO == (int)ENDPOINT_SEND_AUTO &&
                      (int)CLIENT_SEND_INJECT == (int)ENDPOINT_SEND_INJECT &&
                      (int)CLIENT_SEND_SEND == (int)ENDPOINT_SEND_SEND,
                  "one is cast to the other");
    bare->ops = endpoint_libfabric(why, why_bytes);
    if (bare->ops == NULL || bare->ops->open(&config, &bare->endpoint, why, why_bytes) != 0) {
        free(bare);
        return NULL;
    }
    bare->ops->info(bare->endpoint, &bare->info);
    bare->injects = config.send != ENDPOINT_SEND_SEND;
    return bare;
}

void
bare_fabric_close(struct bare_fabric *bare)
{
    if (bare != NULL) {
        bare->ops->close(bare->endpoint);
        free(bare);
    }
}

struct slice
bare_fabric_address(const struct bare_fabric *bare)
{
    return slice_of(bare->info.address, bare->info.address_bytes);
}

bool
bare_fabric_peer(struct bare_fabric *bare, struct slice address, char *why, size_t why_bytes)
{
    if (bare->ops->peer_insert(bare->endpoint, address.data, address.bytes, &bare->peer) != 0) {
        snprintf(why, why_bytes, "the provider does not take the other end's address");
        return false;
    }
    return true;
}

uint32_t
bare_fabric_frame_bytes(const struct bare_fabric *bare)
{
    return bare->info.frame_bytes;
}

static void
poll_once(struct bare_fabric *bare)
{
    struct endpoint_event events[EVENTS_MAX];
    uint32_t room = EVENTS_MAX - bare->arrived_count;
    uint32_t count = room == 0 ? 0 : bare->ops->poll(bare->endpoint, events, room);
    for (uint32_t i = 0; i < count; i++) {
        switch (events[i].kind) {
        case ENDPOINT_RECEIVED:
            bare->arrived[bare->arrived_count].bytes = events[i].bytes;
            memcpy(&bare->arrived[bare->arrived_count].tag, bare->ops->rx_slot(bare->endpoint, events[i].slot),
                   sizeof(uint64_t));
            bare->arrived_count++;
            bare->broken |= bare->ops->post(bare->endpoint, events[i].slot) != ENDPOINT_OK;
            break;
        case ENDPOINT_SENT:
            bare->tx_busy[events[i].slot] = false;
            break;
        case ENDPOINT_SEND_FAILED:
        case ENDPOINT_RECEIVE_FAILED:
            bare->broken = true;
            break;
        }
    }
}

bool
bare_fabric_send(struct bare_fabric *bare, uint32_t bytes, uint64_t tag)
{
    bool injects = bare->injects && bytes <= bare->info.inject_bytes;
    uint32_t slot = bare->tx_next;
    if (!injects) {
        bare->tx_next = (slot + 1) % SLOTS;
    }
    while (!injects && bare->tx_busy[slot] && !bare->broken) {
        poll_once(bare);
    }
    uint8_t *data = bare->ops->tx_slot(bare->endpoint, slot);
    memcpy(data, &tag, sizeof(tag));
    for (;;) {
        if (bare->broken) {
            return false;
        }
        enum endpoint_status status = injects ? bare->ops->inject(bare->endpoint, bare->peer, data, bytes)
                                              : bare->ops->send(bare->endpoint, bare->peer, slot, bytes);
        if (status == ENDPOINT_OK) {
            bare->tx_busy[slot] |= !injects;
            return true;
        }
        bare->broken |= status == ENDPOINT_FAILED;
        poll_once(bare);
    }
}

int64_t
bare_fabric_receive(struct bare_fabric *bare, uint64_t *tag)
{
    if (bare->arrived_next == bare->arrived_count) {
        bare->arrived_next = bare->arrived_count = 0;
        poll_once(bare);
    }
    if (bare->broken) {
        return -1;
    }
    if (bare->arrived_next == bare->arrived_count) {
        return 0;
    }
    *tag = bare->arrived[bare->arrived_next].tag;
    return bare->arrived[bare->arrived_next++].bytes;
}
