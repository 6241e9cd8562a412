#include "config/cycles.h"
#include "dataplane/ethernet_stack_private.h"
#include <errno.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/stats.h>
#include <sodium.h>
#include <sys/uio.h>

#define WRITE_MAX UINT16_MAX /* lwIP counts the bytes of one tcp_write() in 16 bits */

/* ---- numbers nobody can guess ---- */

/* RFC 6528: a clock, and a keyed hash of the connection's names. */
uint32_t
ethernet_stack_isn(const ip_addr_t *local, uint16_t local_port, const ip_addr_t *remote, uint16_t remote_port)
{
    uint32_t names[3] = { local->addr, remote->addr, (uint32_t)local_port << 16 | remote_port };
    uint64_t hash;

    crypto_shorthash((uint8_t *)&hash, (const uint8_t *)names, sizeof(names), ethernet_stack.isn_key);
    return (uint32_t)hash + (uint32_t)(cycles_now() >> 13); /* wraps in hours */
}

uint32_t
ethernet_stack_draw(void)
{
    uint64_t hash;

    ethernet_stack.draws++;
    crypto_shorthash((uint8_t *)&hash, (const uint8_t *)&ethernet_stack.draws, sizeof(ethernet_stack.draws),
                     ethernet_stack.isn_key);
    return (uint32_t)hash;
}

/* ---- lists and look-ups ---- */

uint32_t
stack_bucket_of(uint32_t remote_address, uint16_t remote_port, uint16_t local_port)
{
    uint64_t key =
        ((uint64_t)remote_address << 32 | (uint32_t)remote_port << 16 | local_port) ^ ethernet_stack.bucket_key;
    key *= 0x9e3779b97f4a7c15ull;
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ull;
    return (uint32_t)(key >> 54);
}

static void
list_remove(struct ethernet *ethernet, struct ethernet_connection *connection)
{
    struct connection_list *list = &ethernet->lists[connection->state];

    *connection->link = connection->next;
    if (connection->next != NULL) {
        connection->next->link = connection->link;
    } else {
        list->last = connection->link;
    }
    list->count--;
}

void
connection_list_append(struct ethernet *ethernet, struct ethernet_connection *connection, enum connection_state state)
{
    struct connection_list *list = &ethernet->lists[state];

    connection->state = state;
    connection->next = NULL;
    connection->link = list->last;
    *list->last = connection;
    list->last = &connection->next;
    list->count++;
}

static void
move(struct ethernet_connection *connection, enum connection_state state)
{
    list_remove(connection->ethernet, connection);
    connection_list_append(connection->ethernet, connection, state);
}

/* Without a word to the peer when it never answered our SYN: it need not exist. */
static void
evict(struct ethernet_connection *connection)
{
    uint32_t before = stack_enter(connection->ethernet, connection->bucket);
    tcp_abandon(connection->pcb, connection->state != CONNECTION_HALF);
    stack_enter(connection->ethernet, before);
}

/* Room for one more: half-open connections make room for the next ones, so that a flood of SYNs holds a bounded number
 * of them and a peer that answers its SYN within the time of so many still gets in; those that nobody owns any more
 * make room for both. */
static void
make_room(struct ethernet *ethernet)
{
    struct connection_list *half = &ethernet->lists[CONNECTION_HALF];
    struct connection_list *leaving = &ethernet->lists[CONNECTION_LEAVING];

    if (half->count >= LIMIT_ETHERNET_HALF_OPEN) {
        ethernet->stats.syn_evicted++;
        evict(half->first);
    } else if (leaving->count >= LIMIT_ETHERNET_LEAVING || ethernet->lists[CONNECTION_FREE].count == 0) {
        if (leaving->first != NULL) {
            ethernet->stats.connections_evicted++;
            evict(leaving->first);
        }
    }
}

/* RFC 9293, 3.10.7.4, and RFC 5961, 5.2: behind the handshake every segment but a reset or a SYN acknowledges something
 * that was sent, and not long ago. lwIP would take the data of others. */
