/* Capability files: what an implementation claims to do. A case that no claim covers is not run: SKIP, "unclaimed". The
 * file's format is in docs/guide/plugin.md section 4 and configs/capabilities_schema.json. */
#ifndef KVG_HARNESS_RUN_CAPABILITIES_H
#define KVG_HARNESS_RUN_CAPABILITIES_H

#include "golden/golden.h"
#include "harness/case/case.h"
#include "harness/case/result.h"
#include "harness/config/config.h"

typedef struct kvg_capabilities kvg_capabilities;

/* Reads a file, strictly: KVG_ERR_INVALID names the file, the place and what is wrong. */
kvg_status kvg_capabilities_open(const char *path, kvg_capabilities **out) KVG_CHECKED;

/* The one that goes with a backend: `given` unless NULL, else the file beside a plug-in's library, libengine.json for
 * libengine.so. *out is NULL where there is none: then everything is claimed. */
kvg_status kvg_capabilities_find(const char *backend, const char *given, kvg_capabilities **out) KVG_CHECKED;
void kvg_capabilities_close(kvg_capabilities *capabilities); /* NULL is allowed */

/* Adds the JSON Schema of such a file, configs/capabilities_schema.json. */
kvg_status kvg_capabilities_schema(kvg_json_text *out) KVG_CHECKED;

/* What the file claims and no case of the config asks of the backend, on whatever GPU: each value of a list that no
 * case has which the claim covers. `put` gets "feature padding (claims[0])", and ends the search if it fails. */
kvg_status kvg_capabilities_unasked(const kvg_capabilities *capabilities, const kvg_config *config, const char *backend,
                                    kvg_status (*put)(void *context, const char *text), void *context) KVG_CHECKED;

const char *kvg_capabilities_path(const kvg_capabilities *capabilities);

/* The list of claims, which has been checked. */
kvg_json kvg_capabilities_claims(const kvg_capabilities *capabilities);

/* Whether a claim covers the case on a GPU of that compute capability (0: none). If not, the verdict is SKIP, and
 * `unclaimed` of the result is the first thing that those claims which cover what comes before it lack: "layout hnd",
 * "format nvfp4.vllm", "feature sinks". No capabilities: all is claimed. */
bool kvg_capabilities_claim(const kvg_capabilities *capabilities, const kvg_case *c, uint32_t sm, kvg_result *r);

/* The axes of invariance that claims which cover the case list. */
uint32_t kvg_capabilities_invariant(const kvg_capabilities *capabilities, const kvg_case *c, uint32_t sm);

#endif
