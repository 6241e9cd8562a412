/* sluicectl_keys.c - what takes time: slow requests, hot keys. */
#include "tools/sluicectl.h"

#define REQUEST_COLUMNS 34 /* of a slow request, so that a row fits 80 */

static void
add_text(char *line, size_t room, const char *text)
{
    size_t used = strlen(line);
    snprintf(line + used, room - used, "%s%s", used == 0 ? "" : " ", text);
}

/* The request as people would write it, cut to its column unless all is wanted. */
static void
request_print(const json_t *row, bool full, char line[CELL_BYTES])
{
    const json_t *args = json_object_get(row, "args");
    char neighbours[32];

    line[0] = '\0';
    add_text(line, CELL_BYTES, get_text(row, "command"));
    if (get_number(row, "neighbours") > 1) {
        snprintf(neighbours, sizeof(neighbours), "(%.0f in a row)", get_number(row, "neighbours"));
        add_text(line, CELL_BYTES, neighbours);
    }
    for (size_t i = 0; i < json_array_size(args); i++) {
        add_text(line, CELL_BYTES, json_string_value(json_array_get(args, i)));
    }
    if (json_array_size(args) < (size_t)get_number(row, "args_count")) {
        add_text(line, CELL_BYTES, "...");
    }
    if (!full && strlen(line) > REQUEST_COLUMNS) {
        strcpy(line + REQUEST_COLUMNS - 3, "...");
    }
}

int
slowlog_run(const struct options *options)
{
    static const struct column columns[] = {
        { "TIME", "time", COLUMN_TEXT },           { "LCORE", "lcore", COLUMN_EXACT },
        { "WAITED us", "queue_us", COLUMN_COUNT }, { "TOOK us", "service_us", COLUMN_COUNT },
        { "SESSION", "session", COLUMN_EXACT },    { "REQUEST", "request", COLUMN_TEXT },
    };
    json_t *args = options->limit == UINT64_MAX ? NULL : json_pack("{s:I}", "limit", (json_int_t)options->limit);
    json_t *result = call(options, "slowlog", args), *row;
    size_t at;

    if (options->json) {
        return print_json(result);
    }
    json_array_foreach(json_object_get(result, "records"), at, row)
    {
        char line[CELL_BYTES], clock[32];
        time_t seconds = (time_t)(get_number(row, "unix_ms") / 1000);
        struct tm parts;
        localtime_r(&seconds, &parts);
        strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
        request_print(row, options->full, line);
        json_object_set_new(row, "time", json_string(clock));
        json_object_set_new(row, "request", json_string(line));
    }
    table_print(json_object_get(result, "records"), columns, ARRAY_COUNT(columns),
                "no request was slow; slowlog.threshold_us says what is");
    json_decref(result);
    return EXIT_GOOD;
}

int
keys_big_run(const struct options *options)
{
    static const struct column columns[] = { { "BYTES", "bytes", COLUMN_BYTES },
                                             { "VALUE", "value_bytes", COLUMN_EXACT },
                                             { "TTL", "ttl_s", COLUMN_SECONDS },
                                             { "KEY", "key", COLUMN_TEXT } };
    json_t *args = options->limit == UINT64_MAX ? NULL : json_pack("{s:I}", "limit", (json_int_t)options->limit);
    struct options longer = *options;
    json_t *result, *type;
    size_t at;

    longer.timeout_s += 600; /* 100 million keys take some minutes */
    result = call(&longer, "keys big", args);
    if (options->json) {
        return print_json(result);
    }
    json_array_foreach(json_object_get(result, "types"), at, type)
    {
        char bytes[CELL_BYTES];
        printf("%s%s: %.0f keys, %s\n", at == 0 ? "" : "\n", get_text(type, "type"), get_number(type, "keys"),
               cell_print(json_object_get(type, "bytes"), COLUMN_BYTES, bytes));
        if (json_array_size(json_object_get(type, "top")) > 0) {
            table_print(json_object_get(type, "top"), columns, ARRAY_COUNT(columns), "");
        }
    }
    json_decref(result);
    return EXIT_GOOD;
}

int
keys_hot_run(const struct options *options)
{
    static const struct column columns[] = { { "SHARE", "share", COLUMN_SHARE },
                                             { "COUNT", "count", COLUMN_EXACT },
                                             { "TOO HIGH BY UP TO", "error", COLUMN_EXACT },
                                             { "KEY", "key", COLUMN_TEXT } };
    uint64_t seconds = options->seconds == UINT64_MAX ? 2 : options->seconds;
    struct options longer = *options;
    json_t *args = json_pack("{s:I}", "seconds", (json_int_t)seconds);

    longer.timeout_s += (double)seconds;
    if (options->limit != UINT64_MAX) {
        json_object_set_new(args, "limit", json_integer((json_int_t)options->limit));
    }
    json_t *result = call(&longer, "keys hot", args);
    if (options->json) {
        return print_json(result);
    }
    printf("%.0f requests with a key in %llu s\n", get_number(result, "requests"), (unsigned long long)seconds);
    table_print(json_object_get(result, "keys"), columns, ARRAY_COUNT(columns), "no request had a key");
    json_decref(result);
    return EXIT_GOOD;
}
