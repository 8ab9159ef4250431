/* Room matrix: whose pages can whom read (`kvgold matrix`).
 *
 *   matrix_engine          The engines as writers and readers: engines.def.
 *   matrix_world           The K and V that everybody writes, and the pages they lie in.
 *   matrix_cell            One cell: a reader over the bytes of a writer.
 *   matrix_files           Cells of engines that are not linked: files go out, answers come back.
 *   matrix_run             All cells, each party in a process of its own.
 *   matrix_print           The tables.
 *
 * docs/guide/matrix.md explains the tables. */
#ifndef KVG_HARNESS_MATRIX_MATRIX_H
#define KVG_HARNESS_MATRIX_MATRIX_H
#endif
