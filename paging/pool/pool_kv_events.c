#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/name.h"
#include "paging/pool/pool_log_reader.h"

/* Such logs name no blocks, so the rules of hashes alone apply. */
const kvg_audit_head pool_kv_events_head = {.block_tokens = KVG_AUDIT_MAX_BLOCK_TOKENS, .writes = true};

typedef enum key { HASHES, PARENT, TOKENS, SIZE, LORA_ID, MEDIUM, LORA_NAME, EXTRA_KEYS, GROUP, SPEC,
                   WINDOW, KEYS } key;

static const char *const key_names[KEYS] = {"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id",
                                            "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind",
                                            "kv_cache_spec_sliding_window"};

/* An event, and where the fields of its list form stand; 0: it does not have the field. The tag stands at 0. */
static const struct kind {
    const char *tag;
    kvg_audit_event_kind event;
    size_t places[KEYS];
} kinds[] = {
    {"BlockStored", KVG_AUDIT_EVENT_STORE,
     {[HASHES] = 1, [PARENT] = 2, [TOKENS] = 3, [SIZE] = 4, [LORA_ID] = 5, [MEDIUM] = 6, [LORA_NAME] = 7,
      [EXTRA_KEYS] = 8, [GROUP] = 9, [SPEC] = 10, [WINDOW] = 11}},
    {"BlockRemoved", KVG_AUDIT_EVENT_FORGET, {[HASHES] = 1, [MEDIUM] = 2, [GROUP] = 3}},
    {"AllBlocksCleared", KVG_AUDIT_EVENT_CLEAR, {0}},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0], MOST_HASH = 160, MOST_GROUP = 1 << 20 };

/* A hash as the model knows it: of a group of layers, "hash/group". */
typedef struct hash_name {
    char text[MOST_HASH + 16];
} hash_name;

/* The value of a field; false: it is missing or null. */
static bool find(kvg_json event, const struct kind *kind, key k, kvg_json *out)
{
    if (kvg_json_is_object(event)) {
        if (!kvg_json_has(event, key_names[k]) || kvg_json_get(event, key_names[k], out)) return false;
    } else {
        if (!kind->places[k] || kind->places[k] >= kvg_json_count(event)) return false;
        *out = kvg_json_at(event, kind->places[k]);
    }
    return !kvg_json_is_null(*out);
}

static kvg_status find_kind(kvg_json event, const struct kind **out)
{
    kvg_json tag = event;
    const char *text;
    size_t i;
    if (kvg_json_is_array(event) && kvg_json_count(event)) tag = kvg_json_at(event, 0);
    kvg_status s = kvg_json_is_array(event) ? KVG_OK : kvg_json_get(event, "type", &tag);
    if (!s) s = kvg_json_string(tag, &text);
    if (!s) s = kvg_json_locate(tag, kvg_name_find("event", text, &kinds[0].tag, sizeof kinds[0], KIND_COUNT, &i));
    if (!s) *out = &kinds[i];
    return s;
}

/* What the fields of one event say. */
typedef struct kv_event {
    const struct kind *kind;
    kvg_audit_value hashes, tokens;
    const char *parent;
    uint64_t size, group;
    bool has_group, gaps;  /* gaps: layers that need not keep all blocks */
    kvg_json lora, extra;
    bool has_lora, has_extra;
} kv_event;

static kvg_status read_fields(pool_reader *r, kvg_json event, kv_event *e)
{
    kvg_json value;
    const char *spec = "full_attention";
    if (!find(event, e->kind, HASHES, &value)) return kvg_json_fail(event, "missing `%s`", key_names[HASHES]);
    kvg_status s = pool_read_list(r, value, true, &e->hashes);
    if (!s && find(event, e->kind, PARENT, &value)) s = pool_read_name(r, value, &e->parent);
    if (!s && find(event, e->kind, TOKENS, &value)) s = pool_read_list(r, value, false, &e->tokens);
    if (!s && find(event, e->kind, SIZE, &value)) s = kvg_json_u64(value, 0, KVG_AUDIT_MAX_BLOCK_TOKENS, &e->size);
    e->has_group = find(event, e->kind, GROUP, &value);
    if (!s && e->has_group) s = kvg_json_u64(value, 0, MOST_GROUP, &e->group);
    e->gaps = find(event, e->kind, WINDOW, &value);
    if (!s && find(event, e->kind, SPEC, &value)) s = kvg_json_string(value, &spec);
    e->gaps = e->gaps || !strstr(spec, "full");
    e->has_lora = find(event, e->kind, LORA_NAME, &e->lora) || find(event, e->kind, LORA_ID, &e->lora);
    e->has_extra = find(event, e->kind, EXTRA_KEYS, &e->extra);
    bool fits = s || !e->parent || strlen(e->parent) <= MOST_HASH;
    for (size_t i = 0; i < e->hashes.count && !s; i++) fits = fits && strlen(e->hashes.texts[i]) <= MOST_HASH;
    return fits ? s : kvg_json_fail(event, "a hash has more than %d bytes: shorten it", MOST_HASH);
}

static hash_name name_of(const kv_event *e, const char *hash)
{
    hash_name name;
    if (e->has_group) snprintf(name.text, sizeof name.text, "%.160s/%" PRIu64, hash, e->group);
    else snprintf(name.text, sizeof name.text, "%.160s", hash);
    return name;
}

