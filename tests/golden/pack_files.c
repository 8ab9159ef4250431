#define KVGOLD_PACK_IMPLEMENTATION
#include "tests/golden/pack_files.h"

#include <dirent.h>
#include <setjmp.h>

#include <cmocka.h>

#include "golden/pack.h"

const char *const pack_file_names[KVGOLD_FILES] = {"manifest.json",        "manifest.sha256", "prompt.safetensors",
                                                   "expected.safetensors", "provenance.json", "provenance.sha256"};

static int is_pack(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strchr(entry->d_name, '.');
}

size_t pack_files_each(const char *folder, pack_visit *visit, void *context)
{
    struct dirent **list = NULL;
    char path[1024];
    const int count = scandir(folder, &list, is_pack, alphasort);
    if (count < 0) fail_msg("cannot read %s", folder);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        visit(path, list[i]->d_name, context);
        free(list[i]);
    }
    free(list);
    return (size_t)count;
}

static void check_line(const char *path, const char *text)
{
    if (strncmp(text, path, strlen(path)) != 0) fail_msg("the error does not begin with '%s': %s", path, text);
    for (const char *c = text; *c; c++) {
        if (*c < ' ' || *c > '~') fail_msg("%s: byte 0x%02x in an error text", path, (unsigned char)*c);
    }
}

pack_verdict pack_files_judge(const char *path)
{
    pack_verdict v = {0};
    kvg_pack *ours = NULL;
    const kvg_status s = kvg_pack_open(path, &ours);
    kvgold_pack *theirs = kvgold_pack_open(path, v.reader_text);
    v.kvgold = s == KVG_OK;
    v.reader = theirs != NULL;
    if (s) snprintf(v.kvgold_text, sizeof v.kvgold_text, "%s", kvg_error_text());
    if (s) check_line(path, v.kvgold_text);
    if (!theirs) check_line(path, v.reader_text);
    kvg_pack_close(ours);
    kvgold_pack_close(theirs);
    return v;
}

kvgold_file pack_files_read(const char *folder, const char *name)
{
    char path[1024];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &about) != 0) fail_msg("cannot read %s", path);
    kvgold_file file = {malloc((size_t)about.st_size + 1), (size_t)about.st_size};
    if (!file.data || fread((void *)file.data, 1, file.size, f) != file.size) fail_msg("cannot read %s", path);
    fclose(f);
    return file;
}

void pack_files_write(const char *folder, const char *name, const void *data, size_t size)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    const bool good = f && fwrite(data, 1, size, f) == size;
    if (!f || fclose(f) != 0 || !good) fail_msg("cannot write %s", path);
}

void pack_files_copy_good(const char *folder)
{
    char path[1024];
    (void)mkdir(folder, 0777);
    for (int i = 0; i < KVGOLD_FILES; i++) {
        kvgold_file file = pack_files_read(PACK_GOOD, pack_file_names[i]);
        snprintf(path, sizeof path, "%s/%s", folder, pack_file_names[i]);
        (void)unlink(path);
        (void)rmdir(path);
        pack_files_write(folder, pack_file_names[i], file.data, file.size);
        free((void *)file.data);
    }
}
