/* One problem through both references: the same bytes go in, and the bytes that come out are compared. */
#ifndef KVG_TESTS_SECOND_PAIR_H
#define KVG_TESTS_SECOND_PAIR_H

#include "core/backend.h"

/* What a test compared, and how much of it differed. */
typedef struct tally {
    uint64_t compared; /* elements and scale bytes */
    uint64_t differing;
    uint8_t *scale_seen; /* NULL, or 256 flags: the scale bytes that the golden reference wrote */
    kvg_storage printed; /* whose differences were printed last, and how many of them */
    unsigned printed_count;
} tally;

/* Prints what was compared; the calling cmocka test fails if that is nothing or if anything differed. */
void tally_close(const tally *t, const char *test);

/* One side's storage, model type (the same for both sides) and tensor scale. */
typedef struct storage_case {
    kvg_format format;
    const char *dialect;
    kvg_dtype dtype;
    float g;
} storage_case;

/* Every tensor of a problem by role and side (K for a role that both share), with memory whose bytes are 0xA5. Those of
 * kit_open serve quantise and dequantise, those of kit_open_problem the problem's op. */
typedef struct kit {
    kvg_problem problem;
    kvg_tensor tensor[KVG_ROLE_END][2];
} kit;
kit kit_open(const storage_case sides[2], size_t rows, size_t dim);
kit kit_open_problem(const kvg_problem *problem);
void kit_close(kit *k);
void kit_copy(const kit *from, kit *to); /* the bytes of every tensor, between kits of one problem */

/* The kit's tensors in the order of an op's inputs or outputs. */
void kit_list(const kit *k, const kvg_role *roles, kvg_tensor *list);

/* Runs an op on the kit's tensors. */
kvg_status kit_run(kit *k, const kvg_backend *backend, kvg_op op);

const kvg_backend *golden_backend(void);
const kvg_backend *slow_backend(void);

/* Quantises rows of values of the case's type by both (V: with all signs flipped) and compares codes and scales, then
 * dequantises the golden bytes by both and compares values. */
void pair_quantise_sides(tally *t, const storage_case sides[2], const void *values, size_t rows, size_t dim);

/* The following store K and V alike. */
void pair_quantise(tally *t, const storage_case *c, const void *values, size_t rows, size_t dim);

/* Dequantises constructed bytes by both (V: with all code bits flipped) and compares values. */
void pair_dequantise(tally *t, const storage_case *c, const uint8_t *codes, const uint8_t *scales, size_t rows,
                     size_t dim);

/* pair_quantise of f32 rows for one type, first rounded to it by section 2.4. */
void pair_quantise_f32(tally *t, const storage_case *c, const float *x, size_t rows, size_t dim);

/* Whether the format can be used with this model type. */
bool type_fits(kvg_format format, kvg_dtype dtype);

#endif
