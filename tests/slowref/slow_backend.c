/* The second reference as a backend: the table of implementations and the loop over rows. Exported, so that this file
 * with the other slow_*.c is also a shared-library backend. */
#include "tests/slowref/slow_backend.h"

#include <string.h>

#include "tests/slowref/slow_codec.h"

enum { FEW_ROWS = 16 }; /* not worth waking threads for */

/* What both directions need of one side. */
typedef struct side_job {
    const slow_codec *codec;
    slow_row row;
    kvg_dtype dtype;
    size_t rows, code_bytes, scale_bytes;
} side_job;

static const kvg_tensor *find(const kvg_tensor *tensors, const kvg_role *roles, kvg_role role, kvg_side side)
{
    return &tensors[kvg_roles_index(roles, role, side)];
}

static kvg_status prepare(const kvg_problem *problem, kvg_side side, const kvg_tensor *in, side_job *job)
{
    const kvg_storage *storage = &problem->storage[side];
    const kvg_format_info *format = kvg_format_get(storage->format);
    *job = (side_job){
        .codec = slow_codec_find(storage->format, storage->dialect),
        .row = {.type = slow_layout_of(problem->dtype), .dim = problem->head_dim, .g = slow_scaled(1, 0)},
        .dtype = problem->dtype,
        .rows = (size_t)problem->tokens * problem->kv_heads,
        .code_bytes = kvg_format_code_bytes(storage->format, problem->head_dim),
        .scale_bytes = kvg_format_scale_bytes(storage->format, problem->head_dim),
    };
    if (!job->codec) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "slowref has no dialect '%s' of format %s", storage->dialect,
                        format->name);
    }
    if (!format->tensor_scale) return KVG_OK;
    const kvg_role *inputs = kvg_op_get(problem->op)->inputs;
    uint32_t bits;
    memcpy(&bits, find(in, inputs, KVG_ROLE_TENSOR_SCALE, side)->data, sizeof bits);
    job->row.g = slow_decode(&slow_f32, bits);
    if (job->row.g.kind != SLOW_FINITE || job->row.g.negative || slow_is_zero(job->row.g)) {
        return kvg_fail(KVG_ERR_INVALID, "tensor scale of %s has bits 0x%08X: use a finite value above 0",
                        side == KVG_K ? "K" : "V", bits);
    }
    return KVG_OK;
}

static void load_row(const side_job *job, const uint8_t *from, slow_number *x)
{
    for (size_t i = 0; i < job->row.dim; i++) {
        uint32_t bits;
        if (job->dtype == KVG_DTYPE_F32) {
            memcpy(&bits, from + 4 * i, sizeof bits);
            x[i] = slow_decode(&slow_f32, bits);
        } else {
            x[i] = slow_get16(from + 2 * i, job->row.type);
        }
    }
}

static void store_row(const side_job *job, const slow_number *x, uint8_t *to)
{
    for (size_t i = 0; i < job->row.dim; i++) {
        if (job->dtype == KVG_DTYPE_F32) {
            uint32_t bits = (uint32_t)slow_encode(&slow_f32, x[i]);
            memcpy(to + 4 * i, &bits, sizeof bits);
        } else {
            slow_put16(to + 2 * i, job->row.type, x[i]);
        }
    }
}

static void quantise_rows(const side_job *job, const uint8_t *values, uint8_t *codes, uint8_t *scales)
{
    size_t row_bytes = job->row.dim * kvg_dtype_bytes(job->dtype);
#pragma omp parallel for if (job->rows > FEW_ROWS) schedule(dynamic, 8)
    for (size_t r = 0; r < job->rows; r++) {
        slow_number x[KVG_MAX_HEAD_DIM];
        load_row(job, values + r * row_bytes, x);
        job->codec->quantise(job->codec, &job->row, x, codes + r * job->code_bytes, scales + r * job->scale_bytes);
    }
}

static void dequantise_rows(const side_job *job, const uint8_t *codes, const uint8_t *scales, uint8_t *values)
{
    size_t row_bytes = job->row.dim * kvg_dtype_bytes(job->dtype);
#pragma omp parallel for if (job->rows > FEW_ROWS) schedule(dynamic, 8)
    for (size_t r = 0; r < job->rows; r++) {
        slow_number x[KVG_MAX_HEAD_DIM];
        job->codec->dequantise(job->codec, &job->row, codes + r * job->code_bytes, scales + r * job->scale_bytes, x);
        store_row(job, x, values + r * row_bytes);
    }
}

/* Both sides are prepared first, so that a refusal writes nothing. */
static kvg_status run(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    side_job jobs[2];
    kvg_status status = kvg_problem_check(problem);
    for (int side = KVG_K; side <= KVG_V && !status; side++) status = prepare(problem, side, in, &jobs[side]);
    if (status) return status;
    const kvg_op_info *op = kvg_op_get(problem->op);
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (problem->op == KVG_OP_QUANTISE) {
            quantise_rows(&jobs[side], find(in, op->inputs, KVG_ROLE_VALUES, side)->data,
                          find(out, op->outputs, KVG_ROLE_CODES, side)->data,
                          find(out, op->outputs, KVG_ROLE_SCALES, side)->data);
        } else {
            dequantise_rows(&jobs[side], find(in, op->inputs, KVG_ROLE_CODES, side)->data,
                            find(in, op->inputs, KVG_ROLE_SCALES, side)->data,
                            find(out, op->outputs, KVG_ROLE_VALUES, side)->data);
        }
    }
    return KVG_OK;
}

static const kvg_impl impls[] = {
    {"slowref_quantise_any_cpu", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run},
    {"slowref_dequantise_any_cpu", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, run},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof(kvg_backend),
    .name = "slowref",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = kvg_error_text,
};

const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
