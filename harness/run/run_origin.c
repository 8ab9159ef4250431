#define _POSIX_C_SOURCE 200809L
#include "harness/run/run_origin.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/run/backends.h"
#include "support/commit.h"
#include "support/machine.h"
#include "support/version.h"

static bool hash_file(const char *path, char text[KVG_SHA256_TEXT])
{
    char bytes[1 << 14];
    kvg_sha256 sum;
    kvg_sha256_digest digest;
    FILE *f = fopen(path, "r");
    kvg_sha256_init(&sum);
    for (size_t n; f && (n = fread(bytes, 1, sizeof bytes, f)) > 0;) kvg_sha256_add(&sum, bytes, n);
    kvg_sha256_end(&sum, &digest);
    kvg_sha256_text(&digest, text);
    const bool whole = f && !ferror(f);
    if (f) fclose(f);
    return whole;
}

/* Adds a copy of the text to the names, unless it is there. */
static kvg_status add_name(void *names, const char *text)
{
    kvg_names *const to = names;
    for (size_t i = 0; i < to->count; i++) {
        if (strcmp(to->name[i], text) == 0) return KVG_OK;
    }
    if (to->count == KVG_FIELD_NAMES_MOST) return KVG_OK;
    char *copy = malloc(strlen(text) + 1);
    if (!copy) return kvg_fail(KVG_ERR_MEMORY, "no memory for '%s'", text);
    kvg_names_add(to, strcpy(copy, text));
    return KVG_OK;
}

/* Adds "HASH  PATH". */
static kvg_status add_file(const char *path, kvg_names *names)
{
    char hash[KVG_SHA256_TEXT], text[KVG_SHA256_TEXT + PATH_MAX + 2];
    if (!hash_file(path, hash)) return KVG_OK;
    snprintf(text, sizeof text, "%s  %s", hash, path);
    return add_name(names, text);
}

static kvg_status add_files(const kvg_config *config, const kvg_run_claims *of, const kvg_run_options *options,
                            kvg_result_origin *origin)
{
    char path[KVG_BACKEND_PATH_SIZE];
    kvg_status s = KVG_OK;
    if (kvg_check_backend_path(of->backend, path) == KVG_OK) s = add_file(path, &origin->libraries);
    if (s || !of->capabilities) return s;
    s = add_file(kvg_capabilities_path(of->capabilities), &origin->capabilities);
    if (s || options->only_case) return s;
    return kvg_capabilities_unasked(of->capabilities, config, of->backend, add_name, &origin->unasked);
}

kvg_status run_origin_find(const kvg_config *config, const kvg_run_options *options, const kvg_run_claims *claims,
                           size_t backends, run_origin *out)
{
    const time_t now = time(NULL);
    struct tm utc;
    *out = (run_origin){.origin = {.version = KVG_VERSION, .commit = out->commit, .date = out->date,
                                   .host = out->host, .cpu = out->cpu, .gpu = out->gpu}};
    snprintf(out->commit, sizeof out->commit, "%s%s", KVG_COMMIT,
             strcmp(KVG_MODIFIED, "true") == 0 ? " with changes" : "");
    if (gmtime_r(&now, &utc)) strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    kvg_machine_host(out->host, sizeof out->host);
    kvg_machine_cpu(out->cpu, sizeof out->cpu);
    kvg_machine_gpus(out->gpu, sizeof out->gpu);
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < backends && !s; i++) s = add_files(config, &claims[i], options, &out->origin);
    return s;
}

void run_origin_free(run_origin *o)
{
    kvg_names *const lists[] = {&o->origin.libraries, &o->origin.capabilities, &o->origin.unasked};
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        while (lists[k]->count) free((void *)lists[k]->name[--lists[k]->count]);
    }
}

void run_origin_read_date(const char *path, char *out, size_t size)
{
    char *line = NULL;
    size_t room = 0;
    FILE *f = fopen(path, "r");
    const ssize_t length = f ? getline(&line, &room, f) : -1;
    kvg_json_doc *doc = NULL;
    kvg_json list;
    const char *date = "a moment";
    kvg_status s = length < 0 ? KVG_ERR_NOT_FOUND : kvg_json_parse(path, line, (size_t)length, &doc);
    if (!s) s = kvg_json_get(kvg_json_root(doc), "origins", &list);
    if (!s && kvg_json_count(list)) s = kvg_json_get_string(kvg_json_at(list, 0), "date", &date);
    snprintf(out, size, "%s", date);
    if (doc) kvg_json_close(doc);
    free(line);
    if (f) fclose(f);
}
