#include "core/verdict.h"

#include <string.h>

#include "core/name.h"

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
    size_t i;
    kvg_status s = kvg_name_find("verdict", name, &verdicts[0].name, sizeof verdicts[0], KVG_VERDICT_COUNT, &i);
    if (!s) *out = (kvg_verdict)i;
    return s;
}

bool kvg_verdict_judges(kvg_verdict verdict)
{
    return verdicts[verdict].judges;
}

bool kvg_verdict_fails(kvg_verdict verdict)
{
    return verdicts[verdict].fails;
}
