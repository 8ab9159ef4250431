/* What the report says of an answer that no known defect gives: where the wrong numbers lie, and what they have in
 * common. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/config/config.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/wrong/defects.h"
#include "support/tensor_set.h"

static uint8_t *held; /* what the first output held before */

/* A right answer, and what is done to it. */
typedef void spoil_fn(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out);
static spoil_fn *spoil;
static kvg_op spoilt; /* of this op alone: relations ask others, too */

static kvg_status run_spoilt(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    held = malloc(out[0].bytes);
    memcpy(held, out[0].data, out[0].bytes);
    const kvg_status s = kvg_reference_run(p, in, out);
    if (!s && p->op == spoilt) spoil(p, in, out);
    free(held);
    return s;
}

static const kvg_impl impls[] = {
    {"spoilt_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run_spoilt},
    {"spoilt_dequantise", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, run_spoilt},
    {"spoilt_append", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, run_spoilt},
    {"spoilt_flatten", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, run_spoilt},
    {"spoilt_decode", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run_spoilt},
    {"spoilt_merge", KVG_OP_MERGE, KVG_FORMAT_NONE, 0, run_spoilt},
};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI, .struct_size = sizeof backend, .name = "spoilt", .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0], .error_text = kvg_error_text, .problem_size = sizeof(kvg_problem),
};

static bool shuffled; /* what nobody owns may hold NaN or rows */

/* `wanted`: all that is said behind the first words that begin with `begin`. */
static void expect_said(unsigned seed, const char *group, spoil_fn *by, const char *begin, const char *wanted)
{
    char text[512];
    kvg_config config;
    kvg_result r;
    const int n = snprintf(text, sizeof text,
                           "{\"kvgold\": 1, \"name\": \"where\", \"seed\": \"0x%x\", \"cases\": [{%s}]}", seed,
                           group);
    assert_int_equal(kvg_config_parse("where", text, (size_t)n, ".", NULL, &config), KVG_OK);
    spoil = by;
    spoilt = config.cases[0].problem.op;
    config.cases[0].shuffled = shuffled;
    kvg_check_run(&config.cases[0], &backend, &r);
    const char *at = strstr(r.detail, begin);
    const bool said = r.verdict == KVG_VERDICT_FAIL && strcmp(at ? at : "", wanted) == 0;
    if (!said) fail_msg("%s: %s", wanted, r.detail);
    kvg_config_close(&config);
}

static void expect_common(unsigned seed, const char *group, spoil_fn *by, const char *wanted)
{
    expect_said(seed, group, by, "in common: ", wanted);
}

#define ROWS_OF "\"op\": \"quantise\", \"layout\": \"rows\", "
#define MORE "\"kv_heads\": 4, \"head_dim\": 128, \"tokens\": 64, \"fill\": \"random\""
#define FEW "\"kv_heads\": 4, \"head_dim\": 128, \"tokens\": 16, \"fill\": \"random\""
#define ROWS "\"format\": \"int8\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 20, \"fill\": \"random\""

/* Codes of rows [token][head][dim]. */
static void add_to_codes(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    uint8_t *codes = out[0].data;
    for (size_t token = 4; token < p->tokens; token += 4) {
        for (size_t dim = 8; dim < 12; dim++) codes[(token * p->kv_heads + 1) * p->head_dim + dim] ^= 0x41;
    }
}

/* V in bf16: every second number of a row has the other sign. */
static void turn_signs(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint16_t *numbers = out[1].data;
    for (size_t i = 1; i < out[1].bytes / sizeof *numbers; i += 2) numbers[i] ^= 0x8000;
}

/* All numbers; the rows of a sequence without keys were not meant. */
static void scale_out(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint16_t *numbers = out[0].data;
    for (size_t i = 0; i < out[0].bytes / sizeof *numbers; i++) {
        if (numbers[i] & 0x7F80) numbers[i] = (uint16_t)(numbers[i] + 0x0180); /* the exponent of bf16: times 8 */
    }
}

/* What is right where no sequence has a key. */
static void see_nothing(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    float *lse = out[1].data;
    memset(out[0].data, 0, out[0].bytes);
    for (size_t i = 0; i < (size_t)p->attention.queries * p->attention.query_heads; i++) lse[i] = -INFINITY;
}

/* The window is a key longer. */
static void see_one_more(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_problem wrong = *p;
    wrong.attention.window++;
    assert_int_equal(kvg_reference_run(&wrong, in, out), KVG_OK);
}

/* The same in the last row of q. */
static void see_one_more_last(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_tensor wrong[2];
    for (int i = 0; i < 2; i++) {
        wrong[i] = out[i];
        wrong[i].data = malloc(out[i].bytes);
        assert_non_null(wrong[i].data);
    }
    see_one_more(p, in, wrong);
    for (int i = 0; i < 2; i++) {
        const size_t row = out[i].bytes / p->attention.queries, at = out[i].bytes - row;
        memcpy((uint8_t *)out[i].data + at, (uint8_t *)wrong[i].data + at, row);
        free(wrong[i].data);
    }
}

static const char *defect_id;
static size_t most_words; /* of 4 bytes, that are as the defect has them */

/* Every third wrong word of a defect's answer. */
static void be_wrong_at_places(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_defect *defect;
    kvg_tensor_set wrong;
    size_t changed = 0;
    assert_int_equal(kvg_defect_find(defect_id, &defect), KVG_OK);
    assert_int_equal(kvg_set_alloc(p, kvg_op_get(p->op)->outputs, &wrong), KVG_OK);
    for (size_t i = 0; i < wrong.count; i++) memcpy(wrong.tensors[i].data, out[i].data, out[i].bytes);
    assert_int_equal(kvg_defect_run(defect, p, in, wrong.tensors), KVG_OK);
    for (size_t i = 0; i < wrong.count; i++) {
        const uint32_t *from = wrong.tensors[i].data;
        uint32_t *to = out[i].data;
        for (size_t k = 0; k < out[i].bytes / sizeof *to; k++) {
            if (from[k] != to[k] && changed++ % 3 == 0 && changed / 3 < most_words) to[k] = from[k];
        }
    }
    kvg_set_free(&wrong);
}

/* Codes of the last head of K are those of the first one; scales stay as they are. */
static void take_first_head(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const size_t row = out[0].bytes / p->tokens / p->kv_heads;
    uint8_t *codes = out[0].data;
    (void)in;
    for (size_t token = 0; token < p->tokens; token++, codes += row * p->kv_heads)
        memcpy(codes + row * (p->kv_heads - 1), codes, row);
}

/* Codes of K alone: each row holds those of the next head, the last one those of the first; scales stay. */
static void take_next_head(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    const size_t bytes = out[0].bytes / p->tokens / p->kv_heads, rows = out[0].bytes / p->kv_heads / bytes;
    uint8_t *codes = out[0].data, first[KVG_MAX_HEAD_DIM];
    for (size_t token = 0; token < rows; token++) {
        uint8_t *row = codes + token * p->kv_heads * bytes;
        memcpy(first, row, bytes);
        memmove(row, row + bytes, (p->kv_heads - 1) * bytes);
        memcpy(row + (p->kv_heads - 1) * bytes, first, bytes);
    }
}

/* K's numbers: tokens of a group of 8 all hold its first token's. */
static void take_first_of_8(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    const size_t bytes = out[0].bytes / p->tokens;
    uint8_t *values = out[0].data;
    for (size_t token = 0; token < p->tokens; token++)
        memcpy(values + token * bytes, values + token / 8 * 8 * bytes, bytes);
}

/* V's numbers of each token but the last few lie in the row three tokens on, of the head with the other number. */
static void take_from_afar(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    const size_t bytes = out[1].bytes / p->tokens / p->kv_heads;
    uint8_t *values = out[1].data;
    for (size_t row = 0; row + 3 * p->kv_heads + 1 < (size_t)p->tokens * p->kv_heads; row++) {
        const size_t token = row / p->kv_heads + 3, head = (row + 1) % p->kv_heads;
        memcpy(values + row * bytes, values + (token * p->kv_heads + head) * bytes, bytes);
    }
}

