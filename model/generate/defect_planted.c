#include "model/generate/defect_planted.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/wrong/defect_cache.h"
#include "harness/trial/wrong/defects_rows.h"

kvg_status kvg_planted_find(const char *name, kvg_planted *out)
{
    char id[64];
    size_t length = strlen(name);
    *out = (kvg_planted){.sides = KVG_BOTH_SIDES};
    if (length > 2 && strcmp(name + length - 2, ":k") == 0) out->sides = KVG_SIDE_K;
    if (length > 2 && strcmp(name + length - 2, ":v") == 0) out->sides = KVG_SIDE_V;
    if (out->sides != KVG_BOTH_SIDES) length -= 2;
    if (length >= sizeof id) return kvg_fail(KVG_ERR_NOT_FOUND, "no defect '%.40s...'", name);
    memcpy(id, name, length);
    id[length] = 0;
    return kvg_defect_find(id, &out->defect);
}

/* --- rows of the plain kernel, in the arithmetic of the profile --- */

static const kvg_tensor *input_of(const kvg_problem *p, const kvg_tensor *in, kvg_role role, kvg_side side)
{
    return &in[kvg_roles_index(kvg_op_get(p->op)->inputs, role, side)];
}

/* The tensors, not what they point to. */
static void copy_inputs(const kvg_problem *p, const kvg_tensor *in, kvg_tensor copy[KVG_MAX_TENSORS])
{
    memcpy(copy, in, kvg_roles_tensors(kvg_op_get(p->op)->inputs) * sizeof *in);
}

static bool has_window(const kvg_planted *planted, const kvg_problem *p)
{
    (void)planted;
    return p->attention.window > 1; /* one less than 1 would be none */
}

static kvg_status window_short(const kvg_planted *planted, const kvg_problem *problem, const kvg_tensor *in,
                               kvg_tensor *out)
{
    (void)planted;
    kvg_problem p = *problem;
    p.attention.window--;
    return kvg_reference_run(&p, in, out);
}

static bool has_sinks(const kvg_planted *planted, const kvg_problem *p)
{
    (void)planted;
    return p->attention.sinks;
}

/* exp(sink + ln 2) is twice the sink's share of the denominator: what a merge of two splits has that each add it. */
static kvg_status sink_per_split(const kvg_planted *planted, const kvg_problem *p, const kvg_tensor *in,
                                 kvg_tensor *out)
{
    (void)planted;
    const int at = kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_SINKS, KVG_K);
    const size_t count = in[at].bytes / sizeof(float);
    kvg_tensor changed[KVG_MAX_TENSORS];
    float *sinks = malloc(in[at].bytes + 1);
    if (!sinks) return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu sinks", count);
    copy_inputs(p, in, changed);
    for (size_t i = 0; i < count; i++) sinks[i] = ((const float *)in[at].data)[i] + logf(2.0f);
    changed[at].data = sinks;
    const kvg_status s = kvg_reference_run(p, changed, out);
    free(sinks);
    return s;
}

static bool has_scales(const kvg_planted *planted, const kvg_problem *p)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const bool scaled = kvg_format_scale_bytes(p->storage[side].format, p->head_dim) > 0;
        if (scaled && (planted->sides & 1u << side)) return true;
    }
    return false;
}

