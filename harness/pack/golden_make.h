/* Room pack: golden packs as the harness knows them. golden/pack.h is their container.
 *
 *   golden_plan            What a pack is to hold: from a config, or from a pack.
 *   golden_case            A case of a pack with the data that follows from it.
 *   golden_make            Makes a pack, verifies one, expands one.
 *   golden_show            Shows what is in a pack and how two packs differ.
 *   compare, compare_*     Judges an engine's answer file against a pack (`kvgold compare`).
 *   matrix_run             Which engines read which engines' pages (`kvgold matrix`). Each party has its own process.
 *   matrix_cell            One cell: a reader over the bytes of a writer.
 *   matrix_world           The K and V that everybody writes, and the pages they lie in.
 *   matrix_engine          The engines as writers and readers: engines.def.
 *   matrix_files           The files of engines that are not linked: prompts go out, answers come back.
 *   matrix_print           The tables.
 *
 * docs/spec/golden-pack.md, docs/guide/compare.md and docs/guide/matrix.md are the manuals. */
/* Making packs and holding them against what they follow from. The commands of `kvgold golden`
 * (cli/cmd_golden.c) print what these find. */
#ifndef KVG_HARNESS_PACK_GOLDEN_MAKE_H
#define KVG_HARNESS_PACK_GOLDEN_MAKE_H

#include <stdio.h>

#include "golden/golden.h"

/* Computes the pack of a config and puts it in the place of `folder`: docs/spec/golden-pack.md section 9.
 * `measured`: says in provenance.json how far known-wrong answers are, and refuses a case that one of them passes. */
kvg_status kvg_golden_make(const char *config, const char *folder, bool measured) KVG_CHECKED;

/* The pack again, with every recipe's tensors stored. KVG_ERR_INVALID if one has not the digest that the pack says. */
kvg_status kvg_golden_expand(const kvg_pack *pack, const char *folder) KVG_CHECKED;

/* Computes every case again that no erratum names; a line on `out` for each that differs. *failures: how many, the
 * manifest and the files as wholes among them. *computed: cases. */
kvg_status kvg_golden_regenerate(const kvg_pack *pack, FILE *out, size_t *computed, size_t *failures) KVG_CHECKED;

/* Adds an erratum to a pack, in its place; nothing else of it changes but `superseded_by`, if that is not NULL. `keys`:
 * cases, ascending. */
kvg_status kvg_golden_add_erratum(const kvg_pack *pack, const kvg_pack_erratum *erratum,
                                  const char *superseded_by) KVG_CHECKED;

#endif
