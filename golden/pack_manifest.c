/* manifest.json to a kvg_pack: docs/spec/golden-pack.md section 3. Whatever is wrong is named by its JSON path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/pack_parts.h"
#include "golden/pack_write.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char lower_name[] = "abcdefghijklmnopqrstuvwxyz0123456789_.-";
static const char tensor_name[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";

/* --- members --- */

static kvg_status get_text(kvg_json object, const char *key, const char **out)
{
    kvg_status s = kvg_json_get_string(object, key, out);
    return s || **out ? s : kvg_json_fail(object, "%s is empty", key);
}

static kvg_status get_name(kvg_json object, const char *key, const char **out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    if (!s) s = kvg_json_string(value, out);
    if (s || kvg_pack_is_name(*out)) return s;
    return kvg_json_fail(value, "'%s' is not 1 to %d of a-z 0-9 _ . -, the first a letter or digit",
                         kvg_input_quote(*out).text, KVG_PACK_NAME_BYTES);
}

static kvg_status get_list(kvg_json object, const char *key, size_t most, kvg_json *out)
{
    kvg_status s = kvg_json_get(object, key, out);
    if (s) return s;
    if (!kvg_json_is_array(*out)) return kvg_json_fail(*out, "expected a list");
    if (kvg_json_count(*out) > most) {
        return kvg_json_fail(*out, "%zu elements are over the limit of %zu", kvg_json_count(*out), most);
    }
    return KVG_OK;
}

static kvg_status get_digest(kvg_json object, kvg_sha256_digest *out)
{
    kvg_json value;
    const char *text;
    kvg_status s = kvg_json_get(object, "sha256", &value);
    if (!s) s = kvg_json_string(value, &text);
    if (s) return s;
    if (kvg_sha256_parse(text, strlen(text), out)) return KVG_OK;
    return kvg_json_fail(value, "is not 64 lower-case hex digits");
}

/* A list of strings, each greater than the one before it. */
static kvg_status get_words(kvg_pack *pack, kvg_json object, const char *key, size_t most, const char *const **out,
                            size_t *count)
{
    kvg_json list;
    kvg_status s = get_list(object, key, most, &list);
    if (s) return s;
    const char **words = kvg_pack_alloc(pack, kvg_json_count(list), sizeof *words);
    if (!words) return KVG_ERR_MEMORY;
    for (size_t i = 0; i < kvg_json_count(list) && !s; i++) {
        s = kvg_json_string(kvg_json_at(list, i), &words[i]);
        if (!s && i && strcmp(words[i - 1], words[i]) >= 0) {
            s = kvg_json_fail(kvg_json_at(list, i), "'%s' is out of order, or comes twice",
                              kvg_input_quote(words[i]).text);
        }
    }
    *out = words;
    *count = kvg_json_count(list);
    return s;
}

/* --- tensors --- */

static bool is_dtype(const char *name)
{
    static const char *const dtypes[] = {"U8", "F16", "BF16", "F32", "F64", "I32", "I64"};
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        if (strcmp(dtypes[i], name) == 0) return true;
    }
    return false;
}

/* Name, dtype and shape, which entries of all three lists have. */
static kvg_status read_shape(const kvg_pack_case *c, kvg_json entry, kvg_pack_tensor *t)
{
    kvg_json shape, name;
    kvg_status s = kvg_json_get(entry, "name", &name);
    if (!s) s = kvg_json_string(name, &t->name);
    if (!s && (strlen(t->name) > KVG_PACK_NAME_BYTES || strspn(t->name, tensor_name) != strlen(t->name))) {
        s = kvg_json_fail(name, "'%s' is not at most %d of a-z 0-9 _ .", kvg_input_quote(t->name).text,
                          KVG_PACK_NAME_BYTES);
    }
    if (!s && (strncmp(t->name, c->key, strlen(c->key)) != 0 || t->name[strlen(c->key)] != '.' ||
               !t->name[strlen(c->key) + 1])) {
        s = kvg_json_fail(name, "'%s' is no tensor of case %s: '%s.<tensor>'", t->name, c->key, c->key);
    }
    if (!s) s = kvg_json_get_string(entry, "dtype", &t->dtype);
    if (!s) s = get_list(entry, "shape", KVG_PACK_MAX_RANK, &shape);
    if (s) return s;
    t->short_name = t->name + strlen(c->key) + 1;
    t->rank = (uint32_t)kvg_json_count(shape);
    uint64_t bytes = is_dtype(t->dtype) ? kvg_safetensors_dtype_bytes(t->dtype) : 0;
    if (bytes == 0) return kvg_json_fail(entry, "packs have no dtype '%s'", kvg_input_quote(t->dtype).text);
    for (uint32_t i = 0; i < t->rank && !s; i++) {
        s = kvg_json_u64(kvg_json_at(shape, i), 1, KVG_PACK_MAX_TENSOR_BYTES, &t->shape[i]);
        if (!s && (__builtin_mul_overflow(bytes, t->shape[i], &bytes) || bytes > KVG_PACK_MAX_TENSOR_BYTES)) {
            s = kvg_json_fail(shape, "takes more than %llu bytes", (unsigned long long)KVG_PACK_MAX_TENSOR_BYTES);
        }
    }
    t->bytes = (size_t)bytes;
    return s;
}

