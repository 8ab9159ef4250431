/* What a setup and a step must be: core/transformer.h. */
#include "model/runner/ref_model_run.h"

kvg_status ref_setup_check(const kvg_model_setup *setup)
{
    const kvg_model_config *c = setup->config;
    if (setup->products != KVG_PRODUCTS_FIXED) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the reference takes products in their fixed order only: no library");
    }
    if (setup->dtype != KVG_DTYPE_F16 && setup->dtype != KVG_DTYPE_BF16) {
        return kvg_fail(KVG_ERR_INVALID, "model type %s: K, V and q are f16 or bf16", kvg_dtype_name(setup->dtype));
    }
    if (!setup->max_rows || !setup->max_sequences || !setup->max_tokens) {
        return kvg_fail(KVG_ERR_INVALID, "steps of %u rows, %u sequences, %u tokens: each must be at least 1",
                        setup->max_rows, setup->max_sequences, setup->max_tokens);
    }
    if (setup->max_tokens > c->positions) {
        return kvg_fail(KVG_ERR_INVALID, "sequences of %u tokens: the model has %u positions", setup->max_tokens,
                        c->positions);
    }
    if (!setup->cos_sin) return kvg_fail(KVG_ERR_INVALID, "the table of cos and sin is missing");
    return KVG_OK;
}

static kvg_status check_sizes(const kvg_model_setup *setup, const kvg_model_step *step)
{
    if (step->rows < 1 || step->rows > setup->max_rows || step->sequences < 1 ||
        step->sequences > setup->max_sequences) {
        return kvg_fail(KVG_ERR_INVALID, "a step of %u rows of %u sequences: from 1 to %u rows of 1 to %u sequences",
                        step->rows, step->sequences, setup->max_rows, setup->max_sequences);
    }
    if (step->longest < 1 || step->longest > setup->max_tokens) {
        return kvg_fail(KVG_ERR_INVALID, "longest is %u: from 1 to the runner's %u tokens", step->longest,
                        setup->max_tokens);
    }
    return KVG_OK;
}

static bool copy_is_touched(const kvg_model_step *step, uint32_t writer, uint32_t other)
{
    const uint32_t to = step->copy[writer][1];
    return to == step->copy[other][0] || (writer != other && to == step->copy[other][1]);
}

/* In any order copies give the same bytes. */
static kvg_status check_copies(const kvg_model_setup *setup, const kvg_model_step *step)
{
    for (uint32_t i = 0; i < step->copies; i++) {
        const uint32_t from = step->copy[i][0], to = step->copy[i][1];
        if (from >= setup->blocks || to >= setup->blocks) {
            return kvg_fail(KVG_ERR_INVALID, "copy[%u] is from block %u to %u; the pool has %u", i, from, to,
                            setup->blocks);
        }
        for (uint32_t j = 0; j < step->copies; j++) {
            if (!copy_is_touched(step, i, j)) continue;
            return kvg_fail(KVG_ERR_INVALID, "copy[%u] writes block %u, and copy[%u] reads or writes it", i, to, j);
        }
    }
    return KVG_OK;
}

/* The slot that the table gives a position that lies within a length; -1 for none. */
static int64_t slot_of(const kvg_model_setup *setup, const kvg_model_step *step, uint32_t sequence, uint32_t position)
{
    const uint32_t width = (step->longest - 1) / setup->block_tokens + 1;
    const int32_t block = step->block_table[(size_t)sequence * width + position / setup->block_tokens];
    return block < 0 ? -1 : (int64_t)block * setup->block_tokens + position % setup->block_tokens;
}

/* The first position that a row of the sequence sees in some layer: there may be no blocks before it. */
static int64_t first_seen(const kvg_model_setup *setup, const kvg_model_step *step, uint32_t sequence)
{
    const kvg_model_config *c = setup->config;
    bool windows = c->window > 0;
    for (uint32_t i = 0; i < c->layers; i++) windows = windows && c->sliding[i];
    const int64_t first = (int64_t)step->lengths[sequence] - step->query_lengths[sequence] + 1 - c->window;
    return windows && first > 0 ? first : 0;
}

