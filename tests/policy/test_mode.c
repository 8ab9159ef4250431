/* policy/mode.h against docs/spec/modes.md, written again here as plain ifs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "policy/mode.h"

/* 32 layers, 8 heads, head_dim 128, 64 tokens in bf16, on an SM 90 with everything built and switched on. */
static kvg_mode_request request_of(kvg_policy_domain domain, uint32_t policy)
{
    return (kvg_mode_request){.domain = domain,
                              .policy = policy,
                              .sm = 90,
                              .fp4_build = true,
                              .fp4_nv_enabled = true,
                              .dtype = KVG_DTYPE_BF16,
                              .layers = 32,
                              .kv_heads = 8,
                              .head_dim = 128,
                              .block_tokens = 64,
                              .has_flatten = true};
}

/* --- what the page says, as plain ifs --- */

typedef struct expected {
    const char *requested, *effective; /* effective "": refused */
    bool fell_back;
    const char *text; /* in the error or the reason */
} expected;

static expected expect_fp4(const kvg_mode_request *r)
{
    const char *name = "unsupported";
    if (r->sm == 89 || r->sm == 90) name = "fp4_mx";
    if (r->sm == 100 || r->sm == 103 || r->sm == 110 || r->sm == 120 || r->sm == 121) name = "fp4_nv";
    if (!r->fp4_build) return (expected){name, "", false, "needs a build with FP4"};
    if (strcmp(name, "unsupported") == 0) return (expected){name, "", false, "not supported on SM"};
    if (strcmp(name, "fp4_nv") == 0 && !r->fp4_nv_enabled) return (expected){name, "none", true, "not rolled out"};
    return (expected){name, name, false, ""};
}

static expected expect(const kvg_mode_request *r)
{
    expected e = {"unsupported", "", false, ""};
    if (r->domain == KVG_POLICY_TURBOMIND) {
        if (r->policy == 0) e = (expected){"none", "none", false, ""};
        else if (r->policy == 4) e = (expected){"int4", "int4", false, ""};
        else if (r->policy == 8) e = (expected){"int8", "int8", false, ""};
        else if (r->policy == 16) e = expect_fp4(r);
        else if (r->policy == 1 || r->policy == 2) e.text = "(reserved) has no format";
        else if (r->policy >= 32) e.text = "unknown bits";
        else e.text = "exclude each other";
    } else {
        if (r->policy == 0) e = (expected){"none", "none", false, ""};
        else if (r->policy == 4) e = (expected){"int4", "int4", false, ""};
        else if (r->policy == 8) e = (expected){"int8", "int8", false, ""};
        else if (r->policy == 16) e = (expected){"fp8_e4m3", "fp8_e4m3", false, ""};
        else if (r->policy == 17) e = (expected){"fp8_e5m2", "fp8_e5m2", false, ""};
        else if (r->policy == 42) e.text = "policy 42 (turbo_quant) has no format in kvgold";
        else e.text = "is unknown";
    }
    if (e.effective[0] == 0 && r->fall_back) {
        e.effective = "none";
        e.fell_back = true;
    }
    return e;
}

/* Geometry of request_of: 32 * 8 * 64 * 2 rows of 128 elements. */
static const struct {
    const char *mode, *format;
    uint32_t q_bits, t_bits;
    uint64_t data, scale;
} stored[] = {
    {"none", "bf16", 16, 0, 8388608, 0},         {"int4", "int4", 4, 16, 2228224, 0},
    {"int8", "int8", 8, 16, 4325376, 0},         {"fp4_mx", "mx16", 4, 0, 2097152, 262144},
    {"fp4_nv", "nvfp4", 4, 0, 2097152, 262144},  {"fp8_e4m3", "e4m3", 8, 0, 4194304, 0},
    {"fp8_e5m2", "e5m2", 8, 0, 4194304, 0},
};
enum { STORED = sizeof stored / sizeof stored[0] };

static bool contains(const char *text, const char *part)
{
    if (strstr(text, part)) return true;
    print_error("no '%s' in '%s'\n", part, text);
    return false;
}

