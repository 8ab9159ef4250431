/* Shared by the files harness/pack/golden_*.c; private to them. */
#ifndef KVG_HARNESS_PACK_GOLDEN_PARTS_H
#define KVG_HARNESS_PACK_GOLDEN_PARTS_H

#include <string.h>

#include "golden/golden.h"
#include "harness/pack/golden_case.h"

/* Fills in everything of a pack's case that follows from the harness's case without computing it:
 * key, id, text, layer, lists of tensors and answers; not flags and `stored`. The pack owns the
 * memory. */
kvg_status kvg_golden_describe(kvg_pack *pack, size_t index, const kvg_case *c, kvg_pack_case *out) KVG_CHECKED;

/* Gives the tensors that kvg_golden_describe listed their bytes. `made` owns the bytes. */
void kvg_golden_give_data(const kvg_golden_case *made, kvg_pack_case *out);

/* The distance of wrong answers to a computed case. KVG_ERR_INVALID: one is so near that the case
 * tells nothing. */
kvg_status kvg_golden_separation(const kvg_golden_case *made, kvg_pack_separation *out) KVG_CHECKED;

/* Computes inputs and answers of a case, which must live as long as *out. Call kvg_golden_case_free
 * at the end, also on failure. */
kvg_status kvg_golden_case_make(const kvg_case *c, kvg_golden_case *out) KVG_CHECKED;

/* KVG_ERR_INVALID if the bytes of a tensor of `made` have another digest than the pack's. */
kvg_status kvg_golden_compare(const kvg_pack *pack, const kvg_pack_case *stored, const kvg_pack_case *made) KVG_CHECKED;

#endif
