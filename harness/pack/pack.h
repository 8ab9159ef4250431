/* Room pack: golden packs as the harness knows them. golden/pack.h is their container.
 *
 *   golden_plan            What a pack is to hold: from a config, or from a pack.
 *   golden_case            A case of a pack with the data that follows from it.
 *   golden_make            Makes a pack, verifies one, expands one.
 *   golden_show            Shows what is in a pack and how two packs differ.
 *   compare, compare_*     Judges an engine's answer file against a pack (`kvgold compare`).
 *   diagnosis, diagnosis_* Where an answer is wrong, and which defects explain it.
 *
 * docs/spec/golden-pack.md and docs/guide/compare.md are the manuals. */
#ifndef KVG_HARNESS_PACK_PACK_H
#define KVG_HARNESS_PACK_PACK_H
#endif