static kvg_status read_packing(kvg_json value, kvg_pack_packing *out)
{
    static const char *const sides[] = {"k", "v"};
    kvg_status s = kvg_json_check_keys(value, sides, 2);
    if (!s && kvg_json_count(value) == 0) s = kvg_json_fail(value, "says nothing: leave it out");
    for (size_t side = 0; side < 2 && !s; side++) {
        size_t known = 0;
        kvg_json word;
        if (!kvg_json_has(value, sides[side])) continue;
        s = kvg_json_get_string(value, sides[side], &out->side[side]);
        if (!s) s = kvg_json_get(value, sides[side], &word);
        while (!s && kvg_pack_packings[known] && strcmp(kvg_pack_packings[known], out->side[side]) != 0) known++;
        if (!s && !kvg_pack_packings[known]) {
            s = kvg_json_fail_name(word, "packing", out->side[side], kvg_pack_packings, known);
        }
    }
    return s;
}

static kvg_status read_tensor(const kvg_pack_case *c, kvg_json entry, kvg_pack_tensor *t)
{
    static const char *const keys[] = {"name", "dtype", "shape", "bytes", "sha256", "packing"};
    uint64_t bytes = 0;
    kvg_json packing;
    kvg_status s = kvg_json_check_keys(entry, keys, COUNT(keys));
    if (!s) s = read_shape(c, entry, t);
    if (!s) s = kvg_json_get_u64(entry, "bytes", 1, KVG_PACK_MAX_TENSOR_BYTES, &bytes);
    if (!s && bytes != t->bytes) {
        s = kvg_json_fail(entry, "dtype and shape take %zu bytes, not %llu", t->bytes, (unsigned long long)bytes);
    }
    if (!s) s = get_digest(entry, &t->sha256);
    if (s || !kvg_json_has(entry, "packing")) return s;
    s = kvg_json_get(entry, "packing", &packing);
    return s ? s : read_packing(packing, &t->packing);
}

static kvg_status read_list(kvg_pack *pack, kvg_pack_case *c, kvg_json object, const char *key, kvg_pack_tensor **out,
                            size_t *count)
{
    kvg_json list;
    kvg_status s = get_list(object, key, KVG_PACK_MAX_TENSORS, &list);
    if (s) return s;
    *count = kvg_json_count(list);
    *out = kvg_pack_alloc(pack, *count, sizeof **out);
    if (!*out) return KVG_ERR_MEMORY;
    for (size_t i = 0; i < *count && !s; i++) {
        kvg_pack_tensor *t = &(*out)[i];
        s = read_tensor(c, kvg_json_at(list, i), t);
        if (!s && kvg_pack_tensor_find(*out, i, t->short_name)) {
            s = kvg_json_fail(kvg_json_at(list, i), "tensor '%s' comes twice", t->name);
        }
    }
    return s;
}

/* --- answers --- */

/* The expected tensor that a member of an answer names, by its whole name; of the answer's shape. */
static kvg_status find_judge(const kvg_pack_case *c, kvg_json entry, const kvg_pack_answer *a, const char *name,
                             const char *dtype, const kvg_pack_tensor **out)
{
    for (size_t i = 0; i < c->expected_count; i++) {
        const kvg_pack_tensor *t = &c->expected[i];
        if (strcmp(t->name, name) != 0) continue;
        if (strcmp(t->dtype, dtype) != 0 || t->rank != a->rank ||
            memcmp(t->shape, a->shape, a->rank * sizeof a->shape[0]) != 0) {
            return kvg_json_fail(entry, "'%s' has another dtype or shape than it must have here", t->name);
        }
        *out = t;
        return KVG_OK;
    }
    return kvg_json_fail(entry, "is judged by '%s', which is not among the expected tensors",
                         kvg_input_quote(name).text);
}

