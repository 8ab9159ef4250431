/* Files that are whole or not there. */
#ifndef KVG_SUPPORT_WHOLE_FILE_H
#define KVG_SUPPORT_WHOLE_FILE_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/status.h"

/* Calls `write` with a temporary file beside `path`, which then takes its name; what is no regular file (a device, a
 * link) is written in place. On failure, `write`'s own included, no part is left, and what was there before stays.
 * KVG_ERR_IO names the path. */
kvg_status kvg_whole_file_write(const char *path, kvg_status (*write)(void *context, FILE *out),
                                void *context) KVG_CHECKED;

/* The same with a JSON value and a line end. */
kvg_status kvg_whole_file_write_json(const char *path, const cJSON *value) KVG_CHECKED;

/* KVG_ERR_IO where that cannot succeed: there is no such folder, nobody may write there, or it is a folder. To ask
 * before long work. */
kvg_status kvg_whole_file_check(const char *path) KVG_CHECKED;

/* Makes a folder for files to be written, and those that it lies in; what is there stays. KVG_ERR_IO names it. */
kvg_status kvg_whole_file_folder(const char *path) KVG_CHECKED;

#endif