static bool
acknowledges_nonsense(const struct tcp_pcb *pcb, const struct tcp_hdr *header)
{
    if (pcb->state < ESTABLISHED) {
        return false;
    }
    if (!(TCPH_FLAGS(header) & TCP_ACK)) {
        return !(TCPH_FLAGS(header) & (TCP_RST | TCP_SYN));
    }
    return TCP_SEQ_GT(header->ackno, pcb->snd_nxt) || TCP_SEQ_LT(header->ackno, pcb->lastack - pcb->snd_wnd_max);
}

/* lwIP found whom a segment is for; it goes on with ERR_OK only. */
err_t
ethernet_stack_saw_segment(struct tcp_pcb *pcb, const struct tcp_hdr *header)
{
    if (pcb->state == LISTEN && (TCPH_FLAGS(header) & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN) {
        make_room(&ethernet_stack);
    }
    if (UNLIKELY(acknowledges_nonsense(pcb, header))) {
        ethernet_stack.stats.malformed++;
        return ERR_VAL;
    }
    return ERR_OK;
}

/* ---- callbacks of lwIP ---- */

static void
connection_destroyed(u8_t id, void *data)
{
    struct ethernet_connection *connection = data;

    if (connection == NULL) {
        return; /* a listener */
    }
    void *owner = connection->owner;
    struct ethernet *ethernet = connection->ethernet;
    connection->owner = NULL;
    connection->pcb = NULL;
    move(connection, CONNECTION_FREE);
    if (owner != NULL) {
        ethernet->config.handlers->lost(owner);
    }
}

static err_t connection_opening(u8_t id, struct tcp_pcb_listen *listener, struct tcp_pcb *pcb);

static const struct tcp_ext_arg_callbacks connection_callbacks = {
    .destroy = connection_destroyed,
    .passive_open = connection_opening,
};

/* A list of frames as the port wants it, in the order of the stream. */
static struct ethernet_frame *
unchain(struct pbuf *p)
{
    struct ethernet_frame *first = NULL, **last = &first;

    while (p != NULL) {
        struct pbuf *next = p->next;
        struct device_frame *frame = stack_frame_of(p);
        p->next = NULL;
        p->tot_len = p->len;
        if (p->len == 0) {
            pbuf_free(p);
        } else {
            frame->lent.data = p->payload;
            frame->lent.bytes = p->len;
            frame->lent.room = (uint32_t)(frame->data + frame->room - ((uint8_t *)p->payload + p->len));
            frame->lent.next = NULL;
            *last = &frame->lent;
            last = &frame->lent.next;
        }
        p = next;
    }
    return first;
}

static err_t
connection_received(void *argument, struct tcp_pcb *pcb, struct pbuf *p, err_t error)
{
    struct ethernet_connection *connection = argument;
    struct ethernet *ethernet = connection->ethernet;
    const struct ethernet_handlers *handlers = ethernet->config.handlers;

    if (connection->owner == NULL) { /* we have said FIN: what still comes is not looked at */
        if (p != NULL) {
            tcp_recved(pcb, p->tot_len);
            pbuf_free(p);
        }
        return ERR_OK;
    }
    if (p == NULL) {
        handlers->ended(connection->owner);
        return ERR_OK;
    }
    uint32_t spare = stack_frames_spare(ethernet) / STACK_SPARE_SHARE;
    if (!handlers->room(connection->owner, pbuf_clen(p), spare)) {
        ethernet->stats.receive_refused += p->tot_len;
        return ERR_MEM; /* lwIP keeps it, and drops what follows until it is taken */
    }
    handlers->received(connection->owner, unchain(p));
    return ERR_OK;
}

/* lwIP counts a segment when all of it was acknowledged: until then it may send the whole again. */
static err_t
connection_sent(void *argument, struct tcp_pcb *pcb, u16_t bytes)
{
    struct ethernet_connection *connection = argument;

    /* lwIP measures in ticks, so that a short round trip counts as none: neither the time-out nor what a repeated one
     * doubles may be nothing. */
    pcb->sv = MAX(pcb->sv, STACK_RTO_MIN);
    pcb->rto = MAX(pcb->rto, STACK_RTO_MIN);
    connection->acknowledged += bytes;
    if (connection->owner != NULL) {
        connection->ethernet->config.handlers->acknowledged(connection->owner, connection->acknowledged);
    }
    return ERR_OK;
}

static void
describe_peer(const struct tcp_pcb *pcb, struct ethernet_peer *peer)
{
    memcpy(peer->address, &pcb->remote_ip.addr, sizeof(peer->address));
    memcpy(peer->local, &pcb->local_ip.addr, sizeof(peer->local));
    peer->port = pcb->remote_port;
    peer->local_port = pcb->local_port;
}

static void
refuse(struct ethernet_connection *connection, struct tcp_pcb *pcb)
{
    const char *text = connection->ethernet->config.refusal;

    move(connection, CONNECTION_LEAVING);
    tcp_write(pcb, text, (u16_t)strlen(text), 0);
    tcp_shutdown(pcb, 0, 1); /* what it sends is still received, or a reset would overtake the text */
}

static err_t
connection_accepted(void *argument, struct tcp_pcb *pcb, err_t error)
{
    struct ethernet_connection *connection = argument;

    if (pcb == NULL) {
        return ERR_OK; /* no memory for a SYN: its peer tries again */
    }
    struct ethernet *ethernet = connection->ethernet;
    struct ethernet_peer peer;
    describe_peer(pcb, &peer);
    move(connection, CONNECTION_OWNED);
    if (ethernet->lists[CONNECTION_OWNED].count <= ethernet->config.sessions) {
        connection->owner = ethernet->config.handlers->accepted(ethernet->config.port, connection, &peer);
    }
    if (connection->owner == NULL) {
        refuse(connection, pcb);
    }
    return ERR_OK;
}

static err_t
connection_opening(u8_t id, struct tcp_pcb_listen *listener, struct tcp_pcb *pcb)
{
    struct ethernet *ethernet = &ethernet_stack;
    struct ethernet_connection *connection = ethernet->lists[CONNECTION_FREE].first;

    if (connection == NULL) {
        return ERR_MEM;
    }
    connection->pcb = pcb;
    connection->owner = NULL;
    connection->written = connection->acknowledged = 0;
    connection->finished = false;
    connection->bucket = stack_bucket_of(pcb->remote_ip.addr, pcb->remote_port, pcb->local_port);
    move(connection, CONNECTION_HALF);
    tcp_ext_arg_set(pcb, 0, connection);
    tcp_ext_arg_set_callbacks(pcb, 0, &connection_callbacks);
    tcp_arg(pcb, connection);
    tcp_recv(pcb, connection_received);
    tcp_sent(pcb, connection_sent);
    pcb->rto = pcb->sv = STACK_RTO_FIRST;
    tcp_nagle_disable(pcb);
    ip_set_option(pcb, SOF_KEEPALIVE);
    pcb->keep_idle = ethernet->config.keepalive_ms;
    return ERR_OK;
}

int
connection_listen(struct ethernet *ethernet, uint16_t port)
{
    struct tcp_pcb *pcb = tcp_new();
    err_t error = ERR_MEM;

    if (pcb != NULL) {
        error = tcp_bind(pcb, &ethernet->netif.ip_addr, port);
    }
    struct tcp_pcb *listener = error == ERR_OK ? tcp_listen(pcb) : NULL;
    if (listener == NULL) {
        if (pcb != NULL) {
            tcp_abort(pcb);
        }
        return error == ERR_USE ? -EADDRINUSE : -ENOMEM;
    }
    tcp_accept(listener, connection_accepted);
    tcp_ext_arg_set_callbacks(listener, 0, &connection_callbacks);
    ethernet->listeners[ethernet->listener_count++] = listener;
    return 0;
}

/* ---- what the port asks for ---- */

/* Bytes that may be queued now. No more than the peer takes: what waits for its window waits in the session, not in
 * lwIP's segments. And no more segments than a share of those that are free. */
static uint32_t
write_room(const struct ethernet_connection *connection, bool *again)
{
    const struct tcp_pcb *pcb = connection->pcb;
    uint32_t queued = pcb->snd_lbb - pcb->lastack;
    uint32_t window = MIN(pcb->snd_wnd, pcb->cwnd);
    uint32_t spare = (STACK_SEGMENTS - lwip_stats.memp[MEMP_TCP_SEG]->used) / STACK_SPARE_SHARE;

    if (pcb->snd_queuelen >= MIN(spare, TCP_SND_QUEUELEN / 2)) {
        *again = pcb->snd_queuelen == 0;
        return 0;
    }
    if (queued == 0) {
        return MAX(window, pcb->mss); /* lwIP probes a closed window only when it has something to send */
    }
    return window > queued ? window - queued : 0;
}

size_t
connection_write(struct ethernet_connection *connection, const struct iovec *pieces, uint32_t count, bool *again)
{
    struct tcp_pcb *pcb = connection->pcb;
    size_t written = 0, wanted = 0;

    *again = false;
    if (pcb->state != ESTABLISHED && pcb->state != CLOSE_WAIT) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        wanted += pieces[i].iov_len;
    }
    if (connection->written == 0) {
        pcb->cwnd = MAX(pcb->cwnd, (tcpwnd_size_t)STACK_CWND_FIRST * pcb->mss);
    }
    uint32_t room = write_room(connection, again);
    if (wanted > room) {
        room -= room % pcb->mss; /* no small segment before more of the window is open */
    }
    for (uint32_t i = 0; i < count && written < room; i++) {
        size_t bytes = MIN(pieces[i].iov_len, MIN(room - written, WRITE_MAX));
        bool last = i + 1 == count || written + bytes == room;
        if (tcp_write(pcb, pieces[i].iov_base, (u16_t)bytes, last ? 0 : TCP_WRITE_FLAG_MORE) != ERR_OK) {
            *again = pcb->snd_queuelen == 0;
            break;
        }
        written += bytes;
        if (bytes < pieces[i].iov_len) {
            break;
        }
    }
    connection->written += written;
    if (written > 0) {
        tcp_output(pcb);
    }
    return written;
}

