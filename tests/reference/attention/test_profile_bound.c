/* The profile tier lies within attention.v1 of its class, everywhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "reference/attention_profile.h"
#include "tests/core/whole_blocks.h"
#include "tests/reference/attention/test_profile.h"

typedef struct tally {
    double worst_out, worst_lse, *ratios;
    size_t count, room, unpromised, problems;
} tally;

static void add(tally *t, double ratio)
{
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 4096;
        t->ratios = realloc(t->ratios, t->room * sizeof *t->ratios);
        assert_non_null(t->ratios);
    }
    t->ratios[t->count++] = ratio;
}

static void measure(const char *name, const world_plan *plan, kvg_profile profile, tally *t)
{
    world w;
    decode_world_open(plan, profile, &w);
    kvg_arithmetic class;
    assert_int_equal(kvg_arithmetic_of_profile(&w.p, &class), KVG_OK);
    decode_answer got = decode_open(&w);
    decode_profile(&w, &got);
    const bool gives_lse = kvg_profile_gives_lse(kvg_profile_get(w.p.profile));
    w.p.profile = KVG_PROFILE_NONE; /* the spec tier is the answer without a profile */
    kvg_attention_answer exact = answer_open(&w);
    world_spec(&w, &class, &exact);
    double worst_out = 0, worst_lse = 0;
    for (size_t i = 0; i < w.outputs; i++) {
        const double ratio = kvg_attention_ratio(got.out[i], exact.out[i], exact.out_bound[i]);
        t->unpromised += exact.out_bound[i] == INFINITY;
        worst_out = fmax(worst_out, ratio);
        add(t, ratio);
    }
    for (size_t i = 0; gives_lse && i < w.rows; i++)
        worst_lse = fmax(worst_lse, kvg_attention_ratio(got.lse[i], exact.lse[i], exact.lse_bound[i]));
    if (worst_out > 1 || worst_lse > 1)
        fail_msg("%s, %s/%s D %u G %u: out %g, lse %g of the bound", name,
                 kvg_format_get(plan->storage[KVG_K].format)->name, kvg_format_get(plan->storage[KVG_V].format)->name,
                 plan->head_dim, plan->group, worst_out, worst_lse);
    t->worst_out = fmax(t->worst_out, worst_out);
    t->worst_lse = fmax(t->worst_lse, worst_lse);
    t->problems++;
    answer_close(&exact);
    decode_close(&got);
    world_close(&w);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, tally *t)
{
    qsort(t->ratios, t->count, sizeof *t->ratios, by_size);
    print_message("  %-34s %4zu problems, %7zu outputs: worst out %.3f, lse %.3f, median %.4f, without a bound %zu\n",
                  what, t->problems, t->count, t->worst_out, t->worst_lse, t->ratios[t->count / 2], t->unpromised);
    assert_int_equal(t->unpromised, 0);
    free(t->ratios);
    *t = (tally){0};
}

/* A format of K and of V that has rows of T and operands under the profile, a dialect each, by running numbers. */
static kvg_storage storage_at(kvg_dtype T, kvg_profile profile, size_t format, size_t dialect)
{
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    while ((T == KVG_DTYPE_F32 && table[format % formats].scales == KVG_SCALES_AFFINE) ||
           !kvg_profile_has_operands(profile, table[format % formats].format))
        format++;
    const kvg_format f = table[format % formats].format;
    return (kvg_storage){f, kvg_reference_dialect(f, dialect % kvg_reference_dialect_count(f))->name};
}

