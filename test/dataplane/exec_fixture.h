/* exec_fixture.h - runs command handlers in process: decode, execute, compare the reply's bytes.
 *
 * Link with --wrap=store_update and --wrap=store_view: the fixture stands between handlers and store, so that a test
 * can make the store refuse, or make it run a change first against another version than the one that is there. */
#pragma once
#include "dataplane/exec.h"

/* '|' stands for CR LF in expected replies. */
struct exec_row {
    const char *line;  /* an inline command */
    const char *resp2; /* the reply */
    const char *resp3; /* when it differs by more than "$-1" being "_" */
};

/* Open a store and become its member. Time stands at FIXTURE_NOW_MS until a test moves it. */
#define FIXTURE_NOW_MS 1700000000000
int exec_fixture_open(void);
int exec_fixture_close(void);
extern int64_t fixture_now_ms;

/* Forget every key; nothing interferes; time is FIXTURE_NOW_MS. */
void exec_fixture_reset(void);

/* Run one inline command; the reply lives until the next call. */
struct slice exec_ask(enum wire wire, const char *line);

/* Run one command of words that may hold any bytes. */
struct slice exec_ask_words(enum wire wire, const struct slice *words, uint32_t count);

/* Decode into the fixture's request and run it once; for tests of EXEC_RETRY. */
struct exec *exec_begin(enum wire wire, const char *line);
struct exec *exec_begin_words(enum wire wire, const struct slice *words, uint32_t count);
enum exec_result exec_attempt(struct exec *exec);
struct slice exec_reply(void);

/* The reply is `expected` ('|' is CR LF). Prints both when it is not. */
bool exec_reply_is(const char *line, struct slice reply, const char *expected);

/* Every row in order over RESP2 from an empty store, then over RESP3; then both again with each kind of interference.
 * One CUnit assertion a row. */
void exec_check_rows(const struct exec_row *rows, size_t count);

/* One command and the store's refusal of it. */
struct exec_refusal {
    const char *line;
    enum store_status status;
    enum exec_result result; /* EXEC_DONE: with the reply that memory is full */
};

/* Each row against what `prepare` made: afterwards `look` still answers `expected`. One CUnit assertion or two a row.
 */
void exec_check_refusals(const struct exec_refusal *rows, size_t count, const char *prepare, const char *look,
                         const char *expected);

#define EXEC_WRONGTYPE   "-WRONGTYPE Operation against a key holding the wrong kind of value|"
#define EXEC_NOT_INTEGER "-ERR value is not an integer or out of range|"
#define EXEC_SYNTAX      "-ERR syntax error|"
#define EXEC_OOM         "-OOM command not allowed when used memory > 'maxmemory'.|"

/* Before each store_update() a run of the change sees a version that is not there. */
enum fixture_decoy { DECOY_NONE, DECOY_ABSENT, DECOY_STRING, DECOY_HASH, DECOY_ZSET, DECOY_COUNT };
extern enum fixture_decoy fixture_decoy;

/* The next store_update() calls answer from here until the list ends; entries STORE_OK go through. */
extern const enum store_status *fixture_answers;
extern uint32_t fixture_answers_left;

/* So many of the next store_view() calls see a version that is seen once. */
extern uint32_t fixture_moving_views;
extern uint64_t fixture_views; /* calls so far */

/* The subscribed state of the session that handlers see. */
void exec_fixture_subscribe(bool subscribed);
