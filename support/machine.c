#include "support/machine.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

enum { MODEL_SIZE = 200 };

/* What follows `key` and a colon in the first such line of a file. False: there is none. */
static bool read_model(const char *path, const char *key, char out[MODEL_SIZE])
{
    char line[512];
    bool found = false;
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        found = strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), " : %199[^\n]", out) == 1;
    }
    if (f) fclose(f);
    return found;
}

void kvg_machine_host(char *out, size_t size)
{
    struct utsname system;
    snprintf(out, size, "%s", uname(&system) == 0 ? system.nodename : "unknown");
}

void kvg_machine_cpu(char *out, size_t size)
{
    char model[MODEL_SIZE];
    struct utsname system;
    if (read_model("/proc/cpuinfo", "model name", model)) snprintf(out, size, "%s", model);
    else snprintf(out, size, "%s", uname(&system) == 0 ? system.machine : "unknown");
}

void kvg_machine_gpus(char *out, size_t size)
{
    char model[MODEL_SIZE];
    glob_t files;
    out[0] = 0;
    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &files) != 0) return;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const size_t used = strlen(out);
        if (!read_model(files.gl_pathv[i], "Model", model)) continue;
        snprintf(out + used, size - used, "%s%s", used ? ", " : "", model);
    }
    globfree(&files);
}
