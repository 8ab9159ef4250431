/* Golden packs for people: what is in one, and how two differ. */
#ifndef KVG_HARNESS_PACK_GOLDEN_SHOW_H
#define KVG_HARNESS_PACK_GOLDEN_SHOW_H

#include <stdio.h>

#include "golden/golden.h"

/* The pack's head, notes and errata, and a line for each case. */
void kvg_golden_show(const kvg_pack *pack, FILE *out);

/* One case: its line, flags, tensors with their digests, and how each answer is judged. */
void kvg_golden_show_case(const kvg_pack *pack, const kvg_pack_case *c, FILE *out);

/* A line for each difference of two packs: cases by id, then their tensors by name. Returns how many there are. */
size_t kvg_golden_diff(const kvg_pack *a, const kvg_pack *b, FILE *out);

#endif
