/* cpu.h - is this CPU one that the program was compiled for? */
#pragma once

/* First of all in main(): without an instruction set that the compiler was told to use (-mcpu=neoverse-v1 on a Graviton
 * 2), say which and exit with 1. Later it would be SIGILL, somewhere.
 *
 * Threads  before any other one. */
void cpu_require(const char *program);
