/* Files that come with kvgold: configs, models, golden packs, captures and headers. */
#ifndef KVG_SUPPORT_SHIPPED_H
#define KVG_SUPPORT_SHIPPED_H

#include <stddef.h>

#include "core/status.h"

/* The folder of the running program, or "." if the system does not say. */
void kvg_shipped_program_folder(char *out, size_t size);

/* Finds a shipped file or folder by its path in the repository, such as "configs/models": below the
 * working directory, in the repository of a build tree build/<preset>/bin, or in the folders
 * share/kvgold and include/kvgold of an installation. KVG_ERR_NOT_FOUND. */
kvg_status kvg_shipped_path(const char *name, char *out, size_t size) KVG_CHECKED;

/* The file that a user means by `argument`, or the folder if `ending` is "". If there is one, or the
 * argument has a '/', it is itself. Otherwise it is the name of a shipped one: in the folder
 * "configs", with the ending ".json", the argument "ci_smoke" means configs/ci_smoke.json.
 * KVG_ERR_NOT_FOUND proposes the nearest name. */
kvg_status kvg_shipped_find(const char *folder, const char *ending, const char *argument, char *out,
                            size_t size) KVG_CHECKED;

/* Calls `each` for the name of every shipped file in a folder that has the ending, without the ending, or if
 * `ending` is "" for the name of every folder in the folder, in the order of the names. */
kvg_status kvg_shipped_each(const char *folder, const char *ending, void (*each)(const char *name, void *context),
                            void *context) KVG_CHECKED;

#endif
