#include "policy/mode.h"

#include <stdio.h>
#include <string.h>

#include "core/name.h"

static const kvg_mode_info modes[] = {
    {KVG_MODE_NONE, "none", KVG_FORMAT_NONE, true},
    {KVG_MODE_INT4, "int4", KVG_FORMAT_INT4, true},
    {KVG_MODE_INT8, "int8", KVG_FORMAT_INT8, true},
    {KVG_MODE_FP4_MX, "fp4_mx", KVG_FORMAT_MX16, true},
    {KVG_MODE_FP4_NV, "fp4_nv", KVG_FORMAT_NVFP4, true},
    {KVG_MODE_FP8_E4M3, "fp8_e4m3", KVG_FORMAT_E4M3, false},
    {KVG_MODE_FP8_E5M2, "fp8_e5m2", KVG_FORMAT_E5M2, false},
};
enum { MODE_COUNT = sizeof modes / sizeof modes[0] };

static const kvg_sm sms[] = {
    {89, KVG_POLICY_FP4_MX_CHIP},  {90, KVG_POLICY_FP4_MX_CHIP},  {100, KVG_POLICY_FP4_NV_CHIP},
    {103, KVG_POLICY_FP4_NV_CHIP}, {110, KVG_POLICY_FP4_NV_CHIP}, {120, KVG_POLICY_FP4_NV_CHIP},
    {121, KVG_POLICY_FP4_NV_CHIP},
};
enum { SM_COUNT = sizeof sms / sizeof sms[0] };

/* REFUSED in every column: the number is taken, but kvgold has no format for it. */
#define BITS KVG_POLICY_TURBOMIND
#define NUMBER KVG_POLICY_LMDEPLOY_2026
#define REFUSED KVG_MODE_UNSUPPORTED
#define NONE KVG_MODE_NONE
#define INT4 KVG_MODE_INT4
#define INT8 KVG_MODE_INT8
#define FP4_MX KVG_MODE_FP4_MX
#define FP4_NV KVG_MODE_FP4_NV
#define E4M3 KVG_MODE_FP8_E4M3
#define E5M2 KVG_MODE_FP8_E5M2
static const kvg_policy policies[] = {
    /*                            FP4 built in                                         not built in
     *                            SM 89, 90  SM 100, 103, 110, 120, 121  another SM    any SM
     *                                       fp4_nv on      off                                    */
    {BITS, 0x00, "none",         {NONE,      NONE,          NONE,        NONE,         NONE}},
    {BITS, 0x01, "reserved",     {REFUSED,   REFUSED,       REFUSED,     REFUSED,      REFUSED}},
    {BITS, 0x02, "reserved",     {REFUSED,   REFUSED,       REFUSED,     REFUSED,      REFUSED}},
    {BITS, 0x04, "int4",         {INT4,      INT4,          INT4,        INT4,         INT4}},
    {BITS, 0x08, "int8",         {INT8,      INT8,          INT8,        INT8,         INT8}},
    {BITS, 0x10, "fp4",          {FP4_MX,    FP4_NV,        NONE,        REFUSED,      REFUSED}},
    {NUMBER, 0, "none",          {NONE,      NONE,          NONE,        NONE,         NONE}},
    {NUMBER, 4, "int4",          {INT4,      INT4,          INT4,        INT4,         INT4}},
    {NUMBER, 8, "int8",          {INT8,      INT8,          INT8,        INT8,         INT8}},
    {NUMBER, 16, "fp8_e4m3",     {E4M3,      E4M3,          E4M3,        E4M3,         E4M3}},
    {NUMBER, 17, "fp8_e5m2",     {E5M2,      E5M2,          E5M2,        E5M2,         E5M2}},
    {NUMBER, 42, "turbo_quant",  {REFUSED,   REFUSED,       REFUSED,     REFUSED,      REFUSED}},
};
#undef BITS
#undef NUMBER
#undef REFUSED
#undef NONE
#undef INT4
#undef INT8
#undef FP4_MX
#undef FP4_NV
#undef E4M3
#undef E5M2
enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

/* The head sizes that TurboMind's attention kernels are compiled for. */
static const uint32_t engine_head_dims[] = {64, 128, 192, 256, KVG_MLA_HEAD_DIM};
enum { ENGINE_HEAD_DIM_COUNT = sizeof engine_head_dims / sizeof engine_head_dims[0] };

