#include "dataplane/auth.h"
#include <sodium.h>

static_assert(crypto_hash_sha256_BYTES == sizeof(((struct user_settings *)0)->sha256), "a digest fills its field");

int
auth_check(const struct settings *settings, struct slice user, struct slice password)
{
    static const uint8_t nobody[crypto_hash_sha256_BYTES]; /* compared when the user does not exist */
    uint8_t digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(digest, password.data, password.bytes);

    int found = -1;
    for (uint32_t i = 0; i < settings->user_count; i++) {
        if (slice_equal(user, slice_text(settings->users[i].name))) {
            found = (int)i;
        }
    }
    const uint8_t *expected = found >= 0 ? settings->users[found].sha256 : nobody;
    bool equal = sodium_memcmp(digest, expected, sizeof(digest)) == 0;
    return equal ? found : -1;
}
