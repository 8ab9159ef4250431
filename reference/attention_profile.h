/* The profile tier of paged attention: every bit that a decode contract fixes. The contracts are
 * docs/spec/decode-contract.md for the tensor core of one chip and docs/spec/simt-contract.md for
 * every chip. The tier takes any shape, layout, format and batch of docs/spec/attention.md. On
 * tensor cores the model type is f16 or bf16, and head_dim a multiple of 16. */
#ifndef KVG_REFERENCE_ATTENTION_PROFILE_H
#define KVG_REFERENCE_ATTENTION_PROFILE_H

#include "reference/attention_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Op decode under problem->profile. `in` and `out` are the tensors of the op. NaN is written as
 * 0x7FFF, in f32 as 0x7FFFFFFF. The LSE of a kernel that gives none (kvg_profile_gives_lse) is
 * NaN. The bits do not depend on the number of threads. KVG_ERR_UNIMPLEMENTED: no profile, an
 * unknown dialect, or on tensor cores model type f32 or another head_dim. KVG_ERR_INVALID names
 * the tensor that contradicts docs/spec/attention.md. KVG_ERR_MEMORY. */
kvg_status kvg_attention_profile(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out) KVG_CHECKED;

/* How a profile's arithmetic is walked. */
typedef struct kvg_walk {
    uint32_t splits;                   /* pieces of a row (docs/spec/other-kernels.md sections 1.5, 6); 1: none */
    uint32_t piece;                    /* positions of each piece (section 2.5); 0: none */
    double scale;                      /* that a kernel takes in binary64; 0: the problem's, which is an f32 number */
    const kvg_contract_info *contract; /* another row than the profile's own, to see what it changes; NULL: its own */
    const bool *wanted;                /* [queries, Hq]: the rows that are computed; NULL: all */
} kvg_walk;

/* The same in splits or pieces, or by a contract that differs from the profile's own. KVG_ERR_UNIMPLEMENTED: the bits
 * of the profile do not depend on splits or on pieces, or the cut is not known for so many query tokens.
 * KVG_ERR_INVALID: splits is not from 1 to KVG_MOST_SPLITS, or tile is above KVG_MOST_TILE or no multiple of 16. */
kvg_status kvg_attention_walk(const kvg_problem *problem, const kvg_walk *walk, const kvg_tensor *in,
                              kvg_tensor *out) KVG_CHECKED;

/* Op decode for some of its rows: by the profile, or without one the exact answer rounded once.
 * wanted [queries, Hq] says which; the others keep their bytes. NULL: all. */
kvg_status kvg_attention_some(const kvg_problem *problem, const bool *wanted, const kvg_tensor *in,
                              kvg_tensor *out) KVG_CHECKED;

/* The class of arithmetic of the problem's profile. Given to kvg_attention_spec it yields the bound
 * within which the profile's answer lies. KVG_ERR_UNIMPLEMENTED as for kvg_attention_profile. */
kvg_status kvg_arithmetic_of_profile(const kvg_problem *problem, kvg_arithmetic *out) KVG_CHECKED;

/* Whether the profile's contract has operands for rows of the format; KVG_PROFILE_NONE needs none. */
bool kvg_profile_has_operands(kvg_profile profile, kvg_format format);

/* kvg_profile_has_operands for both sides of a problem under its own profile. True for every op
 * except decode, because the others need no operands. */
bool kvg_problem_has_operands(const kvg_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