/* Numbers against numbers: named after the answer. */
static kvg_status read_bound(const kvg_pack_case *c, kvg_json entry, kvg_pack_answer *a)
{
    const size_t length = strlen(a->name);
    const char *exact, *bound;
    kvg_status s = kvg_json_get_string(entry, "exact", &exact);
    if (!s) s = kvg_json_get_string(entry, "bound", &bound);
    if (!s && (strncmp(exact, a->name, length) != 0 || strcmp(exact + length, ".exact") != 0 ||
               strncmp(bound, a->name, length) != 0 || strcmp(bound + length, ".bound") != 0)) {
        s = kvg_json_fail(entry, "is judged by '%s' and '%s', not by '%s' with .exact and .bound",
                          kvg_input_quote(exact).text, kvg_input_quote(bound).text, a->name);
    }
    if (!s && strcmp(a->dtype, "F16") != 0 && strcmp(a->dtype, "BF16") != 0 && strcmp(a->dtype, "F32") != 0) {
        s = kvg_json_fail(entry, "numbers within a bound are F16, BF16 or F32, not %s", a->dtype);
    }
    if (!s) s = find_judge(c, entry, a, exact, "F64", &a->exact);
    return s ? s : find_judge(c, entry, a, bound, "F64", &a->bound);
}

static kvg_status read_answer(const kvg_pack_case *c, kvg_json entry, kvg_pack_answer *a)
{
    static const char *const keys[] = {"name", "dtype", "shape", "compare", "profile", "exact", "bound"};
    kvg_pack_tensor t = {0};
    const char *compare;
    size_t known = 0;
    kvg_status s = kvg_json_check_keys(entry, keys, COUNT(keys));
    if (!s) s = read_shape(c, entry, &t);
    if (!s) s = kvg_json_get_string(entry, "compare", &compare);
    if (s) return s;
    while (kvg_pack_compare_names[known] && strcmp(kvg_pack_compare_names[known], compare) != 0) known++;
    if (!kvg_pack_compare_names[known]) {
        return kvg_json_fail_name(entry, "compare", compare, kvg_pack_compare_names, known);
    }
    *a = (kvg_pack_answer){.name = t.name, .short_name = t.short_name, .dtype = t.dtype, .rank = t.rank,
                           .bytes = t.bytes, .compare = (kvg_pack_compare)known};
    memcpy(a->shape, t.shape, sizeof a->shape);
    if (kvg_json_has(entry, "profile")) s = kvg_json_get_string(entry, "profile", &a->profile);
    if (!s && a->compare == KVG_PACK_BOUND) {
        s = read_bound(c, entry, a);
    } else if (!s && (kvg_json_has(entry, "exact") || kvg_json_has(entry, "bound"))) {
        s = kvg_json_fail(entry, "is compared by %s: it has neither exact nor bound", compare);
    }
    if (s || (a->compare == KVG_PACK_BOUND && !a->profile)) return s;
    return find_judge(c, entry, a, a->name, a->dtype, &a->expected);
}

static kvg_status read_answers(kvg_pack *pack, kvg_pack_case *c, kvg_json object)
{
    kvg_json list;
    kvg_status s = get_list(object, "answer", KVG_PACK_MAX_TENSORS, &list);
    if (s) return s;
    c->answer_count = kvg_json_count(list);
    if (c->answer_count == 0) return kvg_json_fail(list, "is empty: the case judges nothing");
    c->answer = kvg_pack_alloc(pack, c->answer_count, sizeof *c->answer);
    if (!c->answer) return KVG_ERR_MEMORY;
    for (size_t i = 0; i < c->answer_count && !s; i++) {
        s = read_answer(c, kvg_json_at(list, i), &c->answer[i]);
        for (size_t j = 0; j < i && !s; j++) {
            if (strcmp(c->answer[i].name, c->answer[j].name) != 0) continue;
            s = kvg_json_fail(kvg_json_at(list, i), "answer '%s' comes twice", c->answer[i].name);
        }
    }
    return s;
}

/* --- cases --- */

