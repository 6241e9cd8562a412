/* fabric_rig.h - one real lcore turned by hand, a fabric port on the fault fabric, and a clock that the test moves. */
#pragma once
#include "dataplane/port_fabric_private.h"
#include "test/fault_fabric.h"
#include "tools/client/fabric_end.h"

#define RIG_STEP_US    500
#define RIG_LEASE_MS   100
#define RIG_REPLY_ROOM 8192

struct rig {
    struct settings settings;
    struct dataplane *dataplane;
    struct lcore *lcore;
    struct port_settings port_settings;
    struct fault_fabric *fabric;
    struct port *port;
    uint64_t now_us, turns;
    int control; /* our end of a Unix stream session of the lcore */
    char reply[RIG_REPLY_ROOM];
    size_t reply_bytes;
};

/* Data plane with one lcore, its socket port and a control session. */
void rig_start(struct rig *rig);
void rig_stop(struct rig *rig);

/* A fabric port named "fault". 0, or what port_fabric_open_on() answered. The fault fabric and its clock start anew. */
int rig_open_port(struct rig *rig, const struct fault_config *config, uint64_t seed, char *why, size_t why_bytes);
/* False, and the port stays, while it has sessions. */
bool rig_close_port(struct rig *rig);
struct fabric_port *rig_port(struct rig *rig);

/* One step of the fabric and one turn of the lcore. */
void rig_turn(struct rig *rig);
void rig_turns(struct rig *rig, uint32_t turns);

/* Send one command over the control session and turn until its answer is there: rig->reply, NUL-terminated.
 * `words` end with NULL; an address among them is given by `address` at its place, marked by "@". */
const char *rig_ask(struct rig *rig, const char *const *words, struct slice address);
/* The value that follows `name` in the array in rig->reply. False: none. */
bool rig_reply_field(const struct rig *rig, const char *name, struct slice *value);

/* A client's end on the fault fabric. */
void rig_end_open(struct rig *rig, struct fabric_end *end, enum endpoint_send send);
/* FABRIC ATTACH or RESUME; `taken` as the client says it. False: the server answered an error: rig->reply. */
bool rig_attach(struct rig *rig, struct fabric_end *end, const char *wire);
bool rig_resume(struct rig *rig, struct fabric_end *end, uint64_t taken, struct fabric_attachment *attachment);
/* The server's side of it. NULL: gone. */
struct fabric_session *rig_session(struct rig *rig, const struct fabric_end *end);

/* What a port without sessions must look like. Prints what is wrong. */
bool rig_port_is_clean(struct rig *rig);
