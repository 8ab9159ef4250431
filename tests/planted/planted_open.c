/* A plug-in that goes wrong while it is opened, as KVGOLD_PLANTED_OPEN says: "null", "aborts", "exits", "hangs". */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/plugin.h"

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    const char *what = getenv("KVGOLD_PLANTED_OPEN");
    if (what && strcmp(what, "aborts") == 0) abort();
    if (what && strcmp(what, "exits") == 0) exit(0);
    if (what && strcmp(what, "hangs") == 0) for (;;) pause();
    return NULL;
}
