#include "harness/trial/wrong/defect_run.h"

#include <stdlib.h>
#include <string.h>

#include "harness/trial/wrong/defect_cache.h"
#include "harness/trial/wrong/defect_maps.h"
#include "reference/attention_profile.h"

static bool affects(const kvg_wrong *w, const kvg_problem *p, kvg_side side)
{
    return (w->sides & 1u << side) && kvg_defect_applies_to(w->defect, p, side);
}

/* Mutates the tensors of the defect's role in a list; role NONE: all. */
static void mutate_all(const kvg_wrong *w, const kvg_problem *p, const kvg_role *roles, kvg_tensor *tensors,
                       const kvg_tensor *in, kvg_tensor *changed)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        if ((w->defect->role != KVG_ROLE_NONE && w->defect->role != role) || tensors[i].bytes == 0) continue;
        if (!affects(w, p, side)) continue;
        const int k_scales = kvg_roles_index(roles, KVG_ROLE_SCALES, KVG_K);
        const int v_scales = kvg_roles_index(roles, KVG_ROLE_SCALES, KVG_V);
        w->defect->mutate(&(kvg_defect_site){
            .problem = p,
            .side = side,
            .tensor = &tensors[i],
            .other = &tensors[kvg_roles_index(roles, role, (kvg_side)(1 - side))],
            .input = in[side].bytes ? &in[side] : &in[KVG_K],
            .in = in,
            .changed = changed,
            .scales = {k_scales < 0 ? NULL : &tensors[k_scales], v_scales < 0 ? NULL : &tensors[v_scales]},
        });
    }
}

static void free_tensors(kvg_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) free(tensors[i].data);
}

/* Codes and scales are no tensors of the op: those in its cache change. */
static bool changes_cache(const kvg_wrong *w, const kvg_problem *p)
{
    return kvg_cache_has_rows(p->op) && kvg_roles_index(kvg_cache_row_roles, w->defect->role, KVG_K) >= 0;
}

static kvg_status change_cache(const kvg_wrong *w, const kvg_problem *p, const kvg_tensor *in, kvg_tensor *changed,
                               kvg_tensor *pools)
{
    kvg_tensor rows[4];
    kvg_status s = kvg_cache_rows(p, in, pools, rows);
    if (s) return s;
    mutate_all(w, p, kvg_cache_row_roles, rows, in, changed);
    kvg_cache_store(p, in, rows, pools);
    free_tensors(rows, 4);
    return KVG_OK;
}

static bool is_remapped(const kvg_wrong *wrongs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (wrongs[i].defect->remap || wrongs[i].defect->layout) return true;
    }
    return false;
}

bool kvg_wrong_is_flash(const kvg_wrong *wrongs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (wrongs[i].defect->flash) return true;
    }
    return false;
}

bool kvg_wrong_changes_outputs(const kvg_wrong *wrongs, size_t count, kvg_op op)
{
    for (size_t i = 0; i < count; i++) {
        const kvg_defect *d = wrongs[i].defect;
        if (d->role == KVG_ROLE_NONE && d->mutate != kvg_defect_keep) return true;
        if (d->role != KVG_ROLE_NONE && kvg_roles_index(kvg_op_get(op)->outputs, d->role, KVG_K) >= 0) return true;
    }
    return false;
}

static void wrong_map(const kvg_wrong *wrongs, size_t count, const kvg_problem *p, kvg_layout_map *map)
{
    kvg_rows_map(p, map);
    for (size_t i = 0; i < count; i++) {
        const kvg_defect *d = wrongs[i].defect;
        if (d->remap) d->remap(p, map);
        if (d->layout) (void)kvg_map_of_layout(p, d->layout, d->text, map); /* or it stays as it was */
    }
}

static kvg_status wrong_problem(const kvg_wrong *wrongs, size_t count, const kvg_problem *p, kvg_problem *out)
{
    *out = *p;
    for (size_t i = 0; i < count; i++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            if (!affects(&wrongs[i], p, (kvg_side)side)) continue;
            if (wrongs[i].defect->dialect) out->storage[side].dialect = wrongs[i].defect->dialect;
            wrongs[i].defect->change(out, (kvg_side)side);
        }
    }
    if (count == 1) return KVG_OK;
    const bool moved = out->layout != p->layout || memcmp(&out->paging, &p->paging, sizeof p->paging) != 0;
    if ((moved && is_remapped(wrongs, count)) || kvg_problem_check(out))
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s and %s make no problem", wrongs[0].defect->id, wrongs[1].defect->id);
    return KVG_OK;
}

