/* notify.h - what systemd wants to hear (sd_notify(3)): one datagram to $NOTIFY_SOCKET. The protocol is ten lines and
 * has been stable since 2010; libsystemd would bring 0.8 MB and its dependencies for it. */
#pragma once
#include "config/base.h"

/* Send "READY=1" or the like. False: nobody asked, or it could not be sent. Never waits. */
bool notify_send(const char *state);

/* The settings are being read again; "READY=1" ends it. */
void notify_reloading(void);
/* Ending, which takes up to `most_ms`: systemd waits so long, whatever TimeoutStopSec= says. */
void notify_stopping(uint64_t most_ms);

/* Half of what WatchdogSec= leaves this process between two "WATCHDOG=1", in ms; 0: no watchdog. */
uint64_t notify_watchdog_ms(void);
