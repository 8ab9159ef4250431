#include "gpu/model/model_check.h"

#include <math.h>

#include "gpu/inputs/gpu_inputs.h"
#include "gpu/ops.h"

/* --- setups --- */

static kvg_status check_sizes(const kvg_model_setup *setup)
{
    const kvg_model_config *c = setup->config;
    const kvg_layout_info *layout = kvg_layout_get(setup->layout);
    if (setup->dtype != KVG_DTYPE_F16 && setup->dtype != KVG_DTYPE_BF16) {
        return kvg_fail(KVG_ERR_INVALID, "a model's rows of type %s: use f16 or bf16", kvg_dtype_name(setup->dtype));
    }
    if (!layout || !layout->paged || layout->blocks != KVG_BLOCKS_TABLE) {
        return kvg_fail(KVG_ERR_INVALID, "a model's cache needs a layout with a block table");
    }
    if (setup->max_rows < 1 || setup->max_sequences < 1 || setup->max_tokens < 1) {
        return kvg_fail(KVG_ERR_INVALID, "at most %u rows, %u sequences, %u tokens: each must be at least 1",
                        setup->max_rows, setup->max_sequences, setup->max_tokens);
    }
    if (c->layers < 1 || c->layers > KVG_MODEL_MAX_LAYERS || !setup->source.view || !setup->cos_sin) {
        return kvg_fail(KVG_ERR_INVALID, "a model needs 1 to %d layers, weights and a table of cos and sin",
                        (int)KVG_MODEL_MAX_LAYERS);
    }
    if (c->rope.dims != c->head_dim || c->rope.pairing != KVG_PAIRING_HALVES) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the GPU's runner turns all of a head, in halves");
    }
    if (setup->max_tokens > c->positions) {
        return kvg_fail(KVG_ERR_INVALID, "sequences of %u tokens: the model has %u positions", setup->max_tokens,
                        c->positions);
    }
    if (c->top_k > c->experts || (c->experts > 0 && c->top_k < 1)) {
        return kvg_fail(KVG_ERR_INVALID, "%u of %u experts cannot be chosen", c->top_k, c->experts);
    }
    return KVG_OK;
}

static kvg_status check_scales(const kvg_model_setup *setup)
{
    for (uint32_t i = 0; setup->tensor_scale && i < setup->config->layers; i++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const float g = setup->tensor_scale[i][side];
            if (isfinite(g) && g > 0) continue;
            return kvg_fail(KVG_ERR_INVALID, "the tensor scale of %s in layer %u is %a: give a finite number above 0",
                            side == KVG_K ? "K" : "V", i, (double)g);
        }
    }
    return KVG_OK;
}

kvg_status kvg_gpu_model_check_setup(const kvg_model_setup *setup)
{
    const kvg_model_step most = {.rows = setup->max_rows, .sequences = setup->max_sequences,
                                 .longest = setup->max_tokens};
    size_t bytes;
    if (setup->run) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the GPU's runner answers append and decode itself");
    if (setup->profile == KVG_PROFILE_NONE) return kvg_fail(KVG_ERR_INVALID, "a model's decode needs a profile");
    kvg_status s = check_sizes(setup);
    if (!s) s = check_scales(setup);
    if (s) return s;
    const kvg_problem append = kvg_model_append(setup, 0, setup->max_rows);
    s = kvg_gpu_check_rows(&append);
    for (uint32_t i = 0; i < setup->config->layers && !s; i++) {
        const kvg_problem decode = kvg_model_decode(setup, i, &most);
        s = kvg_gpu_decode_workspace(&decode, &bytes);
    }
    return s;
}

/* --- steps --- */

static kvg_status check_counts(const kvg_model_setup *setup, const kvg_model_step *step)
{
    const struct {
        const char *name;
        uint32_t is, least, most;
    } counts[] = {{"rows", step->rows, 1, setup->max_rows},
                  {"sequences", step->sequences, 1, setup->max_sequences},
                  {"rows with logits", step->wanted, 0, setup->max_wanted},
                  {"tokens", step->longest, 1, setup->max_tokens}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i].is >= counts[i].least && counts[i].is <= counts[i].most) continue;
        return kvg_fail(KVG_ERR_INVALID, "a step of %u %s: this runner takes %u to %u", counts[i].is, counts[i].name,
                        counts[i].least, counts[i].most);
    }
    return KVG_OK;
}

static kvg_status check_copies(const kvg_model_setup *setup, const kvg_model_step *step)
{
    for (uint32_t i = 0; i < step->copies; i++) {
        const uint32_t *a = step->copy[i];
        bool is_alone = a[0] != a[1];
        for (uint32_t k = 0; k < step->copies; k++) {
            is_alone = is_alone && (k == i || (step->copy[k][0] != a[1] && step->copy[k][1] != a[1]));
        }
        if (a[0] < setup->blocks && a[1] < setup->blocks && is_alone) continue;
        return kvg_fail(KVG_ERR_INVALID, "copy %u, of block %u to %u: of %u blocks, to one of no other copy", i, a[0],
                        a[1], setup->blocks);
    }
    return KVG_OK;
}

