/* log.h - one line a record on stderr; under systemd with the journal's priorities instead of a time. Management
 * thread.
 *
 * Never waits: a record that a full pipe has no room for is dropped, and the next that fits says how many were. */
#pragma once
#include "config/base.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

/* Look at stderr once; "debug", "info", "warning" or "error". */
void log_open(const char *level);
void log_set_level(const char *level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)

/* A whole line as it is, whatever the level: the ready line. */
void log_line(const char *line);
