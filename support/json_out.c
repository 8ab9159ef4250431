#include "support/json_out.h"

kvg_status kvg_json_put(const cJSON *value, FILE *out)
{
    char *text = cJSON_Print(value);
    if (!text) return kvg_fail(KVG_ERR_MEMORY, "no memory for a JSON text");
    fputs(text, out);
    fputc('\n', out);
    cJSON_free(text);
    return KVG_OK;
}

char *kvg_json_line(const cJSON *value)
{
    return cJSON_PrintUnformatted(value);
}
