#include "config/address.h"
#include <arpa/inet.h>
#include <stddef.h>
#include <sys/un.h>

bool
address_parse(struct slice text, struct address *out)
{
    char word[INET6_ADDRSTRLEN];

    if (text.bytes >= 2 && text.data[0] == '[' && text.data[text.bytes - 1] == ']') {
        text = slice_of(text.data + 1, text.bytes - 2);
        if (memchr(text.data, ':', text.bytes) == NULL) {
            return false;
        }
    }
    if (text.bytes == 0 || text.bytes >= sizeof(word)) {
        return false;
    }
    memcpy(word, text.data, text.bytes);
    word[text.bytes] = '\0';
    memset(out, 0, sizeof(*out));
    out->family = strchr(word, ':') != NULL ? AF_INET6 : AF_INET;
    return strlen(word) == text.bytes && inet_pton(out->family, word, out->bytes) == 1;
}

bool
address_is_loopback(const struct address *address)
{
    static const uint8_t one[16] = { [15] = 1 };
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

    if (address->family == AF_INET) {
        return address->bytes[0] == 127;
    }
    return memcmp(address->bytes, one, sizeof(one)) == 0 ||
           (memcmp(address->bytes, mapped, sizeof(mapped)) == 0 && address->bytes[12] == 127);
}

socklen_t
address_to_sockaddr(const struct address *address, uint16_t port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (address->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, address->bytes, sizeof(in->sin_addr));
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, address->bytes, sizeof(in6->sin6_addr));
    return sizeof(*in6);
}

const char *
address_print(char out[ADDRESS_TEXT_BYTES], const struct sockaddr_storage *from, socklen_t bytes)
{
    char host[INET6_ADDRSTRLEN];

    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(out, ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(in->sin_port));
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(out, ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_un *un = (const struct sockaddr_un *)from;
        int path_bytes = bytes > offsetof(struct sockaddr_un, sun_path)
                             ? (int)strnlen(un->sun_path, bytes - offsetof(struct sockaddr_un, sun_path))
                             : 0;
        snprintf(out, ADDRESS_TEXT_BYTES, "unix:%.*s", path_bytes, un->sun_path);
    }
    return out;
}
