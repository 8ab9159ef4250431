#include "core/profile.h"

#include <stdio.h>
#include <string.h>

#include "core/name.h"

enum {
#define CHIP(ENUM, sm, sum_terms, fraction_bits, least_exponent) CHIP_##ENUM,
#include "core/profiles.def"
};
static const kvg_chip_info chips[] = {
#define CHIP(ENUM, sm, sum_terms, fraction_bits, least_exponent) \
    [CHIP_##ENUM] = {sm, sum_terms, fraction_bits, least_exponent},
#include "core/profiles.def"
};

enum {
#define CONTRACT(ENUM, leaf, exp2, widest_16) CONTRACT_##ENUM,
#include "core/profiles.def"
};
static const kvg_contract_info contracts[] = {
#define CONTRACT(ENUM, leaf, exp2, widest_16) [CONTRACT_##ENUM] = {leaf, KVG_EXP2_##exp2, widest_16},
#include "core/profiles.def"
};

static const kvg_profile_info profiles[] = {
#define PROFILE(ENUM, name, id, chip, contract, summary) \
    {KVG_PROFILE_##ENUM, name, &chips[CHIP_##chip], &contracts[CONTRACT_##contract], summary},
#include "core/profiles.def"
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

uint32_t kvg_profile_leaf(kvg_profile profile)
{
    return profile == KVG_PROFILE_NONE ? KVG_LEAF_OF_SIMT_FMA_V1 : kvg_profile_get(profile)->contract->leaf;
}

kvg_status kvg_profile_find(const char *name, kvg_profile *out)
{
    size_t i;
    kvg_status s = kvg_name_find("profile", name, &profiles[0].name, sizeof profiles[0], PROFILE_COUNT, &i);
    if (!s) *out = profiles[i].profile;
    return s;
}

kvg_status kvg_profile_of_sm(uint32_t sm, kvg_profile *out)
{
    for (size_t i = PROFILE_COUNT; i-- > 0;) { /* from the newest */
        if (!kvg_profile_is_chip(&profiles[i]) || profiles[i].chip->sm != sm) continue;
        *out = profiles[i].profile;
        return KVG_OK;
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no profile is of SM %u: `kvgold list profiles` shows them", sm);
}