/* Codes of 4 bits: the nibbles of each 4 bytes in the order 0, 2, 4, 6, 1, 3, 5, 7. */
static void order_nibbles(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    static const unsigned order[] = {0, 2, 4, 6, 1, 3, 5, 7};
    (void)p;
    (void)in;
    uint8_t *codes = out[0].data;
    for (size_t i = 0; i < out[0].bytes; i += 4) {
        uint8_t moved[4] = {0};
        for (unsigned k = 0; k < 8; k++) {
            const unsigned nibble = codes[i + order[k] / 2] >> order[k] % 2 * 4 & 15;
            moved[k / 2] |= (uint8_t)(nibble << k % 2 * 4);
        }
        memcpy(codes + i, moved, sizeof moved);
    }
}

/* K's codes are 0. */
static void lose_codes(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    memset(out[0].data, 0, out[0].bytes);
}

/* Integers are stored plus 9 where they are stored plus 8. */
static void store_plus_9(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint8_t *codes = out[0].data;
    for (size_t i = 0; i < out[0].bytes; i++)
        codes[i] = (uint8_t)(((codes[i] & 15) + 1) % 16 | (codes[i] / 16 + 1) % 16 << 4);
}

/* The second code of a byte is stored three bits up, over the first one. */
static void store_three_bits_up(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint8_t *codes = out[0].data;
    for (size_t i = 0; i < out[0].bytes; i++) codes[i] = (uint8_t)((codes[i] & 15) | codes[i] / 16 << 3);
}

/* The same, but for the last byte. */
static void store_all_but_the_last(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint8_t *last = (uint8_t *)out[0].data + out[0].bytes - 1, right = *last;
    store_three_bits_up(p, in, out);
    *last = (uint8_t)(right ^ 0x21);
}

/* The third element of each block of 16, of rows of 128, is stored as another code. */
static void lose_third_of_block(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint8_t *codes = out[0].data;
    for (size_t i = 1; i < out[0].bytes; i += 8) codes[i] = (uint8_t)(codes[i] ^ (1 + i / 8 % 15));
}

/* Half of the blocks have two such elements. */
static void lose_two_of_some(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    lose_third_of_block(p, in, out);
    uint8_t *codes = out[0].data;
    for (size_t i = 2; i < out[0].bytes; i += 16) codes[i] ^= 0x20;
}

/* Codes of E4M3 from 0x68 on have their lowest bit set. */
static void set_lowest_bits(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint8_t *codes = out[1].data;
    for (size_t i = 0; i < out[1].bytes; i++) codes[i] |= (codes[i] & 0x7F) >= 0x68;
}

/* Every fifth code of V, if it is not 0, is the next smaller one. */
static void round_to_zero(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint8_t *codes = out[1].data;
    for (size_t i = 0; i < out[1].bytes; i += 5) codes[i] -= (codes[i] & 0x7F) != 0;
}

/* K's values: the first two dims exchanged. */
static void swap_first_pair(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    uint16_t *values = out[0].data;
    for (size_t i = 0; i < out[0].bytes / sizeof *values; i += p->head_dim) {
        const uint16_t first = values[i];
        values[i] = values[i + 1];
        values[i + 1] = first;
    }
}

/* Values of both sides: each pair of dims exchanged. */
static void swap_pairs(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    for (int side = 0; side < 2; side++) {
        uint16_t *values = out[side].data;
        for (size_t i = 0; i < out[side].bytes / sizeof *values; i += 2) {
            const uint16_t first = values[i];
            values[i] = values[i + 1];
            values[i + 1] = first;
        }
    }
}

/* V's block scales: the one two blocks on; the last ones are the first ones. */
static void turn_scales(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    const size_t row = out[3].bytes / p->tokens / p->kv_heads;
    uint8_t *scales = out[3].data, old[KVG_MAX_HEAD_DIM];
    for (size_t i = 0; i < out[3].bytes; i += row) {
        memcpy(old, scales + i, row);
        for (size_t k = 0; k < row; k++) scales[i + k] = old[(k + 2) % row];
    }
}

/* Runs the reference again over the same outputs, with another tensor in place of one of its inputs. */
static void run_again(const kvg_problem *p, const kvg_tensor *in, kvg_role role, void *data, kvg_tensor *out)
{
    const kvg_role *roles = kvg_op_get(p->op)->inputs;
    kvg_tensor other[KVG_MAX_TENSORS];
    memcpy(other, in, kvg_roles_tensors(roles) * sizeof *in);
    other[kvg_roles_index(roles, role, KVG_K)].data = data;
    assert_int_equal(kvg_reference_run(p, other, out), KVG_OK);
}

/* K of each token is what was given three tokens earlier. */
static void store_late(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const size_t row = in[0].bytes / p->tokens;
    uint8_t *late = malloc(in[0].bytes);
    for (size_t t = 0; t < p->tokens; t++)
        memcpy(late + t * row, (const uint8_t *)in[0].data + (t + p->tokens - 3) % p->tokens * row, row);
    run_again(p, in, KVG_ROLE_VALUES, late, out);
    free(late);
}

/* Each block of a table is taken for the one two blocks on. */
static void read_other_blocks(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *table = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)];
    int32_t *other = malloc(table->bytes);
    for (size_t i = 0; i < table->bytes / sizeof *other; i++)
        other[i] = (int32_t)((((const uint32_t *)table->data)[i] + 2) % p->paging.blocks);
    run_again(p, in, KVG_ROLE_BLOCK_TABLE, other, out);
    free(other);
}

/* Each row of a sequence, in bf16, is one and the same. */
static void fill_rows(const kvg_problem *p, const kvg_tensor *in, uint16_t word, kvg_tensor *out)
{
    const int32_t *lengths = in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_LENGTHS, KVG_K)].data;
    for (size_t i = 0; i < out->bytes / sizeof word; i++) {
        const size_t row = i / p->head_dim, sequence = row / p->tokens / p->kv_heads;
        if (row % p->tokens < (size_t)lengths[sequence]) ((uint16_t *)out->data)[i] = (uint16_t)(word + i % 2);
    }
}

/* The first block of every sequence is another one. */
static void read_other_first_block(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *table = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)];
    int32_t *other = malloc(table->bytes);
    memcpy(other, table->data, table->bytes);
    for (uint64_t i = 0; i < table->shape[0]; i++) {
        int32_t *first = &other[i * table->shape[1]];
        if (*first >= 0) *first = (int32_t)(((uint32_t)*first + 2) % p->paging.blocks);
    }
    run_again(p, in, KVG_ROLE_BLOCK_TABLE, other, out);
    free(other);
}

/* Every sequence is the first one: with one head and one token each row is the same one. */
static void read_first_table(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *table = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)];
    const size_t row = table->bytes / table->shape[0];
    uint8_t *other = malloc(table->bytes);
    for (size_t i = 0; i < table->bytes; i++) other[i] = ((const uint8_t *)table->data)[i % row];
    run_again(p, in, KVG_ROLE_BLOCK_TABLE, other, out);
    free(other);
}

static void read_one_row(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    for (int side = KVG_K; side <= KVG_V; side++) fill_rows(p, in, 0x3F80, &out[side]);
}

static void read_other_layer(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_problem other = *p;
    other.paging.layer = (p->paging.layer + 1) % p->paging.layers;
    assert_int_equal(kvg_reference_run(&other, in, out), KVG_OK);
}

/* Each query sees three keys more. */
static void widen_window(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_problem other = *p;
    other.attention.window += 3;
    assert_int_equal(kvg_reference_run(&other, in, out), KVG_OK);
}

/* The third page of every sequence is not there. */
static void lose_third_page(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *table = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)];
    int32_t *other = malloc(table->bytes);
    memcpy(other, table->data, table->bytes);
    for (uint64_t i = 0; i < table->shape[0]; i++) other[i * table->shape[1] + 2] = -1;
    run_again(p, in, KVG_ROLE_BLOCK_TABLE, other, out);
    free(other);
}

/* Scales are half as large, as for a tensor scale twice as large. */
static void halve_scales(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int at = kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_TENSOR_SCALE, KVG_K);
    float g = 2 * *(const float *)in[at].data;
    run_again(p, in, KVG_ROLE_TENSOR_SCALE, &g, out);
}

