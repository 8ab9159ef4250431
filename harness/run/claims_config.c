/* Rows by the greedy rule: for each pair of values that no row has yet, a row with that pair in which the other axes
 * take the values that bring the most new pairs. A row that makes no case is tried again with other values. */
#include "harness/run/claims_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/config/config_names.h"

enum { MOST_FACTORS = 20, MOST_VALUES = 256, MEMBERS_SIZE = 720, TRIES = 24, ROW_SIZE = 2048 };

/* An axis or a feature: each value is written as members of a case group; "" is the value that writes none. */
typedef struct factor {
    size_t first, count; /* of the values of all factors */
    bool head_dim, layout;
} factor;

typedef struct covering {
    const char *op;
    factor factors[MOST_FACTORS];
    size_t factor_count, value_count;
    char members[MOST_VALUES][MEMBERS_SIZE];
    bool met[MOST_VALUES][MOST_VALUES]; /* some row has both values, or no case may have them */
} covering;

/* A value of each factor. */
typedef struct row {
    size_t value[MOST_FACTORS];
} row;

/* --- what a claim lists --- */

static factor *add_factor(covering *v)
{
    factor *f = &v->factors[v->factor_count++];
    *f = (factor){.first = v->value_count};
    return f;
}

static char *add_value(covering *v, factor *f)
{
    if (v->value_count == MOST_VALUES) return NULL;
    f->count++;
    return v->members[v->value_count++];
}

/* The texts of a list of the claim, each through `format`; without the list `otherwise` alone. */
static kvg_status add_names(covering *v, kvg_json claim, const char *key, const char *format, const char *otherwise,
                            factor *f)
{
    kvg_json list;
    kvg_status s = KVG_OK;
    if (!kvg_json_has(claim, key)) {
        char *members = otherwise ? add_value(v, f) : NULL;
        if (!members) return kvg_json_fail(claim, "more than %d values of all lists", MOST_VALUES);
        snprintf(members, MEMBERS_SIZE, format, otherwise);
        return KVG_OK;
    }
    s = kvg_json_get(claim, key, &list);
    for (size_t i = 0; !s && i < kvg_json_count(list); i++) {
        const char *name;
        kvg_layout_text own;
        char *members = add_value(v, f);
        if (!members) return kvg_json_fail(list, "more than %d values of all lists", MOST_VALUES);
        if (kvg_json_is_object(kvg_json_at(list, i))) {
            s = kvg_config_layout_text(kvg_json_at(list, i), &own);
            if (!s && strpbrk(own.text, "\"\\")) s = kvg_json_fail(kvg_json_at(list, i), "no layout has a quote");
            if (s) continue;
            snprintf(members, MEMBERS_SIZE, "\"layout\": {\"name\": \"%s\", \"text\": \"%s\"}", own.name, own.text);
            continue;
        }
        s = kvg_json_string(kvg_json_at(list, i), &name);
        const char *dot = s ? NULL : strchr(name, '.'); /* that of a profile stands before no dialect */
        if (!s && dot && strcmp(key, "formats") == 0) {
            snprintf(members, MEMBERS_SIZE, "\"format\": \"%.*s\", \"dialect\": \"%s\"", (int)(dot - name), name,
                     dot + 1);
        } else if (!s) {
            snprintf(members, MEMBERS_SIZE, format, name);
        }
    }
    return s;
}

static kvg_status add_head_dims(covering *v, kvg_json claim)
{
    kvg_json list;
    factor *f = add_factor(v);
    f->head_dim = true;
    const bool given = kvg_json_has(claim, "head_dims");
    kvg_status s = given ? kvg_json_get(claim, "head_dims", &list) : KVG_OK;
    for (size_t i = 0; !s && i < (given ? kvg_json_count(list) : 1); i++) {
        uint64_t dim = 128;
        char *members = add_value(v, f);
        if (!members) return kvg_json_fail(claim, "more than %d values of all lists", MOST_VALUES);
        if (given) s = kvg_json_u64(kvg_json_at(list, i), 1, KVG_MAX_HEAD_DIM, &dim);
        snprintf(members, MEMBERS_SIZE, "\"head_dim\": %llu", (unsigned long long)dim);
    }
    return s;
}

/* How a case asks for a feature; rope and bias are op append's. Every decode asks for lse, unless the claim
 * does not list it. For mla render_row adds the part of the row that is V. */
static const struct {
    const char *name, *members;
} features[] = {
    {"window", "\"window\": 33"},
    {"sinks", "\"sinks\": true"},
    {"softcap", "\"softcap\": 20"},
    {"score_scale", "\"score_scale\": 0.2"},
    {"queries", "\"queries\": 4"},
    {"gqa", "\"group\": 4"},
    {"mla", "\"shared_kv\""},
    {"rope", "\"rope\": {\"dims\": 16}"},
    {"bias", "\"bias\": true"},
    {"padding", "\"padding\": {\"data\": 16}"},
    {"v_scale_swizzle", "\"v_scale_swizzle\": true"},
};
enum { FEATURES = sizeof features / sizeof features[0] };