static void check_choice(const kvg_mode_request *r)
{
    const expected e = expect(r);
    kvg_mode_choice c = {.q_bits = 77};
    const kvg_status s = kvg_mode_select(r, &c);
    if (e.effective[0] == 0) {
        assert_int_equal(s, KVG_ERR_INVALID);
        assert_true(contains(kvg_error_text(), e.text));
        assert_int_equal(c.q_bits, 77);
        return;
    }
    assert_int_equal(s, KVG_OK);
    assert_string_equal(kvg_mode_name(c.requested), e.requested);
    assert_string_equal(kvg_mode_name(c.effective), e.effective);
    assert_int_equal(c.fell_back, e.fell_back);
    assert_true(e.fell_back ? contains(c.reason, e.text) && e.text[0] : c.reason[0] == 0);
    size_t i = 0;
    while (strcmp(stored[i].mode, e.effective) != 0) i++;
    assert_string_equal(kvg_format_get(c.format)->name, stored[i].format);
    assert_int_equal(c.q_bits, stored[i].q_bits);
    assert_int_equal(c.t_bits, stored[i].t_bits);
    assert_int_equal(c.data_block_bytes, stored[i].data);
    assert_int_equal(c.scale_block_bytes, stored[i].scale);
    assert_false(c.shared_kv);
    assert_false(c.partial_kv || c.prefix_cache);
    assert_string_equal(c.partial_kv_reason, "");
    assert_string_equal(c.prefix_cache_reason, "");
}

/* Every policy below 64, every SM up to 150, both domains, build, rollout and fallback on and off. */
static void test_every_policy_on_every_chip(void **state)
{
    (void)state;
    int choices = 0;
    for (uint32_t policy = 0; policy < 64; policy++) {
        for (uint32_t sm = 0; sm <= 150; sm++) {
            for (int flags = 0; flags < 16; flags++) {
                kvg_mode_request r = request_of(flags & 1 ? KVG_POLICY_TURBOMIND : KVG_POLICY_LMDEPLOY_2026, policy);
                r.sm = sm;
                r.fp4_build = flags & 2;
                r.fp4_nv_enabled = flags & 4;
                r.fall_back = flags & 8;
                check_choice(&r);
                choices++;
            }
        }
    }
    assert_int_equal(choices, 64 * 151 * 16);
}

/* High bits, and numbers that are a known one modulo 256. */
static void test_policies_beyond_the_table(void **state)
{
    (void)state;
    static const uint32_t policies[] = {64, 128, 256 + 4, 256 + 16, 1u << 31, (1u << 31) + 8, UINT32_MAX};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        kvg_mode_request r = request_of(KVG_POLICY_TURBOMIND, policies[i]);
        check_choice(&r);
        r.domain = KVG_POLICY_LMDEPLOY_2026;
        check_choice(&r);
    }
}

/* --- refusals --- */

static void refused(const kvg_mode_request *r, const char *text)
{
    kvg_mode_choice c;
    assert_int_equal(kvg_mode_select(r, &c), KVG_ERR_INVALID);
    assert_true(contains(kvg_error_text(), text));
}

/* Refused; with fall_back an unquantised cache, with the same text as the reason. */
static void refused_or_none(kvg_mode_request r, const char *text)
{
    kvg_mode_choice c;
    refused(&r, text);
    r.fall_back = true;
    assert_int_equal(kvg_mode_select(&r, &c), KVG_OK);
    assert_int_equal(c.effective, KVG_MODE_NONE);
    assert_true(c.fell_back);
    assert_true(contains(c.reason, text));
    assert_int_equal(c.format, KVG_FORMAT_BF16);
}

