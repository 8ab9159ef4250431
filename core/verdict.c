#include "core/verdict.h"

#include <string.h>

static const struct {
    const char *name;
    bool judges, fails;
} verdicts[KVG_VERDICT_COUNT] = {
    [KVG_VERDICT_PASS] = {"PASS", true, false},
    [KVG_VERDICT_FAIL] = {"FAIL", true, true},
    [KVG_VERDICT_MISTRUSTED] = {"MISTRUSTED", true, true},
    [KVG_VERDICT_SKIP] = {"SKIP", false, false},
    [KVG_VERDICT_UNIMPLEMENTED] = {"UNIMPLEMENTED", false, true},
    [KVG_VERDICT_CRASH] = {"CRASH", false, true},
    [KVG_VERDICT_HANG] = {"HANG", false, true},
    [KVG_VERDICT_DEVICE_LOST] = {"DEVICE_LOST", false, true},
    [KVG_VERDICT_ERROR] = {"ERROR", false, true},
};

const char *kvg_verdict_name(kvg_verdict verdict)
{
    return verdicts[verdict].name;
}

kvg_status kvg_verdict_find(const char *name, kvg_verdict *out)
{
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (strcmp(verdicts[i].name, name) == 0) {
            *out = (kvg_verdict)i;
            return KVG_OK;
        }
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no verdict '%s'", name);
}

bool kvg_verdict_judges(kvg_verdict verdict)
{
    return verdicts[verdict].judges;
}

bool kvg_verdict_fails(kvg_verdict verdict)
{
    return verdicts[verdict].fails;
}
