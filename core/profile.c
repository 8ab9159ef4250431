#include "core/profile.h"

#include <stdio.h>
#include <string.h>

#include "core/name.h"

enum {
#define CHIP(ENUM, sm, sum_terms, fraction_bits, least_exponent, sum_terms_8, fraction_bits_8) CHIP_##ENUM,
#include "core/profiles.def"
};
static const kvg_chip_info chips[] = {
#define CHIP(ENUM, sm, sum_terms, fraction_bits, least_exponent, sum_terms_8, fraction_bits_8) \
    [CHIP_##ENUM] = {sm, sum_terms, fraction_bits, least_exponent, sum_terms_8, fraction_bits_8},
#include "core/profiles.def"
};

enum {
#define CONTRACT(ENUM, ...) CONTRACT_##ENUM,
#include "core/profiles.def"
};
static const kvg_contract_info contracts[] = {
#define CONTRACT(ENUM, operands, tile, leaf, order, pieces, factor, cap, exponent, exp2, rise, weights, sinks, end, \
                 widest_16) \
    [CONTRACT_##ENUM] = {KVG_OPERANDS_##operands, tile, leaf, KVG_TILES_##order, KVG_PIECES_##pieces, \
                         KVG_FACTOR_##factor, KVG_CAP_##cap, KVG_EXPONENT_##exponent, KVG_EXP2_##exp2, rise, \
                         KVG_WEIGHTS_##weights, KVG_SINKS_##sinks, KVG_END_##end, widest_16},
#include "core/profiles.def"
};

static const struct tile_row {
    const kvg_contract_info *contract;
    uint32_t element_bits, head_dim, tile, one_token, window;
} tiles[] = {
#define TILE(contract, element_bits, head_dim, tile, one_token, window) \
    {&contracts[CONTRACT_##contract], element_bits, head_dim, tile, one_token, window},
#include "core/profiles.def"
};

static const struct block_row {
    const kvg_contract_info *contract;
    uint32_t element_bits, head_dim, mean_rows, window;
    kvg_tiling tiling;
} blocks[] = {
#define BLOCK(contract, element_bits, head_dim, mean_rows, window, of_head, rows, tile, parts) \
    {&contracts[CONTRACT_##contract], element_bits, head_dim, mean_rows, window, \
     {tile, parts, rows, KVG_BLOCK_OF_##of_head}},
#include "core/profiles.def"
};

static const kvg_profile_info profiles[] = {
#define PROFILE(ENUM, name, id, chip, contract, summary) \
    {KVG_PROFILE_##ENUM, name, &chips[CHIP_##chip], &contracts[CONTRACT_##contract], summary},
#include "core/profiles.def"
};
enum { MOST_PADDED_DIM = 256, LATENT_DIM = 576 };
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
    if (profile == KVG_PROFILE_NONE) return KVG_LEAF_OF_SIMT_FMA_V1;
    const kvg_contract_info *contract = kvg_profile_get(profile)->contract;
    if (contract->leaf) return contract->leaf;
    const kvg_call_shape call = {.one_token = true};
    const uint32_t usual = kvg_profile_tiling(profile, 16, 128, &call).tile;
    return usual ? usual : kvg_profile_tiling(profile, 16, LATENT_DIM, &call).tile;
}

kvg_tiling kvg_profile_tiling(kvg_profile profile, uint32_t element_bits, uint32_t head_dim, const kvg_call_shape *call)
{
    const kvg_contract_info *contract = kvg_profile_get(profile)->contract;
    if (contract->tile) return (kvg_tiling){.tile = contract->tile, .parts = 1};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const struct tile_row *row = &tiles[i];
        if (row->contract != contract || row->element_bits != element_bits || head_dim > row->head_dim) continue;
        const uint32_t tile = call->window ? row->window : call->one_token ? row->one_token : row->tile;
        return (kvg_tiling){.tile = tile, .parts = 1};
    }
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const struct block_row *row = &blocks[i];
        const bool fits = row->head_dim ? head_dim == row->head_dim : head_dim <= MOST_PADDED_DIM;
        if (row->contract != contract || row->element_bits != element_bits || !fits) continue;
        if (row->window && row->window != call->window) continue;
        if (call->mean_rows <= row->mean_rows) return row->tiling;
    }
    return (kvg_tiling){.parts = 1};
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
        if (!kvg_profile_is_chip(&profiles[i]) || !kvg_profile_is_own(&profiles[i])) continue;
        if (profiles[i].chip->sm != sm) continue;
        *out = profiles[i].profile;
        return KVG_OK;
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no profile is of SM %u: `kvgold list profiles` shows them", sm);
}