/* Slots of keys that are older than the chunk which attends to them. */
static void mark_prefixes(const kvg_problem *p, const kvg_tensor *in, bool *marked)
{
    const int32_t *table = input_of(p, in, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    const int32_t *lengths = input_of(p, in, KVG_ROLE_LENGTHS, KVG_K)->data;
    const int32_t *queries = input_of(p, in, KVG_ROLE_QUERY_LENGTHS, KVG_K)->data;
    const uint32_t B = p->paging.block_tokens, width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    for (uint32_t s = 0; s < p->paging.sequences; s++) {
        for (int32_t k = 0; queries[s] > 1 && k < lengths[s] - queries[s]; k++) {
            const int32_t block = table[(size_t)s * width + (uint32_t)k / B];
            if (block >= 0) marked[(size_t)block * B + (uint32_t)k % B] = true;
        }
    }
}

/* Scales of the marked slots' rows become 1. */
static void lose_scales(const kvg_problem *p, kvg_side side, const kvg_tensor *in, const bool *marked, kvg_tensor *rows)
{
    kvg_tensor *scales = &rows[2 + side];
    const size_t slot = scales->shape[0] ? scales->bytes / (size_t)scales->shape[0] : 0;
    kvg_tensor row = *scales;
    row.bytes = slot;
    row.shape[0] = 1;
    for (size_t i = 0; i < scales->shape[0]; i++) {
        if (!marked[i]) continue;
        row.data = (uint8_t *)scales->data + i * slot;
        kvg_rows_scales_one(&(kvg_defect_site){.problem = p, .side = side, .tensor = &row, .other = &row, .input = in,
                                               .in = in});
    }
}

static void free_pools(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *changed)
{
    for (size_t i = 0; i < kvg_roles_tensors(kvg_op_get(p->op)->inputs); i++) {
        if (changed[i].data != in[i].data) free(changed[i].data);
    }
}

/* The pools of `changed` become copies. */
static kvg_status copy_pools(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *changed)
{
    static const kvg_role pools[] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};
    for (int i = 0; i < 4; i++) {
        const int at = kvg_roles_index(kvg_op_get(p->op)->inputs, pools[i / 2], (kvg_side)(i % 2));
        if (in[at].bytes == 0) continue;
        changed[at].data = malloc(in[at].bytes);
        if (!changed[at].data) {
            changed[at].data = in[at].data;
            free_pools(p, in, changed);
            return kvg_fail(KVG_ERR_MEMORY, "no memory for a pool of %zu bytes", in[at].bytes);
        }
        memcpy(changed[at].data, in[at].data, in[at].bytes);
    }
    return KVG_OK;
}

static kvg_status prefix_scales_lost(const kvg_planted *planted, const kvg_problem *p, const kvg_tensor *in,
                                     kvg_tensor *out)
{
    kvg_tensor changed[KVG_MAX_TENSORS], rows[4] = {{0}};
    bool *marked = calloc((size_t)p->paging.blocks * p->paging.block_tokens, sizeof *marked);
    if (!marked) return kvg_fail(KVG_ERR_MEMORY, "no memory for the slots of %u blocks", p->paging.blocks);
    copy_inputs(p, in, changed);
    mark_prefixes(p, in, marked);
    kvg_status s = copy_pools(p, in, changed);
    if (!s) {
        s = kvg_cache_rows(p, in, changed, rows);
        for (int side = KVG_K; side <= KVG_V && !s; side++) {
            if (planted->sides & 1u << side) lose_scales(p, (kvg_side)side, in, marked, rows);
        }
        if (!s) kvg_cache_store(p, in, rows, changed);
        if (!s) s = kvg_reference_run(p, changed, out);
        for (int i = 0; i < 4; i++) free(rows[i].data);
        free_pools(p, in, changed);
    }
    free(marked);
    return s;
}

typedef struct contract_row {
    const char *id;
    bool (*applies)(const kvg_planted *planted, const kvg_problem *problem); /* of op decode */
    kvg_status (*run)(const kvg_planted *planted, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out);
} contract_row;

static const contract_row *find_row(const kvg_planted *planted)
{
    static const contract_row rows[] = {
        {"window_short", has_window, window_short},
        {"sink_per_split", has_sinks, sink_per_split},
        {"prefix_scales_lost", has_scales, prefix_scales_lost},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(planted->defect->id, rows[i].id) == 0) return &rows[i];
    }
    return NULL;
}

/* --- any row --- */

static bool applies_as(const kvg_planted *planted, const kvg_problem *p)
{
    if (!kvg_defect_applies(planted->defect, p)) return false;
    for (int side = KVG_K; side <= KVG_V; side++) {
        if ((planted->sides & 1u << side) && kvg_defect_applies_to(planted->defect, p, (kvg_side)side)) return true;
    }
    return false;
}

bool kvg_planted_applies(const kvg_planted *planted, const kvg_problem *problem)
{
    const contract_row *row = find_row(planted);
    if (row) return problem->op == KVG_OP_DECODE && row->applies(planted, problem);
    kvg_problem decode = *problem;
    decode.op = KVG_OP_DECODE;
    decode.bias = false;
    decode.rope = (kvg_rope){0};
    return applies_as(planted, problem) && (problem->op == KVG_OP_DECODE || !applies_as(planted, &decode));
}

kvg_status kvg_planted_run(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_planted *planted = context;
    const contract_row *row = find_row(planted);
    if (!kvg_planted_applies(planted, problem)) return kvg_reference_run(problem, in, out);
    if (row) return row->run(planted, problem, in, out);
    return kvg_wrong_run(&(kvg_wrong){.defect = planted->defect, .sides = planted->sides}, 1, problem, in, out);
}
