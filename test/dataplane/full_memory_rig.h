/* full_memory_rig.h - one lcore turned by hand, clients on a port of memory, and memory that is full at the moment that
 * a test wants. One thread; all of it lives from full_memory_open() to full_memory_close(). */
#pragma once
#include "dataplane/dataplane.h"

#define SLOT_BYTES 16384
#define OUT_BYTES  (5 * MIB)
#define CLIENTS    64
#define TURNS      64

struct client {
    struct session *session; /* NULL: closed, or never opened */
    uint8_t *slot;           /* of SLOT_BYTES */
    bool slot_lent;
    bool blocked; /* it does not read */
    bool frames;  /* its port knows only slots, as the fabric does */
    char *out;    /* of OUT_BYTES, unless blocked from the start */
    size_t out_bytes;
};

extern struct settings settings; /* as they were at the start */
extern struct dataplane *dataplane;
extern struct lcore *lcore;
extern struct port port;
extern struct client clients[CLIENTS];

/* While `starving`, memory_take() answers NULL, and memory_refusal() why. */
extern bool starving;
extern enum memory_refusal refusal;
extern uint64_t reserve_takes; /* calls of memory_take_reserve() */

/* CUnit's: 0, or not. */
int full_memory_open(void);
int full_memory_close(void);

void turn(uint32_t turns);
void turn_for_ms(int64_t ms);

struct client *client_open(bool blocked);
void client_close(struct client *client);
/* As a socket port does. Returns the bytes that found a place. */
size_t client_offer(struct client *client, const char *bytes, size_t count);
/* All of it, within some turns. Returns whether it could be. */
bool client_send(struct client *client, const char *bytes, size_t count);
void client_ask(struct client *client, const char *line);
bool client_got(const struct client *client, const char *expected);
bool client_got_beginning(const struct client *client, const char *expected);
/* A string value, or a hash of one field, by way of a client that goes again. */
void put(const char *before, size_t value_bytes);
void put_string(char name, size_t value_bytes);