static void test_the_texts_of_refused_policies(void **state)
{
    (void)state;
    static const struct {
        uint32_t policy;
        const char *text;
    } bits[] = {
        {0x01, "policy 0x01 (reserved) has no format in kvgold: policy domain turbomind has 0x00 (none), 0x04 (int4), "
               "0x08 (int8), 0x10 (fp4)"},
        {0x0c, "policy 0x0c sets bits that exclude each other, 0x04 (int4), 0x08 (int8): policy domain turbomind has"},
        {0x14, "exclude each other, 0x04 (int4), 0x10 (fp4): "},
        {0x18, "exclude each other, 0x08 (int8), 0x10 (fp4): "},
        {0x1c, "exclude each other, 0x04 (int4), 0x08 (int8), 0x10 (fp4): "},
        {0x05, "exclude each other, 0x01 (reserved), 0x04 (int4): "},
        {0x2a, "policy 0x2a has the unknown bits 0x20: "}, /* 42: holds the bit of int8 */
        {0x11, "exclude each other, 0x01 (reserved), 0x10 (fp4): "}, /* 17 */
    };
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        refused_or_none(request_of(KVG_POLICY_TURBOMIND, bits[i].policy), bits[i].text);
    }
    refused_or_none(request_of(KVG_POLICY_LMDEPLOY_2026, 12),
                    "policy 12 is unknown: policy domain lmdeploy_2026 has 0 (none), 4 (int4), 8 (int8), "
                    "16 (fp8_e4m3), 17 (fp8_e5m2)");
    kvg_mode_request r = request_of(KVG_POLICY_TURBOMIND, 16);
    r.sm = 101;
    refused_or_none(r, "policy fp4 is not supported on SM 101: use one of 89 (fp4_mx), 90 (fp4_mx), 100 (fp4_nv), "
                       "103 (fp4_nv), 110 (fp4_nv), 120 (fp4_nv), 121 (fp4_nv)");
    r.fp4_build = false;
    refused_or_none(r, "policy fp4 needs a build with FP4");
}

static void test_head_dims_that_a_format_cannot_hold(void **state)
{
    (void)state;
    static const struct {
        uint32_t policy, sm, multiple;
    } modes[] = {{4, 90, 8}, {8, 90, 1}, {16, 90, 16}, {16, 120, 16}};
    for (uint32_t head_dim = 1; head_dim <= 1024; head_dim++) {
        for (int i = 0; i < 4; i++) {
            kvg_mode_request r = request_of(KVG_POLICY_TURBOMIND, modes[i].policy);
            kvg_mode_choice c;
            r.sm = modes[i].sm;
            r.head_dim = head_dim;
            if (head_dim % modes[i].multiple != 0) {
                refused_or_none(r, "does not fit format");
            } else {
                assert_int_equal(kvg_mode_select(&r, &c), KVG_OK);
                assert_int_equal(c.shared_kv, head_dim == 576);
            }
        }
    }
    kvg_mode_request r = request_of(KVG_POLICY_TURBOMIND, 16);
    r.head_dim = 72;
    refused(&r, "head_dim 72 does not fit format mx16: use a multiple of 16");
}

/* What an unquantised cache cannot do either is refused in spite of fall_back. */
static void test_requests_without_any_cache(void **state)
{
    (void)state;
    kvg_mode_request good = request_of(KVG_POLICY_TURBOMIND, 16), r;
    good.fall_back = true;
    r = good, r.head_dim = 0, refused(&r, "head_dim 0 does not fit");
    r = good, r.head_dim = 1040, refused(&r, "head_dim 1040 does not fit");
    r = good, r.layers = 0, refused(&r, "layers 0, kv_heads 8 and block_tokens 64 must be at least 1");
    r = good, r.kv_heads = 0, refused(&r, "kv_heads 0");
    r = good, r.block_tokens = 0, refused(&r, "block_tokens 0");
    r = good, r.dtype = KVG_DTYPE_F32, refused(&r, "no storage with model type f32: use f16 or bf16");
    r = good, r.domain = (kvg_policy_domain)3, refused(&r, "policy domain id 3 is unknown");
    r = good, r.kernel_block = 48, refused(&r, "block_tokens 64 is not a multiple of the kernel's block of 48");
    r = good, r.layers = r.kv_heads = UINT32_MAX, refused(&r, "2^64 bytes or more");
    kvg_mode_choice c;
    r = good, r.kernel_block = 32, r.block_tokens = 96;
    assert_int_equal(kvg_mode_select(&r, &c), KVG_OK);
    assert_int_equal(c.effective, KVG_MODE_FP4_MX);
}