static kvg_status check_wanted(const kvg_model_step *step)
{
    for (uint32_t i = 0; i < step->wanted; i++) {
        const uint32_t row = step->wanted_rows[i];
        if (row < step->rows && (i == 0 || row > step->wanted_rows[i - 1])) continue;
        return kvg_fail(KVG_ERR_INVALID, "wanted_rows[%u] is %u: give rows below %u, ascending", i, row, step->rows);
    }
    return step->wanted && !step->logits ? kvg_fail(KVG_ERR_INVALID, "no place for the logits") : KVG_OK;
}

/* The first position that a row of the sequence sees in some layer: where all slide, blocks before it may be gone. */
static int64_t first_seen(const kvg_model_setup *setup, const kvg_model_step *step, uint32_t sequence)
{
    const kvg_model_config *c = setup->config;
    bool all_slide = c->window > 0;
    for (uint32_t i = 0; i < c->layers; i++) all_slide = all_slide && c->sliding[i];
    const int64_t first_row = (int64_t)step->lengths[sequence] - step->query_lengths[sequence];
    return all_slide && first_row >= c->window ? first_row + 1 - c->window : 0;
}

/* The row of the table of a sequence: blocks for all tokens that its rows see. */
static kvg_status check_table(const kvg_model_setup *setup, const kvg_model_step *step, uint32_t sequence)
{
    const uint32_t B = setup->block_tokens, width = (step->longest + B - 1) / B;
    const int32_t length = step->lengths[sequence], *table = step->block_table + (size_t)sequence * width;
    if (length < 0 || (uint32_t)length > step->longest) {
        return kvg_fail(KVG_ERR_INVALID, "lengths[%u] is %d: give 0 to %u", sequence, length, step->longest);
    }
    for (uint32_t i = 0; i < width; i++) {
        const int64_t first = (int64_t)i * B;
        const bool needed = first < length && first + B > first_seen(setup, step, sequence);
        if (table[i] >= (needed ? 0 : -1) && table[i] < (int64_t)setup->blocks) continue;
        return kvg_fail(KVG_ERR_INVALID, "block_table[%u][%u] is %d, of %u blocks and a sequence of %d tokens",
                        sequence, i, table[i], setup->blocks, length);
    }
    return KVG_OK;
}

/* The last tokens of a sequence, where the table says. */
static kvg_status check_row(const kvg_model_setup *setup, const kvg_model_step *step, uint32_t sequence, uint32_t row,
                            int32_t position)
{
    const uint32_t B = setup->block_tokens, width = (step->longest + B - 1) / B, at = (uint32_t)position;
    if (step->tokens[row] < 0 || (uint32_t)step->tokens[row] >= setup->config->vocab) {
        return kvg_fail(KVG_ERR_INVALID, "tokens[%u] is %d: give 0 to %u", row, step->tokens[row],
                        setup->config->vocab - 1);
    }
    if (step->positions[row] != position) {
        return kvg_fail(KVG_ERR_INVALID, "positions[%u] is %d, and the row is token %d of sequence %u", row,
                        step->positions[row], position, sequence);
    }
    const int64_t slot = (int64_t)step->block_table[(size_t)sequence * width + at / B] * B + at % B;
    if (step->slots[row] == slot) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "slots[%u] is %lld, and the table says %lld", row, (long long)step->slots[row],
                    (long long)slot);
}

static kvg_status check_sequences(const kvg_model_setup *setup, const kvg_model_step *step)
{
    uint32_t row = 0;
    for (uint32_t i = 0; i < step->sequences; i++) {
        const int32_t queries = step->query_lengths[i];
        kvg_status s = check_table(setup, step, i);
        if (s) return s;
        if (queries < 0 || queries > step->lengths[i] || (uint32_t)queries > step->rows - row) {
            return kvg_fail(KVG_ERR_INVALID, "query_lengths[%u] is %d, of %d tokens and %u rows", i, queries,
                            step->lengths[i], step->rows - row);
        }
        for (int32_t k = 0; k < queries && !s; k++) {
            s = check_row(setup, step, i, row++, step->lengths[i] - queries + k);
        }
        if (s) return s;
    }
    if (row == step->rows) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "query_lengths give %u rows, and there are %u", row, step->rows);
}

/* No two rows in one place, as op append refuses them. */
static kvg_status check_slots(const kvg_model_setup *setup, const kvg_model_step *step)
{
    const kvg_problem append = kvg_model_append(setup, 0, step->rows);
    const int index = kvg_roles_index(kvg_op_get(KVG_OP_APPEND)->inputs, KVG_ROLE_SLOTS, KVG_K);
    kvg_tensor in[KVG_MAX_TENSORS] = {0};
    in[index] = kvg_problem_tensor(&append, KVG_ROLE_SLOTS, KVG_K);
    in[index].data = (void *)step->slots;
    return kvg_gpu_check_inputs(&append, in);
}

kvg_status kvg_gpu_model_check_step(const kvg_model_setup *setup, const kvg_model_step *step)
{
    kvg_status s = check_counts(setup, step);
    if (!s) s = check_copies(setup, step);
    if (!s) s = check_wanted(step);
    if (!s) s = check_sequences(setup, step);
    return s ? s : check_slots(setup, step);
}
