#include "core/layout.h"

#include <stdio.h>
#include <string.h>

#include "core/name.h"

static const kvg_layout_info layouts[] = {
#define LAYOUT(ENUM, name, id, paged, blocks, shared, summary, text, groups) \
    {KVG_LAYOUT_##ENUM, #name, paged, KVG_BLOCKS_##blocks, KVG_SHARED_##shared, summary, text, groups},
#include "core/layouts.def"
#undef LAYOUT
};
enum { LAYOUT_COUNT = sizeof layouts / sizeof layouts[0] };

const kvg_layout_info *kvg_layout_table(size_t *count)
{
    *count = LAYOUT_COUNT;
    return layouts;
}

const kvg_layout_info *kvg_layout_get(kvg_layout layout)
{
    static const kvg_layout_info text = {KVG_LAYOUT_TEXT, "text", true, KVG_BLOCKS_TABLE, KVG_SHARED_MAYBE,
                                         "a text of the config (docs/spec/layouts.md section 8)", "", NULL};
    if (layout == KVG_LAYOUT_TEXT) return &text;
    for (size_t i = 0; i < LAYOUT_COUNT; i++) {
        if (layouts[i].layout == layout) return &layouts[i];
    }
    return NULL;
}

kvg_status kvg_layout_find(const char *name, kvg_layout *out)
{
    size_t i;
    kvg_status s = kvg_name_find("layout", name, &layouts[0].name, sizeof layouts[0], LAYOUT_COUNT, &i);
    if (!s) *out = layouts[i].layout;
    return s;
}

kvg_status kvg_layout_read(const char *given, kvg_layout_text *text, kvg_layout *out)
{
    *text = (kvg_layout_text){0};
    if (!strpbrk(given, " []{}.")) return kvg_layout_find(given, out);
    *text = (kvg_layout_text){"text", given};
    *out = KVG_LAYOUT_TEXT;
    return KVG_OK;
}

uint32_t kvg_layout_table_width(kvg_layout layout, const kvg_paging *paging, uint32_t tokens)
{
    if (kvg_layout_get(layout)->blocks != KVG_BLOCKS_TABLE) return 1;
    return (uint32_t)(((uint64_t)tokens + paging->block_tokens - 1) / paging->block_tokens);
}
