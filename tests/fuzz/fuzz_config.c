/* Any bytes as a config. What is read keeps every promise of harness/config/config.h: cases with unique ids that
 * fit, each a checked problem whose fill exists and which one shard of three runs; where a policy is given, stored
 * as its mode says. What is refused leaves one line with the file's name. */
#include <string.h>

#include "harness/config/config.h"
#include "harness/trial/question/decode_probes.h"
#include "harness/trial/question/fill.h"
#include "model/guest/generate_guest.h"
#include "tests/fuzz/fuzz_require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_policy(const kvg_case *c)
{
    const kvg_case_policy *p = &c->policy;
    char text[KVG_POLICY_TEXT_SIZE];
    kvg_case_policy_text(p, text, sizeof text);
    require(strlen(text) + 1 < sizeof text && (text[0] != 0) == p->given);
    if (!p->given) return;
    require(strstr(c->id, text) != NULL);
    for (int side = KVG_K; side <= KVG_V; side++) {
        require(c->problem.storage[side].format == kvg_mode_format(p->effective, c->problem.dtype));
    }
    require(p->fell_back == (p->reason[0] != 0) && p->fell_back == (strchr(text, '>') != NULL));
    require(!p->fell_back || (p->effective == KVG_MODE_NONE && p->requested != KVG_MODE_NONE));
}

static void check_case(const kvg_config *config, const kvg_case *c)
{
    kvg_case named = *c;
    char repro[KVG_REPRO_SIZE];
    require(kvg_problem_check(&c->problem) == KVG_OK);
    require(kvg_fill_check(c) == KVG_OK && kvg_probe_check(c) == KVG_OK);
    require(kvg_case_name(&named) == KVG_OK && strcmp(named.id, c->id) == 0);
    require(c->seed == config->seed && kvg_case_shard(c, 3) < 3);
    require((c->fill == KVG_FILL_CAPTURE) == (c->capture_file != NULL));
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_storage *storage = &c->problem.storage[side];
        size_t index;
        require(kvg_reference_dialect_find(storage->format, storage->dialect, &index) == KVG_OK);
    }
    check_policy(c);
    kvg_case_repro(c, config->path, NULL, NULL, repro, sizeof repro);
    require(strncmp(repro, "kvgold check 'fuzz.json'", 24) == 0);
}

static void check_config(kvg_config *config)
{
    require(config->case_count > 0 && config->case_count <= KVG_CONFIG_MAX_CASES);
    require(config->slow_seconds > 0 && config->slow_seconds <= config->hang_seconds);
    for (size_t i = 0; i < config->case_count; i++) {
        check_case(config, &config->cases[i]);
        for (size_t j = 0; j < i && j < 64; j++) require(strcmp(config->cases[i].id, config->cases[j].id) != 0);
    }
    const size_t before = config->case_count;
    require(kvg_config_use_backend(config, "b") == KVG_OK && config->case_count >= 1 && config->case_count <= before);
    for (size_t i = 0; i < config->case_count; i++) require(strcmp(config->cases[i].backend, "b") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvg_config config;
    kvg_status s = kvg_config_parse("fuzz.json", (const char *)data, size, "no-such-folder",
                                    &kvg_generate_guest, &config);
    if (s == KVG_OK) {
        check_config(&config);
        kvg_config_close(&config);
        return 0;
    }
    require(s == KVG_ERR_INVALID);
    const char *text = kvg_error_text();
    require(strncmp(text, "fuzz.json: ", 11) == 0);
    require_line(text);
    return 0;
}
