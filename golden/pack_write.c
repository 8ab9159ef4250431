#define _POSIX_C_SOURCE 200809L
#include "golden/pack_write.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "golden/pack_parts.h"
#include "golden/safetensors_write.h"

/* --- texts --- */

static void add_shape(kvg_json_text *t, uint32_t rank, const uint64_t *shape)
{
    kvg_json_add(t, "\"shape\": [");
    for (uint32_t i = 0; i < rank; i++) kvg_json_add(t, "%s%" PRIu64, i ? ", " : "", shape[i]);
    kvg_json_add(t, "]");
}

static void add_digest(kvg_json_text *t, const kvg_sha256_digest *digest)
{
    char text[KVG_SHA256_TEXT];
    kvg_sha256_text(digest, text);
    kvg_json_add(t, "\"sha256\": \"%s\"", text);
}

static void add_member(kvg_json_text *t, const char *key, const char *value)
{
    kvg_json_add(t, "\"%s\": ", key);
    if (value) kvg_json_add_string(t, value);
    else kvg_json_add(t, "null");
}

static void add_words(kvg_json_text *t, const char *key, const char *const *words, size_t count)
{
    kvg_json_add(t, "\"%s\": [", key);
    for (size_t i = 0; i < count; i++) {
        kvg_json_add(t, "%s", i ? ", " : "");
        kvg_json_add_string(t, words[i]);
    }
    kvg_json_add(t, "]");
}

static void add_tensor(kvg_json_text *t, const kvg_pack_tensor *tensor)
{
    const kvg_pack_packing *p = &tensor->packing;
    kvg_json_add(t, "{\"name\": \"%s\", \"dtype\": \"%s\", ", tensor->name, tensor->dtype);
    add_shape(t, tensor->rank, tensor->shape);
    kvg_json_add(t, ", \"bytes\": %zu, ", tensor->bytes);
    add_digest(t, &tensor->sha256);
    if (p->side[0] || p->side[1]) {
        kvg_json_add(t, ", \"packing\": {");
        if (p->side[0]) kvg_json_add(t, "\"k\": \"%s\"%s", p->side[0], p->side[1] ? ", " : "");
        if (p->side[1]) kvg_json_add(t, "\"v\": \"%s\"", p->side[1]);
        kvg_json_add(t, "}");
    }
    kvg_json_add(t, "}");
}

static void add_answer(kvg_json_text *t, const kvg_pack_answer *a, bool judged)
{
    kvg_json_add(t, "{\"name\": \"%s\", \"dtype\": \"%s\", ", a->name, a->dtype);
    add_shape(t, a->rank, a->shape);
    if (judged) kvg_json_add(t, ", \"compare\": \"%s\"", kvg_pack_compare_names[a->compare]);
    if (judged && a->profile) kvg_json_add(t, ", \"profile\": \"%s\"", a->profile);
    if (judged && a->compare == KVG_PACK_BOUND)
        kvg_json_add(t, ", \"exact\": \"%s\", \"bound\": \"%s\"", a->exact->name, a->bound->name);
    kvg_json_add(t, "}");
}

static void add_list(kvg_json_text *t, const char *key, const kvg_pack_tensor *list, size_t count)
{
    kvg_json_add(t, ",\n   \"%s\": [", key);
    for (size_t i = 0; i < count; i++) {
        kvg_json_add(t, "%s\n    ", i ? "," : "");
        add_tensor(t, &list[i]);
    }
    kvg_json_add(t, "]");
}

static void add_case(kvg_json_text *t, const kvg_pack_case *c)
{
    kvg_json_add(t, "  {\"key\": \"%s\", ", c->key);
    add_member(t, "id", c->id);
    kvg_json_add(t, ",\n   \"case\": %s,\n   \"layer\": %u, ", c->text, c->layer);
    add_words(t, "flags", c->flags, c->flag_count);
    kvg_json_add(t, ", \"stored\": %s", c->stored ? "true" : "false");
    add_list(t, "prompt", c->prompt, c->prompt_count);
    kvg_json_add(t, ",\n   \"answer\": [");
    for (size_t i = 0; i < c->answer_count; i++) {
        kvg_json_add(t, "%s\n    ", i ? "," : "");
        add_answer(t, &c->answer[i], true);
    }
    kvg_json_add(t, "]");
    add_list(t, "expected", c->expected, c->expected_count);
    kvg_json_add(t, "}");
}

