/* Shows people what is in a golden pack, and how two packs differ. */
#ifndef KVG_HARNESS_PACK_GOLDEN_SHOW_H
#define KVG_HARNESS_PACK_GOLDEN_SHOW_H

#include <stdio.h>

#include "golden/golden.h"

/* Writes the pack's head, notes and errata, and a line for each case. */
void kvg_golden_show(const kvg_pack *pack, FILE *out);

/* Writes one case: its line, its flags, its tensors with their digests, and how each answer is
 * judged. */
void kvg_golden_show_case(const kvg_pack *pack, const kvg_pack_case *c, FILE *out);

/* Writes a line for each difference of two packs: cases by id, then their tensors by name. Returns
 * the number of differences. */
size_t kvg_golden_diff(const kvg_pack *a, const kvg_pack *b, FILE *out);

#endif
