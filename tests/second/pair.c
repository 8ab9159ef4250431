#include "tests/second/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reference/reference.h"
#include "second/slow_backend.h"

void tally_close(const tally *t, const char *test)
{
    print_message("%s: %llu compared, %llu differ\n", test, (unsigned long long)t->compared,
                  (unsigned long long)t->differing);
    assert_true(t->compared > 0);
    assert_true(t->differing == 0);
}

const kvg_backend *golden_backend(void)
{
    return kvg_reference_backend();
}

const kvg_backend *slow_backend(void)
{
    return kvg_backend_export();
}

static void *allocate(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    assert_non_null(p);
    return p;
}

static void open_tensor(kit *k, kvg_role role, kvg_side side)
{
    kvg_tensor *tensor = &k->tensor[role][side];
    *tensor = kvg_problem_tensor(&k->problem, role, side);
    tensor->data = allocate(tensor->bytes);
    memset(tensor->data, 0xA5, tensor->bytes);
}

kit kit_open(const storage_case sides[2], size_t rows, size_t dim)
{
    uint32_t heads = rows % 2 == 0 ? 2 : 1;
    kit k = {.problem = {
                 .layout = KVG_LAYOUT_ROWS,
                 .dtype = sides[KVG_K].dtype,
                 .storage = {{sides[KVG_K].format, sides[KVG_K].dialect},
                             {sides[KVG_V].format, sides[KVG_V].dialect}},
                 .tokens = (uint32_t)rows / heads,
                 .kv_heads = heads,
                 .head_dim = (uint32_t)dim,
             }};
    for (int side = KVG_K; side <= KVG_V; side++) {
        for (int role = KVG_ROLE_VALUES; role <= KVG_ROLE_TENSOR_SCALE; role++) open_tensor(&k, role, side);
        kvg_tensor *g = &k.tensor[KVG_ROLE_TENSOR_SCALE][side];
        memcpy(g->data, &sides[side].g, g->bytes);
    }
    return k;
}

static void open_list(kit *k, const kvg_role *roles)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        open_tensor(k, role, side);
    }
}

kit kit_open_problem(const kvg_problem *problem)
{
    kit k = {.problem = *problem};
    open_list(&k, kvg_op_get(problem->op)->inputs);
    open_list(&k, kvg_op_get(problem->op)->outputs);
    return k;
}

void kit_close(kit *k)
{
    for (int role = 0; role < KVG_ROLE_END; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) free(k->tensor[role][side].data);
    }
}

void kit_copy(const kit *from, kit *to)
{
    for (int role = 0; role < KVG_ROLE_END; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const kvg_tensor *tensor = &from->tensor[role][side];
            if (tensor->bytes > 0) memcpy(to->tensor[role][side].data, tensor->data, tensor->bytes);
        }
    }
}

void kit_list(const kit *k, const kvg_role *roles, kvg_tensor *list)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        list[i] = k->tensor[role][side];
    }
}

kvg_status kit_run(kit *k, const kvg_backend *backend, kvg_op op)
{
    k->problem.op = op;
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    kit_list(k, kvg_op_get(op)->inputs, in);
    kit_list(k, kvg_op_get(op)->outputs, out);
    const kvg_impl *impl;
    kvg_status status = kvg_backend_choose(backend, &k->problem, &impl);
    return status ? status : impl->run(&k->problem, in, out, NULL);
}

static void run_or_fail(kit *k, const kvg_backend *backend, kvg_op op)
{
    if (kit_run(k, backend, op)) fail_msg("%s: %s", backend->name, kvg_error_text());
}

static void print_elements(const kit *k, kvg_side side, size_t row, size_t first)
{
    size_t dim = k->problem.head_dim, width = kvg_dtype_bytes(k->problem.dtype), shown = dim - first;
    if (shown > 32) shown = 32;
    print_error("    values from element %zu:", first);
    for (size_t i = first; i < first + shown; i++) {
        uint32_t bits = 0;
        memcpy(&bits, (const uint8_t *)k->tensor[KVG_ROLE_VALUES][side].data + (row * dim + i) * width, width);
        print_error(" %0*X", (int)width * 2, bits);
    }
    print_error("\n");
}

/* Where, what was expected, and the input around it. */
static void print_difference(const kit *golden, const kit *slow, kvg_role role, kvg_side side, size_t at)
{
    const kvg_tensor *a = &golden->tensor[role][side], *b = &slow->tensor[role][side];
    const kvg_storage *storage = &golden->problem.storage[side];
    size_t row_bytes = (size_t)a->shape[2] * kvg_dtype_bytes(a->dtype), dim = golden->problem.head_dim;
    size_t row = at / row_bytes, element = at % row_bytes * dim / row_bytes;
    uint32_t g = 0;
    memcpy(&g, golden->tensor[KVG_ROLE_TENSOR_SCALE][side].data, golden->tensor[KVG_ROLE_TENSOR_SCALE][side].bytes);
    print_error("  %s %s, T %s, g 0x%08X: %s row %zu byte %zu (element %zu of %zu): golden %02X, slow %02X\n",
                kvg_format_get(storage->format)->name, storage->dialect, kvg_dtype_name(golden->problem.dtype), g,
                kvg_tensor_name(role, side), row, at % row_bytes, element, dim, ((const uint8_t *)a->data)[at],
                ((const uint8_t *)b->data)[at]);
    const kvg_tensor *scales = &golden->tensor[KVG_ROLE_SCALES][side];
    if (scales->bytes) {
        size_t per_row = (size_t)scales->shape[2];
        print_error("    golden scales of the row:");
        for (size_t i = 0; i < per_row && i < 8; i++) {
            print_error(" %02X", ((const uint8_t *)scales->data)[row * per_row + i]);
        }
        print_error("\n");
    }
    print_elements(golden, side, row, element / 32 * 32);
}