/* And V's, in E4M3, are half or twice as large in turn. */
static void spoil_scales_of_both(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *v = &out[kvg_roles_index(kvg_op_get(p->op)->outputs, KVG_ROLE_SCALES, KVG_V)];
    uint8_t *scales = v->data;
    halve_scales(p, in, out);
    for (size_t i = 0; i < v->bytes; i++) scales[i] = (uint8_t)(scales[i] + (i % 2 ? 8 : -8));
}

/* Scales are divided by the tensor scale twice. */
static void square_tensor_scale(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int at = kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_TENSOR_SCALE, KVG_K);
    float g = *(const float *)in[at].data;
    g *= g;
    run_again(p, in, KVG_ROLE_TENSOR_SCALE, &g, out);
}

/* K's offsets are one step of the model type too large: the factors beside them are right. */
static void raise_offsets(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint16_t *scales = out[kvg_roles_index(kvg_op_get(p->op)->outputs, KVG_ROLE_SCALES, KVG_K)].data;
    (void)in;
    for (uint32_t row = 0; row < p->tokens * p->kv_heads; row++) scales[2 * row + 1]++;
}

/* Each row is encoded for a first element that is twice as large as the row's largest one, or more. */
static void raise_scales(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *k = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_VALUES, KVG_K)];
    const size_t D = p->head_dim;
    uint16_t *other = malloc(k->bytes);
    memcpy(other, k->data, k->bytes);
    for (size_t row = 0; row < k->bytes / sizeof *other / D; row++) {
        float x[KVG_MAX_HEAD_DIM], most = 0;
        kvg_reference_load(p->dtype, other + row * D, (uint32_t)D, x);
        for (size_t i = 0; i < D; i++) most = fmaxf(most, fabsf(x[i]));
        x[0] = 2 * most;
        kvg_reference_store(p->dtype, x, 1, other + row * D);
    }
    run_again(p, in, KVG_ROLE_VALUES, other, out);
    free(other);
}

/* NaN is stored as a number. */
static void store_nan_as_number(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    for (uint32_t i = 0; i < p->tokens * p->kv_heads * p->head_dim; i++) {
        float x;
        kvg_reference_load(p->dtype, (const uint8_t *)in[KVG_K].data + i * kvg_dtype_bytes(p->dtype), 1, &x);
        if (isnan(x)) ((uint8_t *)out[KVG_K].data)[i] = (uint8_t)(0x30 + i % 7);
        kvg_reference_load(p->dtype, (const uint8_t *)in[KVG_V].data + i * kvg_dtype_bytes(p->dtype), 1, &x);
        if (isnan(x)) ((uint8_t *)out[KVG_V].data)[i] = (uint8_t)(0x30 + i % 7);
    }
}

/* Each row of K begins with Inf, so that its factor is Inf. */
static void raise_to_inf(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const size_t values = in[KVG_K].bytes;
    uint8_t *inf = malloc(values);
    for (size_t i = 0; i < values / 2; i++) ((uint16_t *)(void *)inf)[i] = i % p->head_dim ? 0x3F80 : 0x7F80;
    run_again(p, in, KVG_ROLE_VALUES, inf, out);
    free(inf);
}

/* Nothing is stored. */
static void keep_rows(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in;
    memcpy(out[0].data, held, out[0].bytes);
}

/* Changes the codes of the numbers of K and V that are of a kind: `codes` and the number's place in them. */
static void change_kind(const kvg_problem *p, const kvg_tensor *in, bool (*is)(float),
                        void (*change)(uint8_t *codes, size_t i), kvg_tensor *out)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        for (uint32_t i = 0; i < p->tokens * p->kv_heads * p->head_dim; i++) {
            float x;
            kvg_reference_load(p->dtype, (const uint8_t *)in[side].data + i * kvg_dtype_bytes(p->dtype), 1, &x);
            if (is(x)) change(out[side].data, i);
        }
    }
}

static bool is_nan(float x)
{
    return isnan(x);
}

static bool is_plus_inf(float x)
{
    return x == INFINITY;
}

static void turn_bit_of_8(uint8_t *codes, size_t i)
{
    codes[i] ^= 2;
}

static void clear_4_bits(uint8_t *codes, size_t i)
{
    codes[i / 2] &= i % 2 ? 0x0F : 0xF0;
}

/* The few bytes of NaN differ in the same bit. */
static void turn_nan(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    change_kind(p, in, is_nan, turn_bit_of_8, out);
}

/* Codes of 4 bits of +Inf are 0. */
static void lose_plus_inf(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    change_kind(p, in, is_plus_inf, clear_4_bits, out);
}

/* The last byte of V is wrong, too. */
static void spoil_nan_and_end(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    store_nan_as_number(p, in, out);
    ((uint8_t *)out[KVG_V].data)[out[KVG_V].bytes - 1] ^= 0x11;
}

static bool is_no_number(float x)
{
    return !isfinite(x);
}

static void turn_no_numbers(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    change_kind(p, in, is_no_number, turn_bit_of_8, out);
}

/* Each pair is turned with the sine of the pair after it. */
static void take_next_sines(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *table = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_COS_SIN, KVG_K)];
    const size_t count = table->bytes / sizeof(float);
    float *other = malloc(table->bytes);
    memcpy(other, table->data, table->bytes);
    for (size_t i = 1; i + 2 < count; i += 2) other[i] = ((const float *)table->data)[i + 2];
    run_again(p, in, KVG_ROLE_COS_SIN, other, out);
    free(other);
}

/* Each pair is turned with its cosine as its sine. */
static void take_cosines(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *table = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_COS_SIN, KVG_K)];
    float *other = malloc(table->bytes);
    for (size_t i = 0; i < table->bytes / sizeof(float); i++) other[i] = ((const float *)table->data)[i & ~(size_t)1];
    run_again(p, in, KVG_ROLE_COS_SIN, other, out);
    free(other);
}

/* V is turned, too: as it would be as K, where that differs from K. */
static void turn_v(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_op_info *op = kvg_op_get(p->op);
    const int values = kvg_roles_index(op->inputs, KVG_ROLE_VALUES, KVG_V);
    uint8_t *k = out[KVG_K].data, *right = malloc(out[KVG_K].bytes);
    memcpy(right, k, out[KVG_K].bytes);
    run_again(p, in, KVG_ROLE_VALUES, in[values].data, out);
    for (size_t i = 0; i < out[KVG_K].bytes; i++) {
        if (k[i] != right[i]) ((uint8_t *)out[KVG_V].data)[i] = k[i];
    }
    memcpy(k, right, out[KVG_K].bytes);
    free(right);
}

/* Another tensor of the same shape is read in place of an input of K. */
static void read_changed(const kvg_problem *p, const kvg_tensor *in, kvg_role role, uint8_t (*change)(uint8_t, size_t),
                         kvg_tensor *out)
{
    const kvg_tensor *t = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, role, KVG_K)];
    uint8_t *other = malloc(t->bytes);
    for (size_t i = 0; i < t->bytes; i++) other[i] = change(((const uint8_t *)t->data)[i], i);
    run_again(p, in, role, other, out);
    free(other);
}

static uint8_t without_high_bit(uint8_t code, size_t at)
{
    (void)at;
    return code & 0x77;
}

static uint8_t nearer(uint8_t code, size_t at)
{
    (void)at;
    return code ^ (code & 0x70 ? 0x10 : 0) ^ (code & 0x07 ? 0x01 : 0);
}

static uint8_t other_scale(uint8_t scale, size_t at)
{
    return (uint8_t)(scale ^ at % 3 << 2);
}

static void lose_signs(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    read_changed(p, in, KVG_ROLE_CODES, without_high_bit, out);
}

static void read_other_codes(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    read_changed(p, in, KVG_ROLE_CODES, nearer, out);
}

static void read_other_scales(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    read_changed(p, in, KVG_ROLE_SCALES, other_scale, out);
}

/* Every seventh number of K is the next one of its type. */
static void round_up(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint16_t *numbers = out[KVG_K].data;
    (void)p, (void)in;
    for (size_t i = 0; i < out[KVG_K].bytes / sizeof *numbers; i += 7) numbers[i] += (numbers[i] & 0x7FFF) != 0;
}

/* The codes and scales of K are those of V: nothing of a row of K is read. */
static void read_v(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in;
    for (size_t i = 0; i < out[KVG_K].bytes; i++)
        ((uint8_t *)out[KVG_K].data)[i] = (uint8_t)(((const uint8_t *)out[KVG_V].data)[i] ^ (i & 1));
}

