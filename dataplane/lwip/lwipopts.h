/* lwipopts.h - how lwIP is built: raw API on one thread, every pool of a fixed size, timers called by us. */
#pragma once
#include <stdint.h>

#ifdef NDEBUG
#define LWIP_NOASSERT
#endif

/* ---- no threads, no clock of its own ---- */
#define NO_SYS               1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_TIMERS          0
#define LWIP_NETCONN         0
#define LWIP_SOCKET          0
#define LWIP_NO_CTYPE_H      1

/* ---- protocols ---- */
#define LWIP_IPV4                    1
#define LWIP_IPV6                    0
#define LWIP_ARP                     1
#define LWIP_ETHERNET                1
#define LWIP_ICMP                    1
#define LWIP_TCP                     1
#define LWIP_UDP                     0
#define LWIP_RAW                     0
#define LWIP_DHCP                    0
#define LWIP_DNS                     0
#define LWIP_IGMP                    0
#define LWIP_SINGLE_NETIF            1
#define IP_FORWARD                   0
#define IP_OPTIONS_ALLOWED           0
#define LWIP_NETIF_LOOPBACK          0
#define LWIP_NETIF_HWADDRHINT        1
#define LWIP_CHECKSUM_CTRL_PER_NETIF 1
#define ETH_PAD_SIZE                 0

/* ---- memory: pools only, so that nothing grows and nothing fragments ---- */
#define MEM_LIBC_MALLOC               0
#define MEMP_MEM_MALLOC               0
#define MEM_ALIGNMENT                 8
#define MEM_USE_POOLS                 1
#define MEMP_USE_CUSTOM_POOLS         1
#define MEM_USE_POOLS_TRY_BIGGER_POOL 1
#define STACK_CONNECTIONS             19456 /* checked against config/limits.h in ethernet_stack_private.h */
#define STACK_SEGMENTS                32768 /* sent and not acknowledged, received out of order */
#define MEMP_NUM_TCP_PCB              STACK_CONNECTIONS
#define MEMP_NUM_TCP_PCB_LISTEN       8
#define MEMP_NUM_TCP_SEG              STACK_SEGMENTS
#define MEMP_NUM_PBUF                 65535 /* what a pool may have */
#define PBUF_POOL_SIZE                0
#define PBUF_POOL_BUFSIZE             64
#define LWIP_SUPPORT_CUSTOM_PBUF      1
/* What waits for ARP may outlive the session whose memory it shows: copied, unless it is one block of lwIP's own. */
#define PBUF_NEEDS_COPY(p)            (((p)->type_internal & PBUF_TYPE_FLAG_STRUCT_DATA_CONTIGUOUS) == 0)

/* ---- ARP ---- */
#define ARP_TABLE_SIZE                256
#define ARP_QUEUEING                  1
#define ARP_QUEUE_LEN                 8
#define MEMP_NUM_ARP_QUEUE            256
#define ETHARP_SUPPORT_STATIC_ENTRIES 0

/* ---- fragments: of pings only, TCP in fragments is dropped before it comes here ---- */
#define IP_REASSEMBLY          1
#define IP_REASS_MAX_PBUFS     16
#define MEMP_NUM_REASSDATA     4
#define IP_REASS_CHECK_OVERLAP 1
#define IP_REASS_FREE_OLDEST   1
#define IP_REASS_MAXAGE        3
#define IP_FRAG                1
#define MEMP_NUM_FRAG_PBUF     16

/* ---- TCP ---- */
#define TCP_MSS                        8961 /* of the largest MTU; a connection's own is smaller */
#define LWIP_WND_SCALE                 1
#define TCP_RCV_SCALE                  3
#define TCP_WND                        (256 * 1024)
#define TCP_WND_UPDATE_THRESHOLD       (TCP_WND / 8)
#define TCP_SND_BUF                    (256 * 1024)
#define TCP_SND_QUEUELEN               1024
#define TCP_SNDLOWAT                   (TCP_SND_BUF / 2)
#define TCP_SNDQUEUELOWAT              (TCP_SND_QUEUELEN / 2)
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1 /* they want room for TCP_MSS in buffers of PBUF_POOL, which is not used */
#define TCP_OVERSIZE                   0 /* everything is sent from where it lies */
#define TCP_QUEUE_OOSEQ                1
#define TCP_OOSEQ_MAX_BYTES            TCP_WND
#define TCP_OOSEQ_MAX_PBUFS            1
#define TCP_OOSEQ_PBUFS_LIMIT(pcb)     ethernet_stack_ooseq_limit()
#define LWIP_TCP_SACK_OUT              1
#define LWIP_TCP_MAX_SACK_NUM          4
#define LWIP_TCP_KEEPALIVE             1
#define LWIP_TCP_PCB_NUM_EXT_ARGS      1
#define TCP_LISTEN_BACKLOG             0 /* ethernet_stack_connection.c bounds half-open connections better */
#define TCP_CALCULATE_EFF_SEND_MSS     1
#define TCP_MSL                        5000
#define TCP_TMR_INTERVAL               50 /* ms; retransmission counts in twice that */
#define LWIP_CALLBACK_API              1
#define SO_REUSE                       0

/* ---- statistics: the counters table takes them from here ---- */
#define LWIP_STATS                    1
#define LWIP_STATS_LARGE              1
#define MIB2_STATS                    1
#define MIB2_COPY_SYSUPTIME_TO(value) (*(value) = 0) /* no clock is asked */

/* ---- hooks ---- */
struct ip4_addr;
struct pbuf;
struct tcp_hdr;
struct tcp_pcb;
uint32_t ethernet_stack_isn(const struct ip4_addr *local, uint16_t local_port, const struct ip4_addr *remote,
                            uint16_t remote_port);
#define LWIP_HOOK_TCP_ISN(local, local_port, remote, remote_port)                                                      \
    ethernet_stack_isn(local, local_port, remote, remote_port)
signed char ethernet_stack_saw_segment(struct tcp_pcb *pcb, const struct tcp_hdr *header);
#define LWIP_HOOK_TCP_INPACKET_PCB(pcb, header, options, options1, options2, p) ethernet_stack_saw_segment(pcb, header)
uint16_t ethernet_stack_ooseq_limit(void);