static bool lists(kvg_json claim, const char *key, const char *wanted)
{
    kvg_json list;
    if (!kvg_json_has(claim, key) || kvg_json_get(claim, key, &list)) return false;
    for (size_t i = 0; i < kvg_json_count(list); i++) {
        const char *name;
        if (kvg_json_string(kvg_json_at(list, i), &name) == KVG_OK && strcmp(name, wanted) == 0) return true;
    }
    return false;
}

/* A feature that is listed twice is one factor. */
static kvg_status add_features(covering *v, kvg_json claim)
{
    for (size_t i = 0; i < FEATURES; i++) {
        if (!lists(claim, "features", features[i].name)) continue;
        factor *f = add_factor(v);
        char *without = add_value(v, f), *with = add_value(v, f);
        if (!without || !with) return kvg_json_fail(claim, "more than %d values of all lists", MOST_VALUES);
        without[0] = 0;
        snprintf(with, MEMBERS_SIZE, "%s", features[i].members);
    }
    return KVG_OK;
}

static kvg_status read_claim(covering *v, kvg_json claim, const char *op)
{
    kvg_op id = KVG_OP_END;
    *v = (covering){.op = op};
    kvg_status s = kvg_op_find(op, &id);
    if (s) return s;
    const bool paged = kvg_op_get(id)->paged, profiled = id == KVG_OP_DECODE || id == KVG_OP_MMA;
    const bool stores = kvg_op_stores(id);
    const bool types = stores || kvg_json_has(claim, "dtypes"); /* else the formats say what the types are */
    if (stores) s = add_names(v, claim, "formats", "\"format\": \"%s\"", NULL, add_factor(v)); /* required */
    factor *layouts = add_factor(v);
    layouts->layout = true;
    const char *layout = !paged ? "rows" : lists(claim, "features", "mla") ? "mla" : "hnd";
    if (!s) s = add_names(v, claim, "layouts", "\"layout\": \"%s\"", layout, layouts);
    if (!s) s = add_names(v, claim, types ? "dtypes" : "formats", "\"dtype\": \"%s\"", "bf16", add_factor(v));
    if (!s && profiled) s = add_names(v, claim, "profiles", "\"profile\": \"%s\"", "exact", add_factor(v));
    if (!s && id != KVG_OP_MMA) s = add_head_dims(v, claim);
    if (!s) s = add_features(v, claim);
    if (!s && id == KVG_OP_DECODE && !lists(claim, "features", "lse")) {
        char *members = add_value(v, add_factor(v));
        if (!members) return kvg_json_fail(claim, "more than %d values of all lists", MOST_VALUES);
        snprintf(members, MEMBERS_SIZE, "\"answers\": \"out\"");
    }
    factor *fills = add_factor(v);
    const bool encodes = kvg_roles_index(kvg_op_get(id)->inputs, KVG_ROLE_VALUES, KVG_K) >= 0;
    for (int i = 0; !s && i < (encodes ? 2 : 1); i++) { /* hard values are for those who round */
        char *members = add_value(v, fills);
        if (!members) return kvg_json_fail(claim, "more than %d values of all lists", MOST_VALUES);
        snprintf(members, MEMBERS_SIZE, "\"fill\": \"%s\"", i ? "adversarial" : "random");
    }
    return s;
}

/* --- rows --- */

/* A case group. A ring and a contiguous cache get blocks that hold the case's windows and tokens. */
static void render_row(const covering *v, const row *r, char out[ROW_SIZE])
{
    unsigned dim = 0;
    bool shared = false, ring = false, contiguous = false;
    int n = snprintf(out, ROW_SIZE, "{\"op\": \"%s\"", v->op);
    for (size_t f = 0; f < v->factor_count; f++) {
        const char *members = v->members[r->value[f]];
        if (v->factors[f].head_dim) sscanf(members, "\"head_dim\": %u", &dim);
        if (v->factors[f].layout) ring = strstr(members, "\"ring\"") != NULL;
        if (v->factors[f].layout) contiguous = strstr(members, "\"contiguous\"") != NULL;
        if (strcmp(members, "\"shared_kv\"") == 0) shared = true;
        else if (members[0]) n += snprintf(out + n, ROW_SIZE - (size_t)n, ", %s", members);
    }
    const bool mma = dim == 0;
    if (!mma) n += snprintf(out + n, ROW_SIZE - (size_t)n, ", \"kv_heads\": %d", shared ? 1 : 2);
    if (shared) n += snprintf(out + n, ROW_SIZE - (size_t)n, ", \"shared_kv\": {\"v_dim\": %u}",
                              dim > 64 ? dim - 64 : dim / 2);
    if (ring || contiguous) n += snprintf(out + n, ROW_SIZE - (size_t)n, ", \"block_tokens\": %d", ring ? 48 : 104);
    snprintf(out + n, ROW_SIZE - (size_t)n, ", \"tokens\": 100}");
}