/* Codes of 4 bits of K: every eighth one from the fourth on is stored at the next place, its own is as it was. */
static void store_next(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint8_t *codes = out[KVG_K].data;
    (void)p, (void)in;
    for (size_t i = 0; i < out[KVG_K].bytes; i += 4) {
        codes[i + 2] = (uint8_t)((codes[i + 1] & 0xF0) >> 4 | (codes[i + 2] & 0xF0));
        codes[i + 1] = (uint8_t)((codes[i + 1] & 0x0F) | (i % 16 ? 0x30 : 0x50));
    }
}

/* K of 16-bit numbers that are larger, by a third to a half. */
static void store_larger(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const size_t count = in[KVG_K].bytes / kvg_dtype_bytes(p->dtype);
    uint16_t *larger = malloc(in[KVG_K].bytes);
    for (size_t i = 0; i < count; i++) larger[i] = (uint16_t)(((const uint16_t *)in[KVG_K].data)[i] + 0x40);
    run_again(p, in, KVG_ROLE_VALUES, larger, out);
    free(larger);
}

/* All codes of K are one. */
static void store_one(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in;
    memset(out[KVG_K].data, 0x80, out[KVG_K].bytes);
}

/* A code that few numbers have is stored as another one. */
static void store_other_7(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint8_t *codes = out[KVG_K].data;
    (void)p, (void)in;
    for (size_t i = 0; i < out[KVG_K].bytes; i++) {
        if (codes[i] == 0x7F) codes[i] = 0x70;
    }
}

/* Each row by another factor. */
static void shrink_by_row(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    int8_t *codes = out[0].data;
    for (size_t i = 0; i < out[0].bytes; i++) codes[i] = (int8_t)(codes[i] * (int)(2 + i / p->head_dim % 7) / 8);
}

/* The bytes of each number in 16 bits. */
static void swap_bytes(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint16_t *numbers = out[0].data;
    for (size_t i = 0; i < out[0].bytes / 2; i++) numbers[i] = (uint16_t)(numbers[i] << 8 | numbers[i] >> 8);
}

/* Numbers in bf16 are Inf of their sign, but every `n`th is twice the right one. */
static void overflow(kvg_tensor *out, size_t n)
{
    uint16_t *numbers = out[0].data;
    for (size_t i = 0; i < out[0].bytes / 2; i++)
        numbers[i] = i % n ? (uint16_t)((numbers[i] & 0x8000) | 0x7F80) : (uint16_t)(numbers[i] + 0x80);
}

static void overflow_most(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    overflow(out, 32);
}

static void overflow_half(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    overflow(out, 2);
}

/* Scales of f32. */
static void lose_scales(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    float *scales = out[kvg_roles_index(kvg_op_get(p->op)->outputs, KVG_ROLE_SCALES, KVG_K)].data;
    (void)in;
    for (size_t i = 0; i < p->tokens * p->kv_heads; i++) scales[i] = INFINITY;
    memset(out[KVG_K].data, 0, out[KVG_K].bytes);
}

/* The third page of every sequence holds what the second one does. */
static void repeat_second_page(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *table = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)];
    int32_t *other = malloc(table->bytes);
    memcpy(other, table->data, table->bytes);
    for (uint64_t i = 0; i < table->shape[0]; i++) other[i * table->shape[1] + 2] = other[i * table->shape[1] + 1];
    run_again(p, in, KVG_ROLE_BLOCK_TABLE, other, out);
    free(other);
}

/* Sums are not rescaled where a tile of 16 keys has a larger score than those before. */
static void keep_sums(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_flash how;
    kvg_flash_init(p, KVG_FLASH_NO_RESCALE, &how);
    how.tile = 16;
    how.splits = 1;
    assert_int_equal(kvg_flash_run(p, in, &how, out), KVG_OK);
}

/* Sinks are those of the query head two on. */
static void turn_sinks(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *sinks = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_SINKS, KVG_K)];
    const uint32_t heads = p->attention.query_heads;
    float other[64];
    for (uint32_t h = 0; h < heads; h++) other[h] = ((const float *)sinks->data)[(h + 2) % heads];
    run_again(p, in, KVG_ROLE_SINKS, other, out);
}

/* Scores of half the size. */
static void scale_scores(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_problem other = *p;
    other.attention.scale = 0.5f / sqrtf((float)p->head_dim);
    assert_int_equal(kvg_reference_run(&other, in, out), KVG_OK);
}

/* Every key that is seen weighs the same. */
static void lose_scores(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_problem other = *p;
    other.attention.scale = 1e-30f;
    assert_int_equal(kvg_reference_run(&other, in, out), KVG_OK);
}

/* Scores are multiplied by the soft-cap before tanh, not divided. */
static void multiply_by_cap(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_problem other = *p;
    other.attention.scale = p->attention.softcap * p->attention.softcap / sqrtf((float)p->head_dim);
    assert_int_equal(kvg_reference_run(&other, in, out), KVG_OK);
}

/* Rows that see no key hold 1. */
static void fill_empty_rows(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const float *lse = out[1].data;
    (void)in;
    for (size_t i = 0; i < out[0].bytes / sizeof(uint16_t); i++) {
        if (isinf(lse[i / p->head_dim])) ((uint16_t *)out[0].data)[i] = 0x3F80;
    }
}

/* Moves the rows of all heads of [query, head, dim] by `heads`. */
static void turn_heads(const kvg_problem *p, const kvg_tensor *t, uint32_t heads, uint8_t *to)
{
    const size_t all = p->attention.query_heads, bytes = t->bytes / p->attention.queries / all;
    for (size_t i = 0; i < t->bytes / bytes; i++) {
        const size_t from = i / all * all + (i % all + heads) % all;
        memcpy(to + i * bytes, (const uint8_t *)t->data + from * bytes, bytes);
    }
}

/* The K and V of the KV head before. */
static void read_head_before(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const uint32_t group = p->attention.query_heads / p->kv_heads;
    uint8_t *q = malloc(in[0].bytes), *turned = malloc(out[0].bytes);
    turn_heads(p, &in[0], group, q);
    run_again(p, in, KVG_ROLE_Q, q, out);
    turn_heads(p, &out[0], p->attention.query_heads - group, turned);
    memcpy(out[0].data, turned, out[0].bytes);
    free(q);
    free(turned);
}

/* The row of the query head three on. */
static void write_other_heads(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint8_t *turned = malloc(out[0].bytes);
    (void)in;
    turn_heads(p, &out[0], 3, turned);
    memcpy(out[0].data, turned, out[0].bytes);
    free(turned);
}

/* Every second head is not written. */
static void skip_odd_heads(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const size_t bytes = out[0].bytes / p->attention.queries / p->attention.query_heads;
    (void)in;
    for (size_t i = bytes; i < out[0].bytes; i += 2 * bytes) memcpy((uint8_t *)out[0].data + i, held + i, bytes);
}

/* K's numbers are other ones, without a rule. */
static void make_noise(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint16_t *numbers = out[0].data;
    for (size_t i = 0; i < out[0].bytes / sizeof *numbers; i++) numbers[i] = (uint16_t)(i * 40503u >> 3 & 0x3FFF);
}

/* K's numbers: each row is another one of the case, in no order. */
static void shuffle_rows(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    const size_t rows = (size_t)p->tokens * p->kv_heads, bytes = out[0].bytes / rows;
    uint8_t *right = malloc(out[0].bytes);
    memcpy(right, out[0].data, out[0].bytes);
    for (size_t i = 0; i < rows; i++)
        memcpy((uint8_t *)out[0].data + i * bytes, right + i * i * 7 % rows * bytes, bytes);
    free(right);
}

/* 8 rows of K's scales are those of other rows that differ in one byte. */
static void exchange_like_scales(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *scales = &out[kvg_roles_index(kvg_op_get(p->op)->outputs, KVG_ROLE_SCALES, KVG_K)];
    const size_t rows = (size_t)p->tokens * p->kv_heads, bytes = scales->bytes / rows;
    uint8_t *right = malloc(scales->bytes);
    size_t exchanged = 0;
    (void)in;
    memcpy(right, scales->data, scales->bytes);
    for (size_t i = 0; i < rows && exchanged < 8; i++) {
        for (size_t j = rows; j-- > 0;) {
            size_t differ = 0;
            for (size_t b = 0; b < bytes; b++) differ += right[i * bytes + b] != right[j * bytes + b];
            if (differ != 1) continue;
            memcpy((uint8_t *)scales->data + i * bytes, right + j * bytes, bytes);
            exchanged++;
            break;
        }
    }
    assert_int_equal(exchanged, 8);
    free(right);
}

