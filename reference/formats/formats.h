/* Room formats: how a row of numbers becomes codes and scales, and back.
 *
 *   ref_fmt_<format>.c     One format: its table of dialects and its arithmetic.
 *   ref_codec              What a format's file gives to the rest, and the one way to use it.
 *   ref_float, _affine, _mx, _row_scale, _fp4_block, _e2m1
 *                          What several formats share.
 *   ref_convention         Tensor scales by convention.
 *   ref_judge              Round-trip bounds, the value rule, and what a row reached.
 *
 * docs/spec/formats.md decides. A row of a dialect is never edited. */
#ifndef KVG_REFERENCE_FORMATS_FORMATS_H
#define KVG_REFERENCE_FORMATS_FORMATS_H
#endif
