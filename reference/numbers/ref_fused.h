/* Fused multiply-adds in loops. fmaf is exactly rounded as a function of the C library and as an instruction, so which
 * of them it is changes no bit. x86-64 without compiler flags has no such instruction: there REF_FUSED compiles a body
 * twice, and what the processor can do is asked when it is called.
 *
 *   REF_FUSED_BODY void ref_name_body(float *x, size_t n) { ... }
 *   REF_FUSED(ref_name, (float *x, size_t n), (x, n))    defines void ref_name(float *x, size_t n) */
#ifndef KVG_REFERENCE_NUMBERS_REF_FUSED_H
#define KVG_REFERENCE_NUMBERS_REF_FUSED_H

#include <math.h>

#define REF_FUSED_BODY static inline __attribute__((always_inline))

#if defined(__x86_64__) && !defined(__FMA__)
#define REF_FUSED(name, parameters, arguments)                                                                \
    __attribute__((target("avx2,fma"))) static void name##_by_instruction parameters                          \
    {                                                                                                         \
        name##_body arguments;                                                                                \
    }                                                                                                         \
    void name parameters                                                                                      \
    {                                                                                                         \
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) name##_by_instruction arguments; \
        else name##_body arguments;                                                                           \
    }
#else
#define REF_FUSED(name, parameters, arguments) \
    void name parameters                       \
    {                                          \
        name##_body arguments;                 \
    }
#endif

#endif