static void test_the_engine_has_kernels_for_some_sizes_only(void **state)
{
    (void)state;
    for (uint32_t head_dim = 8; head_dim <= 1024; head_dim += 8) {
        for (uint32_t policy = 0; policy <= 8; policy += 4) {
            kvg_mode_request r = request_of(KVG_POLICY_TURBOMIND, policy);
            kvg_mode_choice c;
            r.engine_kernels = true;
            r.head_dim = head_dim;
            if (head_dim == 64 || head_dim == 128 || head_dim == 192 || head_dim == 256 || head_dim == 576) {
                assert_int_equal(kvg_mode_select(&r, &c), KVG_OK);
            } else {
                refused(&r, "TurboMind has no kernels for head_dim");
                r.fall_back = true;
                refused(&r, "TurboMind has no kernels for head_dim");
            }
        }
    }
    for (uint32_t policy = 16; policy <= 17; policy++) {
        kvg_mode_request r = request_of(KVG_POLICY_LMDEPLOY_2026, policy);
        r.engine_kernels = true;
        refused_or_none(r, "TurboMind has no kernels for mode fp8_");
    }
}

/* --- features --- */

static void test_partial_kv_and_prefix_cache_are_gated_apart(void **state)
{
    (void)state;
    static const struct {
        kvg_policy_domain domain;
        uint32_t policy, sm;
        bool fp4;
    } modes[] = {
        {KVG_POLICY_TURBOMIND, 0, 90, false},      {KVG_POLICY_TURBOMIND, 4, 90, false},
        {KVG_POLICY_TURBOMIND, 8, 90, false},      {KVG_POLICY_TURBOMIND, 16, 90, true},
        {KVG_POLICY_TURBOMIND, 16, 120, true},     {KVG_POLICY_LMDEPLOY_2026, 16, 90, false},
        {KVG_POLICY_LMDEPLOY_2026, 17, 90, false},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        for (int flags = 0; flags < 16; flags++) {
            const bool partial = flags & 1, prefix = flags & 2, design = flags & 4, flatten = flags & 8;
            kvg_mode_request r = request_of(modes[i].domain, modes[i].policy);
            kvg_mode_choice c;
            r.sm = modes[i].sm;
            r.partial_kv = partial;
            r.prefix_cache = prefix;
            r.design_gating = design;
            r.has_flatten = flatten;
            assert_int_equal(kvg_mode_select(&r, &c), KVG_OK);
            bool partial_on = partial, prefix_on = prefix;
            if (!flatten) partial_on = false;
            if (design && modes[i].fp4) partial_on = prefix_on = false;
            assert_int_equal(c.partial_kv, partial_on);
            assert_int_equal(c.prefix_cache, prefix_on);
            const char *why = design && modes[i].fp4 ? "design gating: no partial KV with a scale pool"
                                                     : "no flatten for this format";
            assert_string_equal(c.partial_kv_reason, partial && !partial_on ? why : "");
            assert_string_equal(c.prefix_cache_reason,
                                prefix && !prefix_on ? "design gating: no prefix cache with a scale pool" : "");
        }
    }
}

/* The bans follow the mode that is used, not the one that was asked for. */
static void test_features_follow_the_effective_mode(void **state)
{
    (void)state;
    kvg_mode_request r = request_of(KVG_POLICY_TURBOMIND, 16);
    kvg_mode_choice c;
    r.sm = 100;
    r.fp4_nv_enabled = false;
    r.design_gating = r.prefix_cache = r.partial_kv = true;
    assert_int_equal(kvg_mode_select(&r, &c), KVG_OK);
    assert_true(c.fell_back && c.prefix_cache && c.partial_kv);
    assert_int_equal(c.requested, KVG_MODE_FP4_NV);
}

/* --- sizes --- */

/* TurboMind's own terms, one after the other. */
static uint64_t engine_block(uint64_t q, uint64_t t, const kvg_block_geometry *g)
{
    const uint64_t kv = g->shared_kv ? 1 : 2;
    const uint64_t token_data = q * g->head_dim / 8, token_param = t * 2 / 8;
    const uint64_t head_data = g->block_tokens * token_data, head_param = g->block_tokens * token_param;
    const uint64_t layer = g->kv_heads * kv * head_data + g->kv_heads * kv * head_param;
    return layer * g->layers;
}

