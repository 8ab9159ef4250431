/* Room rows: append, flatten, expand and probe, and where rows lie.
 *
 *   append, flatten, probe     The ops. A kernel is a template of a format's codec.
 *   codec_*.cuh                A file per family of formats: codes and scales from values, and back.
 *   gpu_layout.h               Addresses of rows, written from docs/spec/layouts.md on their own.
 *   cache_rows.cuh             The same on the device, for one row.
 *   row_rules.h, gpu_rows.c    Which dialects and head_dims have kernels.
 *   dispatch.cuh               From a problem's format to the template of its kernel. */
#ifndef KVG_GPU_ROWS_ROWS_H
#define KVG_GPU_ROWS_ROWS_H
#endif
