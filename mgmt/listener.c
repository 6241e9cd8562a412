#include "mgmt/listener.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define BACKLOG 1024 /* the kernel cuts it to net.core.somaxconn */

static int
fail(struct listener *listener, int error, const char *why_format, const char *what, char *why, size_t why_bytes)
{
    if (listener->fd >= 0) {
        close(listener->fd);
        listener->fd = -1;
    }
    snprintf(why, why_bytes, "%s: %s: %s", what, why_format, strerror(error));
    return -error;
}

/* ---- TCP ---- */

int
listener_open_tcp(struct listener *listener, const struct address *address, uint16_t port, const char *group, char *why,
                  size_t why_bytes)
{
    struct sockaddr_storage at;
    socklen_t bytes = address_to_sockaddr(address, port, &at);
    int on = 1;

    memset(listener, 0, sizeof(*listener));
    address_print(listener->text, &at, bytes);
    listener->fd = socket(address->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->fd < 0) {
        return fail(listener, errno, "cannot open a socket", listener->text, why, why_bytes);
    }
    setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->family == AF_INET6) {
        setsockopt(listener->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (bind(listener->fd, (struct sockaddr *)&at, bytes) != 0 || listen(listener->fd, BACKLOG) != 0) {
        char remedy[128];
        snprintf(remedy, sizeof(remedy),
                 errno == EADDRINUSE ? "the port is taken, choose another with --set %s.port=PORT"
                 : errno == EACCES   ? "no right to this port, choose one above 1023 with --set %s.port=PORT"
                                     : "cannot listen, choose another with --set %s.address=ADDRESS",
                 group);
        return fail(listener, errno, remedy, listener->text, why, why_bytes);
    }
    getsockname(listener->fd, (struct sockaddr *)&at, &bytes);
    address_print(listener->text, &at, bytes);
    return 0;
}

uint16_t
listener_port(const struct listener *listener)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof(at);

    if (getsockname(listener->fd, (struct sockaddr *)&at, &bytes) != 0) {
        return 0;
    }
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                          : ((struct sockaddr_in *)&at)->sin_port);
}

/* ---- Unix ---- */

/* The socket's directory, held under a lock so that two starters do not both replace one stale socket. */
static int
lock_directory(const char *path)
{
    char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *slash = strrchr(path, '/');
    size_t bytes = slash == NULL ? 0 : (size_t)(slash - path);

    snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 1 : bytes == 0 ? 1 : (int)bytes, slash == NULL ? "." : path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Whether somebody answers at `path`. */
static bool
is_alive(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return true; /* unknown: leave it alone */
    }
    /* A full backlog is EAGAIN: alive. Only "refused" means that nobody listens. */
    bool alive = connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 || errno != ECONNREFUSED;
    close(fd);
    return alive;
}

/* 0, or a positive errno: EEXIST for what is no socket, EADDRINUSE for one that is served. */
static int
clear_path(const struct sockaddr_un *at)
{
    struct stat stat;

    if (lstat(at->sun_path, &stat) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (!S_ISSOCK(stat.st_mode)) {
        return EEXIST;
    }
    if (is_alive(at)) {
        return EADDRINUSE;
    }
    return unlink(at->sun_path) == 0 ? 0 : errno;
}

/* Bound without any right, then given its owner and mode, then listening: nobody gets in before. 0 or positive errno.
 */
static int
bind_with_mode(struct listener *listener, const struct sockaddr_un *at, uint32_t mode, gid_t group)
{
    struct stat stat;
    mode_t before = umask(0777);
    int failed = bind(listener->fd, (const struct sockaddr *)at, sizeof(*at));
    int error = errno;

    umask(before);
    if (failed != 0) {
        return error;
    }
    if ((group != (gid_t)-1 && lchown(at->sun_path, (uid_t)-1, group) != 0) || chmod(at->sun_path, mode) != 0 ||
        lstat(at->sun_path, &stat) != 0 || listen(listener->fd, BACKLOG) != 0) {
        error = errno;
        unlink(at->sun_path);
        return error;
    }
    listener->device = stat.st_dev;
    listener->inode = stat.st_ino;
    return 0;
}

int
listener_open_unix(struct listener *listener, const char *path, uint32_t mode, gid_t group, const char *setting,
                   char *why, size_t why_bytes)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    char reason[160];

    memset(listener, 0, sizeof(*listener));
    listener->is_unix = true;
    listener->fd = -1;
    if (strlen(path) >= sizeof(at.sun_path)) {
        snprintf(reason, sizeof(reason), "a socket's path has at most %zu bytes, choose another with --set %s=PATH",
                 sizeof(at.sun_path) - 1, setting);
        return fail(listener, ENAMETOOLONG, reason, path, why, why_bytes);
    }
    strcpy(at.sun_path, path);
    strcpy(listener->path, path);
    snprintf(listener->text, sizeof(listener->text), "unix:%s", listener->path);

    int dir = lock_directory(path);
    if (dir < 0) {
        return fail(listener, errno, "cannot open its directory", path, why, why_bytes);
    }
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = listener->fd < 0 ? errno : clear_path(&at);
    if (error == 0) {
        error = bind_with_mode(listener, &at, mode, group);
    }
    close(dir);
    if (error == 0) {
        return 0;
    }
    snprintf(reason, sizeof(reason), "%s --set %s=PATH",
             error == EADDRINUSE ? "another process serves this socket, choose another with"
             : error == EEXIST   ? "a file that is no socket is in the way, remove it or choose another with"
                                 : "cannot make the socket, choose another with",
             setting);
    return fail(listener, error, reason, path, why, why_bytes);
}

void
listener_close(struct listener *listener)
{
    struct stat stat;

    if (listener->fd < 0) {
        return;
    }
    if (listener->is_unix && lstat(listener->path, &stat) == 0 && stat.st_dev == listener->device &&
        stat.st_ino == listener->inode) {
        unlink(listener->path);
    }
    close(listener->fd);
    listener->fd = -1;
}
