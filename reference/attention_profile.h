/* The profile tier of paged attention: what a decode contract gives, every bit; docs/spec/decode-contract.md on the
 * tensor core of one chip, docs/spec/simt-contract.md on every chip. Any shape, layout, format and batch of
 * docs/spec/attention.md; on tensor cores model types f16 and bf16, head_dim a multiple of 16. */
#ifndef KVG_REFERENCE_ATTENTION_PROFILE_H
#define KVG_REFERENCE_ATTENTION_PROFILE_H

#include "reference/attention_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Op decode under problem->profile: in and out are its tensors. NaN is 0x7FFF, in f32 0x7FFFFFFF. The bits do not
 * depend on the number of threads. KVG_ERR_UNIMPLEMENTED: no profile, an unknown dialect, on tensor cores model type
 * f32 or another head_dim; KVG_ERR_INVALID names the tensor that contradicts docs/spec/attention.md; KVG_ERR_MEMORY. */
kvg_status kvg_attention_profile(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out) KVG_CHECKED;

/* The class of arithmetic that the contract belongs to for the problem, so that kvg_attention_spec gives a bound for
 * its profile's answer. KVG_ERR_UNIMPLEMENTED as above. */
kvg_status kvg_arithmetic_of_profile(const kvg_problem *problem, kvg_arithmetic *out) KVG_CHECKED;

/* Whether the profile's contract has operands for rows of the format; KVG_PROFILE_NONE needs none. */
bool kvg_profile_has_operands(kvg_profile profile, kvg_format format);

/* The same for both sides of a problem under its own profile. Ops but decode need no operands. */
bool kvg_problem_has_operands(const kvg_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