static void add_errata(kvg_json_text *t, const kvg_pack *pack)
{
    kvg_json_add(t, " \"errata\": [");
    for (size_t i = 0; i < pack->erratum_count; i++) {
        const kvg_pack_erratum *e = &pack->errata[i];
        kvg_json_add(t, "%s{", i ? ", " : "");
        add_member(t, "id", e->id);
        kvg_json_add(t, ", ");
        add_member(t, "date", e->date);
        kvg_json_add(t, ", ");
        add_member(t, "text", e->text);
        kvg_json_add(t, ", ");
        add_words(t, "cases", e->cases, e->case_count);
        kvg_json_add(t, "}");
    }
    kvg_json_add(t, "],\n");
}

static void add_file(kvg_json_text *t, kvg_pack_file which, uint64_t bytes, const kvg_sha256_digest *digest)
{
    kvg_json_add(t, "\"%s\": {\"bytes\": %" PRIu64 ", ", kvg_pack_file_names[which], bytes);
    add_digest(t, digest);
    kvg_json_add(t, "}");
}

static void add_line(kvg_json_text *t, const char *key, const char *value)
{
    kvg_json_add(t, " ");
    add_member(t, key, value);
    kvg_json_add(t, ",\n");
}

kvg_status kvg_pack_manifest_text(const kvg_pack *pack, kvg_json_text *t)
{
    kvg_json_add(t, "{\n");
    add_line(t, "kvgold_pack", pack->format_version);
    add_line(t, "name", pack->name);
    add_line(t, "version", pack->version);
    add_line(t, "licence", pack->licence);
    kvg_json_add(t, " \"seed\": \"0x%" PRIx64 "\",\n \"case_count\": %zu,\n ", pack->seed, pack->case_count);
    add_words(t, "profiles", pack->profiles, pack->profile_count);
    kvg_json_add(t, ",\n \"notes\": {");
    for (size_t i = 0; i < pack->note_count; i++) {
        kvg_json_add(t, "%s", i ? ", " : "");
        add_member(t, pack->notes[i].flag, pack->notes[i].text);
    }
    kvg_json_add(t, "},\n");
    add_errata(t, pack);
    add_line(t, "superseded_by", pack->superseded_by);
    kvg_json_add(t, " \"files\": {");
    add_file(t, KVG_PACK_PROMPT, pack->prompt_bytes, &pack->prompt);
    kvg_json_add(t, ", ");
    add_file(t, KVG_PACK_EXPECTED, pack->expected_bytes, &pack->expected);
    kvg_json_add(t, "},\n \"cases\": [\n");
    for (size_t i = 0; i < pack->case_count; i++) {
        add_case(t, &pack->cases[i]);
        kvg_json_add(t, i + 1 < pack->case_count ? ",\n" : "\n");
    }
    kvg_json_add(t, " ]\n}\n");
    return kvg_json_text_check(t);
}

/* --- tensors --- */

/* What the prompt says of a case. */
static kvg_status note_case(const kvg_pack_case *c, kvg_safetensors_writer *w)
{
    kvg_json_text t = {0};
    char key[16];
    kvg_json_add(&t, "{");
    add_member(&t, "id", c->id);
    kvg_json_add(&t, ", \"case\": %s, \"layer\": %u, \"answer\": [", c->text, c->layer);
    for (size_t i = 0; i < c->answer_count; i++) {
        kvg_json_add(&t, "%s", i ? ", " : "");
        add_answer(&t, &c->answer[i], false);
    }
    kvg_json_add(&t, "]}");
    kvg_status s = kvg_json_text_check(&t);
    snprintf(key, sizeof key, "case.%s", c->key);
    if (!s) s = kvg_safetensors_writer_note(w, key, t.text);
    kvg_json_text_free(&t);
    return s;
}

