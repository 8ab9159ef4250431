/* Files for engines that are not linked to `kvgold matrix`. Prompts go out as safetensors files:
 * what to write and what to read. The engine's answer comes back as one such file.
 * docs/guide/matrix.md section 4 has the names. */
#ifndef KVG_HARNESS_MATRIX_MATRIX_FILES_H
#define KVG_HARNESS_MATRIX_MATRIX_FILES_H

#include "harness/matrix/matrix_world.h"

enum { KVG_MATRIX_PATH = 4096 };

typedef enum kvg_matrix_file { KVG_MATRIX_FILE_WRITE, KVG_MATRIX_FILE_READ, KVG_MATRIX_FILE_ANSWER } kvg_matrix_file;

/* Writes the path FOLDER/<format>.<engine>.write.safetensors, or .read.safetensors or
 * .answer.safetensors. KVG_ERR_INVALID if it is too long. */
kvg_status kvg_matrix_file_path(const char *folder, const kvg_engine *engine, kvg_matrix_file file,
                                char path[KVG_MATRIX_PATH]) KVG_CHECKED;

/* Writes the tensors of a problem, named as in core/roles.def, and the way in which the engine
 * keeps them. Tensors without bytes are left out. */
kvg_status kvg_matrix_file_write(const char *path, const kvg_engine *engine, const kvg_problem *problem,
                                 const kvg_role *roles, const kvg_tensor *tensors) KVG_CHECKED;

/* Read an answer: its pools into `pools`, its flat tensors into `flat` (roles FLAT).
 * KVG_ERR_UNIMPLEMENTED if the file has none of them. KVG_ERR_INVALID if one has another dtype or
 * shape, or if only some are there. */
kvg_status kvg_matrix_answer_pools(const char *path, const kvg_problem *append, kvg_tensor *pools) KVG_CHECKED;
kvg_status kvg_matrix_answer_flat(const char *path, const kvg_problem *flatten, kvg_tensor_set *flat) KVG_CHECKED;

#endif
