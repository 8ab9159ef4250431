#include "harness/matrix/matrix_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/golden.h"

static const kvg_role pools_only[KVG_MAX_ROLES] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};
static const kvg_role flat_only[KVG_MAX_ROLES] = {KVG_ROLE_FLAT};

kvg_status kvg_matrix_file_path(const char *folder, const kvg_engine *e, kvg_matrix_file file,
                                char path[KVG_MATRIX_PATH])
{
    static const char *const kinds[] = {"write", "read", "answer"};
    const int length = snprintf(path, KVG_MATRIX_PATH, "%s/%s.%s.%s.safetensors", folder,
                                kvg_format_get(e->format)->name, e->name, kinds[file]);
    if (length < KVG_MATRIX_PATH) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "the path of the folder is too long: %.60s...", folder);
}

/* --- what goes out --- */

static const char *file_dtype(kvg_dtype dtype)
{
    switch (dtype) {
    case KVG_DTYPE_F16: return "F16";
    case KVG_DTYPE_BF16: return "BF16";
    case KVG_DTYPE_F32: return "F32";
    case KVG_DTYPE_I32: return "I32";
    case KVG_DTYPE_I64: return "I64";
    case KVG_DTYPE_U8: break;
    }
    return "U8";
}

kvg_status kvg_matrix_file_write(const char *path, const kvg_engine *e, const kvg_problem *p, const kvg_role *roles,
                                 const kvg_tensor *tensors)
{
    kvg_safetensors_writer *w;
    kvg_status s = kvg_safetensors_writer_make(&w);
    if (s) return s;
    const size_t count = kvg_roles_tensors(roles);
    char geometry[160];
    snprintf(geometry, sizeof geometry, "layers %u, layer %u, blocks %u, block_tokens %u, kv_heads %u, head_dim %u",
             p->paging.layers, p->paging.layer, p->paging.blocks, p->paging.block_tokens, p->kv_heads, p->head_dim);
    const char *const notes[][2] = {
        {"kvgold_matrix", "1"}, {"format", kvg_format_get(e->format)->name}, {"engine", e->name},
        {"layout", e->text ? e->text->text : kvg_layout_get(e->layout)->name}, {"dialect", e->dialect},
        {"geometry", geometry},
        {"v_scales", e->swizzle ? "groups of 4" : "linear"}, {"k_order", kvg_engine_order_name(e->order)},
        {"tensor_scale", kvg_scale_number_name(e->number)},
    };
    for (size_t i = 0; i < sizeof notes / sizeof notes[0] && !s; i++) {
        s = kvg_safetensors_writer_note(w, notes[i][0], notes[i][1]);
    }
    for (size_t i = 0; i < count && !s; i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        if (tensors[i].bytes == 0) continue;
        s = kvg_safetensors_writer_declare(w, kvg_tensor_name(role, side), file_dtype(tensors[i].dtype),
                                           tensors[i].rank, tensors[i].shape);
    }
    FILE *file = s ? NULL : fopen(path, "wb");
    if (!s && !file) s = kvg_fail(KVG_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    if (!s) s = kvg_safetensors_writer_begin(w, file);
    for (size_t i = 0; i < count && !s; i++) {
        if (tensors[i].bytes) s = kvg_safetensors_writer_put(w, tensors[i].data, tensors[i].bytes);
    }
    if (file && fclose(file) != 0 && !s) s = kvg_fail(KVG_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    kvg_safetensors_writer_free(w);
    return s;
}

/* --- what comes back --- */

static kvg_status copy_entry(const char *path, const kvg_safetensors_entry *e, kvg_tensor *to)
{
    bool same = strcmp(e->dtype, file_dtype(to->dtype)) == 0 && e->rank == to->rank && e->bytes == to->bytes;
    for (uint32_t i = 0; same && i < to->rank; i++) same = e->shape[i] == to->shape[i];
    if (same) {
        memcpy(to->data, e->data, e->bytes);
        return KVG_OK;
    }
    return kvg_fail(KVG_ERR_INVALID, "%s: tensor %s is %s of %zu bytes, not %s of %zu bytes in the prompt's shape",
                    path, e->name, e->dtype, e->bytes, file_dtype(to->dtype), to->bytes);
}

/* All tensors of the roles, or none. */
static kvg_status read_tensors(const char *path, const kvg_role *roles, kvg_tensor *tensors)
{
    kvg_safetensors *file;
    size_t found = 0, wanted = 0;
    const char *missing = "";
    kvg_status s = kvg_safetensors_open(path, &file);
    if (s) return s;
    for (size_t i = 0; i < kvg_roles_tensors(roles) && !s; i++) {
        const kvg_safetensors_entry *e;
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        if (tensors[i].bytes == 0) continue;
        wanted++;
        if (kvg_safetensors_find(file, kvg_tensor_name(role, side), &e) == KVG_OK) {
            found++;
            s = copy_entry(path, e, &tensors[i]);
        } else {
            missing = kvg_tensor_name(role, side);
        }
    }
    if (!s && found == 0) s = kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has no tensor %s", path, missing);
    if (!s && found < wanted) s = kvg_fail(KVG_ERR_INVALID, "%s lacks tensor %s", path, missing);
    kvg_safetensors_close(file);
    return s;
}

kvg_status kvg_matrix_answer_pools(const char *path, const kvg_problem *p, kvg_tensor *pools)
{
    kvg_tensor tensors[KVG_MATRIX_POOLS];
    for (size_t i = 0; i < KVG_MATRIX_POOLS; i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(pools_only, i, &role, &side);
        tensors[i] = kvg_problem_tensor(p, role, side);
        tensors[i].data = pools[i].data;
    }
    return read_tensors(path, pools_only, tensors);
}

kvg_status kvg_matrix_answer_flat(const char *path, const kvg_problem *p, kvg_tensor_set *flat)
{
    kvg_status s = kvg_set_alloc(p, flat_only, flat);
    return s ? s : read_tensors(path, flat_only, flat->tensors);
}
