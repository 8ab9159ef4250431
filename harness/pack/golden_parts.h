/* What the files of harness/pack/golden_*.c share; private to them. */
#ifndef KVG_HARNESS_PACK_GOLDEN_PARTS_H
#define KVG_HARNESS_PACK_GOLDEN_PARTS_H

#include <string.h>

#include "golden/golden.h"
#include "harness/pack/golden_case.h"

/* Everything of a pack's case that follows from the harness's without computing it: key, id, text, layer, lists of
 * tensors and answers; not flags and stored. Memory is the pack's. */
kvg_status kvg_golden_describe(kvg_pack *pack, size_t index, const kvg_case *c, kvg_pack_case *out) KVG_CHECKED;

/* Gives the tensors that kvg_golden_describe listed their bytes, which are `made`'s. */
void kvg_golden_give_data(const kvg_golden_case *made, kvg_pack_case *out);

/* How far wrong answers to a computed case are. KVG_ERR_INVALID: not far enough, the case tells nothing. */
kvg_status kvg_golden_separation(const kvg_golden_case *made, kvg_pack_separation *out) KVG_CHECKED;

/* Computes inputs and answers of a case that lives as long as *out. On failure, and at the end,
 * kvg_golden_case_free. */
kvg_status kvg_golden_case_make(const kvg_case *c, kvg_golden_case *out) KVG_CHECKED;

/* KVG_ERR_INVALID if a tensor of `made` has not the bytes of the pack's digest. */
kvg_status kvg_golden_compare(const kvg_pack *pack, const kvg_pack_case *stored, const kvg_pack_case *made) KVG_CHECKED;

#endif
