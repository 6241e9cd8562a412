/* log.h - one line a record on stderr; under systemd with the journal's priorities instead of a time. Management
 * thread.
 *
 * Never waits: a record that a full pipe has no room for is dropped, and the next that fits says how many were. One
 * place in the program writes at most LOG_SITE_BURST records in LOG_SITE_MS, so that peers cannot fill a disk; the next
 * one after that says how many it left out. The last records stay in memory for `sluicectl log`. */
#pragma once
#include "config/base.h"

#define LOG_SITE_BURST 20
#define LOG_SITE_MS    10000
#define LOG_KEPT       256 /* records */
#define LOG_KEPT_BYTES 512 /* of one; the rest is cut */

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

/* Look at stderr once; "debug", "info", "warning" or "error". */
void log_open(const char *level);
void log_set_level(const char *level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)

/* Call `each` for the last `count` records that were written, oldest first. */
void log_recall(size_t count, void (*each)(void *context, int64_t unix_ms, const char *level, const char *text),
                void *context);

/* A whole line as it is, whatever the level: the ready line. */
void log_line(const char *line);
