/* The two safetensors files of a pack against its manifest: docs/spec/golden-pack.md sections 2, 4 and 5. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "golden/pack_parts.h"
#include "golden/safetensors_write.h"

/* A walk over the tensors of one file in the order of their bytes. */
typedef struct walk {
    const kvg_pack *pack;
    const kvg_safetensors *file;
    kvg_input_text name; /* of the file */
    const uint8_t *start;
    size_t next, pads;
} walk;

static kvg_status check_offset(const walk *w, const kvg_safetensors_entry *e)
{
    const size_t offset = (size_t)((const uint8_t *)e->data - w->start);
    if (offset % KVG_SAFETENSORS_ALIGNMENT == 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%s: tensor '%s' starts at byte %zu, which is no multiple of %d", w->name.text,
                    kvg_input_quote(e->name).text, offset, KVG_SAFETENSORS_ALIGNMENT);
}

static kvg_status check_pad(walk *w, const kvg_safetensors_entry *e)
{
    char name[32];
    const uint8_t *bytes = e->data;
    snprintf(name, sizeof name, "_pad.%zu", w->pads++);
    if (strcmp(e->name, name) != 0 || strcmp(e->dtype, "U8") != 0 || e->rank != 1 ||
        e->bytes >= KVG_SAFETENSORS_ALIGNMENT) {
        return kvg_fail(KVG_ERR_INVALID,
                        "%s: '%s' is not the padding that must be here: '%s', U8, one dimension, fewer than %d bytes",
                        w->name.text, kvg_input_quote(e->name).text, name, KVG_SAFETENSORS_ALIGNMENT);
    }
    for (size_t i = 0; i < e->bytes; i++) {
        if (bytes[i] == 0) continue;
        return kvg_fail(KVG_ERR_INVALID, "%s: byte %zu of padding '%s' is not 0", w->name.text, i, name);
    }
    return KVG_OK;
}

/* The next tensor that is no padding; NULL at the end. Padding is followed by a tensor. */
static kvg_status step(walk *w, const kvg_safetensors_entry **out)
{
    *out = kvg_safetensors_at(w->file, w->next++);
    if (!*out || (*out)->name[0] != '_') return KVG_OK;
    kvg_status s = check_pad(w, *out);
    if (s) return s;
    *out = kvg_safetensors_at(w->file, w->next++);
    if (*out && (*out)->name[0] != '_') return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%s: no tensor follows padding '_pad.%zu'", w->name.text, w->pads - 1);
}

static kvg_status take_tensor(walk *w, kvg_pack_tensor *t)
{
    const kvg_safetensors_entry *e;
    kvg_sha256_digest digest;
    kvg_status s = step(w, &e);
    if (s) return s;
    if (!e || strcmp(e->name, t->name) != 0) {
        return kvg_fail(KVG_ERR_INVALID, "%s: '%s' stands where the manifest has tensor '%s'", w->name.text,
                        e ? kvg_input_quote(e->name).text : "nothing", t->name);
    }
    if (strcmp(e->dtype, t->dtype) != 0 || e->rank != t->rank ||
        memcmp(e->shape, t->shape, t->rank * sizeof t->shape[0]) != 0) {
        return kvg_fail(KVG_ERR_INVALID, "%s: tensor '%s' has another dtype or shape than in the manifest",
                        w->name.text, t->name);
    }
    s = check_offset(w, e);
    if (s) return s;
    kvg_sha256_of(e->data, e->bytes, &digest);
    if (!kvg_sha256_same(&digest, &t->sha256)) {
        return kvg_fail(KVG_ERR_INVALID, "%s: the SHA-256 of tensor '%s' is not what the manifest says", w->name.text,
                        t->name);
    }
    t->data = e->data;
    return KVG_OK;
}

/* Every stored case's tensors, and nothing else. */
static kvg_status take_file(kvg_pack *pack, kvg_pack_file which, const kvg_input_text *name)
{
    walk w = {.pack = pack, .file = pack->data->files[which], .name = *name, .start = pack->data->bytes[which].bytes};
    const kvg_safetensors_entry *rest;
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < pack->case_count && !s; i++) {
        kvg_pack_case *c = &pack->cases[i];
        kvg_pack_tensor *list = which == KVG_PACK_PROMPT ? c->prompt : c->expected;
        const size_t count = which == KVG_PACK_PROMPT ? c->prompt_count : c->expected_count;
        for (size_t j = 0; c->stored && j < count && !s; j++) s = take_tensor(&w, &list[j]);
    }
    if (!s) s = step(&w, &rest);
    if (!s && rest) {
        s = kvg_fail(KVG_ERR_INVALID, "%s: tensor '%s' is not in the manifest", w.name.text,
                     kvg_input_quote(rest->name).text);
    }
    return s;
}

/* A text of "__metadata__" that must be as given. */
static kvg_status check_note(const kvg_safetensors *file, const kvg_input_text *name, const char *key,
                             const char *wanted)
{
    const char *text = kvg_safetensors_metadata(file, key);
    if (text && strcmp(text, wanted) == 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%s: __metadata__ has \"%s\": %s%s, the manifest %s", name->text, key,
                    text ? "" : "nothing", text ? kvg_input_quote(text).text : "", wanted);
}

