/* escape.h - text from files and command lines written where some characters mean something. */
#pragma once
#include "config/base.h"

enum escape {
    ESCAPE_TERMINAL, /* a terminal or a log: nothing but what is seen */
    ESCAPE_MARKDOWN, /* a cell of a table or a list entry */
    ESCAPE_HTML,     /* between tags, and in an attribute in either quotes */
    ESCAPE_GNUPLOT,  /* between single quotes: there gnuplot runs no `command` and knows no \ */
};

/* Any bytes are taken: control characters and what is no UTF-8 become '?', a line end or a tab becomes a blank. */
void escape_write(FILE *to, const char *text, enum escape form);

/* Characters that ESCAPE_TERMINAL writes: columns, but for wide and combining ones. */
uint32_t escape_width(const char *text);
