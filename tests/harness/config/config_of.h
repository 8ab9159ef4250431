/* A config of one line, for tests of what its cases mean. */
#ifndef KVG_TESTS_HARNESS_CONFIG_CONFIG_OF_H
#define KVG_TESTS_HARNESS_CONFIG_CONFIG_OF_H

#include <stdio.h>

#include "harness/config/config.h"
#include "model/guest/generate_guest.h"

/* Parses the text of the list "cases", with ' for ", in the folder of the repository's configs. The config is the
 * caller's to free if the status is KVG_OK. */
static inline kvg_status config_of(const char *cases, kvg_config *config)
{
    char text[4096];
    const int n = snprintf(text, sizeof text, "{'kvgold':1,'name':'t','seed':'0x5','cases':[%s]}", cases);
    assert_true(n > 0 && (size_t)n < sizeof text);
    for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
    return kvg_config_parse("t.json", text, (size_t)n, KVG_SOURCE_DIR "/configs", &kvg_generate_guest, config);
}

/* The same, of a list that is right and selects a case at least. */
static inline kvg_config config_from(const char *cases)
{
    kvg_config config;
    if (config_of(cases, &config)) fail_msg("%s: %s", cases, kvg_error_text());
    assert_true(config.case_count > 0);
    return config;
}

#endif