/* One answer of a case's note: name, dtype and shape as in the manifest. */
static kvg_status check_note_answer(kvg_json entry, const kvg_pack_answer *a)
{
    static const char *const keys[] = {"name", "dtype", "shape"};
    const char *name = "", *dtype = "";
    kvg_json value[3];
    kvg_status s = kvg_json_check_keys(entry, keys, 3);
    for (int i = 0; i < 3 && !s; i++) s = kvg_json_get(entry, keys[i], &value[i]);
    if (!s) s = kvg_json_string(value[0], &name);
    if (!s) s = kvg_json_string(value[1], &dtype);
    bool same = !s && strcmp(name, a->name) == 0 && strcmp(dtype, a->dtype) == 0 &&
                kvg_json_is_array(value[2]) && kvg_json_count(value[2]) == a->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) {
        uint64_t size = 0;
        s = kvg_json_u64(kvg_json_at(value[2], i), 0, UINT64_MAX, &size);
        same = !s && size == a->shape[i];
    }
    return s || same ? s : kvg_json_fail(entry, "is not answer '%s' of the manifest", a->name);
}

/* What a prompt alone says of a case: nothing else than the manifest does. */
static kvg_status check_note_values(kvg_json root, const kvg_pack_case *c)
{
    static const char *const keys[] = {"id", "case", "layer", "answer"};
    kvg_json value[4];
    const char *id = "";
    uint64_t layer = 0;
    kvg_status s = kvg_json_check_keys(root, keys, 4);
    for (int i = 0; i < 4 && !s; i++) s = kvg_json_get(root, keys[i], &value[i]);
    if (!s) s = kvg_json_string(value[0], &id);
    if (!s && strcmp(id, c->id) != 0) s = kvg_json_fail(value[0], "is not the manifest's id of case %s", c->key);
    if (!s) {
        char *text = kvg_json_print(value[1]);
        if (!text) {
            s = kvg_fail(KVG_ERR_MEMORY, "no memory for a case's text");
        } else if (strcmp(text, c->text) != 0) {
            s = kvg_json_fail(value[1], "is not the manifest's line of case %s", c->key);
        }
        cJSON_free(text);
    }
    if (!s) s = kvg_json_u64(value[2], 0, UINT32_MAX, &layer);
    if (!s && layer != c->layer) s = kvg_json_fail(value[2], "is not the manifest's layer of case %s", c->key);
    if (!s && (!kvg_json_is_array(value[3]) || kvg_json_count(value[3]) != c->answer_count)) {
        s = kvg_json_fail(value[3], "is not the manifest's list of answers of case %s", c->key);
    }
    for (size_t i = 0; i < c->answer_count && !s; i++) s = check_note_answer(kvg_json_at(value[3], i), &c->answer[i]);
    return s;
}

static kvg_status check_case_note(const kvg_pack *pack, const kvg_pack_case *c, const kvg_input_text *name)
{
    char key[16], title[200];
    kvg_json_doc *doc = NULL;
    snprintf(key, sizeof key, "case.%s", c->key);
    const char *text = kvg_safetensors_metadata(pack->data->files[KVG_PACK_PROMPT], key);
    if (!text) return kvg_fail(KVG_ERR_INVALID, "%s: __metadata__ lacks \"%s\"", name->text, key);
    snprintf(title, sizeof title, "%s: %s", name->text, key);
    kvg_status s = kvg_json_parse(title, text, strlen(text), &doc);
    if (!s) s = check_note_values(kvg_json_root(doc), c);
    kvg_json_close(doc);
    return s;
}

/* A bound is a distance, and what has one is a number: else nothing could pass, or anything. */
static kvg_status check_numbers(const kvg_pack_answer *a, const kvg_input_text *name)
{
    if (a->compare != KVG_PACK_BOUND || !a->exact->data) return KVG_OK;
    for (size_t i = 0; i < a->bound->bytes / sizeof(double); i++) {
        double exact, bound;
        memcpy(&exact, (const uint8_t *)a->exact->data + i * sizeof exact, sizeof exact);
        memcpy(&bound, (const uint8_t *)a->bound->data + i * sizeof bound, sizeof bound);
        if (bound >= 0 && (bound == INFINITY || exact == exact)) continue;
        return kvg_fail(KVG_ERR_INVALID, "%s: number %zu of '%s' is %g, its bound %g: nothing can be judged by that",
                        name->text, i, a->exact->name, exact, bound);
    }
    return KVG_OK;
}

kvg_status kvg_pack_read_tensors(kvg_pack *pack)
{
    kvg_status s = KVG_OK;
    for (kvg_pack_file which = KVG_PACK_PROMPT; which <= KVG_PACK_EXPECTED && !s; which++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", pack->path, kvg_pack_file_names[which]);
        const kvg_input_text name = kvg_input_name(path);
        s = check_note(pack->data->files[which], &name, "kvgold_pack", pack->format_version);
        if (!s) s = check_note(pack->data->files[which], &name, "name", pack->name);
        for (size_t i = 0; i < pack->case_count && which == KVG_PACK_PROMPT && !s; i++) {
            s = check_case_note(pack, &pack->cases[i], &name);
        }
        const size_t notes = which == KVG_PACK_PROMPT ? 2 + pack->case_count : 2;
        if (!s && kvg_safetensors_metadata_count(pack->data->files[which]) != notes) {
            s = kvg_fail(KVG_ERR_INVALID, "%s: __metadata__ has other keys than the %zu of a pack of %zu cases",
                         name.text, notes, pack->case_count);
        }
        if (!s) s = take_file(pack, which, &name);
        for (size_t i = 0; i < pack->case_count && which == KVG_PACK_EXPECTED && !s; i++) {
            const kvg_pack_case *c = &pack->cases[i];
            for (size_t j = 0; j < c->answer_count && !s; j++) s = check_numbers(&c->answer[j], &name);
        }
    }
    return s;
}
