/* auth.h - users and passwords: SHA-256 of secrets, compared in constant time. */
#pragma once
#include "config/settings.h"

/* Index of the user whose password this is, or -1. Takes the same time whether the user exists or not.
 * Cost: one SHA-256 of the password, about 1 us; its length is limited before AUTH (LIMIT_UNAUTH_ARG_BYTES). */
int auth_check(const struct settings *settings, struct slice user, struct slice password);
