/* Finds a name among the names of a table. The names are a field of the table's rows: `first`
 * points to that field of the first row, and `stride` is the size of a row in bytes. */
#ifndef KVG_CORE_NAME_H
#define KVG_CORE_NAME_H

#include <stddef.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets *row to the row with this name. Otherwise fails with KVG_ERR_NOT_FOUND and a text of one
 * line: the nearest name ("no format 'nvpf4' (did you mean 'nvfp4'?)"), or all names if none is
 * near. `what` says what the names stand for. */
kvg_status kvg_name_find(const char *what, const char *name, const char *const *first, size_t stride, size_t count,
                         size_t *row) KVG_CHECKED;

/* Fails as kvg_name_find does, for a caller that has already looked in vain. */
kvg_status kvg_name_fail(const char *what, const char *name, const char *const *first, size_t stride, size_t count);

/* Fails with KVG_ERR_NOT_FOUND for a file or folder that does not exist. The text proposes the
 * nearest name in the same folder, or in the folder `shipped` if this is not NULL. Names in
 * `shipped` are proposed without .json. */
kvg_status kvg_name_fail_file(const char *path, const char *shipped);

/* The name that was most likely meant: one that is equal except for case, or at an edit distance of
 * at most 2 or a third of the length, or the only name that begins with `name`. NULL if none is
 * near. */
const char *kvg_name_nearest(const char *name, const char *const *first, size_t stride, size_t count);

#ifdef __cplusplus
}
#endif

#endif
