/* Room layout: where the bytes of a paged cache lie.
 *
 *   ref_layout             Bases and strides of every layout.
 *   ref_table              Sequences by block table and lengths: where a position lies.
 *
 * The room moves no bytes. docs/spec/layouts.md decides; kvg_layout_map in reference/reference.h is what others see. */
#ifndef KVG_REFERENCE_LAYOUT_LAYOUT_H
#define KVG_REFERENCE_LAYOUT_LAYOUT_H
#endif