void test_profile_bound(void **state)
{
    (void)state;
    static const uint32_t dims[] = {16, 64, 80, 96, 112, 128, 192, 256}, groups[] = {1, 2, 3, 5, 8};
    static const kvg_layout layouts[] = {KVG_LAYOUT_HND, KVG_LAYOUT_NHD, KVG_LAYOUT_TURBOMIND, KVG_LAYOUT_VLLM};
    static const struct {
        const char *name;
        kvg_profile profile;
        float q_size, softcap, sinks, v_size;
        uint32_t window, rounds; /* rounds: problems by the number of formats */
        kvg_dtype dtype;
    } kinds[] = {
        {"f16", 0, 1, 0, 0, 1, 0, 4, KVG_DTYPE_F16},
        {"bf16, sinks", 0, 1, 0, 2, 1, 0, 4, KVG_DTYPE_BF16},
        {"f16, peaked, window", 0, 8, 0, 0, 1, 90, 4, KVG_DTYPE_F16},
        {"bf16, cap, sm89", KVG_PROFILE_SM89_MMA16816_V1, 6, 10, 0, 1, 0, 4, KVG_DTYPE_BF16},
        {"f16, cap 1000", 0, 30, 1000, 0, 1, 0, 4, KVG_DTYPE_F16},
        {"bf16, large q, small v", 0, 300, 0, 1, 0x1p-10f, 0, 4, KVG_DTYPE_BF16},
        {"bf16, large v", 0, 2, 0, 0, 2000, 0, 4, KVG_DTYPE_BF16},
        {"simt, f16, peaked, window", KVG_PROFILE_SIMT_FMA_V1, 8, 0, 0, 1, 90, 2, KVG_DTYPE_F16},
        {"simt, bf16, cap, sinks", KVG_PROFILE_SIMT_FMA_V1, 6, 10, 2, 1, 0, 2, KVG_DTYPE_BF16},
        {"simt, f32", KVG_PROFILE_SIMT_FMA_V1, 2, 0, 0, 1, 0, 4, KVG_DTYPE_F32},
        {"simt, f32, large q, small v", KVG_PROFILE_SIMT_FMA_V1, 300, 0, 1, 0x1p-10f, 0, 2, KVG_DTYPE_F32},
    };
    size_t formats;
    kvg_format_table(&formats);
    tally t = {0};
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        for (size_t i = 0; i < kinds[kind].rounds * formats; i++) {
            const kvg_dtype T = kinds[kind].dtype;
            const kvg_profile profile = kinds[kind].profile ? kinds[kind].profile : KVG_PROFILE_SM90_MMA16816_V1;
            world_plan plan = {.layout = layouts[i % 4], .dtype = T, .kv_heads = 1,
                               .storage = {storage_at(T, profile, i, i / formats + kind),
                                           storage_at(T, profile, i * 3 + kind, i)},
                               .group = groups[(i + kind) % 5], .head_dim = dims[(i / 2 + kind) % 8],
                               .q_size = kinds[kind].q_size, .softcap = kinds[kind].softcap,
                               .sinks = kinds[kind].sinks, .v_size = kinds[kind].v_size,
                               .window = kinds[kind].window, .lengths = {33, 1, 129, 0, 300 + 64 * (i % 8)},
                               .queries = {2, 1, 1, 1, 1}, .seed = 100 * kind + i};
            if (kvg_format_check_dim(plan.storage[0].format, plan.head_dim) ||
                kvg_format_check_dim(plan.storage[1].format, plan.head_dim))
                plan.head_dim = 128;
            measure(kinds[kind].name, &plan, profile, &t);
        }
        report(kinds[kind].name, &t);
    }
    for (size_t i = 0; i < CONTRACTS * formats; i++) {
        const kvg_profile profile = profile_of_contract[i / formats];
        const kvg_storage s = storage_at(KVG_DTYPE_F16, profile, i, 0);
        const world_plan latent = {.layout = KVG_LAYOUT_MLA, .storage = {s, s}, .shared_kv = true,
                                   .head_dim = whole_blocks(576, s.format), .group = 4, .lengths = {140},
                                   .queries = {1}, .seed = i};
        measure("latent", &latent, profile, &t);
    }
    report("latent", &t);
}