/* A change of codes may go with one of the tensor scale. */
static bool changes_role(const kvg_wrong *wrongs, size_t count, const kvg_problem *p, kvg_role role)
{
    const bool pool = role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL;
    bool changes = role == KVG_ROLE_TENSOR_SCALE || (pool && is_remapped(wrongs, count));
    for (size_t i = 0; i < count; i++)
        changes = changes || wrongs[i].defect->role == role || (pool && changes_cache(&wrongs[i], p));
    return changes;
}

/* Copies of what the defects change; of the rest, which may be large, none. */
static kvg_status copy_changed(const kvg_wrong *wrongs, size_t count, const kvg_problem *p, const kvg_tensor *in,
                               kvg_wrong_inputs *out)
{
    for (size_t i = 0; i < out->inputs; i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(kvg_op_get(p->op)->inputs, i, &role, &side);
        out->in[i] = in[i];
        if (in[i].bytes == 0 || !changes_role(wrongs, count, p, role)) continue;
        out->in[i].data = malloc(in[i].bytes);
        if (!out->in[i].data) return kvg_fail(KVG_ERR_MEMORY, "cannot copy an input of %zu bytes", in[i].bytes);
        out->copied[i] = true;
        memcpy(out->in[i].data, in[i].data, in[i].bytes);
    }
    return KVG_OK;
}

static bool same_question(const kvg_problem *p, const kvg_tensor *in, const kvg_problem *q, const kvg_tensor *of_q)
{
    bool same = memcmp(p, q, sizeof *p) == 0;
    for (size_t i = 0; i < kvg_roles_tensors(kvg_op_get(p->op)->inputs) && same; i++)
        same = in[i].data == of_q[i].data || in[i].bytes == 0 || memcmp(in[i].data, of_q[i].data, in[i].bytes) == 0;
    return same;
}

kvg_status kvg_wrong_apply(const kvg_wrong *wrongs, size_t count, const kvg_problem *p, const kvg_tensor *in,
                           kvg_wrong_inputs *out)
{
    const kvg_op_info *op = kvg_op_get(p->op);
    *out = (kvg_wrong_inputs){.inputs = kvg_roles_tensors(op->inputs)};
    kvg_status s = wrong_problem(wrongs, count, p, &out->problem);
    if (!s) s = copy_changed(wrongs, count, p, in, out);
    for (size_t i = 0; i < count && !s; i++) {
        if (wrongs[i].defect->role != KVG_ROLE_NONE) mutate_all(&wrongs[i], p, op->inputs, out->in, in, out->in);
    }
    if (!s && p->op == KVG_OP_DECODE && is_remapped(wrongs, count)) { /* other ops take the map itself */
        kvg_layout_map map;
        wrong_map(wrongs, count, p, &map);
        kvg_cache_remap(p, &map, in, out->in);
    }
    for (size_t i = 0; i < count && !s; i++) {
        if (p->op != KVG_OP_APPEND && changes_cache(&wrongs[i], p))
            s = change_cache(&wrongs[i], p, in, out->in, out->in);
    }
    if (s) kvg_wrong_inputs_free(out);
    else out->same = !is_remapped(wrongs, count) && same_question(&out->problem, out->in, p, in);
    return s;
}

void kvg_wrong_inputs_free(kvg_wrong_inputs *q)
{
    for (size_t i = 0; i < q->inputs; i++) {
        if (q->copied[i]) free(q->in[i].data);
    }
    *q = (kvg_wrong_inputs){0};
}

/* Gives a kernel the flash defects, which are two at most. */
static void add_defects(const kvg_wrong *wrongs, size_t count, kvg_flash *how)
{
    for (size_t i = 0; i < count; i++) {
        const kvg_wrong *w = &wrongs[i];
        if (!w->defect->flash) continue;
        how->also = how->defect;
        how->defect = w->defect->flash;
        if (kvg_flash_only_rounds(w->defect->flash)) how->class.p = KVG_OPERAND_E4M3;
        if (w->tile) how->tile = w->tile;
        if (w->splits) how->splits = w->splits;
    }
}

