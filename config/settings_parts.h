/* settings_parts.h - what the files settings*.c share; nobody else includes it. */
#pragma once
#include "config/settings.h"
#include <libconfig.h>

/* ---- settings_text.c: files, includes, and the traps of libconfig 1.5 ---- */

#define SETTINGS_FILE_BYTES_MAX (1 * MIB) /* all files together */
#define SETTINGS_FILES_MAX      16
#define SETTINGS_NESTING_MAX    8

/* Where a line of the joined text stands. */
struct text_line {
    uint32_t file, line;
};

struct settings_text {
    char *bytes; /* ends in NUL; what libconfig reads */
    size_t used, room;
    struct text_line *lines;
    size_t line_count, line_room;
    char *files[SETTINGS_FILES_MAX]; /* names for messages */
    uint32_t file_count;
};

/* Read a file and what it includes into one text. Numbers are checked on the way, because libconfig 1.5 reads
 * 137438953472 as 0, 010 as 10 and 1e3 as a double; those outside 32 bits get the suffix it needs.
 * False with a sentence in `why`. settings_text_fini() in both cases. */
bool settings_text_read(struct settings_text *text, const char *path, char *why, size_t why_bytes);
/* The same for a text at hand; `name` stands for its file. */
bool settings_text_take(struct settings_text *text, const char *name, const char *bytes, char *why, size_t why_bytes);
void settings_text_fini(struct settings_text *text);
/* "file:line" of a line of the joined text (from 1). Returns `out`. */
#define PLACE_BYTES SETTING_PLACE_BYTES
const char *settings_text_place(const struct settings_text *text, unsigned line, char out[PLACE_BYTES]);

/* ---- settings_value.c: one value ---- */

/* Set the field of `setting` in the struct at `base`. False: `why` names the setting, the value and what is expected.
 */
bool setting_parse(const struct setting *setting, const char *value, void *base, char *why, size_t why_bytes);
/* libconfig's value as text for setting_parse(); false when its type does not fit. Valid as long as `element`. */
#define VALUE_BYTES 32
bool setting_value_text(const struct setting *setting, const config_setting_t *element, char scratch[VALUE_BYTES],
                        const char **value, char *why, size_t why_bytes);

/* ---- settings_lists.c ---- */

/* The lists `ports` and `users`; on false `why` has no place yet and *line is where. */
bool settings_parse_ports(const config_setting_t *list, struct settings *out, unsigned *line, char *why,
                          size_t why_bytes);
bool settings_parse_users(const config_setting_t *list, struct settings *out, unsigned *line, char *why,
                          size_t why_bytes);
extern const struct setting port_settings_table[], user_settings_table[];
extern const size_t port_settings_count, user_settings_count;
/* Whether a row is one of this kind of port. */
bool port_setting_applies(enum port_type type, const struct setting *setting);
/* A port's value as setting_print() does. */
const char *port_setting_print(const struct port_settings *port, const struct setting *setting,
                               char out[SETTING_PRINT_BYTES]);

/* ---- settings_ethernet.c: texts of an ethernet port; false with a sentence in `why` ---- */

bool ethernet_parse_address(const char *text, struct port_settings *port, char *why, size_t why_bytes);
bool ethernet_parse_gateway(const char *text, struct port_settings *port, char *why, size_t why_bytes);
bool ethernet_parse_mac(const char *text, struct port_settings *port, char *why, size_t why_bytes);
bool ethernet_parse_listen(const char *text, struct port_settings *port, char *why, size_t why_bytes);
/* The same values as text again. */
void ethernet_print_address(const struct port_settings *port, char out[SETTING_PRINT_BYTES]);
void ethernet_print_gateway(const struct port_settings *port, char out[SETTING_PRINT_BYTES]);
void ethernet_print_mac(const struct port_settings *port, char out[SETTING_PRINT_BYTES]);
void ethernet_print_listen(const struct port_settings *port, char out[SETTING_PRINT_BYTES]);

/* Text, or "#" and 64 hex digits, into a digest. False: `why` without a place. The text itself is never in `why`. */
bool password_parse(const char *text, uint8_t sha256[32], char *why, size_t why_bytes);
/* "#" and hex. */
#define PASSWORD_PRINT_BYTES 66
void password_print(const uint8_t sha256[32], char out[PASSWORD_PRINT_BYTES]);

/* Write a sentence; always false, so that a parser can return it. */
bool complain(char *why, size_t why_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same about a setting that was read: "file:line: name: ", "--set name: " or "default of name: " comes first. */
bool complain_about(const struct settings *settings, enum setting_id id, char *why, size_t why_bytes,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Append `; did you mean "x"?` when a name is near. Always false. */
bool complain_unknown(char *why, size_t why_bytes, const char *kind, const char *name, const char *const *names,
                      size_t count);
