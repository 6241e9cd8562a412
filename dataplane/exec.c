/* exec.c - which handler runs a command. */
#include "dataplane/exec.h"

#define EXEC_ROW(id, name, template, args_min, args_max, flags, first, last, step, handler, ...)                       \
    [COMMAND_##id] = (handler),
const exec_fn exec_table[COMMAND_COUNT] = { COMMAND_TABLE(EXEC_ROW) };
#undef EXEC_ROW