static void test_blocks_have_the_engines_sizes(void **state)
{
    (void)state;
    static const uint32_t dims[] = {64, 80, 128, 192, 256, 576};
    int compared = 0;
    for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
        for (uint32_t tokens = 1; tokens <= 256; tokens = tokens * 2 + 1) {
            for (uint32_t heads = 1; heads <= 128; heads *= 2) {
                const kvg_block_geometry g = {3, heads, dims[d], tokens, dims[d] == 576};
                for (size_t i = 0; i < STORED; i++) {
                    kvg_mode mode;
                    uint64_t data, scale;
                    assert_int_equal(kvg_mode_find(stored[i].mode, &mode), KVG_OK);
                    assert_int_equal(kvg_mode_block_bytes(mode, KVG_DTYPE_BF16, &g, &data, &scale), KVG_OK);
                    assert_int_equal(data, engine_block(stored[i].q_bits, stored[i].t_bits, &g));
                    const bool fp4 = mode == KVG_MODE_FP4_MX || mode == KVG_MODE_FP4_NV;
                    const uint64_t sides = g.shared_kv ? 1 : 2;
                    assert_int_equal(scale, fp4 ? sides * (dims[d] / 16) * tokens * heads * 3 : 0);
                    compared++;
                }
            }
        }
    }
    assert_int_equal(compared, 6 * 8 * 8 * STORED);
}

/* Worked by hand: int4, head_dim 128, 64 tokens, 8 heads: 69,632 bytes a layer. MLA in FP4: 64 rows of 288 and 36. */
static void test_blocks_worked_by_hand(void **state)
{
    (void)state;
    uint64_t data, scale;
    const kvg_block_geometry layer = {1, 8, 128, 64, false}, mla = {1, 1, 576, 64, true};
    assert_int_equal(kvg_mode_block_bytes(KVG_MODE_INT4, KVG_DTYPE_F16, &layer, &data, &scale), KVG_OK);
    assert_int_equal(data, 69632);
    assert_int_equal(kvg_mode_block_bytes(KVG_MODE_FP4_NV, KVG_DTYPE_F16, &mla, &data, &scale), KVG_OK);
    assert_int_equal(data, 64 * 288);
    assert_int_equal(scale, 64 * 36);
}

static void test_sizes_beyond_32_bits_are_exact_and_beyond_64_refused(void **state)
{
    (void)state;
    uint64_t data, scale;
    kvg_block_geometry g = {UINT32_MAX, 1u << 20, 256, 1u << 2, false}; /* rows: (2^32 - 1) * 2^23 */
    assert_int_equal(kvg_mode_block_bytes(KVG_MODE_FP4_MX, KVG_DTYPE_F16, &g, &data, &scale), KVG_OK);
    assert_true(data == (uint64_t)UINT32_MAX << 30 && scale == (uint64_t)UINT32_MAX << 27);
    g.block_tokens = 1u << 4; /* rows * 128 < 2^64, rows * 512 is not */
    assert_int_equal(kvg_mode_block_bytes(KVG_MODE_FP4_MX, KVG_DTYPE_F16, &g, &data, &scale), KVG_OK);
    assert_true(data == (uint64_t)UINT32_MAX << 32);
    assert_int_equal(kvg_mode_block_bytes(KVG_MODE_NONE, KVG_DTYPE_F16, &g, &data, &scale), KVG_ERR_INVALID);
    g = (kvg_block_geometry){1u << 31, 1u << 31, 64, 4, false}; /* rows: 2^65, 2^64, and 2^63 with 32 bytes each */
    assert_int_equal(kvg_mode_block_bytes(KVG_MODE_FP4_MX, KVG_DTYPE_F16, &g, &data, &scale), KVG_ERR_INVALID);
    g.block_tokens = 2;
    assert_int_equal(kvg_mode_block_bytes(KVG_MODE_FP4_MX, KVG_DTYPE_F16, &g, &data, &scale), KVG_ERR_INVALID);
    g.block_tokens = 1;
    assert_int_equal(kvg_mode_block_bytes(KVG_MODE_FP4_MX, KVG_DTYPE_F16, &g, &data, &scale), KVG_ERR_INVALID);
}

/* --- tables --- */

