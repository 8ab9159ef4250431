/* A config that asks what a capability file claims. */
#ifndef KVG_HARNESS_RUN_CLAIMS_CONFIG_H
#define KVG_HARNESS_RUN_CLAIMS_CONFIG_H

#include "harness/run/capabilities.h"

/* The text of a config: for each claim and op, cases in which every two values that the claim lists meet, if a case may
 * have both. What the claim leaves out has one value. KVG_ERR_INVALID: no case can ask some op. */
kvg_status kvg_claims_config(const kvg_capabilities *capabilities, const char *name, kvg_json_text *out) KVG_CHECKED;

#endif