/* --- modes --- */

const kvg_mode_info *kvg_mode_table(size_t *count)
{
    *count = MODE_COUNT;
    return modes;
}

static const kvg_mode_info *mode_get(kvg_mode mode)
{
    for (size_t i = 0; i < MODE_COUNT; i++) {
        if (modes[i].mode == mode) return &modes[i];
    }
    return NULL;
}

const char *kvg_mode_name(kvg_mode mode)
{
    const kvg_mode_info *m = mode_get(mode);
    return m ? m->name : "unsupported";
}

kvg_status kvg_mode_find(const char *name, kvg_mode *out)
{
    size_t i;
    kvg_status s = kvg_name_find("mode", name, &modes[0].name, sizeof modes[0], MODE_COUNT, &i);
    if (!s) *out = modes[i].mode;
    return s;
}

kvg_format kvg_mode_format(kvg_mode mode, kvg_dtype dtype)
{
    const kvg_mode_info *m = mode_get(mode);
    if (!m || (dtype != KVG_DTYPE_F16 && dtype != KVG_DTYPE_BF16)) return KVG_FORMAT_NONE;
    if (m->format) return m->format;
    return kvg_format_of_dtype(dtype);
}

uint32_t kvg_mode_q_bits(kvg_mode mode, kvg_dtype dtype)
{
    const kvg_format_info *f = kvg_format_get(kvg_mode_format(mode, dtype));
    return f ? f->element_bits : 0;
}

uint32_t kvg_mode_t_bits(kvg_mode mode, kvg_dtype dtype)
{
    const kvg_format_info *f = kvg_format_get(kvg_mode_format(mode, dtype));
    return f && f->row_param_bytes ? 8 * (uint32_t)kvg_dtype_bytes(dtype) : 0;
}

bool kvg_mode_scale_pool(kvg_mode mode)
{
    const kvg_format_info *f = kvg_format_get(kvg_mode_format(mode, KVG_DTYPE_F16));
    return f && f->block_scale_bytes > 0;
}

kvg_status kvg_mode_block_bytes(kvg_mode mode, kvg_dtype dtype, const kvg_block_geometry *g, uint64_t *data,
                                uint64_t *scale)
{
    const kvg_format_info *f = kvg_format_get(kvg_mode_format(mode, dtype));
    if (!f) {
        return kvg_fail(KVG_ERR_INVALID, "mode %s has no storage with model type %s: use f16 or bf16",
                        kvg_mode_name(mode), kvg_dtype_name(dtype));
    }
    if (g->layers < 1 || g->kv_heads < 1 || g->block_tokens < 1) {
        return kvg_fail(KVG_ERR_INVALID, "layers %u, kv_heads %u and block_tokens %u must be at least 1", g->layers,
                        g->kv_heads, g->block_tokens);
    }
    kvg_status s = kvg_format_check_dim(f->format, g->head_dim);
    if (s) return s;
    const uint64_t row_data = f->element_bits * g->head_dim / 8 + 2 * kvg_mode_t_bits(mode, dtype) / 8;
    const uint64_t row_scale = f->block ? g->head_dim / f->block * f->block_scale_bytes : 0;
    uint64_t rows;
    bool over = __builtin_mul_overflow((uint64_t)g->layers * g->kv_heads, g->block_tokens, &rows);
    over |= __builtin_mul_overflow(rows, g->shared_kv ? 1u : 2u, &rows);
    over |= __builtin_mul_overflow(rows, row_data, data);
    *scale = rows * row_scale; /* less than data */
    if (over) {
        return kvg_fail(KVG_ERR_INVALID, "a block of %u layers, %u heads and %u tokens has 2^64 bytes or more",
                        g->layers, g->kv_heads, g->block_tokens);
    }
    return KVG_OK;
}

/* --- policies --- */

const kvg_policy *kvg_policy_table(size_t *count)
{
    *count = POLICY_COUNT;
    return policies;
}

const kvg_sm *kvg_sm_table(size_t *count)
{
    *count = SM_COUNT;
    return sms;
}

const char *kvg_policy_domain_name(kvg_policy_domain domain)
{
    switch (domain) {
    case KVG_POLICY_TURBOMIND: return "turbomind";
    case KVG_POLICY_LMDEPLOY_2026: return "lmdeploy_2026";
    }
    return "?";
}

