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
/* Makes packs, and compares them with what they follow from. The commands of `kvgold golden`
 * (cli/cmd_golden.c) print the findings. */
#ifndef KVG_HARNESS_PACK_GOLDEN_MAKE_H
#define KVG_HARNESS_PACK_GOLDEN_MAKE_H

#include <stdio.h>

#include "golden/golden.h"

/* Computes the pack of a config and replaces `folder` by it: docs/spec/golden-pack.md section 9.
 * `measured`: provenance.json tells the distance of known-wrong answers, and a case that cannot be
 * computed or that a known-wrong answer passes is refused. `told` gets a line for each such case,
 * the pack has the others, and *refused is their number. KVG_ERR_INVALID if no case is left. */
kvg_status kvg_golden_make(const char *config, const char *folder, bool measured, FILE *told,
                           size_t *refused) KVG_CHECKED;

/* Writes the pack again, with the tensors of every case stored, or of the case `only`: then every
 * other case is a recipe. KVG_ERR_INVALID if a tensor has another digest than the pack says. */
kvg_status kvg_golden_expand(const kvg_pack *pack, const kvg_pack_case *only, const char *folder) KVG_CHECKED;

/* Computes every case again, except those that an erratum names. Writes a line to `out` for each
 * difference. *failures: number of differences, those of the manifest and of whole files included.
 * *computed: number of cases. */
kvg_status kvg_golden_regenerate(const kvg_pack *pack, FILE *out, size_t *computed, size_t *failures) KVG_CHECKED;

/* Adds an erratum to a pack, in place. Nothing else changes, except `superseded_by` unless it is
 * NULL. `keys`: cases, ascending. */
kvg_status kvg_golden_add_erratum(const kvg_pack *pack, const kvg_pack_erratum *erratum,
                                  const char *superseded_by) KVG_CHECKED;

#endif
