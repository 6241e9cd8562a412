/* idle.h - what an lcore does after a turn that found nothing. */
#pragma once
#include "config/base.h"

struct lcore;

/* After every turn. spin: never leaves the CPU; yield: gives it to whoever is runnable; adaptive: spins, yields, then
 * sleeps, offline to reclamation, until a descriptor or mail wakes it or a short time is over. */
void idle_after_turn(struct lcore *lcore, uint32_t events);
