/* port_socket.h - kernel TCP and Unix stream sockets: epoll, recv, send; never a blocking call. */
#pragma once
#include "dataplane/port.h"

enum socket_flag { SOCKET_UNIX = 1 << 0 };

/* Boot: epoll and the receive slots. 0 or -errno. */
int port_socket_open(struct lcore *lcore, struct port **out);

/* A connection that the management core accepted (nonblocking): a session opens, or the descriptor is closed and
 * counted. Control path: some system calls. */
void port_socket_adopt(struct lcore *lcore, int fd, uint32_t flags);
