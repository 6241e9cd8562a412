/* glob.h - Redis' patterns: '*', '?', "[a-c]", "[^a]", backslash. Pure; no recursion. */
#pragma once
#include "config/base.h"

/* Whether the whole text matches, ASCII letters in either case.
 * Cost: at most pattern bytes x text bytes; callers bound both. */
bool glob_match_nocase(struct slice pattern, struct slice text);