/* `kernel`: NULL: the reference, or the harness's plain kernel where a defect is one of it. */
static kvg_status answer(const kvg_flash *kernel, const kvg_wrong *wrongs, size_t count, const kvg_wrong_inputs *q,
                         const bool *wanted, struct kvg_flash_kept *kept, kvg_tensor *out)
{
    if (kernel || kvg_wrong_is_flash(wrongs, count)) {
        kvg_flash how;
        if (kernel) how = *kernel;
        else kvg_flash_init(&q->problem, KVG_FLASH_RIGHT, &how);
        add_defects(wrongs, count, &how);
        how.wanted = wanted;
        how.kept = q->same ? kept : NULL;
        return kvg_flash_run(&q->problem, q->in, &how, out);
    }
    if (q->problem.op == KVG_OP_DECODE) return kvg_attention_some(&q->problem, wanted, q->in, out);
    if (!is_remapped(wrongs, count)) return kvg_reference_run(&q->problem, q->in, out);
    kvg_layout_map map;
    wrong_map(wrongs, count, &q->problem, &map);
    return kvg_reference_run_mapped(&q->problem, &map, q->in, out);
}

kvg_status kvg_wrong_answer(const kvg_wrong *wrongs, size_t count, const kvg_wrong_inputs *q, const bool *wanted,
                            struct kvg_flash_kept *kept, kvg_tensor *out)
{
    return answer(NULL, wrongs, count, q, wanted, kept, out);
}

kvg_status kvg_wrong_change(const kvg_wrong *wrongs, size_t count, const kvg_problem *p, const kvg_tensor *in,
                            kvg_wrong_inputs *q, kvg_tensor *out)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        mutate_all(&wrongs[i], p, kvg_op_get(p->op)->outputs, out, in, q->in);
        if (changes_cache(&wrongs[i], p) && p->op == KVG_OP_APPEND) s = change_cache(&wrongs[i], p, in, q->in, out);
    }
    return s;
}

static kvg_status run(const kvg_flash *kernel, const kvg_wrong *wrongs, size_t count, const kvg_problem *p,
                      const kvg_tensor *in, kvg_tensor *out)
{
    kvg_wrong_inputs q;
    kvg_status s = kvg_wrong_apply(wrongs, count, p, in, &q);
    if (s) return s;
    s = answer(kernel, wrongs, count, &q, NULL, NULL, out);
    if (!s) s = kvg_wrong_change(wrongs, count, p, in, &q, out);
    kvg_wrong_inputs_free(&q);
    return s;
}

kvg_status kvg_wrong_run(const kvg_wrong *wrongs, size_t count, const kvg_problem *p, const kvg_tensor *in,
                         kvg_tensor *out)
{
    return run(NULL, wrongs, count, p, in, out);
}

kvg_status kvg_wrong_run_on(const kvg_flash *kernel, const kvg_wrong *wrongs, size_t count, const kvg_problem *p,
                            const kvg_tensor *in, kvg_tensor *out)
{
    return run(kernel, wrongs, count, p, in, out);
}

kvg_status kvg_defect_run(const kvg_defect *defect, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    return kvg_wrong_run(&(kvg_wrong){.defect = defect, .sides = KVG_BOTH_SIDES}, 1, problem, in, out);
}

/* --- the backend --- */

static const kvg_defect *active; /* the defect of this process's defect backend: one per candidate process */

static kvg_status run_active(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (!kvg_defect_applies(active, problem)) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "defect %s does not apply to this problem", active->id);
    }
    return kvg_defect_run(active, problem, in, out);
}

kvg_status kvg_defect_backend(const char *name, const kvg_backend **out)
{
    static const kvg_impl impls[] = {
#define OP(ENUM, id, name, paged, inputs, outputs, summary) \
    {"defect_" name, KVG_OP_##ENUM, KVG_FORMAT_NONE, 0, run_active},
#include "core/ops.def"
#undef OP
    };
    static const kvg_backend backend = {
        .abi = KVG_BACKEND_ABI,
        .struct_size = sizeof backend,
        .name = "defect",
        .impls = impls,
        .impl_count = sizeof impls / sizeof impls[0],
        .error_text = kvg_error_text,
        .problem_size = sizeof(kvg_problem),
    };
    const char *id = strchr(name, ':');
    kvg_status s = kvg_defect_find(id ? id + 1 : "", &active);
    if (s) return s;
    *out = &backend;
    return KVG_OK;
}