/* Ids are stored in reports. */
static void test_names_and_ids_are_fixed(void **state)
{
    (void)state;
    static const char *const names[] = {"unsupported", "none",   "int4",     "int8",
                                        "fp4_mx",      "fp4_nv", "fp8_e4m3", "fp8_e5m2"};
    size_t count;
    const kvg_mode_info *modes = kvg_mode_table(&count);
    assert_int_equal(count, 7);
    for (int id = 0; id <= 7; id++) assert_string_equal(kvg_mode_name((kvg_mode)id), names[id]);
    for (size_t i = 0; i < count; i++) {
        kvg_mode found;
        assert_int_equal(modes[i].mode, i + 1);
        assert_int_equal(modes[i].turbomind, i < 5);
        assert_int_equal(kvg_mode_find(modes[i].name, &found), KVG_OK);
        assert_int_equal(found, i + 1);
    }
    assert_string_equal(kvg_mode_name((kvg_mode)8), "unsupported");
    kvg_mode mode;
    assert_int_equal(kvg_mode_find("unsupported", &mode), KVG_ERR_NOT_FOUND);
    assert_true(contains(kvg_error_text(), "known: none, int4, int8, fp4_mx, fp4_nv, fp8_e4m3, fp8_e5m2"));
    kvg_policy_domain domain;
    assert_int_equal(kvg_policy_domain_find("turbomind", &domain), KVG_OK);
    assert_int_equal(domain, 1);
    assert_int_equal(kvg_policy_domain_find("lmdeploy_2026", &domain), KVG_OK);
    assert_int_equal(domain, 2);
    assert_int_equal(kvg_policy_domain_find("lmdeploy", &domain), KVG_ERR_NOT_FOUND);
}

static void test_storage_follows_the_model_type(void **state)
{
    (void)state;
    assert_int_equal(kvg_mode_format(KVG_MODE_NONE, KVG_DTYPE_F16), KVG_FORMAT_F16);
    assert_int_equal(kvg_mode_format(KVG_MODE_NONE, KVG_DTYPE_BF16), KVG_FORMAT_BF16);
    assert_int_equal(kvg_mode_format(KVG_MODE_INT8, KVG_DTYPE_F32), KVG_FORMAT_NONE);
    assert_int_equal(kvg_mode_format(KVG_MODE_UNSUPPORTED, KVG_DTYPE_F16), KVG_FORMAT_NONE);
    assert_int_equal(kvg_mode_q_bits(KVG_MODE_UNSUPPORTED, KVG_DTYPE_F16), 0);
    assert_int_equal(kvg_mode_t_bits(KVG_MODE_INT8, KVG_DTYPE_F32), 0);
    assert_false(kvg_mode_scale_pool(KVG_MODE_UNSUPPORTED));
    assert_false(kvg_mode_scale_pool(KVG_MODE_INT4));
    assert_true(kvg_mode_scale_pool(KVG_MODE_FP4_MX));
    assert_true(kvg_mode_scale_pool(KVG_MODE_FP4_NV));
}

static void test_chips_are_listed_once_and_in_order(void **state)
{
    (void)state;
    static const uint32_t chips[] = {89, 90, 100, 103, 110, 120, 121};
    size_t count;
    const kvg_sm *sms = kvg_sm_table(&count);
    assert_int_equal(count, 7);
    for (size_t i = 0; i < count; i++) assert_int_equal(sms[i].sm, chips[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy_on_every_chip),
        cmocka_unit_test(test_policies_beyond_the_table),
        cmocka_unit_test(test_the_texts_of_refused_policies),
        cmocka_unit_test(test_head_dims_that_a_format_cannot_hold),
        cmocka_unit_test(test_requests_without_any_cache),
        cmocka_unit_test(test_the_engine_has_kernels_for_some_sizes_only),
        cmocka_unit_test(test_partial_kv_and_prefix_cache_are_gated_apart),
        cmocka_unit_test(test_features_follow_the_effective_mode),
        cmocka_unit_test(test_blocks_have_the_engines_sizes),
        cmocka_unit_test(test_blocks_worked_by_hand),
        cmocka_unit_test(test_sizes_beyond_32_bits_are_exact_and_beyond_64_refused),
        cmocka_unit_test(test_names_and_ids_are_fixed),
        cmocka_unit_test(test_storage_follows_the_model_type),
        cmocka_unit_test(test_chips_are_listed_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
