/* The rows of a case group beside itself: objects of axes, and the words of a covering array. */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "harness/config/config_axes.h"

/* --- objects of axes --- */

size_t config_axis_names(const char **names, const char *const *more, size_t count)
{
    for (int a = 0; a < KVG_AXIS_COUNT; a++) names[a] = kvg_axis_get((kvg_axis)a)->name;
    for (size_t i = 0; i < count; i++) names[KVG_AXIS_COUNT + i] = more[i];
    return KVG_AXIS_COUNT + count;
}

kvg_status config_check_axis_object(kvg_json object)
{
    const char *names[KVG_AXIS_COUNT];
    kvg_status s = kvg_json_check_keys(object, names, config_axis_names(names, NULL, 0));
    if (!s && kvg_json_count(object) == 0) s = kvg_json_fail(object, "an empty object means nothing here");
    return s;
}

kvg_status config_check_axis_objects(kvg_json list)
{
    kvg_status s = KVG_OK;
    if (!kvg_json_is_array(list)) return kvg_json_fail(list, "expected a list of objects");
    for (size_t i = 0; i < kvg_json_count(list) && !s; i++) s = config_check_axis_object(kvg_json_at(list, i));
    return s;
}

kvg_status config_get_axis_objects(kvg_json object, const char *key, kvg_json *out, size_t *count)
{
    *count = 0;
    if (!kvg_json_has(object, key)) return KVG_OK;
    kvg_status s = kvg_json_get(object, key, out);
    if (!s) s = config_check_axis_objects(*out);
    if (!s) *count = kvg_json_count(*out);
    return s;
}

/* --- words --- */

static const char place_digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* Character i says which value the i-th axis of `values` has, - that the row does not give it. Example: with format f16
 * and bf16 and head_dim 64 and 80 the word 10 is {"format": "bf16", "head_dim": 64}. */
static kvg_status tell_word(kvg_json values, kvg_json line, const char *word, size_t length, kvg_json_text *out)
{
    const char *comma = "";
    if (length != kvg_json_count(values))
        return kvg_json_fail(line, "\"%.*s\" has %zu characters, but \"values\" has %zu axes", (int)length, word,
                             length, kvg_json_count(values));
    kvg_json_add(out, "{");
    for (size_t i = 0; i < length; i++) {
        const kvg_json axis = kvg_json_at(values, i);
        const bool list = kvg_json_is_array(axis);
        const char *digit = strchr(place_digits, word[i]);
        const size_t at = digit ? (size_t)(digit - place_digits) : SIZE_MAX;
        if (word[i] == '-') continue;
        if (at >= (list ? kvg_json_count(axis) : 1))
            return kvg_json_fail(line, "\"%.*s\": \"%s\" has no value %c", (int)length, word, kvg_json_key(axis),
                                 word[i]);
        char *text = kvg_json_print(list ? kvg_json_at(axis, at) : axis);
        if (!text) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a row");
        kvg_json_add(out, "%s", comma);
        kvg_json_add_string(out, kvg_json_key(axis));
        kvg_json_add(out, ":%s", text);
        cJSON_free(text);
        comma = ",";
    }
    kvg_json_add(out, "}");
    return KVG_OK;
}

static kvg_status tell_words(kvg_json values, kvg_json rows, kvg_json_text *out)
{
    const char *comma = "", *line;
    kvg_status s = kvg_json_is_array(rows) ? KVG_OK : kvg_json_fail(rows, "expected a list of texts");
    for (size_t i = 0; !s && i < kvg_json_count(rows); i++) {
        const kvg_json json = kvg_json_at(rows, i);
        s = kvg_json_string(json, &line);
        while (!s && *(line += strspn(line, " "))) {
            const size_t length = strcspn(line, " ");
            kvg_json_add(out, "%s", comma);
            s = tell_word(values, json, line, length, out);
            comma = ",";
            line += length;
        }
    }
    return s;
}

/* Parses a list of objects of axes, which the config keeps for the group. */
static kvg_status keep_rows(const kvg_config *config, kvg_json group, const kvg_json_text *text, kvg_json *out)
{
    struct kvg_config_data *d = config->data;
    void *grown = realloc(d->rows, (d->row_docs + 1) * sizeof *d->rows);
    if (!grown) return kvg_fail(KVG_ERR_MEMORY, "cannot hold rows");
    d->rows = grown;
    kvg_status s = kvg_json_parse(config->path, text->text, strlen(text->text), &d->rows[d->row_docs].doc);
    if (s) return s;
    d->rows[d->row_docs].group = group.item;
    *out = kvg_json_root(d->rows[d->row_docs++].doc);
    return config_check_axis_objects(*out);
}

/* The words of "rows" as a list of objects of axes. */
static kvg_status read_words(const kvg_config *config, kvg_json group, kvg_json covers, kvg_json *out)
{
    const struct kvg_config_data *d = config->data;
    kvg_json values, rows;
    kvg_json_text text = {0};
    for (size_t i = 0; i < d->row_docs; i++) {
        if (d->rows[i].group != group.item) continue;
        *out = kvg_json_root(d->rows[i].doc);
        return KVG_OK;
    }
    kvg_status s = kvg_json_get(covers, "values", &values);
    if (!s) s = config_check_axis_object(values);
    if (!s) s = kvg_json_get(covers, "rows", &rows);
    kvg_json_add(&text, "[");
    if (!s) s = tell_words(values, rows, &text);
    kvg_json_add(&text, "]");
    if (!s) s = kvg_json_text_check(&text);
    if (!s) s = keep_rows(config, group, &text, out);
    kvg_json_text_free(&text);
    return s;
}

kvg_status config_each_row(const kvg_config *config, kvg_json group, kvg_status (*work)(void *context, kvg_json row),
                           void *context)
{
    kvg_json covers, rows[2];
    size_t counts[2] = {0};
    kvg_status s = config_get_axis_objects(group, "include", &rows[0], &counts[0]);
    if (!s && kvg_json_has(group, "covers")) {
        s = kvg_json_get(group, "covers", &covers);
        if (!s && kvg_json_has(covers, "rows")) s = read_words(config, group, covers, &rows[1]);
        if (!s && kvg_json_has(covers, "rows")) counts[1] = kvg_json_count(rows[1]);
    }
    for (int list = 0; list < 2; list++) {
        for (size_t i = 0; !s && i < counts[list]; i++) s = work(context, kvg_json_at(rows[list], i));
    }
    return s;
}
