/* session_private.h - between session.c and session_input.c. */
#pragma once
#include "dataplane/session.h"

/* Answer nothing more; go when the output is gone. */
void session_start_closing(struct session *session);
/* Give back what is kept of an incomplete request: where its arguments lie, and its bytes. */
void session_spans_give(struct session *session);
void session_own_give(struct session *session);