/* Kernels of other projects: what each of them takes. */
void test_profile_bound_of_others(void **state)
{
    (void)state;
    static const uint32_t dims[] = {64, 128, 256}, groups[] = {1, 3, 8, 20}, powers[] = {1, 2, 4, 8};
    static const struct {
        const char *name;
        float q_size, softcap, sinks;
        uint32_t window;
    } kinds[] = {{"plain", 1, 0, 0, 0}, {"large q", 60, 0, 0, 0}, {"peaked, window", 8, 0, 0, 90},
                 {"sinks, window", 2, 0, 2, 30}, {"cap 10", 6, 10, 0, 0}, {"cap 1000", 30, 1000, 0, 0}};
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    size_t count;
    const kvg_profile_info *table = kvg_profile_table(&count);
    for (size_t n = 0; n < count; n++) {
        tally t = {0};
        for (size_t i = 0; i < 6 * KINDS && !kvg_profile_is_own(&table[n]); i++) {
            const kvg_dtype T = i % 4 == 3 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
            const kvg_storage s = {i % 4 == 1 ? KVG_FORMAT_E4M3 : kvg_format_of_dtype(T), "canonical"};
            const size_t kind = i % KINDS;
            const bool one = table[n].contract->operands == KVG_OPERANDS_THREADS ||
                             table[n].contract->end == KVG_END_NATURAL; /* takes one query token */
            const world_plan plan = {.layout = KVG_LAYOUT_NHD, .dtype = T, .kv_heads = 1, .storage = {s, s},
                                     .group = (one ? powers : groups)[i / 4 % 4], .head_dim = dims[i / KINDS % 3],
                                     .q_size = kinds[kind].q_size, .softcap = kinds[kind].softcap,
                                     .sinks = kinds[kind].sinks, .window = kinds[kind].window,
                                     .lengths = {33, 1, 129, 0, 300 + 64 * (i % 8)},
                                     .queries = {one ? 1 : 2, 1, 1, 1, one ? 1 : 1 + i % 5}, .seed = 1000 * n + i};
            world w;
            kvg_arithmetic class;
            decode_world_open(&plan, table[n].profile, &w);
            const bool narrow = table[n].contract->sinks == KVG_SINKS_NARROW;
            const bool taken = kvg_arithmetic_of_profile(&w.p, &class) == KVG_OK && !(narrow && plan.sinks != 0);
            world_close(&w);
            if (taken) measure(kinds[kind].name, &plan, table[n].profile, &t);
        }
        if (t.problems) report(table[n].name, &t);
    }
}

/* Where numbers leave what the contract takes, nothing is promised, and nothing that is promised is broken: block
 * scales beyond the operands, and sums beyond f32. Just below there is a bound. */
void test_profile_out_of_range(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        kvg_profile profile;
        kvg_format k, v;
        float k_size, v_size;
        bool promised;
    } rows[] = {
        {"mxfp4 V of 10^4", 0, KVG_FORMAT_BF16, KVG_FORMAT_MXFP4, 1, 1e4f, true},
        {"mxfp4 V of 10^6", 0, KVG_FORMAT_BF16, KVG_FORMAT_MXFP4, 1, 1e6f, false},
        {"mx16 K of 10^6", 0, KVG_FORMAT_MX16, KVG_FORMAT_BF16, 1e6f, 1, false},
        {"bf16 V of 10^30", 0, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 1, 1e30f, true},
        {"bf16 V of 10^36", 0, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 1, 1e36f, false},
        {"simt mxfp4 V of 10^30", KVG_PROFILE_SIMT_FMA_V1, KVG_FORMAT_BF16, KVG_FORMAT_MXFP4, 1, 1e30f, true},
        {"simt mx16 K of 10^30", KVG_PROFILE_SIMT_FMA_V1, KVG_FORMAT_MX16, KVG_FORMAT_BF16, 1e30f, 1, true},
        {"simt rowint4 K of 10^-30", KVG_PROFILE_SIMT_FMA_V1, KVG_FORMAT_ROWINT4, KVG_FORMAT_BF16, 1e-30f, 1, true},
        {"simt mx16 K of 10^38", KVG_PROFILE_SIMT_FMA_V1, KVG_FORMAT_MX16, KVG_FORMAT_BF16, 1e38f, 1, false},
        {"simt bf16 V of 10^36", KVG_PROFILE_SIMT_FMA_V1, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 1, 1e36f, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tally t = {0};
        const world_plan plan = {.layout = KVG_LAYOUT_HND, .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .group = 2,
                                 .storage = {{rows[i].k, "canonical"}, {rows[i].v, "canonical"}}, .q_size = 2,
                                 .scale = 0.1f / rows[i].k_size, .k_size = rows[i].k_size, .v_size = rows[i].v_size,
                                 .lengths = {200}, .queries = {2}, .seed = 70 + i};
        measure(rows[i].name, &plan, rows[i].profile, &t);
        print_message("  %-34s worst out %.3f, %zu of %zu without a bound\n", rows[i].name, t.worst_out, t.unpromised,
                      t.count);
        if (rows[i].promised) assert_int_equal(t.unpromised, 0);
        else assert_true(t.unpromised > t.count / 2);
        free(t.ratios);
    }
}
