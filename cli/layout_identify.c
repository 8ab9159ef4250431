#include "cli/layout_identify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/layout_owners.h"
#include "harness/pack/golden_case.h"
#include "harness/trial/explain/identify.h"
#include "support/shipped.h"

static bool writes_pages(const kvg_pack_case *c)
{
    return strncmp(c->id, "append/", 7) == 0;
}

/* The case that `key` names, else the first that writes pages. */
static kvg_status find_case(const kvg_pack *pack, const char *key, const kvg_pack_case **out)
{
    if (key) {
        kvg_status s = kvg_pack_find(pack, key, out);
        if (s || writes_pages(*out)) return s;
        return kvg_fail(KVG_ERR_INVALID, "case %s is not of op append: its answer is no page", (*out)->key);
    }
    for (size_t i = 0; i < pack->case_count; i++) {
        *out = &pack->cases[i];
        if (writes_pages(*out)) return KVG_OK;
    }
    return kvg_fail(KVG_ERR_INVALID, "pack %s has no case of op append, whose answer would be pages", pack->name);
}

/* The pools in the file, as "0000.k_data" or "k_data", whatever their shape. */
static kvg_status find_pools(const kvg_safetensors *file, const char *path, const char *key,
                             kvg_tensor pools[KVG_POOLS])
{
    size_t found = 0;
    for (int i = 0; i < KVG_POOLS; i++) {
        const char *const name = kvg_page_pool(i);
        char of_case[64];
        snprintf(of_case, sizeof of_case, "%s.%s", key, name);
        for (size_t k = 0; k < kvg_safetensors_count(file); k++) {
            const kvg_safetensors_entry *const e = kvg_safetensors_at(file, k);
            if (strcmp(e->name, of_case) != 0 && strcmp(e->name, name) != 0) continue;
            pools[i] = (kvg_tensor){.data = (void *)(uintptr_t)e->data, .bytes = e->bytes};
            found++;
        }
    }
    if (found) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%s has no pool of case %s: %s.k_data and so on, or k_data, v_data, k_scale_pool, "
                    "v_scale_pool", path, key, key);
}

static void print_found(const kvg_identification *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const kvg_identified *const f = &d->best[i];
        static const char *const distance[] = {"", ", one mistake away", ", two mistakes away"};
        printf("%5.1f %%  %s%s\n         %s\n", 100 * (double)f->right / (double)d->all, f->name, distance[f->mistakes],
               f->text);
    }
}

static kvg_status identify(const kvg_pack *pack, const kvg_safetensors *file, const char *path, const char *key,
                           bool *explained)
{
    const kvg_pack_case *from;
    kvg_golden_case golden = {.has_data = false};
    kvg_tensor pools[KVG_POOLS] = {{.bytes = 0}};
    kvg_identification found;
    kvg_status s = find_case(pack, key, &from);
    if (s) return s;
    s = find_pools(file, path, from->key, pools);
    if (!s) s = kvg_golden_case_open(pack, from, &golden);
    if (!s) s = kvg_identify(&golden.data, golden.truth.expected.tensors, pools, &found);
    if (!s) {
        printf("case %s %s of pack %s: %" PRIu64 " bytes of rows, %zu layouts tried\n", from->key, from->id, pack->name,
               found.all, found.tried);
        print_found(&found);
        *explained = found.count && found.best[0].right == found.all;
    }
    kvg_golden_case_free(&golden);
    return s;
}

kvg_status kvg_layout_identify(const char *answer, const char *pack_name, const char *key, bool *explained)
{
    char path[4096];
    kvg_pack *pack = NULL;
    kvg_safetensors *file = NULL;
    kvg_status s = kvg_shipped_find("golden/data/packs", "", pack_name, path, sizeof path);
    if (!s) s = kvg_pack_open(path, &pack);
    if (!s) s = kvg_safetensors_open(answer, &file);
    if (!s) s = identify(pack, file, answer, key, explained);
    kvg_safetensors_close(file);
    kvg_pack_close(pack);
    return s;
}