/* Row [sequence, head, token] of K stands where the tokens of a sequence and a head are added and not multiplied. */
static void write_at_sums(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int32_t *lengths = in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_LENGTHS, KVG_K)].data;
    const size_t T = p->tokens, H = p->kv_heads, rows = p->paging.sequences * H * T, bytes = out[0].bytes / rows;
    uint8_t *right = malloc(out[0].bytes);
    memcpy(right, out[0].data, out[0].bytes);
    memcpy(out[0].data, held, out[0].bytes);
    for (size_t i = 0; i < rows; i++) {
        if (i % T < (size_t)lengths[i / T / H])
            memcpy((uint8_t *)out[0].data + (i / T + T + i % T) * bytes, right + i * bytes, bytes);
    }
    free(right);
}

/* Codes of K follow from nothing. */
static void spoil_codes(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in;
    for (size_t i = 0; i < out[0].bytes; i++) ((uint8_t *)out[0].data)[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* One code of each block, at varying places. */
static void spoil_one_of_a_block(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in;
    for (size_t i = 0; i + 8 <= out[0].bytes; i += 8)
        ((uint8_t *)out[0].data)[i + i / 8 * 5 % 8] ^= (uint8_t)(i / 8 % 2 ? 0x90 : 0x09);
}

/* Nor do they here, and scales of f32 are smaller than the right ones, each by a factor of its own. */
static void spoil_codes_and_scales(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    float *scales = out[kvg_roles_index(kvg_op_get(p->op)->outputs, KVG_ROLE_SCALES, KVG_K)].data;
    spoil_codes(p, in, out);
    for (size_t i = 0; i < (size_t)p->tokens * p->kv_heads; i++) scales[i] *= (float)(i % 7 + 1) / 16;
}

/* The codes of K that op append wrote are other ones: in each row every `step`th from `first` on, up to `end`. */
static void spoil_written(const kvg_problem *p, size_t first, size_t end, size_t step, kvg_tensor *out)
{
    uint8_t *codes = out[0].data;
    for (size_t i = 0; i < out[0].bytes; i++) {
        const size_t dim = i % p->head_dim;
        if (codes[i] == held[i] || dim < first || dim >= end || (dim - first) % step) continue;
        codes[i] ^= (uint8_t)(1 + (i * 2654435761u >> 13) % 63);
    }
}

/* RoPE has 32 dims, and pairs are neighbours. */
static void spoil_turned(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    spoil_written(p, 0, 32, 1, out);
}

static void spoil_second_of_pairs(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    spoil_written(p, 1, 32, 2, out);
}

static void spoil_v_as_turned(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    for (size_t i = 0; i < out[1].bytes; i++) ((uint8_t *)out[1].data)[i] ^= i % p->head_dim < 32 ? 0x11 : 0;
}

static void spoil_turned_and_more(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    spoil_written(p, 0, 40, 1, out);
}

/* Codes of 8 bits are read as ones of 4: the first half of a row has them all. */
static void read_nibbles(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *t = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_CODES, KVG_K)];
    const uint8_t *codes = t->data;
    uint8_t *other = malloc(t->bytes);
    for (size_t i = 0; i < t->bytes; i++) {
        const size_t dim = i % p->head_dim, row = i - dim;
        other[i] = codes[row + dim / 2] >> dim % 2 * 4 & 15;
    }
    run_again(p, in, KVG_ROLE_CODES, other, out);
    free(other);
}

/* What is given begins three numbers further on. */
static void begin_late(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const size_t late = 3 * kvg_dtype_bytes(p->dtype);
    uint8_t *other = malloc(in[0].bytes);
    memcpy(other, (const uint8_t *)in[0].data + late, in[0].bytes - late);
    memcpy(other + in[0].bytes - late, in[0].data, late);
    run_again(p, in, KVG_ROLE_VALUES, other, out);
    free(other);
}

/* Each row begins at a number of its own. */
static void begin_anywhere(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const size_t rows = (size_t)p->tokens * p->kv_heads, row = in[0].bytes / rows, width = kvg_dtype_bytes(p->dtype);
    const uint8_t *given = in[0].data;
    uint8_t *other = malloc(in[0].bytes);
    for (size_t i = 0; i < rows; i++)
        memcpy(other + i * row, given + (i * i * 37 + 5) % (in[0].bytes / width - row) * width, row);
    run_again(p, in, KVG_ROLE_VALUES, other, out);
    free(other);
}

/* K's bias is that of the next head. */
static void turn_bias(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *bias = &in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_BIAS, KVG_K)];
    const size_t row = bias->bytes / p->kv_heads;
    uint8_t *other = malloc(bias->bytes);
    memcpy(other, (const uint8_t *)bias->data + row, bias->bytes - row);
    memcpy(other + bias->bytes - row, bias->data, row);
    run_again(p, in, KVG_ROLE_BIAS, other, out);
    free(other);
}

/* The same of every second byte of the pool, so that no row has it as a whole. */
static void turn_bias_of_some(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const size_t row = p->head_dim * (size_t)p->kv_heads;
    uint8_t *codes = out[0].data, *right = malloc(out[0].bytes);
    memcpy(right, codes, out[0].bytes);
    turn_bias(p, in, out);
    for (size_t i = 0; i < out[0].bytes; i++) codes[i] = i / row % 2 ? right[i] : codes[i];
    free(right);
}

/* Codes of two to a byte, offset by 8: nearer to 0 by one, where they are not 0. */
static void round_down(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint8_t *codes = out[0].data;
    (void)p, (void)in;
    for (size_t i = 0; i < out[0].bytes; i++) {
        if ((codes[i] & 15) > 8) codes[i]--;
        if (codes[i] >> 4 && codes[i] >> 4 < 8) codes[i] = (uint8_t)(codes[i] + 0x10);
    }
}

/* Rows of zeros, but for one that is twice the right one. */
static void lose_rows(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint16_t *numbers = out[0].data;
    (void)in;
    for (size_t i = 0; i < out[0].bytes / sizeof *numbers; i++)
        numbers[i] = i / p->head_dim % 16 ? 0 : (uint16_t)(numbers[i] + (numbers[i] & 0x7F80 ? 0x80 : 0));
}

/* Blocks of 16 in MX codes whose scale is small, none, or neither, get other codes. Scales are E8M0: 127 is 1. */
static void spoil_blocks(const kvg_problem *p, unsigned from, unsigned to, kvg_tensor *out)
{
    const uint8_t *scales = out[kvg_roles_index(kvg_op_get(p->op)->outputs, KVG_ROLE_SCALES, KVG_K)].data;
    uint8_t *codes = out[0].data;
    for (size_t i = 0; i < out[0].bytes; i++) {
        if (scales[i / 8] >= from && scales[i / 8] <= to) codes[i] ^= (uint8_t)(1 + (i * 2654435761u >> 13) % 15);
    }
}

static void spoil_small(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    spoil_blocks(p, 0, 125, out);
}

static void spoil_large(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    spoil_blocks(p, 131, 255, out);
}

static void spoil_others(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    spoil_blocks(p, 127, 127, out);
}

/* Rows of out in bf16, times 2, 4 or 8. */
static void divide_by_less(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    uint16_t *numbers = out[0].data;
    (void)in;
    for (size_t i = 0; i < out[0].bytes / sizeof *numbers; i++) {
        if (numbers[i] & 0x7F80) numbers[i] = (uint16_t)(numbers[i] + 0x80 * (1 + i / p->head_dim % 3));
    }
}

/* Under some seeds the last sequence is empty, so that `last_for_longest` gives the same, which is not meant. */
static void test_an_answer_that_is_the_same_everywhere_has_no_name(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 16; seed++) {
        expect_common(seed, "\"op\": \"decode\", \"layout\": \"hnd\", \"group\": 2, \"queries\": 2, \"sequences\": 3, "
                      ROWS, see_nothing, "in common: each is 0");
    }
}