static kvg_status read_flags(kvg_pack *pack, kvg_json object, kvg_pack_case *c)
{
    kvg_json list;
    kvg_status s = get_words(pack, object, "flags", KVG_PACK_MAX_FLAGS, &c->flags, &c->flag_count);
    if (!s) s = kvg_json_get(object, "flags", &list);
    for (size_t i = 0; i < c->flag_count && !s; i++) {
        size_t n = 0;
        while (n < pack->note_count && strcmp(pack->notes[n].flag, c->flags[i]) != 0) n++;
        if (n == pack->note_count) {
            s = kvg_json_fail(kvg_json_at(list, i), "flag '%s' has no note", kvg_input_quote(c->flags[i]).text);
        }
    }
    return s;
}

static kvg_status read_case(kvg_pack *pack, kvg_json object, size_t index, kvg_pack_case *c)
{
    static const char *const keys[] = {"key", "id", "case", "layer", "flags", "stored", "prompt",
                                       "answer", "expected"};
    char key[24];
    kvg_json value, layout = {0};
    uint64_t layer = 0;
    kvg_status s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = kvg_json_get_string(object, "key", &c->key);
    if (s) return s;
    snprintf(key, sizeof key, "%04zu", index);
    if (strcmp(c->key, key) != 0) {
        return kvg_json_fail(object, "case %zu has the key '%s', not '%s'", index, kvg_input_quote(c->key).text, key);
    }
    s = kvg_json_get_string(object, "id", &c->id);
    if (!s && !c->id[0]) s = kvg_json_fail(object, "has an empty id");
    if (!s) s = kvg_json_get(object, "case", &value);
    if (!s && !kvg_json_is_object(value)) s = kvg_json_fail(value, "expected a case group");
    if (!s && kvg_json_has(value, "layout")) s = kvg_json_get(value, "layout", &layout);
    if (!s && kvg_json_is_object(layout) && strncmp(pack->format_version, "1.0.", 4) == 0) {
        s = kvg_json_fail(layout, "a pack of version 1.0 has no layout of a text");
    }
    if (!s) c->text = kvg_pack_print(pack, value);
    if (!s && !c->text) s = KVG_ERR_MEMORY;
    if (!s) s = kvg_json_get_u64(object, "layer", 0, UINT32_MAX, &layer);
    if (!s) s = read_flags(pack, object, c);
    if (!s) s = kvg_json_get_bool(object, "stored", &c->stored);
    if (!s) s = read_list(pack, c, object, "prompt", &c->prompt, &c->prompt_count);
    if (!s) s = read_list(pack, c, object, "expected", &c->expected, &c->expected_count);
    if (!s) s = read_answers(pack, c, object);
    c->layer = (uint32_t)layer;
    return s;
}

static int by_id(const void *a, const void *b)
{
    return strcmp((*(const kvg_pack_case *const *)a)->id, (*(const kvg_pack_case *const *)b)->id);
}

static kvg_status check_ids(kvg_pack *pack, kvg_json list)
{
    const kvg_pack_case **sorted = kvg_pack_alloc(pack, pack->case_count, sizeof *sorted);
    if (!sorted) return KVG_ERR_MEMORY;
    for (size_t i = 0; i < pack->case_count; i++) sorted[i] = &pack->cases[i];
    qsort(sorted, pack->case_count, sizeof *sorted, by_id);
    for (size_t i = 1; i < pack->case_count; i++) {
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) != 0) continue;
        return kvg_json_fail(list, "cases %s and %s have the same id", sorted[i - 1]->key, sorted[i]->key);
    }
    return KVG_OK;
}

static kvg_status read_cases(kvg_pack *pack, kvg_json root)
{
    kvg_json list, value;
    uint64_t count = 0;
    kvg_status s = get_list(root, "cases", KVG_PACK_MAX_CASES, &list);
    if (!s) s = kvg_json_get(root, "case_count", &value);
    if (!s) s = kvg_json_u64(value, 1, KVG_PACK_MAX_CASES, &count);
    if (s) return s;
    if (count != kvg_json_count(list)) {
        return kvg_json_fail(value, "is %llu, but there are %zu cases", (unsigned long long)count,
                             kvg_json_count(list));
    }
    pack->case_count = (size_t)count;
    pack->cases = kvg_pack_alloc(pack, pack->case_count, sizeof *pack->cases);
    if (!pack->cases) return KVG_ERR_MEMORY;
    for (size_t i = 0; i < pack->case_count && !s; i++) s = read_case(pack, kvg_json_at(list, i), i, &pack->cases[i]);
    return s ? s : check_ids(pack, list);
}

/* --- the rest of the manifest --- */