kvg_status kvg_policy_domain_find(const char *name, kvg_policy_domain *out)
{
    for (int domain = KVG_POLICY_TURBOMIND; domain <= KVG_POLICY_LMDEPLOY_2026; domain++) {
        if (strcmp(kvg_policy_domain_name((kvg_policy_domain)domain), name) == 0) {
            *out = (kvg_policy_domain)domain;
            return KVG_OK;
        }
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no policy domain '%s'; known: turbomind, lmdeploy_2026", name);
}

/* Bits are written in hex, numbers in decimal. */
static void append_policy(const kvg_policy *p, char *text, size_t size)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, p->domain == KVG_POLICY_TURBOMIND ? "%s0x%02x (%s)" : "%s%u (%s)",
             used ? ", " : "", p->number, p->name);
}

static bool has_format(const kvg_policy *p)
{
    return p->modes[KVG_POLICY_FP4_MX_CHIP] != KVG_MODE_UNSUPPORTED;
}

/* Ends with what the domain has. */
static kvg_status refuse_policy(kvg_policy_domain domain, const char *what)
{
    char known[160] = "";
    for (size_t i = 0; i < POLICY_COUNT; i++) {
        if (policies[i].domain == domain && has_format(&policies[i])) append_policy(&policies[i], known, sizeof known);
    }
    return kvg_fail(KVG_ERR_INVALID, "%s: policy domain %s has %s", what, kvg_policy_domain_name(domain), known);
}

/* The row that a policy names. In domain turbomind every row but the first is a bit, and a policy is one bit. */
static kvg_status find_policy(kvg_policy_domain domain, uint32_t number, const kvg_policy **out)
{
    char what[256], bits[160] = "";
    uint32_t known_bits = 0;
    *out = NULL;
    for (size_t i = 0; i < POLICY_COUNT; i++) {
        if (policies[i].domain != domain) continue;
        if (policies[i].number == number) *out = &policies[i];
        if (policies[i].number & number) append_policy(&policies[i], bits, sizeof bits);
        known_bits |= policies[i].number;
    }
    if (*out && has_format(*out)) return KVG_OK;
    if (*out) {
        char name[64] = "";
        append_policy(*out, name, sizeof name);
        snprintf(what, sizeof what, "policy %s has no format in kvgold", name);
    } else if (domain != KVG_POLICY_TURBOMIND) {
        snprintf(what, sizeof what, "policy %u is unknown", number);
    } else if (number & ~known_bits) {
        snprintf(what, sizeof what, "policy 0x%02x has the unknown bits 0x%02x", number, number & ~known_bits);
    } else {
        snprintf(what, sizeof what, "policy 0x%02x sets bits that exclude each other, %s", number, bits);
    }
    return refuse_policy(domain, what);
}

static kvg_policy_column chip_column(uint32_t sm)
{
    for (size_t i = 0; i < SM_COUNT; i++) {
        if (sms[i].sm == sm) return sms[i].column;
    }
    return KVG_POLICY_OTHER_CHIP;
}

static kvg_status refuse_column(const kvg_policy *p, kvg_policy_column column, uint32_t sm)
{
    if (column == KVG_POLICY_NO_FP4_BUILD) {
        return kvg_fail(KVG_ERR_INVALID, "policy %s needs a build with FP4", p->name);
    }
    char chips[128] = "";
    for (size_t i = 0; i < SM_COUNT; i++) {
        const size_t used = strlen(chips);
        snprintf(chips + used, sizeof chips - used, "%s%u (%s)", used ? ", " : "", sms[i].sm,
                 kvg_mode_name(p->modes[sms[i].column]));
    }
    return kvg_fail(KVG_ERR_INVALID, "policy %s is not supported on SM %u: use one of %s", p->name, sm, chips);
}

/* --- selection --- */

static kvg_status check_request(const kvg_mode_request *r)
{
    if (strcmp(kvg_policy_domain_name(r->domain), "?") == 0) {
        return kvg_fail(KVG_ERR_INVALID, "policy domain id %d is unknown: use turbomind or lmdeploy_2026",
                        (int)r->domain);
    }
    if (r->kernel_block && r->block_tokens % r->kernel_block != 0) {
        return kvg_fail(KVG_ERR_INVALID, "block_tokens %u is not a multiple of the kernel's block of %u",
                        r->block_tokens, r->kernel_block);
    }
    return KVG_OK;
}

