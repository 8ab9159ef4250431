/* Finding a name among the names of a table. The names are a field of the table's rows: `first`
 * is that field of the first row, and `stride` the bytes of a row. */
#ifndef KVG_CORE_NAME_H
#define KVG_CORE_NAME_H

#include <stddef.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The row that has this name. Where none has it, KVG_ERR_NOT_FOUND and a text of one line: all names, or where one
 * is near "no format 'nvpf4' (did you mean 'nvfp4'?)". `what` says what the names are of. */
kvg_status kvg_name_find(const char *what, const char *name, const char *const *first, size_t stride, size_t count,
                         size_t *row) KVG_CHECKED;

/* Fails as kvg_name_find does, for a caller that has looked. */
kvg_status kvg_name_fail(const char *what, const char *name, const char *const *first, size_t stride, size_t count);

/* Fails for a file or folder that is not there: KVG_ERR_NOT_FOUND, with the name in the same folder that was most
 * likely meant. */
kvg_status kvg_name_fail_file(const char *path);

/* The name that was most likely meant: equal except for case, or at an edit distance of at most 2 or a third of the
 * length, or the only one that begins with `name`. NULL if none is near. */
const char *kvg_name_nearest(const char *name, const char *const *first, size_t stride, size_t count);

#ifdef __cplusplus
}
#endif

#endif
