/* What the rows of a group cover: its key "covers" lists values of axes, and every tuple of `strength` values of
 * different axes should stand in some row. A tuple that no row has is tried: a row with the tuple's values in place of
 * its own may be a case. If no row becomes one, the values cannot stand together. */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "harness/config/config_axes.h"

enum { MOST_STRENGTH = 3, MOST_VALUES = 256, NO_VALUE = -1 };

typedef struct value {
    kvg_axis axis;
    config_choice choice;
    const char *text;
    bool stands; /* in some row */
} value;

typedef struct row {
    config_choice given[KVG_AXIS_COUNT];
    int values[KVG_AXIS_COUNT]; /* which listed value each axis has, or NO_VALUE */
} row;

/* Values that no row may have together: one of each axis that `axis` marks. */
typedef struct barred {
    bool axis[KVG_AXIS_COUNT], value[MOST_VALUES];
} barred;

typedef enum state { COVERED, IMPOSSIBLE, DEARER, MISSING } state;

/* One value of each axis of a tuple: places in `values`, which rise. */
typedef struct tuple {
    unsigned size;
    size_t at[MOST_STRENGTH];
} tuple;

typedef struct config_cover {
    const kvg_config *config; /* keeps the rows */
    kvg_config scratch;       /* for cases that are tried; owns the texts */
    kvg_json group;
    unsigned strength;
    uint64_t most_work;
    value values[MOST_VALUES];
    size_t value_count, row_count, barred_count;
    row *rows;
    barred *barred;
} config_cover;

/* --- reading --- */

/* A name as it is, another value as JSON. */
static kvg_status text_of(kvg_config *keeper, const config_choice *choice, const char **out)
{
    *out = choice->word;
    if (*out) return KVG_OK;
    if (kvg_json_is_string(choice->value)) return kvg_json_string(choice->value, out);
    char *text = kvg_json_print(choice->value);
    if (!text) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a value as text");
    kvg_status s = kvg_config_keep(keeper, text, out);
    cJSON_free(text);
    return s;
}

static kvg_status find_value(config_cover *v, kvg_axis axis, const config_choice *choice, int *out)
{
    const char *text;
    kvg_status s = text_of(&v->scratch, choice, &text);
    *out = NO_VALUE;
    for (size_t i = 0; !s && i < v->value_count; i++) {
        if (v->values[i].axis == axis && strcmp(v->values[i].text, text) == 0) *out = (int)i;
    }
    return s;
}

static kvg_status read_values(config_cover *v, kvg_json object)
{
    kvg_status s = KVG_OK;
    for (int a = 0; a < KVG_AXIS_COUNT && !s; a++) {
        s = kvg_config_list_check(object, (kvg_axis)a);
        const size_t count = s ? 0 : kvg_config_list_count(object, (kvg_axis)a);
        for (size_t i = 0; i < count && !s; i++) {
            if (v->value_count == MOST_VALUES) return kvg_json_fail(object, "more than %d values", MOST_VALUES);
            value *one = &v->values[v->value_count];
            *one = (value){.axis = (kvg_axis)a, .choice = kvg_config_list_at(object, (kvg_axis)a, i)};
            s = text_of(&v->scratch, &one->choice, &one->text);
            v->value_count++;
        }
    }
    return s;
}

static kvg_status read_barred(config_cover *v, kvg_json object, barred *out)
{
    kvg_status s = KVG_OK;
    for (int a = 0; a < KVG_AXIS_COUNT && !s; a++) {
        s = kvg_config_list_check(object, (kvg_axis)a);
        const size_t count = s ? 0 : kvg_config_list_count(object, (kvg_axis)a);
        out->axis[a] = count > 0;
        for (size_t i = 0; i < count && !s; i++) {
            const config_choice choice = kvg_config_list_at(object, (kvg_axis)a, i);
            int found;
            s = find_value(v, (kvg_axis)a, &choice, &found);
            if (!s && found == NO_VALUE) s = kvg_json_fail(choice.value, "\"values\" does not list it");
            if (!s) out->value[found] = true;
        }
    }
    return s;
}

/* The row has values that some case may not have together. */
static bool is_barred(const config_cover *v, const row *r)
{
    for (size_t i = 0; i < v->barred_count; i++) {
        const barred *b = &v->barred[i];
        bool all = true;
        for (int a = 0; a < KVG_AXIS_COUNT; a++)
            all &= !b->axis[a] || (r->values[a] != NO_VALUE && b->value[r->values[a]]);
        if (all) return true;
    }
    return false;
}

/* Multiplications of one side of op decode; of another op 0. */
static uint64_t work_of(const kvg_problem *p)
{
    return (uint64_t)p->attention.queries * p->attention.query_heads * p->tokens * p->head_dim;
}

