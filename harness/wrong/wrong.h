/* Room wrong: answers that are known to be wrong, each in one way. They prove that a check can fail.
 *
 *   defects, defects.def   The table of defects, one row each, with the place where each was seen.
 *   defects_<kind>         What the rows of one kind do: to rows, pages, rope, lanes, op decode, op mma.
 *   defect_maps, _cache    Wrong places of a layout, and the rows that a wrong map would read.
 *   defect_run             Runs the reference under one defect, or under several at once.
 *   defect_planted         Puts a defect under a whole model.
 *   flash, flash_rows      A plain attention kernel in f32, right or with one of the defects of flash_defects.def.
 *
 * A defect changes a problem, its inputs or its outputs. The room knows no case and judges nothing. */
#ifndef KVG_HARNESS_WRONG_WRONG_H
#define KVG_HARNESS_WRONG_WRONG_H
#endif