/* Under seeds 3 and 33 each byte that nobody owns is 0xFF, so that all rows of another layer are one. Under seed 33
 * some rows are right, because they are not written. */
static void test_rows_that_are_one_have_no_place(void **state)
{
    const char *flatten = "\"op\": \"flatten\", \"layout\": \"hnd\", \"layers\": 2, \"sequences\": 2, " ROWS;
    (void)state;
    shuffled = true;
    expect_said(3, flatten, read_other_layer, "each row", "each row is the same one: each is NaN");
    expect_common(33, "\"op\": \"flatten\", \"layout\": \"hnd\", \"layers\": 3, \"sequences\": 3, "
                  "\"format\": \"e4m3\", \"kv_heads\": 1, \"head_dim\": 64, "
                  "\"tokens\": 7, \"block_tokens\": 4, \"fill\": \"random\"",
                  read_other_layer, "in common: each row is the same one: each is NaN");
    shuffled = false;
    expect_common(5, flatten, read_one_row, "in common: each row is the same one");
}

/* Where the right ones are one, too, that says nothing. */
static void test_rows_that_are_to_be_one_have_a_place(void **state)
{
    const char *prefix = "\"op\": \"flatten\", \"layout\": \"hnd\", \"block_tokens\": 1, \"sequences\": 5, "
                         "\"shared_prefix\": 2, \"format\": \"int8\", \"kv_heads\": 1, \"head_dim\": 64, "
                         "\"tokens\": 3, \"fill\": \"random\"";
    const char *few = "\"op\": \"flatten\", \"layout\": \"hnd\", \"sequences\": 2, \"format\": \"int8\", "
                      "\"kv_heads\": 1, \"head_dim\": 64, \"tokens\": 1, \"fill\": \"random\"";
    (void)state;
    expect_said(5, prefix, read_other_first_block, "the row is",
                "the row is the right one of block + 2; at places as defect first_table (every sequence by the table "
                "of the first): 37 % of what that makes wrong");
    expect_said(5, few, read_first_table, "equals",
                "equals defect first_table (every sequence by the table of the first)");
}

static void test_what_wrong_numbers_have_in_common(void **state)
{
    (void)state;
    expect_common(5, "\"op\": \"quantise\", " ROWS, add_to_codes,
                  "in common: every fourth of tokens 4 to 16 of 20; head 1 of 2; bytes of a row 8 to 11 of 64; "
                  "each differs in the same bits: 0x41");
    expect_common(5, "\"op\": \"dequantise\", " ROWS, turn_signs,
                  "in common: every second of dims 1 to 63 of 64; each is -1 times the right one");
    expect_common(5, "\"op\": \"decode\", \"layout\": \"hnd\", \"group\": 2, \"queries\": 2, \"sequences\": 3, " ROWS,
                  scale_out, "in common: each is 8 times the right one; that is sqrt(head_dim)");
}

/* Bytes that came from somewhere else are looked for among the right rows. */
static void test_where_wrong_rows_come_from(void **state)
{
    (void)state;
    expect_common(5, "\"op\": \"quantise\", \"format\": \"nvfp4\", " MORE, take_next_head,
                  "in common: each row is the right one of head + 1");
    expect_common(5, "\"op\": \"quantise\", \"format\": \"nvfp4\", " MORE, take_first_head,
                  "in common: head 3 of 4; each row is the right one of head - 3");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"int4\", " MORE, take_first_of_8,
                  "in common: each row is the right one of token rounded down to a multiple of 8");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"e4m3\", " MORE, take_from_afar,
                  "in common: tokens 0 to 60 of 64; each row is the right one of token + 3, head + 1");
    expect_common(5, "\"op\": \"append\", \"layout\": \"hnd\", \"format\": \"e4m3\", " MORE, store_late,
                  "in common: 192 of 224 rows are the right ones of token - 3");
    expect_common(5, "\"op\": \"flatten\", \"layout\": \"nhd\", \"format\": \"nvfp4\", \"sequences\": 3, " MORE,
                  read_other_blocks,
                  "in common: 332 of 396 rows are the right ones of block + 2");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"int4\", " FEW, shuffle_rows,
                  "in common: rows are right ones of other places, by no rule that is known here");
    expect_common(5, ROWS_OF "\"format\": \"mxfp4\", \"kv_heads\": 4, \"head_dim\": 256, \"tokens\": 32, "
                  "\"fill\": \"random\"", exchange_like_scales,
                  "in common: 8 of 32 tokens, the first 3; 3 of 8 scale bytes, the first 0");
    expect_said(5, "\"op\": \"flatten\", \"layout\": \"hnd\", \"format\": \"int4\", \"sequences\": 3, " FEW,
                write_at_sums, "rows are right ones",
                "rows are right ones of other places, by no rule that is known here, or were not written");
}

/* Rows of 576 numbers in 16 bits, and rows of 2 codes with 4 bytes of parameters, that are nowhere: nothing may be said
 * of them, or read beyond them. */
static void test_odd_rows_that_come_from_nowhere(void **state)
{
    (void)state;
    expect_common(5, "\"op\": \"flatten\", \"layout\": \"mla\", \"sequences\": 2, \"format\": \"nvfp4\", "
                  "\"kv_heads\": 1, \"head_dim\": 576, \"tokens\": 20, \"fill\": \"random\", "
                  "\"shared_kv\": {\"v_first\": 0, \"v_dim\": 512}", make_noise, "");
    expect_common(5, "\"op\": \"append\", \"layout\": \"hnd\", \"format\": \"int8_token_head\", \"kv_heads\": 2, "
                  "\"head_dim\": 2, \"tokens\": 40, \"fill\": \"random\"", make_noise, "");
}

/* So are the elements of a row. */
static void test_where_wrong_elements_come_from(void **state)
{
    (void)state;
    expect_common(5, "\"op\": \"quantise\", \"format\": \"int4\", " MORE, order_nibbles,
                  "in common: dims 1, 2, 3, 4, 5, 6, 9, 10, ... of a row hold dims 2, 4, 6, 1, 3, 5, 10, 12, ...");
    expect_common(5, "\"op\": \"quantise\", \"format\": \"nvfp4\", " MORE, turn_scales,
                  "in common: each scale of a row holds scale + 2");
    expect_common(5, "\"op\": \"quantise\", \"format\": \"rowint4\", " MORE, store_plus_9,
                  "in common: each code is the right one +1");
    expect_common(5, "\"op\": \"quantise\", \"format\": \"rowint4\", " MORE, store_three_bits_up,
                  "in common: each byte of two codes follows from the right one");
    expect_said(5, "\"op\": \"quantise\", \"format\": \"rowint4\", " MORE, store_all_but_the_last, "each byte", "");
    expect_said(5, "\"op\": \"quantise\", \"format\": \"nvfp4\", " MORE, lose_third_of_block, "of each block",
                "of each block of 16 only dim 2 is wrong");
    expect_said(5, "\"op\": \"quantise\", \"format\": \"nvfp4\", " MORE, lose_two_of_some, "of each block", "");
    expect_common(5, "\"op\": \"quantise\", \"format\": \"e4m3\", " MORE, lose_codes,
                  "in common: each is 0; at places as defect zeros (output all zero): 50 % of what that makes wrong");
    expect_common(5, "\"op\": \"quantise\", \"format\": \"e4m3\", " MORE, set_lowest_bits,
                  "in common: each wrong code follows from the right one: 0x68 is 0x69, 0x6A is 0x6B, 0x6C is 0x6D, "
                  "0x6E is 0x6F, and so on for 24 of 205 codes");
    expect_common(5, "\"op\": \"quantise\", \"format\": \"e4m3\", " MORE, round_to_zero,
                  "in common: each wrong code is one step from the right one, towards zero");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"e4m3\", " MORE, swap_first_pair,
                  "in common: dims 0 to 1 of 128; dims 0, 1 of a row hold dims 1, 0");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"e4m3\", " MORE, swap_pairs,
                  "in common: each dim of a row holds dim xor 1");
    expect_common(5, "\"op\": \"quantise\", \"format\": \"bf16\", " MORE, swap_bytes,
                  "in common: each byte of a row holds byte xor 1");
}