static kvg_status read_row(config_cover *v, kvg_json object, row *out)
{
    kvg_case made;
    kvg_status s = KVG_OK;
    for (int a = 0; a < KVG_AXIS_COUNT && !s; a++) {
        if (kvg_config_list_count(object, (kvg_axis)a) > 1)
            return kvg_json_fail(object, "\"%s\" has several values: a row of a group that covers has one",
                                 kvg_axis_get((kvg_axis)a)->name);
        out->given[a] = config_group_choice(object, v->group, (kvg_axis)a, 0);
        out->values[a] = NO_VALUE;
        if (out->given[a].has) s = find_value(v, (kvg_axis)a, &out->given[a], &out->values[a]);
        if (out->values[a] != NO_VALUE) v->values[out->values[a]].stands = true;
    }
    if (!s && is_barred(v, out)) s = kvg_json_fail(object, "\"without\" says that this cannot be judged");
    if (!s) s = config_group_case(&v->scratch, v->group, out->given, &made);
    if (!s && work_of(&made.problem) > v->most_work) {
        s = kvg_json_fail(object, "needs %llu products, more than \"most_work\"",
                          (unsigned long long)work_of(&made.problem));
    }
    return s;
}

static kvg_status add_row(void *context, kvg_json object)
{
    config_cover *v = context;
    row *grown = realloc(v->rows, (v->row_count + 1) * sizeof *grown);
    if (!grown) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu rows", v->row_count + 1);
    v->rows = grown;
    return read_row(v, object, &v->rows[v->row_count++]);
}

static kvg_status read_lists(config_cover *v, kvg_json covers)
{
    kvg_json without;
    kvg_status s = config_get_axis_objects(covers, "without", &without, &v->barred_count);
    if (s) return s;
    v->barred = calloc(v->barred_count + 1, sizeof *v->barred);
    if (!v->barred) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu objects of \"without\"", v->barred_count);
    for (size_t i = 0; i < v->barred_count && !s; i++) s = read_barred(v, kvg_json_at(without, i), &v->barred[i]);
    if (!s) s = add_row(v, v->group);
    return s ? s : config_each_row(v->config, v->group, add_row, v);
}

static kvg_status read_cover(config_cover *v, kvg_json covers)
{
    static const char *const keys[] = {"strength", "most_work", "values", "without", "rows"};
    kvg_json values;
    uint64_t strength;
    kvg_status s = kvg_json_check_keys(covers, keys, sizeof keys / sizeof keys[0]);
    if (!s && kvg_json_has(v->group, "exclude"))
        s = kvg_json_fail(v->group, "\"exclude\" beside \"covers\": say in \"without\" what cannot be judged");
    if (!s) s = kvg_json_get_u64(covers, keys[0], 1, MOST_STRENGTH, &strength);
    if (!s) v->strength = (unsigned)strength;
    if (!s) s = kvg_json_get_u64(covers, keys[1], 1, 1ull << 53, &v->most_work);
    if (!s) s = kvg_json_get(covers, keys[2], &values);
    if (!s) s = config_check_axis_object(values);
    if (!s) s = read_values(v, values);
    return s ? s : read_lists(v, covers);
}

static void close_cover(config_cover *v)
{
    if (!v) return;
    kvg_config_close(&v->scratch);
    free(v->rows);
    free(v->barred);
    free(v);
}

static kvg_status open_cover(const kvg_config *config, kvg_json group, config_cover **out)
{
    kvg_json covers;
    *out = NULL;
    config_cover *v = calloc(1, sizeof *v);
    if (v) v->scratch.data = calloc(1, sizeof *v->scratch.data);
    if (!v || !v->scratch.data) {
        free(v);
        return kvg_fail(KVG_ERR_MEMORY, "cannot hold what a group covers");
    }
    v->scratch.path = config->path;
    v->scratch.data->folder = config->data->folder;
    v->config = config;
    v->group = group;
    kvg_status s = kvg_json_get(group, "covers", &covers);
    if (!s) s = read_cover(v, covers);
    if (s) close_cover(v);
    else *out = v;
    return s;
}

kvg_status config_cover_check(const kvg_config *config, kvg_json group)
{
    config_cover *v;
    kvg_status s = open_cover(config, group, &v);
    close_cover(v);
    return s;
}

/* --- tuples --- */

/* Tuples of a size have numbers below value_count^size: the digits are the places of their values. False: not rising,
 * or two values of an axis. */
static bool tuple_at(const config_cover *v, unsigned size, size_t number, tuple *out)
{
    out->size = size;
    for (unsigned i = size; i-- > 0; number /= v->value_count) out->at[i] = number % v->value_count;
    for (unsigned i = 1; i < size; i++) {
        if (v->values[out->at[i - 1]].axis >= v->values[out->at[i]].axis) return false;
    }
    return true;
}

static size_t number_of(const config_cover *v, const tuple *t)
{
    size_t number = 0;
    for (unsigned i = 0; i < t->size; i++) number = number * v->value_count + t->at[i];
    return number;
}

