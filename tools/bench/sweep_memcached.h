/* sweep_memcached.h - a sweep beside memcached: its meta commands, whose replies hold no key and so are the same for
 * all.
 *
 * Source   memcached's protocol.txt, "Meta Commands"; 1.6.13 or later. */
#pragma once
#include "tools/bench/sweep_form.h"

/* What sweep_form_learn() learns elsewhere. */
void sweep_memcached_form(struct sweep_form *form, uint32_t side, uint64_t value_bytes);

/* Read the first line of `view`, a reply that is not of the form. CLIENT_OK: *bytes long, *root is an error, nil, or a
 * status with its text; CLIENT_TIMEOUT: it is not whole. */
enum client_status sweep_memcached_decode(struct slice view, struct value *root, size_t *bytes);

/* Delete chunks [0, count) of a side; waits a little for the end. `client` has nothing in flight. */
void sweep_memcached_delete(struct client *client, uint32_t side, uint64_t count);
