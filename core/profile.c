#include "core/profile.h"

#include <stdio.h>
#include <string.h>

static const kvg_profile_info profiles[] = {
#define PROFILE(ENUM, name, id, sm, sum_terms, fraction_bits, least_exponent, summary) \
    {KVG_PROFILE_##ENUM, name, sm, sum_terms, fraction_bits, least_exponent, summary},
#include "core/profiles.def"
#undef PROFILE
};
enum { PROFILE_COUNT = sizeof profiles / sizeof profiles[0] };

const kvg_profile_info *kvg_profile_table(size_t *count)
{
    *count = PROFILE_COUNT;
    return profiles;
}

const kvg_profile_info *kvg_profile_get(kvg_profile profile)
{
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        if (profiles[i].profile == profile) return &profiles[i];
    }
    return NULL;
}

/* Fails with `what` and the names of the table. */
static kvg_status not_found(const char *what)
{
    char known[PROFILE_COUNT * 24] = "";
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", profiles[i].name);
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "%s; known: %s", what, known);
}

kvg_status kvg_profile_find(const char *name, kvg_profile *out)
{
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        if (strcmp(profiles[i].name, name) != 0) continue;
        *out = profiles[i].profile;
        return KVG_OK;
    }
    char what[128];
    snprintf(what, sizeof what, "no profile '%s'", name);
    return not_found(what);
}

kvg_status kvg_profile_of_sm(uint32_t sm, kvg_profile *out)
{
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        if (!kvg_profile_is_chip(&profiles[i]) || profiles[i].sm != sm) continue;
        *out = profiles[i].profile;
        return KVG_OK;
    }
    char what[128];
    snprintf(what, sizeof what, "no profile describes the tensor core of SM %u", sm);
    return not_found(what);
}