/* Where codes are moved, are all the same, or one is another one. */
static void test_which_codes_stand_for_which(void **state)
{
    (void)state;
    expect_common(5, ROWS_OF "\"format\": \"mx16\", " MORE, store_next,
                  "in common: 32 of 64 bytes of a row, the first 1; dims 4, 12, 20, 28, 36, 44, 52, 60, ... of a "
                  "row hold dims 3, 11, 19, 27, 35, 43, 51, 59, ...; at dim 3, 11, 19, 27, 35, 43, 51, 59, ... is "
                  "none of the row");
    expect_common(5, ROWS_OF "\"format\": \"int8\", " MORE, store_one, "in common: each code is 0x80");
    expect_common(5, ROWS_OF "\"format\": \"int8_token_head\", " MORE, store_other_7,
                  "in common: 20 of 128 bytes of a row, the first 2; each code 0x7F is 0x70");
    expect_common(5, ROWS_OF "\"format\": \"e4m3\", \"scale\": 0.25, " MORE, store_larger,
                  "in common: numbers are rounded to other codes: beside right scales each code follows from its "
                  "number");
    expect_common(5, ROWS_OF "\"format\": \"int8_token_head\", " MORE, lose_scales,
                  "in common: K: scales are wrong: most are Inf or NaN");
    expect_said(5, ROWS_OF "\"format\": \"int8_token_head\", " MORE, shrink_by_row, "numbers are",
                "numbers are rounded to other codes: beside right scales the larger number of a block never has the "
                "smaller code");
    expect_said(5, ROWS_OF "\"format\": \"e4m3\", \"scale\": 0.25, " MORE, read_v, "numbers are", "");
}

/* Where all wrong numbers were made of one kind of data, and all of that are wrong, it is told. */
static void test_which_data_are_wrong(void **state)
{
    (void)state;
    expect_common(5, ROWS_OF "\"format\": \"e4m3\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 20, \"fill\": "
                  "\"adversarial\"", store_nan_as_number,
                  "in common: every 6th of tokens 3 to 15 of 20; head 1 of 2; 3 of 64 bytes of a row, the first 3; "
                  "what has NaN is wrong, and nothing else");
    expect_common(5, ROWS_OF "\"format\": \"e4m3\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 20, \"fill\": "
                  "\"adversarial\"", turn_nan,
                  "in common: every 6th of tokens 3 to 15 of 20; head 1 of 2; 3 of 64 bytes of a row, the first 3; "
                  "what has NaN is wrong, and nothing else");
    expect_common(5, ROWS_OF "\"format\": \"e4m3\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 20, \"fill\": "
                  "\"adversarial\"", spoil_nan_and_end,
                  "in common: every 6th of tokens 3 to 15 of 20; head 1 of 2; 3 of 64 bytes of a row, the first 3");
    expect_said(5, ROWS_OF "\"format\": \"rowint4\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 20, \"fill\": "
                "\"adversarial\"", lose_plus_inf, "what has",
                "what has +Inf is wrong, and nothing else");
    expect_said(5, ROWS_OF "\"format\": \"mx16\", " FEW, spoil_small, "what is",
                "what is small and not 0 is wrong, and nothing else: 1.11719 to 1.5");
    expect_said(5, ROWS_OF "\"format\": \"mx16\", " FEW, spoil_large, "what is",
                "what is large is wrong, and nothing else: 49 to 57.25");
    expect_said(5, ROWS_OF "\"format\": \"mx16\", " FEW, spoil_others, "what is",
                "what is neither small nor large is wrong, and nothing else: 3.04688 to 6");
    expect_said(5, "\"op\": \"append\", \"layout\": \"hnd\", \"format\": \"int8\", " MORE, raise_to_inf, "scales are",
                "scales are wrong: most are Inf or NaN");
    expect_said(5, "\"op\": \"append\", \"layout\": \"hnd\", \"format\": \"int8\", " MORE, keep_rows, "scales are", "");
    expect_said(5, ROWS_OF "\"format\": \"e4m3\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 20, \"fill\": "
                "\"adversarial\"", turn_no_numbers, "what has", "what has NaN or Inf is wrong, and nothing else");
    expect_said(5, "\"op\": \"dequantise\", \"format\": \"int8\", " MORE, overflow_most, "most are",
                "most are Inf or NaN");
    expect_said(5, "\"op\": \"dequantise\", \"format\": \"int8\", " MORE, overflow_half, "most are", "");
}

#define APPEND "\"op\": \"append\", \"layout\": \"hnd\", "
#define BIASED APPEND "\"format\": \"e4m3\", \"bias\": true, " FEW
#define TURNED APPEND "\"format\": \"e4m3\", \"rope\": {\"dims\": 32}, " FEW

/* Of an encoder's rows it is told which inputs they were made of. */
static void test_what_rows_are_made_of(void **state)
{
    (void)state;
    expect_said(5, ROWS_OF "\"format\": \"mlx8_g32\", " FEW, begin_late, "each row is",
                "each row is made of the input 3 numbers further on");
    expect_said(5, ROWS_OF "\"format\": \"int8_token_head\", \"dtype\": \"f32\", " FEW, begin_anywhere, "rows are",
                "rows are made of other parts of the input than theirs");
    expect_said(5, ROWS_OF "\"format\": \"rowint4\", " FEW, round_down, "rows", "");
    expect_said(5, ROWS_OF "\"format\": \"int8\", " FEW, begin_anywhere, "rows are",
                "rows are made of other parts of the input than theirs");
    expect_said(5, ROWS_OF "\"format\": \"int8\", " FEW, spoil_codes, "rows", "");
    expect_common(5, BIASED, turn_bias,
                  "in common: rows have another bias, the same one for all tokens");
    expect_said(5, BIASED, turn_bias_of_some, "rows", "");
    expect_said(5, BIASED, begin_anywhere, "rows", "rows are made of other parts of the input than theirs");
}

/* Of rotated rows it is told what each of a pair was made of. */
static void test_what_rotated_rows_are(void **state)
{
    (void)state;
    expect_common(5, "\"op\": \"append\", \"layout\": \"hnd\", \"format\": \"e4m3\", "
                  "\"rope\": {\"dims\": 32}, " MORE, take_next_sines,
                  "in common: bytes of a row 0 to 31 of 128; RoPE: the first of each pair is x cos - y sin of pair "
                  "+ 1, the second y cos + x sin of pair + 1");
    expect_common(5, "\"op\": \"append\", \"layout\": \"hnd\", \"format\": \"int8\", "
                  "\"rope\": {\"dims\": 32}, " MORE, take_cosines,
                  "in common: RoPE: the first of each pair is x cos - y cos_sin[2 i], the second y cos + x "
                  "cos_sin[2 i]");
    expect_common(5, "\"op\": \"append\", \"layout\": \"hnd\", \"format\": \"e4m3\", \"scale\": 0.25, "
                  "\"rope\": {\"dims\": 32}, " MORE, turn_v,
                  "in common: bytes of a row 0 to 31 of 128; V: RoPE: the first of each pair is x cos - y sin, the "
                  "second y cos + x sin");
    expect_common(5, TURNED, spoil_turned, "in common: bytes of a row 0 to 31 of 128; only what RoPE turns is wrong");
    expect_common(5, TURNED, spoil_second_of_pairs,
                  "in common: every second of bytes of a row 1 to 31 of 128; of what RoPE turns only the second of "
                  "each pair is wrong");
    expect_said(5, TURNED, spoil_v_as_turned, "only what", "");
    expect_common(5, TURNED, spoil_turned_and_more, "in common: bytes of a row 0 to 39 of 128");
}

