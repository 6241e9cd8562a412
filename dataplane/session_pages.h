/* session_pages.h - what the management core asks about sessions: pages of rows, and kills (session_list.h). */
#pragma once
#include "dataplane/session_list.h"

struct lcore;

/* Fill in a page and mail it back. Bounded by the page; sessions opened meanwhile may be missing. */
void session_pages_list(struct lcore *lcore, struct session_list *list);
void session_pages_kill(struct lcore *lcore, struct session_kill *kill);