static bool row_has(const row *r, const config_cover *v, const tuple *t)
{
    for (unsigned i = 0; i < t->size; i++) {
        if (r->values[v->values[t->at[i]].axis] != (int)t->at[i]) return false;
    }
    return true;
}

/* The row with the tuple's values is a case; how much work it is. */
static bool admits(config_cover *v, const row *r, const tuple *t, uint64_t *work)
{
    row changed = *r;
    kvg_case made;
    for (unsigned i = 0; i < t->size; i++) {
        const value *one = &v->values[t->at[i]];
        changed.given[one->axis] = one->choice;
        changed.values[one->axis] = (int)t->at[i];
    }
    if (is_barred(v, &changed) || config_group_case(&v->scratch, v->group, changed.given, &made)) return false;
    *work = work_of(&made.problem);
    return true;
}

/* A part of the tuple cannot stand together already. */
static bool part_is_impossible(const config_cover *v, const tuple *t, const uint8_t *parts)
{
    for (unsigned left_out = 0; parts && left_out < t->size; left_out++) {
        tuple part = {.size = 0};
        for (unsigned i = 0; i < t->size; i++) {
            if (i != left_out) part.at[part.size++] = t->at[i];
        }
        if (parts[number_of(v, &part)] == IMPOSSIBLE) return true;
    }
    return false;
}

/* A value that stands in no row may need values of other axes that no row has: the tuple is not called impossible. */
static state state_of(config_cover *v, const tuple *t, const uint8_t *parts)
{
    uint64_t work;
    state found = IMPOSSIBLE;
    for (unsigned i = 0; i < t->size; i++) found = v->values[t->at[i]].stands ? found : MISSING;
    for (size_t i = 0; i < v->row_count; i++) {
        if (row_has(&v->rows[i], v, t)) return COVERED;
    }
    if (found == IMPOSSIBLE && part_is_impossible(v, t, parts)) return IMPOSSIBLE;
    for (size_t i = 0; i < v->row_count; i++) {
        if (!admits(v, &v->rows[i], t, &work)) continue;
        if (work <= v->most_work) return MISSING;
        found = DEARER;
    }
    return found;
}

static void tell_missing(const config_cover *v, const tuple *t, kvg_json_text *out)
{
    const char *comma = "";
    for (unsigned i = 0; i < t->size; i++) {
        const value *one = &v->values[t->at[i]];
        kvg_json_add(out, "%s%s %s", comma, kvg_axis_get(one->axis)->name, one->text);
        comma = ", ";
    }
}

/* States of all tuples of a size; `parts` are those of the tuples that are one smaller, NULL for none. */
static kvg_status judge_tuples(config_cover *v, unsigned size, const uint8_t *parts, uint8_t **out, kvg_cover *cover)
{
    size_t numbers = 1;
    for (unsigned i = 0; i < size; i++) numbers *= v->value_count;
    uint8_t *states = calloc(numbers + 1, 1);
    *out = states;
    if (!states) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the states of %zu tuples", numbers);
    cover->covered = cover->dearer = cover->missing = 0;
    for (size_t number = 0; number < numbers; number++) {
        tuple t;
        if (!tuple_at(v, size, number, &t)) continue;
        const state s = state_of(v, &t, parts);
        states[number] = (uint8_t)s;
        cover->covered += s == COVERED;
        cover->dearer += s == DEARER;
        if (s != MISSING) continue;
        if (size == v->strength && cover->missing < KVG_COVER_TOLD) {
            kvg_json_add(&cover->text, "%s", cover->missing ? "; " : "");
            tell_missing(v, &t, &cover->text);
        }
        cover->missing++;
    }
    return KVG_OK;
}

static kvg_status count_tuples(config_cover *v, kvg_cover *cover)
{
    uint8_t *parts = NULL;
    kvg_status s = KVG_OK;
    cover->strength = v->strength;
    cover->rows = v->row_count;
    for (unsigned size = 1; size <= v->strength && !s; size++) {
        uint8_t *states = NULL;
        s = judge_tuples(v, size, parts, &states, cover);
        free(parts);
        parts = states;
    }
    free(parts);
    return s;
}

kvg_status kvg_config_cover(const kvg_config *config, void (*tell)(const kvg_cover *cover, void *context),
                            void *context)
{
    kvg_json groups;
    kvg_status s = kvg_json_get(kvg_json_root(config->data->doc), "cases", &groups);
    for (size_t i = 0; !s && i < kvg_json_count(groups); i++) {
        const kvg_json group = kvg_json_at(groups, i);
        config_cover *v;
        kvg_cover cover = {.group = i};
        if (!kvg_json_has(group, "covers")) continue;
        s = open_cover(config, group, &v);
        if (s) return s;
        s = count_tuples(v, &cover);
        close_cover(v);
        if (!s) s = kvg_json_text_check(&cover.text);
        if (!s) tell(&cover, context);
        kvg_json_text_free(&cover.text);
    }
    return s;
}