static kvg_status check_sequence(const kvg_model_setup *setup, const kvg_model_step *step, uint32_t sequence)
{
    const uint32_t width = (step->longest - 1) / setup->block_tokens + 1;
    const int32_t length = step->lengths[sequence], queries = step->query_lengths[sequence];
    if (length < 0 || (uint32_t)length > step->longest || queries < 0 || queries > length) {
        return kvg_fail(KVG_ERR_INVALID, "sequence %u has %d rows of %d tokens: tokens go up to longest, %u, and rows "
                        "are the last of them", sequence, queries, length, step->longest);
    }
    const int64_t first = first_seen(setup, step, sequence);
    for (uint32_t i = 0; i < width; i++) {
        const int32_t block = step->block_table[(size_t)sequence * width + i];
        const int64_t start = (int64_t)i * setup->block_tokens;
        const bool needed = start < length && start + setup->block_tokens > first;
        if (block < (needed ? 0 : -1) || (block >= 0 && (uint32_t)block >= setup->blocks)) {
            return kvg_fail(KVG_ERR_INVALID, "block_table[%u][%u] is %d: the pool has %u blocks, and -1 is for columns "
                            "that no row sees", sequence, i, block, setup->blocks);
        }
    }
    return KVG_OK;
}

/* Row `row` is the token at a position of its sequence. */
static kvg_status check_row(const kvg_model_setup *setup, const kvg_model_step *step, uint32_t row, uint32_t sequence,
                            int32_t position)
{
    const int64_t slot = slot_of(setup, step, sequence, (uint32_t)position);
    if (step->tokens[row] < 0 || (uint32_t)step->tokens[row] >= setup->config->vocab) {
        return kvg_fail(KVG_ERR_INVALID, "tokens[%u] is %d; the model has %u", row, step->tokens[row],
                        setup->config->vocab);
    }
    if (step->positions[row] != position) {
        return kvg_fail(KVG_ERR_INVALID, "positions[%u] is %d; by the lengths of sequence %u it is %d", row,
                        step->positions[row], sequence, position);
    }
    if (step->slots[row] != slot) {
        return kvg_fail(KVG_ERR_INVALID, "slots[%u] is %lld; by the block table of sequence %u it is %lld", row,
                        (long long)step->slots[row], sequence, (long long)slot);
    }
    return KVG_OK;
}

static kvg_status check_rows(const kvg_model_setup *setup, const kvg_model_step *step)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < step->sequences; i++) {
        kvg_status s = check_sequence(setup, step, i);
        if (s) return s;
        rows += (uint32_t)step->query_lengths[i];
    }
    if (rows != step->rows) {
        return kvg_fail(KVG_ERR_INVALID, "query_lengths add up to %llu, not to the %u rows", (unsigned long long)rows,
                        step->rows);
    }
    uint32_t row = 0;
    for (uint32_t i = 0; i < step->sequences; i++) {
        for (int32_t p = step->lengths[i] - step->query_lengths[i]; p < step->lengths[i]; p++) {
            kvg_status s = check_row(setup, step, row++, i, p);
            if (s) return s;
        }
    }
    return KVG_OK;
}

static kvg_status check_wanted(const kvg_model_setup *setup, const kvg_model_step *step)
{
    if (step->wanted > setup->max_wanted) {
        return kvg_fail(KVG_ERR_INVALID, "logits of %u rows: the runner was opened for %u", step->wanted,
                        setup->max_wanted);
    }
    for (uint32_t i = 0; i < step->wanted; i++) {
        const bool ascending = i == 0 || step->wanted_rows[i] > step->wanted_rows[i - 1];
        if (ascending && step->wanted_rows[i] < step->rows) continue;
        return kvg_fail(KVG_ERR_INVALID, "wanted_rows[%u] is %u: they ascend, below %u", i, step->wanted_rows[i],
                        step->rows);
    }
    return KVG_OK;
}

kvg_status ref_step_check(const kvg_model_setup *setup, const kvg_model_step *step)
{
    kvg_status s = check_sizes(setup, step);
    if (!s) s = check_copies(setup, step);
    if (!s) s = check_rows(setup, step);
    return s ? s : check_wanted(setup, step);
}