/* Fills in what `policy` and the chip ask for, and the mode that build and rollout leave of it. */
static kvg_status resolve(const kvg_mode_request *r, kvg_mode_choice *c)
{
    const kvg_policy *p;
    kvg_status s = find_policy(r->domain, r->policy, &p);
    if (s) return s;
    const kvg_policy_column chip = chip_column(r->sm);
    kvg_policy_column column = chip;
    if (chip == KVG_POLICY_FP4_NV_CHIP && !r->fp4_nv_enabled) column = KVG_POLICY_FP4_NV_HELD;
    if (!r->fp4_build) column = KVG_POLICY_NO_FP4_BUILD;
    c->requested = p->modes[chip];
    c->effective = p->modes[column];
    if (c->effective == KVG_MODE_UNSUPPORTED) return refuse_column(p, column, r->sm);
    if (c->effective != c->requested) {
        snprintf(c->reason, sizeof c->reason, "%s is not rolled out: policy %s on SM %u gives an unquantised cache",
                 kvg_mode_name(c->requested), p->name, r->sm);
    }
    return KVG_OK;
}

static kvg_status check_engine(kvg_mode mode, uint32_t head_dim)
{
    if (!mode_get(mode)->turbomind) {
        return kvg_fail(KVG_ERR_INVALID, "TurboMind has no kernels for mode %s", kvg_mode_name(mode));
    }
    for (size_t i = 0; i < ENGINE_HEAD_DIM_COUNT; i++) {
        if (engine_head_dims[i] == head_dim) return KVG_OK;
    }
    return kvg_fail(KVG_ERR_INVALID, "TurboMind has no kernels for head_dim %u: use 64, 128, 192, 256 or 576",
                    head_dim);
}

/* Fills in what the effective mode stores, or says why it cannot. */
static kvg_status fit(const kvg_mode_request *r, kvg_mode_choice *c)
{
    const bool shared_kv = r->shared_kv || r->head_dim == KVG_MLA_HEAD_DIM;
    const kvg_block_geometry g = {r->layers, r->kv_heads, r->head_dim, r->block_tokens, shared_kv};
    kvg_status s = kvg_mode_block_bytes(c->effective, r->dtype, &g, &c->data_block_bytes, &c->scale_block_bytes);
    if (!s && r->engine_kernels) s = check_engine(c->effective, r->head_dim);
    if (s) return s;
    c->format = kvg_mode_format(c->effective, r->dtype);
    c->q_bits = kvg_mode_q_bits(c->effective, r->dtype);
    c->t_bits = kvg_mode_t_bits(c->effective, r->dtype);
    c->shared_kv = shared_kv;
    return KVG_OK;
}

/* The designs' bans hold wherever there is a scale pool; without them a partial KV needs a flatten of the format, and
 * a shared prefix needs nothing, because a block id names both pools (docs/spec/modes.md section 5). */
static void gate_features(const kvg_mode_request *r, kvg_mode_choice *c)
{
    const bool banned = r->design_gating && kvg_mode_scale_pool(c->effective);
    c->partial_kv_reason = c->prefix_cache_reason = "";
    if (banned) {
        if (r->partial_kv) c->partial_kv_reason = "design gating: no partial KV with a scale pool";
        if (r->prefix_cache) c->prefix_cache_reason = "design gating: no prefix cache with a scale pool";
    } else if (r->partial_kv && !r->has_flatten) {
        c->partial_kv_reason = "no flatten for this format";
    }
    c->partial_kv = r->partial_kv && c->partial_kv_reason[0] == 0;
    c->prefix_cache = r->prefix_cache && c->prefix_cache_reason[0] == 0;
}

kvg_status kvg_mode_select(const kvg_mode_request *r, kvg_mode_choice *choice)
{
    kvg_mode_choice c = {.requested = KVG_MODE_UNSUPPORTED};
    kvg_status s = check_request(r);
    if (s) return s;
    s = resolve(r, &c);
    if (!s) s = fit(r, &c);
    if (s && r->fall_back && c.effective != KVG_MODE_NONE) {
        snprintf(c.reason, sizeof c.reason, "%s", kvg_error_text());
        c.effective = KVG_MODE_NONE;
        s = fit(r, &c);
    }
    if (s) return s;
    c.fell_back = c.reason[0] != 0;
    gate_features(r, &c);
    *choice = c;
    return KVG_OK;
}
