/* Op decode by both references: one problem through each, and how their answers are compared. */
#ifndef KVG_TESTS_SECOND_DECODE_COMPARE_H
#define KVG_TESTS_SECOND_DECODE_COMPARE_H

#include "second/slow_decode.h"
#include "second/slow_number.h"
#include "tests/second/decode_draw.h"

/* What was compared, and how. */
typedef struct coverage {
    uint64_t problems, outputs, lse, differing, nan, nonzero;
    uint64_t beside; /* exact tier: not the slow answer, but inside */
    uint64_t open;   /* exact tier: nothing is promised */
    uint64_t shown, shown_stream;
    unsigned windows, caps, sinks, shared, rings, swizzled, bf16, several;
    unsigned e4m3;        /* caches of other kernels */
    unsigned f32, uneven; /* model types of f32, dims that no tensor core takes */
} coverage;

/* The two outputs. */
enum { DECODE_OUTPUTS = 2 };
extern const kvg_role decode_outputs[DECODE_OUTPUTS];

/* Problem `number` of a test is to have this dialect of K; the rest goes round with the number. Of a tensor core's
 * contract, of docs/spec/simt-contract.md with f32, and of docs/spec/other-kernels.md with any format:
 * FlashAttention-3, FlashInfer's backends fa2 and fa3, and its decode without tensor cores. */
typedef decode_wish decode_wish_fn(kvg_format format, size_t dialect, uint64_t number);
decode_wish_fn decode_wish_of, decode_simt_wish_of, decode_fa3_wish_of, decode_fi2_wish_of, decode_fi3_wish_of,
    decode_one_wish_of;

/* Runs the golden reference in place; the calling test fails if it refuses. */
void decode_golden(kit *k, uint64_t stream);

/* A copy of the kit with the answer of the second reference, with this rule broken. */
kit decode_slow(const kit *golden, slow_decode_fault fault);

/* The same with one end of what the exact answer allows (slow_attention.h). */
kit decode_end(const kit *golden, int direction);

/* Elements of a tensor as numbers and as bits. */
size_t decode_elements(const kvg_tensor *tensor);
slow_number decode_element(const kvg_tensor *tensor, size_t i);
uint64_t decode_bits(const kvg_tensor *tensor, size_t i);

/* How many outputs differ as bits, NaN = NaN. c: NULL, or what counts and shows them. */
uint64_t decode_differing(coverage *c, const kit *golden, const kit *slow, uint64_t stream);

/* low <= x <= high, a zero of any sign; low and high are no NaN. */
bool decode_inside(slow_number low, slow_number x, slow_number high);

/* Prints the first few. */
void decode_show(coverage *c, const kit *k, uint64_t stream, kvg_role role, size_t i, uint64_t golden, uint64_t slow);

/* test_decode_faults.c; the state of those that look for defects is the stride of the planted ones */
void test_faults_are_seen(void **state);
void test_simt_faults_are_seen(void **state);
void test_fa3_faults_are_seen(void **state);
void test_fi2_faults_are_seen(void **state);
void test_fi3_faults_are_seen(void **state);
void test_one_faults_are_seen(void **state);
void test_changes_are_seen(void **state);
void test_decode_refusals(void **state);

#endif