/* The first few differences of each dialect say what is wrong. */
static bool may_print(tally *t, kvg_storage storage)
{
    enum { PER_DIALECT = 3 };
    const bool same = t->printed.format == storage.format && t->printed.dialect == storage.dialect;
    if (!same) t->printed_count = 0;
    t->printed = storage;
    return t->printed_count++ < PER_DIALECT;
}

static void compare(tally *t, const kit *golden, const kit *slow, kvg_role role, kvg_side side)
{
    const kvg_tensor *a = &golden->tensor[role][side], *b = &slow->tensor[role][side];
    bool elements = role != KVG_ROLE_SCALES;
    t->compared += elements ? golden->tensor[KVG_ROLE_VALUES][side].bytes / kvg_dtype_bytes(golden->problem.dtype)
                            : a->bytes;
    if (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0) return;
    const kvg_storage storage = golden->problem.storage[side];
    bool printed = false;
    for (size_t i = 0; i < a->bytes; i++) {
        if (((const uint8_t *)a->data)[i] == ((const uint8_t *)b->data)[i]) continue;
        t->differing++;
        if (printed || !may_print(t, storage)) continue;
        print_difference(golden, slow, role, side, i);
        printed = true;
    }
}

static void copy(const kit *from, kit *to, kvg_role role)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (from->tensor[role][side].bytes == 0) continue;
        memcpy(to->tensor[role][side].data, from->tensor[role][side].data, from->tensor[role][side].bytes);
    }
}

static void run_both(tally *t, kit *golden, kit *slow, kvg_op op)
{
    run_or_fail(golden, golden_backend(), op);
    run_or_fail(slow, slow_backend(), op);
    const kvg_role *outputs = kvg_op_get(op)->outputs;
    for (size_t i = 0; i < kvg_roles_tensors(outputs); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(outputs, i, &role, &side);
        compare(t, golden, slow, role, side);
    }
}

static void dequantise_both(tally *t, kit *golden, kit *slow)
{
    copy(golden, slow, KVG_ROLE_CODES);
    copy(golden, slow, KVG_ROLE_SCALES);
    run_both(t, golden, slow, KVG_OP_DEQUANTISE);
}

/* V gets the values of K with the sign bit, the top bit of each element's last byte, flipped. */
static void flip_signs(kvg_tensor *v)
{
    size_t width = kvg_dtype_bytes(v->dtype);
    for (size_t i = width - 1; i < v->bytes; i += width) ((uint8_t *)v->data)[i] ^= 0x80;
}

void pair_quantise_sides(tally *t, const storage_case sides[2], const void *values, size_t rows, size_t dim)
{
    kit golden = kit_open(sides, rows, dim), slow = kit_open(sides, rows, dim);
    for (int side = KVG_K; side <= KVG_V; side++) {
        memcpy(golden.tensor[KVG_ROLE_VALUES][side].data, values, golden.tensor[KVG_ROLE_VALUES][side].bytes);
    }
    flip_signs(&golden.tensor[KVG_ROLE_VALUES][KVG_V]);
    copy(&golden, &slow, KVG_ROLE_VALUES);
    run_both(t, &golden, &slow, KVG_OP_QUANTISE);
    const kvg_tensor *scales = &golden.tensor[KVG_ROLE_SCALES][KVG_K];
    for (size_t i = 0; t->scale_seen && i < scales->bytes; i++) t->scale_seen[((const uint8_t *)scales->data)[i]] = 1;
    dequantise_both(t, &golden, &slow);
    kit_close(&golden);
    kit_close(&slow);
}

void pair_quantise(tally *t, const storage_case *c, const void *values, size_t rows, size_t dim)
{
    const storage_case sides[2] = {*c, *c};
    pair_quantise_sides(t, sides, values, rows, dim);
}

void pair_dequantise(tally *t, const storage_case *c, const uint8_t *codes, const uint8_t *scales, size_t rows,
                     size_t dim)
{
    const storage_case sides[2] = {*c, *c};
    kit golden = kit_open(sides, rows, dim), slow = kit_open(sides, rows, dim);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *code = &golden.tensor[KVG_ROLE_CODES][side], *scale = &golden.tensor[KVG_ROLE_SCALES][side];
        memcpy(code->data, codes, code->bytes);
        if (scale->bytes) memcpy(scale->data, scales, scale->bytes);
    }
    const kvg_tensor *v = &golden.tensor[KVG_ROLE_CODES][KVG_V];
    for (size_t i = 0; i < v->bytes; i++) ((uint8_t *)v->data)[i] ^= 0xFF;
    dequantise_both(t, &golden, &slow);
    kit_close(&golden);
    kit_close(&slow);
}

void pair_quantise_f32(tally *t, const storage_case *c, const float *x, size_t rows, size_t dim)
{
    void *values = allocate(rows * dim * kvg_dtype_bytes(c->dtype));
    kvg_reference_store(c->dtype, x, rows * dim, values);
    pair_quantise(t, c, values, rows, dim);
    free(values);
}

bool type_fits(kvg_format format, kvg_dtype dtype)
{
    return kvg_format_get(format)->scales != KVG_SCALES_AFFINE || dtype != KVG_DTYPE_F32;
}
