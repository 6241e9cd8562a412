#include "config/cpu.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

struct instruction_set {
    const char *name; /* as in /proc/cpuinfo */
    unsigned long word, bit;
};

/* What this compilation may use of what compilers use by themselves. x86-64 is compiled for all CPUs of that name. */
static const struct instruction_set compiled_for[] = {
#ifdef __ARM_FEATURE_ATOMICS
    { "atomics", AT_HWCAP, HWCAP_ATOMICS },
#endif
#ifdef __ARM_FEATURE_RCPC
    { "lrcpc", AT_HWCAP, HWCAP_LRCPC },
#endif
#ifdef __ARM_FEATURE_CRC32
    { "crc32", AT_HWCAP, HWCAP_CRC32 },
#endif
#ifdef __ARM_FEATURE_COMPLEX
    { "fcma", AT_HWCAP, HWCAP_FCMA },
#endif
#ifdef __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
    { "asimdhp", AT_HWCAP, HWCAP_ASIMDHP },
#endif
#ifdef __ARM_FEATURE_DOTPROD
    { "asimddp", AT_HWCAP, HWCAP_ASIMDDP },
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
    { "i8mm", AT_HWCAP2, HWCAP2_I8MM },
#endif
#ifdef __ARM_FEATURE_SVE
    { "sve", AT_HWCAP, HWCAP_SVE },
#endif
    { NULL, 0, 0 },
};

void
cpu_require(const char *program)
{
    uint32_t lacking = 0;

    for (const struct instruction_set *set = compiled_for; set->name != NULL; set++) {
        if ((getauxval(set->word) & set->bit) == 0) {
            if (lacking++ == 0) {
                fprintf(stderr, "%s: this CPU lacks", program);
            }
            fprintf(stderr, " %s", set->name);
        }
    }
    if (lacking > 0) {
        fputs(", which this program was compiled to use: take one for this CPU, or compile it here\n", stderr);
        exit(1);
    }
}
