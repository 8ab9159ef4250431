/* The second reference as a backend: the table of implementations and the ops on plain rows. Exported, so that this
 * file with the other slow_*.c is also a shared-library backend. */
#include "second/slow_backend.h"

#include <string.h>

#include "second/slow_attention.h"
#include "second/slow_decode.h"
#include "second/slow_mma.h"
#include "second/slow_paged.h"
#include "second/slow_side.h"

enum { FEW_ROWS = 16 }; /* not worth waking threads for */

static void quantise_rows(const slow_side *side, size_t rows, const uint8_t *values, uint8_t *codes, uint8_t *scales)
{
    size_t row_bytes = side->row.dim * kvg_dtype_bytes(side->dtype);
#pragma omp parallel for if (rows > FEW_ROWS) schedule(dynamic, 8)
    for (size_t r = 0; r < rows; r++) {
        slow_number x[KVG_MAX_HEAD_DIM];
        slow_load(side->dtype, values + r * row_bytes, side->row.dim, x);
        side->codec->quantise(side->codec, &side->row, x, codes + r * side->code_bytes, scales + r * side->scale_bytes);
    }
}

static void dequantise_rows(const slow_side *side, size_t rows, const uint8_t *codes, const uint8_t *scales,
                            uint8_t *values)
{
    size_t row_bytes = side->row.dim * kvg_dtype_bytes(side->dtype);
#pragma omp parallel for if (rows > FEW_ROWS) schedule(dynamic, 8)
    for (size_t r = 0; r < rows; r++) {
        slow_number x[KVG_MAX_HEAD_DIM];
        side->codec->dequantise(side->codec, &side->row, codes + r * side->code_bytes, scales + r * side->scale_bytes,
                                x);
        slow_store(side->dtype, x, side->row.dim, values + r * row_bytes);
    }
}

/* Both sides are opened first, so that a refusal writes nothing. */
static kvg_status run_rows(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    slow_side sides[2];
    kvg_status status = kvg_problem_check(problem);
    for (int side = KVG_K; side <= KVG_V && !status; side++) status = slow_side_open(problem, side, in, &sides[side]);
    if (status) return status;
    const kvg_op_info *op = kvg_op_get(problem->op);
    size_t rows = (size_t)problem->tokens * problem->kv_heads;
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (problem->op == KVG_OP_QUANTISE) {
            quantise_rows(&sides[side], rows, slow_tensor(in, op->inputs, KVG_ROLE_VALUES, side)->data,
                          slow_tensor(out, op->outputs, KVG_ROLE_CODES, side)->data,
                          slow_tensor(out, op->outputs, KVG_ROLE_SCALES, side)->data);
        } else {
            dequantise_rows(&sides[side], rows, slow_tensor(in, op->inputs, KVG_ROLE_CODES, side)->data,
                            slow_tensor(in, op->inputs, KVG_ROLE_SCALES, side)->data,
                            slow_tensor(out, op->outputs, KVG_ROLE_VALUES, side)->data);
        }
    }
    return KVG_OK;
}

/* Output `index` of all tiles: its row of a, its column of b, its c. */
static void mma_output(const kvg_problem *problem, const kvg_tensor *in, size_t index, uint32_t *d)
{
    const size_t tile = index / (KVG_MMA_M * KVG_MMA_N), n = index % KVG_MMA_N;
    const uint16_t *row = (const uint16_t *)in[0].data + index / KVG_MMA_N * KVG_MMA_K;
    const uint16_t *b = (const uint16_t *)in[1].data + tile * KVG_MMA_K * KVG_MMA_N;
    uint16_t column[KVG_MMA_K];
    uint32_t c;
    for (size_t k = 0; k < KVG_MMA_K; k++) column[k] = b[k * KVG_MMA_N + n];
    memcpy(&c, (const uint8_t *)in[2].data + index * sizeof c, sizeof c);
    d[index] = slow_mma_output(kvg_profile_get(problem->profile)->chip, problem->dtype, 0, row, column, c);
}

static kvg_status run_mma(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status status = kvg_problem_check(problem);
    if (status) return status;
    const size_t outputs = (size_t)problem->tokens * KVG_MMA_M * KVG_MMA_N;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < outputs; i++) mma_output(problem, in, i, out[0].data);
    return KVG_OK;
}

static kvg_status run_merge(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    return slow_merge(problem, in, out);
}

static const kvg_impl impls[] = {
    {"slowref_quantise_any_cpu", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run_rows},
    {"slowref_dequantise_any_cpu", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, run_rows},
    {"slowref_append_any_cpu", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, slow_append},
    {"slowref_flatten_any_cpu", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, slow_flatten},
    {"slowref_expand_any_cpu", KVG_OP_EXPAND, KVG_FORMAT_NONE, 0, slow_flatten},
    {"slowref_probe_any_cpu", KVG_OP_PROBE, KVG_FORMAT_NONE, 0, slow_probe},
    {"slowref_decode_any_cpu", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, slow_decode_op},
    {"slowref_merge_any_cpu", KVG_OP_MERGE, KVG_FORMAT_NONE, 0, run_merge},
    {"slowref_mma_any_cpu", KVG_OP_MMA, KVG_FORMAT_NONE, 0, run_mma},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof(kvg_backend),
    .name = "slowref",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = kvg_error_text,
    .problem_size = sizeof(kvg_problem),
};

const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