static bool is_case(const covering *v, const row *r)
{
    static const char *const frame = "{\"kvgold\": 1, \"name\": \"row\", \"seed\": \"0x1\", \"cases\": [%s]}";
    char group[ROW_SIZE], text[ROW_SIZE + 128];
    kvg_config config;
    render_row(v, r, group);
    const int size = snprintf(text, sizeof text, frame, group);
    if (kvg_config_parse("row", text, (size_t)size, ".", NULL, &config)) return false;
    kvg_config_close(&config);
    return true;
}

/* The value of factor `at` that meets the most values, of the factors before it, for the first time. */
static size_t best_value(const covering *v, const row *r, size_t at, const bool *fixed)
{
    const factor *f = &v->factors[at];
    size_t best = f->first, most = 0;
    for (size_t value = f->first; value < f->first + f->count; value++) {
        size_t news = 0;
        for (size_t g = 0; g < v->factor_count; g++) {
            if (g != at && (g < at || fixed[g])) news += !v->met[r->value[g]][value];
        }
        if (news <= most) continue;
        most = news;
        best = value;
    }
    return best;
}

/* A row with the values a of factor f and b of factor g. The first try is greedy, the others are random. */
static bool find_row(const covering *v, size_t f, size_t a, size_t g, size_t b, row *r)
{
    bool fixed[MOST_FACTORS] = {false};
    fixed[f] = fixed[g] = true;
    for (uint64_t try = 0; try < TRIES; try++) {
        r->value[f] = a;
        r->value[g] = b;
        for (size_t h = 0; h < v->factor_count; h++) {
            const factor *other = &v->factors[h];
            if (fixed[h]) continue;
            r->value[h] = try ? other->first + kvg_rng_below(a, b, try * MOST_FACTORS + h, other->count)
                              : best_value(v, r, h, fixed);
        }
        if (is_case(v, r)) return true;
    }
    return false;
}

static void meet(covering *v, const row *r)
{
    for (size_t f = 0; f < v->factor_count; f++) {
        for (size_t g = 0; g < v->factor_count; g++) v->met[r->value[f]][r->value[g]] = true;
    }
}

static size_t add_rows(covering *v, const char *separator, kvg_json_text *out)
{
    size_t rows = 0;
    for (size_t f = 0; f < v->factor_count; f++) {
        for (size_t g = f + 1; g < v->factor_count; g++) {
            for (size_t i = 0; i < v->factors[f].count * v->factors[g].count; i++) {
                const size_t a = v->factors[f].first + i / v->factors[g].count;
                const size_t b = v->factors[g].first + i % v->factors[g].count;
                char group[ROW_SIZE];
                row r;
                if (v->met[a][b] || !find_row(v, f, a, g, b, &r)) continue;
                meet(v, &r);
                render_row(v, &r, group);
                kvg_json_add(out, "%s\n    %s", rows++ ? "," : separator, group);
            }
        }
    }
    return rows;
}

kvg_status kvg_claims_config(const kvg_capabilities *capabilities, const char *name, kvg_json_text *out)
{
    const kvg_json claims = kvg_capabilities_claims(capabilities);
    const char *separator = "";
    covering *v = calloc(1, sizeof *v);
    kvg_status s = v ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for the rows of a config");
    kvg_json_add(out, "{\n  \"kvgold\": 1,\n  \"name\": \"%s\",\n  \"seed\": \"0x1\",\n  \"cases\": [", name);
    for (size_t i = 0; !s && i < kvg_json_count(claims); i++) {
        kvg_json ops;
        s = kvg_json_get(kvg_json_at(claims, i), "ops", &ops);
        for (size_t k = 0; !s && k < kvg_json_count(ops); k++) {
            const char *op;
            s = kvg_json_string(kvg_json_at(ops, k), &op);
            if (!s) s = read_claim(v, kvg_json_at(claims, i), op);
            if (!s && add_rows(v, separator, out) == 0)
                s = kvg_json_fail(kvg_json_at(ops, k), "no case has op %s with what this claim lists", op);
            separator = ",";
        }
    }
    free(v);
    kvg_json_add(out, "\n  ]\n}\n");
    return s ? s : kvg_json_text_check(out);
}