static kvg_status read_notes(kvg_pack *pack, kvg_json root)
{
    kvg_json object;
    kvg_status s = kvg_json_get(root, "notes", &object);
    if (!s && !kvg_json_is_object(object)) s = kvg_json_fail(object, "expected an object: flag to text");
    if (!s && kvg_json_count(object) > KVG_PACK_MAX_FLAGS) s = kvg_json_fail(object, "has too many flags");
    if (s) return s;
    pack->note_count = kvg_json_count(object);
    kvg_pack_note *notes = kvg_pack_alloc(pack, pack->note_count, sizeof *notes);
    if (!notes) return KVG_ERR_MEMORY;
    pack->notes = notes;
    for (size_t i = 0; i < pack->note_count && !s; i++) {
        const kvg_json note = kvg_json_at(object, i);
        notes[i].flag = kvg_json_key(note);
        s = kvg_json_string(note, &notes[i].text);
        if (!s && (!notes[i].flag[0] || strspn(notes[i].flag, lower_name) != strlen(notes[i].flag))) {
            s = kvg_json_fail(note, "a flag is of %s", lower_name);
        }
    }
    return s;
}

static bool is_date(const char *s)
{
    static const char form[] = "0000-00-00";
    for (size_t i = 0; i < sizeof form; i++) {
        if (form[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != form[i]) return false;
    }
    return true;
}

static kvg_status read_erratum(kvg_pack *pack, kvg_json object, kvg_pack_erratum *e)
{
    static const char *const keys[] = {"id", "date", "text", "cases"};
    kvg_json list;
    kvg_status s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = get_text(object, "id", &e->id);
    if (!s) s = kvg_json_get_string(object, "date", &e->date);
    if (!s && !is_date(e->date)) {
        s = kvg_json_fail(object, "date '%s' is not YYYY-MM-DD", kvg_input_quote(e->date).text);
    }
    if (!s) s = get_text(object, "text", &e->text);
    if (!s) s = get_words(pack, object, "cases", KVG_PACK_MAX_CASES, &e->cases, &e->case_count);
    if (!s) s = kvg_json_get(object, "cases", &list);
    if (!s && e->case_count == 0) s = kvg_json_fail(list, "names no case");
    for (size_t i = 0; i < e->case_count && !s; i++) {
        size_t c = 0;
        while (c < pack->case_count && strcmp(pack->cases[c].key, e->cases[i]) != 0) c++;
        if (c == pack->case_count) {
            s = kvg_json_fail(kvg_json_at(list, i), "no case has the key '%s'", kvg_input_quote(e->cases[i]).text);
        } else {
            pack->cases[c].has_erratum = true;
        }
    }
    return s;
}

static kvg_status read_errata(kvg_pack *pack, kvg_json root)
{
    kvg_json list;
    kvg_status s = get_list(root, "errata", KVG_PACK_MAX_ERRATA, &list);
    if (s) return s;
    pack->erratum_count = kvg_json_count(list);
    kvg_pack_erratum *errata = kvg_pack_alloc(pack, pack->erratum_count, sizeof *errata);
    if (!errata) return KVG_ERR_MEMORY;
    pack->errata = errata;
    for (size_t i = 0; i < pack->erratum_count && !s; i++) s = read_erratum(pack, kvg_json_at(list, i), &errata[i]);
    return s;
}

static kvg_status read_file_entry(kvg_json files, const char *name, uint64_t *bytes, kvg_sha256_digest *digest)
{
    static const char *const keys[] = {"bytes", "sha256"};
    kvg_json object;
    kvg_status s = kvg_json_get(files, name, &object);
    if (!s) s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = kvg_json_get_u64(object, "bytes", 1, KVG_PACK_MAX_FILE_BYTES, bytes);
    return s ? s : get_digest(object, digest);
}

static kvg_status read_files(kvg_pack *pack, kvg_json root)
{
    const char *const names[] = {kvg_pack_file_names[KVG_PACK_PROMPT], kvg_pack_file_names[KVG_PACK_EXPECTED]};
    kvg_json files;
    kvg_status s = kvg_json_get(root, "files", &files);
    for (size_t i = 0; !s && kvg_json_is_object(files) && i < kvg_json_count(files); i++) {
        const char *name = kvg_json_key(kvg_json_at(files, i));
        if (!strchr(name, '/') && !strchr(name, '\\')) continue;
        s = kvg_json_fail(files, "file name '%s' is a path: a pack's files lie beside its manifest",
                          kvg_input_quote(name).text);
    }
    if (!s) s = kvg_json_check_keys(files, names, 2);
    if (!s) s = read_file_entry(files, names[0], &pack->prompt_bytes, &pack->prompt);
    return s ? s : read_file_entry(files, names[1], &pack->expected_bytes, &pack->expected);
}

static kvg_status check_profile(const kvg_pack *pack, kvg_json list, const char *name, bool *used)
{
    for (size_t i = 0; i < pack->profile_count; i++) {
        if (strcmp(pack->profiles[i], name) != 0) continue;
        used[i] = true;
        return KVG_OK;
    }
    return kvg_json_fail(list, "lacks '%s', which an answer names", kvg_input_quote(name).text);
}

/* The list is that of the profiles which answers name. */
static kvg_status read_profiles(kvg_pack *pack, kvg_json root)
{
    kvg_json list;
    kvg_status s = get_words(pack, root, "profiles", KVG_PACK_MAX_FLAGS, &pack->profiles, &pack->profile_count);
    if (!s) s = kvg_json_get(root, "profiles", &list);
    bool *used = s ? NULL : kvg_pack_alloc(pack, pack->profile_count, sizeof *used);
    if (!s && !used) s = KVG_ERR_MEMORY;
    for (size_t i = 0; i < pack->case_count && !s; i++) {
        const kvg_pack_case *c = &pack->cases[i];
        for (size_t j = 0; j < c->answer_count && !s; j++) {
            if (c->answer[j].profile) s = check_profile(pack, list, c->answer[j].profile, used);
        }
    }
    for (size_t i = 0; i < pack->profile_count && !s; i++) {
        if (!used[i]) {
            s = kvg_json_fail(list, "names '%s', which no answer does", kvg_input_quote(pack->profiles[i]).text);
        }
    }
    return s;
}

bool kvg_pack_is_name(const char *text)
{
    const size_t length = strlen(text);
    return length >= 1 && length <= KVG_PACK_NAME_BYTES && strspn(text, lower_name) == length &&
           !strchr("_.-", text[0]);
}

/* "1.2.3", nothing else. */
bool kvg_pack_is_version(const char *text)
{
    for (int part = 0; part < 3; part++) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 6 || (digits > 1 && *text == '0')) return false;
        text += digits;
        if (part < 2 && *text++ != '.') return false;
    }
    return *text == 0;
}