static kvg_status declare_list(const kvg_pack_tensor *list, size_t count, kvg_safetensors_writer *w)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        s = kvg_safetensors_writer_declare(w, list[i].name, list[i].dtype, list[i].rank, list[i].shape);
    }
    return s;
}

static kvg_status declare(const kvg_pack *pack, kvg_safetensors_writer *w[KVG_PACK_FILES])
{
    kvg_status s = KVG_OK;
    for (kvg_pack_file f = KVG_PACK_PROMPT; f <= KVG_PACK_EXPECTED && !s; f++) {
        s = kvg_safetensors_writer_make(&w[f]);
        if (!s) s = kvg_safetensors_writer_note(w[f], "kvgold_pack", pack->format_version);
        if (!s) s = kvg_safetensors_writer_note(w[f], "name", pack->name);
    }
    for (size_t i = 0; i < pack->case_count && !s; i++) {
        const kvg_pack_case *c = &pack->cases[i];
        s = note_case(c, w[KVG_PACK_PROMPT]);
        if (!s && c->stored) s = declare_list(c->prompt, c->prompt_count, w[KVG_PACK_PROMPT]);
        if (!s && c->stored) s = declare_list(c->expected, c->expected_count, w[KVG_PACK_EXPECTED]);
    }
    return s;
}

/* Hashes a list; of a stored case also writes it. A recipe that is not computed keeps the digests that it has. */
static kvg_status put_list(const kvg_pack_case *c, kvg_pack_tensor *list, size_t count, kvg_safetensors_writer *w)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        if (list[i].data) kvg_sha256_of(list[i].data, list[i].bytes, &list[i].sha256);
        if (c->stored) s = kvg_safetensors_writer_put(w, list[i].data, list[i].bytes);
    }
    return s;
}

static void drop_data(kvg_pack_case *c)
{
    for (size_t i = 0; i < c->prompt_count; i++) c->prompt[i].data = NULL;
    for (size_t i = 0; i < c->expected_count; i++) c->expected[i].data = NULL;
}

/* Everything a file has is on the disk, or it is an error. */
static kvg_status close_file(FILE *file, const char *name)
{
    const bool good = fflush(file) == 0 && fsync(fileno(file)) == 0;
    const int reason = errno;
    if (fclose(file) == 0 && good) return KVG_OK;
    return kvg_fail(KVG_ERR_IO, "cannot write %s: %s", name, strerror(good ? errno : reason));
}

static kvg_status create_file(int fd, const char *name, FILE **out)
{
    const int file = openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    *out = file < 0 ? NULL : fdopen(file, "wb");
    if (*out) return KVG_OK;
    const kvg_status s = kvg_fail(KVG_ERR_IO, "cannot make %s: %s", name, strerror(errno));
    if (file >= 0) close(file);
    return s;
}

kvg_status kvg_pack_write_tensors(kvg_pack *pack, int fd, kvg_pack_load_fn *load, void *context)
{
    kvg_safetensors_writer *w[KVG_PACK_FILES] = {NULL};
    FILE *files[KVG_PACK_FILES] = {NULL};
    kvg_status s = declare(pack, w);
    for (kvg_pack_file f = KVG_PACK_PROMPT; f <= KVG_PACK_EXPECTED && !s; f++) {
        if (fd >= 0) s = create_file(fd, kvg_pack_file_names[f], &files[f]);
        if (!s) s = kvg_safetensors_writer_begin(w[f], files[f]);
    }
    for (size_t i = 0; i < pack->case_count && !s; i++) {
        kvg_pack_case *c = &pack->cases[i];
        s = load(context, i, c);
        if (!s) s = put_list(c, c->prompt, c->prompt_count, w[KVG_PACK_PROMPT]);
        if (!s) s = put_list(c, c->expected, c->expected_count, w[KVG_PACK_EXPECTED]);
        drop_data(c);
    }
    if (!s) kvg_safetensors_writer_end(w[KVG_PACK_PROMPT], &pack->prompt_bytes, &pack->prompt);
    if (!s) kvg_safetensors_writer_end(w[KVG_PACK_EXPECTED], &pack->expected_bytes, &pack->expected);
    for (kvg_pack_file f = KVG_PACK_PROMPT; f <= KVG_PACK_EXPECTED; f++) {
        const kvg_status closed = files[f] ? close_file(files[f], kvg_pack_file_names[f]) : KVG_OK;
        if (!s) s = closed;
        kvg_safetensors_writer_free(w[f]);
    }
    return s;
}