/* Adapter and extra keys of the i-th block as text, to be freed; NULL: there are none. */
static kvg_status salt_of(const kv_event *e, size_t i, char **out)
{
    const kvg_json extra = e->has_extra ? kvg_json_at(e->extra, i) : (kvg_json){0};
    const bool has_keys = extra.item && !kvg_json_is_null(extra);
    char *lora = e->has_lora ? kvg_json_print(e->lora) : NULL;
    char *keys = has_keys ? kvg_json_print(extra) : NULL;
    const size_t size = (lora ? strlen(lora) : 0) + (keys ? strlen(keys) : 0) + 2;
    const bool whole = (lora || !e->has_lora) && (keys || !has_keys), none = !e->has_lora && !has_keys;
    *out = whole && !none ? cJSON_malloc(size) : NULL;
    if (*out) snprintf(*out, size, "%s %s", lora ? lora : "", keys ? keys : "");
    cJSON_free(lora);
    cJSON_free(keys);
    return *out || none ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for the extra keys of a block");
}

/* Each hash of the event is one event of the model. Tokens and parents are known where the tokens fill the blocks:
 * layers with a window or a state leave blocks out. */
static kvg_status step_hashes(const pool_reader *r, const kv_event *e, kvg_audit *a)
{
    const bool filled = e->size && e->tokens.count == e->hashes.count * e->size && !e->gaps;
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < e->hashes.count && !s; i++) {
        const char *before = i ? e->hashes.texts[i - 1] : e->parent;
        const hash_name hash = name_of(e, e->hashes.texts[i]), parent = name_of(e, before ? before : "");
        const char *const one = hash.text;
        kvg_audit_event event = {.kind = e->kind->event, .line = r->number};
        char *salt;
        s = salt_of(e, i, &salt);
        if (s) return s;
        event.values[KVG_AUDIT_FIELD_HASHES] = (kvg_audit_value){.given = true, .count = 1, .texts = &one};
        event.values[KVG_AUDIT_FIELD_HASH] = (kvg_audit_value){.given = true, .text = hash.text};
        event.values[KVG_AUDIT_FIELD_SALT] = (kvg_audit_value){.given = true, .text = salt};
        if (filled) {
            event.values[KVG_AUDIT_FIELD_PARENT] =
                (kvg_audit_value){.given = true, .text = before ? parent.text : NULL};
            event.values[KVG_AUDIT_FIELD_TOKENS] =
                (kvg_audit_value){.given = true, .count = e->size, .numbers = e->tokens.numbers + i * e->size};
        }
        s = kvg_audit_step(a, &event);
        cJSON_free(salt);
    }
    return s;
}

static kvg_status judge_event(pool_reader *r, kvg_json event, kvg_audit *a)
{
    kvg_json medium;
    const char *text = "GPU";
    kv_event e = {0};
    kvg_status s = find_kind(event, &e.kind);
    if (s) return s;
    if (e.kind->event == KVG_AUDIT_EVENT_CLEAR) {
        return kvg_audit_step(a, &(kvg_audit_event){.kind = e.kind->event, .line = r->number});
    }
    if (find(event, e.kind, MEDIUM, &medium)) s = kvg_json_string(medium, &text);
    if (s || strcmp(text, "GPU") != 0) return s; /* other tiers have caches of their own */
    s = read_fields(r, event, &e);
    return s ? s : kvg_json_locate(event, step_hashes(r, &e, a));
}

/* A log is of one rank, because each rank has its own cache. */
static kvg_status check_rank(pool_reader *r, kvg_json rank)
{
    uint64_t number;
    if (kvg_json_is_null(rank)) return KVG_OK;
    kvg_status s = kvg_json_u64(rank, 0, UINT32_MAX, &number);
    if (s) return s;
    if (r->rank && r->rank != (int64_t)number + 1) {
        return kvg_json_fail(rank, "a second data parallel rank, %" PRIu64 ": give each rank a log of its own", number);
    }
    r->rank = (int64_t)number + 1;
    return KVG_OK;
}

bool pool_is_kv_events(kvg_json line)
{
    return kvg_json_is_array(line) || kvg_json_has(line, "events") || kvg_json_has(line, "type");
}

kvg_status pool_kv_events(pool_reader *r, kvg_json line, kvg_audit *a)
{
    const bool list = kvg_json_is_array(line) && !kvg_json_is_string(kvg_json_at(line, 0));
    kvg_json events = line, rank = line;
    kvg_status s = KVG_OK;
    if (!list && !kvg_json_has(line, "events")) return judge_event(r, line, a);
    if (list && kvg_json_count(line) < 2) return kvg_json_fail(line, "expected [time, [events...], rank]");
    if (list) events = kvg_json_at(line, 1);
    else s = kvg_json_get(line, "events", &events);
    if (!s && list && kvg_json_count(line) > 2) s = check_rank(r, kvg_json_at(line, 2));
    if (!s && !list && kvg_json_has(line, "data_parallel_rank")) {
        s = kvg_json_get(line, "data_parallel_rank", &rank);
        if (!s) s = check_rank(r, rank);
    }
    if (!s && !kvg_json_is_array(events)) s = kvg_json_fail(events, "expected a list of events");
    for (size_t i = 0; i < kvg_json_count(events) && !s; i++) s = judge_event(r, kvg_json_at(events, i), a);
    return s;
}