static bool is_known_version(const char *text)
{
    return kvg_pack_is_version(text) && (strncmp(text, "1.0.", 4) == 0 || strncmp(text, "1.1.", 4) == 0);
}

/* First of all: what the other keys mean depends on it. */
static kvg_status read_versions(kvg_pack *pack, kvg_json root)
{
    kvg_json value;
    kvg_status s = kvg_json_get(root, "kvgold_pack", &value);
    if (!s) s = kvg_json_string(value, &pack->format_version);
    if (!s && !is_known_version(pack->format_version)) {
        s = kvg_json_fail(value, "format version '%s' is not 1.0.x or 1.1.x, which this reader knows",
                          kvg_input_quote(pack->format_version).text);
    }
    if (!s) s = kvg_json_get(root, "version", &value);
    if (!s) s = kvg_json_string(value, &pack->version);
    if (!s && !kvg_pack_is_version(pack->version)) {
        s = kvg_json_fail(value, "'%s' is not MAJOR.MINOR.PATCH", kvg_input_quote(pack->version).text);
    }
    return s;
}

kvg_status kvg_pack_read_manifest(kvg_pack *pack, kvg_json root)
{
    static const char *const keys[] = {"kvgold_pack", "name", "version", "licence", "seed", "case_count", "profiles",
                                       "notes", "errata", "superseded_by", "files", "cases"};
    kvg_json value;
    if (!kvg_json_is_object(root)) return kvg_json_fail(root, "expected a manifest, an object");
    kvg_status s = read_versions(pack, root);
    if (!s) s = kvg_json_check_keys(root, keys, COUNT(keys));
    if (!s) s = get_name(root, "name", &pack->name);
    if (!s) s = get_text(root, "licence", &pack->licence);
    if (!s) s = kvg_json_get_hex64(root, "seed", &pack->seed);
    if (!s) s = kvg_json_get(root, "superseded_by", &value);
    if (!s && !kvg_json_is_null(value)) s = get_name(root, "superseded_by", &pack->superseded_by);
    if (!s) s = read_files(pack, root);
    if (!s) s = read_notes(pack, root);
    if (!s) s = read_cases(pack, root);
    if (!s) s = read_errata(pack, root);
    return s ? s : read_profiles(pack, root);
}