void
connection_finish(struct ethernet_connection *connection)
{
    if (!connection->finished) {
        connection->finished = true;
        uint32_t before = stack_enter(connection->ethernet, connection->bucket);
        tcp_shutdown(connection->pcb, 0, 1);
        stack_enter(connection->ethernet, before);
    }
}

void
connection_taken(struct ethernet_connection *connection, size_t bytes)
{
    while (bytes > 0) {
        u16_t part = (u16_t)MIN(bytes, UINT16_MAX);
        tcp_recved(connection->pcb, part);
        bytes -= part;
    }
}

/* Unread input would make closing a reset, which may overtake the last reply; and a peer that found the window shut
 * would ask for ever. What it still sends is answered with a reset. */
static void
open_window(struct tcp_pcb *pcb)
{
    while (pcb->rcv_wnd < TCP_WND_MAX(pcb)) {
        tcp_recved(pcb, (u16_t)MIN(TCP_WND_MAX(pcb) - pcb->rcv_wnd, UINT16_MAX));
    }
}

void
connection_release(struct ethernet_connection *connection)
{
    struct tcp_pcb *pcb = connection->pcb;
    uint32_t before = stack_enter(connection->ethernet, connection->bucket);

    connection->owner = NULL;
    if (connection->acknowledged != connection->written) {
        tcp_abort(pcb); /* lwIP would still send from the owner's memory */
    } else {
        move(connection, CONNECTION_LEAVING);
        open_window(pcb);
        if (tcp_close(pcb) != ERR_OK) {
            tcp_abort(pcb);
        }
    }
    stack_enter(connection->ethernet, before);
}