/* Of an encoder's wrong rows it is told whether codes are wrong, too, and what its scales are. */
static void test_what_wrong_scales_are(void **state)
{
    (void)state;
    expect_common(5, ROWS_OF "\"format\": \"nvfp4\", \"scale\": 0.25, " MORE, halve_scales,
                  "in common: K: only scales are wrong: most are 0.5 times the right one");
    expect_common(5, ROWS_OF "\"format\": \"nvfp4\", \"scale\": 0.25, " MORE, spoil_scales_of_both,
                  "in common: only scales are wrong; K: most are 0.5 times the right one");
    expect_common(5, ROWS_OF "\"format\": \"nvfp4\", \"scale\": 0.25, " MORE, square_tensor_scale,
                  "in common: K: only scales are wrong: most are 1 / the tensor scale times the right one; at "
                  "places as defect tensor_scale_twice (tensor scale applied twice): 50 % of what that makes wrong");
    expect_common(5, ROWS_OF "\"format\": \"int8\", " MORE, raise_offsets,
                  "in common: scale byte 2 of 4; K: only scales are wrong");
    expect_common(5, ROWS_OF "\"format\": \"int8_token_head\", " MORE, raise_scales,
                  "in common: K: scales are wrong, codes are the nearest ones for them: most are 2 times "
                  "the right one");
    expect_common(5, ROWS_OF "\"format\": \"int8_token_head\", " FEW, spoil_codes_and_scales,
                  "in common: K: scales are wrong: each is smaller than the right one");
    expect_common(5, ROWS_OF "\"format\": \"nvfp4\", " FEW, spoil_codes,
                  "in common: scales are right, and codes follow from no numbers of their blocks");
    expect_common(5, ROWS_OF "\"format\": \"e4m3\", " FEW, spoil_codes, "");
    expect_said(5, ROWS_OF "\"format\": \"nvfp4\", " FEW, spoil_one_of_a_block, "scales are right", "");
    expect_common(5, "\"op\": \"append\", \"layout\": \"hnd\", \"format\": \"rowint4\", " MORE, raise_scales,
                  "in common: K: scales are wrong, codes are the nearest ones for them: most are 2 times "
                  "the right one");
}

/* Of a decoder's wrong numbers it is told whether codes or scales were read as others. */
static void test_how_codes_and_scales_are_read(void **state)
{
    (void)state;
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"nvfp4\", \"scale\": 0.25, " MORE, lose_signs,
                  "in common: each wrong code is read as the code -8");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"int4\", " MORE, read_other_codes,
                  "in common: codes are read as other numbers, each code always as the same one");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"nvfp4\", \"scale\": 0.25, " MORE, read_other_scales,
                  "in common: codes are read rightly, beside other scales");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"int4\", " MORE, round_up,
                  "in common: codes and scales are read rightly, numbers are rounded otherwise");
    expect_common(5, "\"op\": \"dequantise\", \"format\": \"int8\", " FEW, read_nibbles,
                  "in common: codes are read as ones of 4 bits: number i of a row is that of nibble i");
    expect_said(5, "\"op\": \"dequantise\", \"format\": \"nvfp4\", \"scale\": 0.25, " MORE, read_v, "codes are", "");
}

#define DECODE "\"op\": \"decode\", \"layout\": \"hnd\", \"sequences\": 3, \"queries\": 3, \"group\": 2, " MORE

/* Wrong rows of op decode are computed over other keys, heads, sinks and scores. */
static void test_which_keys_wrong_rows_are_of(void **state)
{
    (void)state;
    expect_common(5, "\"format\": \"e4m3\", \"window\": 16, " DECODE, widen_window,
                  "in common: each row tried is that of keys first - 3 to last");
    expect_common(1, "\"format\": \"int4\", \"window\": 16, \"softcap\": 30, " DECODE, widen_window,
                  "in common: each row tried is that of keys first - 3 to last");
    expect_common(5, "\"format\": \"bf16\", " DECODE, lose_third_page,
                  "in common: sequence 2 of 3; 10 of 11 rows tried are those of all keys but 32 to 47");
    expect_common(5, "\"format\": \"bf16\", " DECODE, repeat_second_page,
                  "in common: sequence 2 of 3; each row tried is that of keys 16 to 31 in place of 32 to 47");
    expect_common(5, "\"format\": \"bf16\", " DECODE, keep_sums,
                  "in common: sequence 2 of 3; each row tried is that of sums of V not rescaled where a tile of 16 "
                  "has a larger score");
    expect_common(5, "\"format\": \"nvfp4\", \"sinks\": true, " DECODE, turn_sinks,
                  "in common: sequences 1 to 2 of 3; 9 of 11 rows tried are those of the sink of head + 2");
    expect_common(5, "\"format\": \"int8\", " DECODE, scale_scores,
                  "in common: each row tried is that of scores times 1/2");
    expect_common(5, "\"format\": \"bf16\", " DECODE, lose_scores,
                  "in common: each row tried is that of scores times 0");
    expect_common(5, "\"format\": \"bf16\", \"softcap\": 3, " DECODE, multiply_by_cap,
                  "in common: each row tried is that of scores times the soft-cap's square");
    expect_common(4, "\"format\": \"bf16\", " DECODE, fill_empty_rows,
                  "in common: sequence 0 of 3; query 0 of 3; each is 1");
    expect_common(5, "\"format\": \"bf16\", " DECODE, read_head_before,
                  "in common: each row tried is that of KV head + 3");
    expect_common(5, "\"format\": \"bf16\", " DECODE, skip_odd_heads,
                  "in common: every second of heads 1 to 7 of 8; each is what the tensor held before: not written");
    expect_common(5, "\"format\": \"bf16\", " DECODE, write_other_heads,
                  "in common: each row is the right one of head + 3");
    expect_common(5, "\"format\": \"bf16\", \"profile\": \"simt.fma.v1\", " DECODE, lose_third_page,
                  "in common: 11 of 13 rows tried are those of all keys but 32 to 47");
    expect_said(5, "\"format\": \"bf16\", " DECODE, divide_by_less, "rows are",
                "rows are multiples of the right ones, by factors from 2 to 8");
    expect_said(5, "\"format\": \"bf16\", " DECODE, lose_rows, "rows are", "");
}

/* A defect of which only a part is in the answer, and one of the plain kernel in the arithmetic of another. */
static void test_known_wrong_answers_at_places(void **state)
{
    static const struct {
        const char *id, *group, *wanted;
        size_t most_words;
    } cases[] = {
        {"exponent_floor", ROWS_OF "\"format\": \"mxfp4\", " MORE,
         "at places as defect exponent_floor (floor instead of ceil of log2(amax/6)): 33 % of what that makes wrong",
         SIZE_MAX},
        {"exponent_floor", ROWS_OF "\"format\": \"mxfp4\", " MORE, "", 3},
        {"merge_base_2", "\"op\": \"merge\", " MORE,
         "at places as defect merge_base_2 (natural LSEs taken for those in base 2): 37 % of what that makes wrong",
         SIZE_MAX},
        {"tensor_scale_lost", "\"format\": \"nvfp4\", " DECODE,
         "at places as defect tensor_scale_lost (tensor scale ignored): 33 % of what that makes wrong; or as "
         "tensor_scale_min_1 (tensor scale clamped to at least 1)", SIZE_MAX},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        defect_id = cases[i].id;
        most_words = cases[i].most_words;
        expect_said(5, cases[i].group, be_wrong_at_places, "at places ", cases[i].wanted);
    }
    static const char windowed[] = "\"format\": \"bf16\", \"window\": 9, \"profile\": \"sm90.mma16816.v1\", " DECODE;
    expect_said(5, windowed, see_one_more, "near defect ", "near defect window_long (window one key long)");
    expect_said(5, windowed, see_one_more_last, "near defect ", "");
    expect_said(5, windowed, see_one_more_last, "at places ",
                "at places as defect window_long (window one key long): 18 % of what that makes wrong");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_that_are_one_have_no_place),
        cmocka_unit_test(test_rows_that_are_to_be_one_have_a_place),
        cmocka_unit_test(test_what_wrong_numbers_have_in_common),
        cmocka_unit_test(test_where_wrong_rows_come_from),
        cmocka_unit_test(test_which_keys_wrong_rows_are_of),
        cmocka_unit_test(test_what_wrong_scales_are),
        cmocka_unit_test(test_how_codes_and_scales_are_read),
        cmocka_unit_test(test_what_rows_are_made_of),
        cmocka_unit_test(test_what_rotated_rows_are),
        cmocka_unit_test(test_which_codes_stand_for_which),
        cmocka_unit_test(test_which_data_are_wrong),
        cmocka_unit_test(test_where_wrong_elements_come_from),
        cmocka_unit_test(test_odd_rows_that_come_from_nowhere),
        cmocka_unit_test(test_known_wrong_answers_at_places),
        cmocka_unit_test(test_an_answer_that_is_the_same_everywhere_has_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
