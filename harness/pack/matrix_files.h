/* The cells of `kvgold matrix` for engines that nothing is linked to: what to write and what to read goes out as
 * safetensors files, what the engine made of it comes back as one. docs/guide/matrix.md section 4 has the names. */
#ifndef KVG_HARNESS_PACK_MATRIX_FILES_H
#define KVG_HARNESS_PACK_MATRIX_FILES_H

#include "harness/pack/matrix_world.h"

enum { KVG_MATRIX_PATH = 4096 };

typedef enum kvg_matrix_file { KVG_MATRIX_FILE_WRITE, KVG_MATRIX_FILE_READ, KVG_MATRIX_FILE_ANSWER } kvg_matrix_file;

/* FOLDER/<format>.<engine>.write.safetensors, ....read...., ....answer....; KVG_ERR_INVALID if it is too long. */
kvg_status kvg_matrix_file_path(const char *folder, const kvg_engine *engine, kvg_matrix_file file,
                                char path[KVG_MATRIX_PATH]) KVG_CHECKED;

/* Tensors of a problem, named as in core/roles.def, and how the engine keeps them; those without bytes are left out. */
kvg_status kvg_matrix_file_write(const char *path, const kvg_engine *engine, const kvg_problem *problem,
                                 const kvg_role *roles, const kvg_tensor *tensors) KVG_CHECKED;

/* The pools of an answer into pages->pools; its flat tensors into `flat` (roles FLAT). KVG_ERR_UNIMPLEMENTED if it has
 * none of them, KVG_ERR_INVALID if one has another dtype or shape, or is missing beside the others. */
kvg_status kvg_matrix_answer_pools(const char *path, const kvg_problem *append, kvg_tensor *pools) KVG_CHECKED;
kvg_status kvg_matrix_answer_flat(const char *path, const kvg_problem *flatten, kvg_tensor_set *flat) KVG_CHECKED;

#endif