/* --- small files --- */

static kvg_status write_file(int fd, const char *name, const char *text, size_t size)
{
    FILE *file;
    kvg_status s = create_file(fd, name, &file);
    if (s) return s;
    const size_t written = fwrite(text, 1, size, file); /* what was not is an error of the flush */
    s = close_file(file, name);
    return s || written == size ? s : kvg_fail(KVG_ERR_IO, "cannot write %zu bytes of %s", size, name);
}

kvg_status kvg_pack_write_text(int fd, const char *name, const char *text, size_t size, const char *sum)
{
    char line[KVG_PACK_SUM_BYTES];
    kvg_sha256_digest digest;
    kvg_status s = write_file(fd, name, text, size);
    if (s || !sum) return s;
    kvg_sha256_of(text, size, &digest);
    kvg_pack_sum_line(&digest, name, line);
    return write_file(fd, sum, line, strlen(line));
}

/* What is written must be readable: an erratum with a broken text must not put a pack that nobody opens in the place of
 * a good one. */
static kvg_status check_readable(const kvg_json_text *t)
{
    kvg_pack *again;
    kvg_status s = kvg_pack_new(&again);
    if (s) return s;
    s = kvg_json_parse("the new manifest.json", t->text, t->size, &again->data->manifest);
    if (!s) s = kvg_pack_read_manifest(again, kvg_json_root(again->data->manifest));
    kvg_pack_close(again);
    return s;
}

kvg_status kvg_pack_write_manifest(const kvg_pack *pack, int fd)
{
    kvg_json_text t = {0};
    kvg_status s = kvg_pack_manifest_text(pack, &t);
    if (!s && t.size > KVG_JSON_MAX_BYTES) {
        s = kvg_fail(KVG_ERR_INVALID, "a manifest of %zu bytes is over the limit of %d: split the pack", t.size,
                     KVG_JSON_MAX_BYTES);
    }
    if (!s) s = check_readable(&t);
    if (!s) s = kvg_pack_write_text(fd, kvg_pack_file_names[KVG_PACK_MANIFEST], t.text, t.size, KVG_PACK_MANIFEST_SUM);
    kvg_json_text_free(&t);
    return s;
}

kvg_status kvg_pack_write_provenance(int fd, const char *text)
{
    return kvg_pack_write_text(fd, kvg_pack_file_names[KVG_PACK_PROVENANCE], text, strlen(text),
                               KVG_PACK_PROVENANCE_SUM);
}

void kvg_pack_manifest_bytes(const kvg_pack *pack, const char **text, size_t *size)
{
    *text = pack->data->bytes[KVG_PACK_MANIFEST].bytes;
    *size = pack->data->bytes[KVG_PACK_MANIFEST].size;
}

kvg_status kvg_pack_copy_files(const kvg_pack *pack, int fd)
{
    kvg_status s = KVG_OK;
    for (kvg_pack_file f = KVG_PACK_PROMPT; f < KVG_PACK_FILES && !s; f++) {
        const kvg_input_bytes *bytes = &pack->data->bytes[f];
        const char *sum = f == KVG_PACK_PROVENANCE ? KVG_PACK_PROVENANCE_SUM : NULL;
        s = kvg_pack_write_text(fd, kvg_pack_file_names[f], bytes->bytes, bytes->size, sum);
    }
    return s;
}
