// A plug-in for kvgold: paged attention in plain float over bf16 pages of layout hnd,
// [layer][block][head][offset][dim].
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/plugin.h"
#include "core/plugin_tensors.h"

namespace {

const char *why = "";

float widen(uint16_t bf16)
{
    const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Rounds a finite number to nearest, ties to even.
uint16_t narrow(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// The sequences of a request in their pages.
struct Pages {
    const kvg_problem &problem;
    const int32_t *block_table;
    size_t table_width;

    // The first element of a row in either pool; -1 if the block table has no place for it.
    int64_t row(size_t sequence, int64_t position, uint32_t head) const
    {
        const kvg_paging &g = problem.paging;
        const int64_t block = block_table[sequence * table_width + position / g.block_tokens];
        if (block < 0 || block >= g.blocks) return -1;
        const int64_t page = static_cast<int64_t>(g.layer) * g.blocks + block;
        return ((page * problem.kv_heads + head) * g.block_tokens + position % g.block_tokens) * problem.head_dim;
    }
};

// Attention of one query head over the given rows of K and V. Writes out[head_dim] and returns the natural LSE.
float attend(const uint16_t *q, const uint16_t *k, const uint16_t *v, const std::vector<int64_t> &rows,
             uint32_t head_dim, float scale, uint16_t *out)
{
    std::vector<float> scores;
    float largest = -INFINITY, sum = 0;
    for (const int64_t row : rows) {
        float score = 0;
        for (uint32_t d = 0; d < head_dim; d++) score += widen(q[d]) * widen(k[row + d]);
        scores.push_back(score * scale);
        largest = std::max(largest, scores.back());
    }
    std::vector<float> values(head_dim);
    for (size_t i = 0; i < rows.size(); i++) {
        const float weight = std::exp(scores[i] - largest);
        sum += weight;
        for (uint32_t d = 0; d < head_dim; d++) values[d] += weight * widen(v[rows[i] + d]);
    }
    for (uint32_t d = 0; d < head_dim; d++) out[d] = rows.empty() ? 0 : narrow(values[d] / sum);
    return largest + std::log(sum); // without rows: -Inf
}

kvg_status decode(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *)
{
    const kvg_attention &a = p->attention;
    const kvg_paging &g = p->paging;
    if (p->layout != KVG_LAYOUT_HND || p->dtype != KVG_DTYPE_BF16 || p->profile != KVG_PROFILE_NONE || a.window ||
        a.softcap != 0 || a.sinks || g.row_padding || g.data_padding) {
        why = "engine: only bf16 models on layout hnd, without window, cap, sinks, padding and profile";
        return KVG_ERR_UNIMPLEMENTED;
    }
    const kvg_tensor &table = in[KVG_DECODE_IN_BLOCK_TABLE];
    const Pages pages = {*p, static_cast<const int32_t *>(table.data), table.shape[1]};
    const auto *lengths = static_cast<const int32_t *>(in[KVG_DECODE_IN_LENGTHS].data);
    const auto *query_lengths = static_cast<const int32_t *>(in[KVG_DECODE_IN_QUERY_LENGTHS].data);
    const auto *q = static_cast<const uint16_t *>(in[KVG_DECODE_IN_Q].data);
    const auto *k = static_cast<const uint16_t *>(in[KVG_DECODE_IN_K_DATA].data);
    const auto *v = static_cast<const uint16_t *>(in[KVG_DECODE_IN_V_DATA].data);
    auto *answer = static_cast<uint16_t *>(out[KVG_DECODE_OUT_OUT].data);
    auto *lse = static_cast<float *>(out[KVG_DECODE_OUT_LSE].data);
    const float scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<float>(p->head_dim));
    const uint32_t group = a.query_heads / p->kv_heads;

    size_t row = 0; // of q, out and lse: all query heads of the first query, then those of the next one
    for (size_t sequence = 0; sequence < g.sequences; sequence++) {
        for (int32_t j = 0; j < query_lengths[sequence]; j++) {
            const int64_t last = lengths[sequence] - query_lengths[sequence] + j; // the query's own position
            for (uint32_t head = 0; head < a.query_heads; head++, row++) {
                std::vector<int64_t> rows;
                for (int64_t position = 0; position <= last; position++) {
                    const int64_t found = pages.row(sequence, position, head / group);
                    if (found >= 0) rows.push_back(found);
                }
                lse[row] = attend(q + row * p->head_dim, k, v, rows, p->head_dim, scale, answer + row * p->head_dim);
            }
        }
    }
    return KVG_OK;
}

const kvg_impl impls[] = {{"engine_decode_bf16_any", KVG_OP_DECODE, KVG_FORMAT_BF16, 0, decode}};

} // namespace

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    static kvg_backend backend;
    backend.abi = KVG_BACKEND_ABI;
    backend.struct_size = sizeof backend;
    backend.problem_size = sizeof(kvg_problem);
    backend.name = "engine";
    backend.impls = impls;
    backend.impl_count = sizeof impls / sizeof impls[0];
    backend.error_text = [] { return why; };
    return &backend;
}
