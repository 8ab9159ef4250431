/* The files that a command reads and writes: none that is written may be another one of them. */
#ifndef KVG_SUPPORT_USED_FILES_H
#define KVG_SUPPORT_USED_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

typedef struct kvg_used_file {
    const char *folder; /* NULL: the name is the whole path */
    const char *name;   /* NULL: not used */
    bool written;
} kvg_used_file;

/* To ask before anything is written. KVG_ERR_INVALID names two that are the same file, under whatever names: the same
 * device and inode, or the same name that is not there yet below the same folder. What is neither file nor folder, as
 * /dev/null, may be given twice. */
kvg_status kvg_used_files_check(const kvg_used_file *files, size_t count) KVG_CHECKED;

#endif
