/* Configs: what is refused and why, what a good one selects, and the data that a case gets. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/config/config.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/question/fill.h"
#include "harness/trial/question/paged_fill.h"
#include "harness/trial/question/question.h"
#include "model/guest/generate_guest.h"
#include "tests/harness/config/config_of.h"
#include "tests/made/made_files.h"

#define BAD MADE_FILES "/tests/harness/bad_configs"
#define SHAPE "'kv_heads':2,'head_dim':64"

static bool has_case(const kvg_config *config, const char *id)
{
    for (size_t i = 0; i < config->case_count; i++) {
        if (strcmp(config->cases[i].id, id) == 0) return true;
    }
    return false;
}

/* --- bad configs --- */

static size_t count_files(const char *suffix)
{
    DIR *folder = opendir(BAD);
    assert_non_null(folder);
    size_t count = 0;
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        const size_t length = strlen(e->d_name);
        count += length > strlen(suffix) && strcmp(e->d_name + length - strlen(suffix), suffix) == 0;
    }
    closedir(folder);
    return count;
}

static void test_bad_configs_are_refused_with_their_reason(void **state)
{
    (void)state;
    MADE_FILES_NEEDED();
    FILE *list = fopen(BAD "/expect_configs.txt", "r");
    if (!list) fail_msg("cannot read %s/expect_configs.txt", BAD);
    char line[512], path[1024];
    size_t count = 0;
    while (fgets(line, sizeof line, list)) {
        kvg_config config;
        line[strcspn(line, "\n")] = '\0';
        char *end = strstr(line, " | "), *text = end ? strstr(end + 3, " | ") : NULL;
        if (!text) fail_msg("expect_configs.txt: not 'file | kind | text': %s", line);
        *end = '\0';
        text += 3;
        snprintf(path, sizeof path, "%s/%s", BAD, line);
        const kvg_status s = kvg_config_open(path, NULL, &kvg_generate_guest, &config);
        if (s != KVG_ERR_INVALID) fail_msg("%s: not refused as invalid", line);
        if (!strstr(kvg_error_text(), text)) fail_msg("%s: '%s' is not in '%s'", line, text, kvg_error_text());
        if (!strstr(kvg_error_text(), line)) fail_msg("%s: the file is not named in: %s", line, kvg_error_text());
        assert_null(config.data);
        count++;
    }
    fclose(list);
    assert_true(count > 90);
    assert_int_equal(count, count_files(".json"));
}

static void test_an_error_is_one_line_without_control_bytes(void **state)
{
    (void)state;
    static const char *const groups[] = {
        "{'op':'a\\nb','format':'f16','fill':'zero'," SHAPE "}",
        "{'op':'quantise','format':'\\u001b[2J','fill':'zero'," SHAPE "}",
        "{'op':'quantise','format':'f16','dialect':'\\t','fill':'zero'," SHAPE "}",
        "{'op':'quantise','format':'f16','fill':'\\r'," SHAPE "}",
        "{'op':'quantise','format':'f16','fill':'zero','model':'a\\u007f'}",
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        kvg_config config;
        assert_int_equal(config_of(groups[i], &config), KVG_ERR_INVALID);
        for (const char *t = kvg_error_text(); *t; t++) assert_true((unsigned char)*t >= 0x20 && *t != 0x7f);
    }
}

static void test_files_that_cannot_be_read(void **state)
{
    (void)state;
    kvg_config config;
    assert_int_equal(kvg_config_open(KVG_SOURCE_DIR "/configs/no-such.json", NULL, NULL, &config), KVG_ERR_NOT_FOUND);
    assert_non_null(strstr(kvg_error_text(), "no-such.json"));
    assert_int_equal(kvg_config_open(KVG_SOURCE_DIR "/configs", NULL, NULL, &config), KVG_ERR_IO);
    assert_non_null(strstr(kvg_error_text(), "is a folder"));
}

/* --- good configs --- */

static void test_defaults(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'quantise','format':'nvfp4','fill':'random'," SHAPE "}");
    assert_int_equal(config.case_count, 1);
    const kvg_case *c = &config.cases[0];
    assert_string_equal(c->id, "quantise/nvfp4.canonical/rows/bf16/64x2x64/random/P2/reference");
    assert_string_equal(c->backend, "reference");
    assert_int_equal(c->seed, 5);
    assert_int_equal(config.seed, 5);
    assert_string_equal(config.name, "t");
    assert_true(config.slow_seconds == 10 && config.hang_seconds == 60);
    kvg_config_close(&config);
    assert_null(config.cases);
}

/* A default gives way to what is set. */
static void test_a_short_hang_is_no_slower_than_slow(void **state)
{
    (void)state;
    char text[] = "{'kvgold':1,'name':'t','seed':'0x5','limits':{'hang_seconds':3},"
                  "'cases':[{'op':'quantise','format':'f16','fill':'random'," SHAPE "}]}";
    for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
    kvg_config config;
    if (kvg_config_parse("t.json", text, sizeof text - 1, KVG_SOURCE_DIR "/configs", &kvg_generate_guest, &config))
        fail_msg("%s", kvg_error_text());
    assert_true(config.slow_seconds == 3 && config.hang_seconds == 3);
    kvg_config_close(&config);
}

static const struct {
    const char *cases;
    size_t count;
} selections[] = {
    {"{'op':['quantise','dequantise'],'format':['f16','mx16'],'dtype':['bf16','f16','f32'],'fill':'random',"
     SHAPE "}", 12},
    {"{'op':'quantise','format':'mx16','tokens':[1,2,3,4],'fill':['random','zero'],"
     "'kv_heads':[1,2],'head_dim':[64,128]}", 32},
    /* a scale that the format does not have collapses: f16 once, nvfp4 three times */
    {"{'op':'quantise','format':['f16','nvfp4'],'scale':['P1','P2',0.5],'fill':'random'," SHAPE "}", 4},
    {"{'op':'quantise','format':'nvfp4','scale':[0.5,{'k':0.5,'v':0.5}],'fill':'random'," SHAPE "}", 1},
    {"{'op':'quantise','format':['mx16','mx16'],'fill':'random'," SHAPE "}", 1},
    /* the same case in two groups */
    {"{'op':'quantise','format':'mx16','fill':'random'," SHAPE "},"
     "{'op':'quantise','format':['f16','mx16'],'fill':'random'," SHAPE "}", 2},
    /* include: axes left out are the group's first */
    {"{'op':['quantise','dequantise'],'format':'mx16','fill':'random','tokens':[3,4]," SHAPE
     ",'include':[{'tokens':[8,9]},{'format':'int8'}]}", 7},
    /* exclude takes from include too; all keys must match, one of a list is enough */
    {"{'op':['quantise','dequantise'],'format':'mx16','fill':'random','tokens':[3,4]," SHAPE
     ",'include':[{'tokens':8}],'exclude':[{'op':'quantise','tokens':[4,8]}]}", 3},
    {"{'op':'quantise','format':'rowfp4','dialect':'all','fill':'random'," SHAPE
     ",'exclude':[{'dialect':'marlin-linear'}]}", 1},
    {"{'op':'quantise','format':['e4m3',{'k':'e4m3','v':'nvfp4'}],'fill':'random'," SHAPE
     ",'exclude':[{'format':'e4m3+nvfp4'}]}", 1},
    {"{'op':'quantise','format':'nvfp4','scale':['P1','P3',2],'fill':['random','zero']," SHAPE
     ",'exclude':[{'scale':'given'},{'fill':'zero','scale':'P3'}]}", 3},
    {"{'op':'quantise','format':'mx16','model':['llama-3-8b','gpt-oss-20b'],'fill':'random',"
     "'exclude':[{'model':'llama-3-8b'}]}", 1},
    {"{'op':['append','flatten'],'layout':['nhd','slot'],'format':'mx16','fill':'random','padding':[{},{'data':8}],"
     "'rope':[{'dims':0},{'dims':8}],'bias':[false,true]," SHAPE ",'exclude':[{'op':'flatten','rope':true},"
     "{'op':'flatten','bias':true},{'layout':'slot','padding':true}]}", 15},
    /* a policy that is refused may be excluded; a format there replaces the policy, and the other way round */
    {"{'op':'quantise','policy':[{'number':4},{'number':16,'sm':80},{'number':16,'sm':90}],'head_dim':[8,64],"
     "'kv_heads':1,'fill':'random','exclude':[{'policy':'policy16@sm80'},{'policy':'policy16@sm90','head_dim':8}]}", 3},
    {"{'op':'quantise','policy':{'number':4},'fill':'random'," SHAPE
     ",'include':[{'format':'nvfp4','dialect':'vllm'},{'tokens':3}]},{'op':'quantise','format':'mx16',"
     "'fill':'random'," SHAPE ",'include':[{'policy':{'number':8}}]}", 5},
    {"{'op':'quantise','policy':[{'number':4},{'number':4,'on_unsupported':'fallback'}],'fill':'random'," SHAPE "}", 1},
};

static void test_products_includes_and_excludes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof selections / sizeof selections[0]; i++) {
        kvg_config config = config_from(selections[i].cases);
        if (config.case_count != selections[i].count) {
            fail_msg("%s: %zu cases, expected %zu", selections[i].cases, config.case_count, selections[i].count);
        }
        kvg_config_close(&config);
    }
}

static void test_all_is_every_dialect_of_each_format(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'quantise','format':['f16','mx16','nvfp4'],'dialect':'all',"
                                    "'fill':'random'," SHAPE "}");
    size_t expected = 0;
    for (kvg_format f = KVG_FORMAT_NONE; f < KVG_FORMAT_END; f++) {
        if (f != KVG_FORMAT_F16 && f != KVG_FORMAT_MX16 && f != KVG_FORMAT_NVFP4) continue;
        for (size_t d = 0; d < kvg_reference_dialect_count(f); d++, expected++) {
            char id[256];
            snprintf(id, sizeof id, "quantise/%s.%s/rows/bf16/64x2x64/random/%s/reference", kvg_format_get(f)->name,
                     kvg_reference_dialect(f, d)->name, f == KVG_FORMAT_NVFP4 ? "P2" : "-");
            if (!has_case(&config, id)) fail_msg("no case %s", id);
        }
    }
    assert_int_equal(config.case_count, expected);
    assert_true(expected > 10);
    kvg_config_close(&config);
}

static void test_sides_of_their_own(void **state)
{
    (void)state;
    kvg_config config = config_from(
        "{'op':'quantise','format':{'k':'e4m3','v':'nvfp4'},'dialect':{'k':'trtllm','v':'vllm'},"
        "'scale':{'k':0.5,'v':0.25},'fill':'random'," SHAPE "}");
    const kvg_case *c = &config.cases[0];
    assert_string_equal(c->id, "quantise/e4m3.trtllm+nvfp4.vllm/rows/bf16/64x2x64/random/g0.5,0.25/reference");
    assert_int_equal(c->problem.storage[KVG_K].format, KVG_FORMAT_E4M3);
    assert_int_equal(c->problem.storage[KVG_V].format, KVG_FORMAT_NVFP4);
    assert_true(c->scale.given && c->scale.value[KVG_K] == 0.5f && c->scale.value[KVG_V] == 0.25f);
    kvg_config_close(&config);
}

/* A model gives both numbers; where an include brings the other way of saying them, the include's hold. */
static void test_models(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'quantise','format':'int8','model':'gpt-oss-20b','fill':'random',"
                                    "'include':[{'kv_heads':3,'head_dim':80}]},"
                                    "{'op':'quantise','format':'mx16','kv_heads':3,'head_dim':80,'fill':'random',"
                                    "'include':[{'model':['gpt-oss-20b','models/llama-3-8b.json']},{'kv_heads':5}]}");
    static const char *const ids[] = {
        "quantise/int8.canonical/rows/bf16/64x8x64/random/-/reference",
        "quantise/int8.canonical/rows/bf16/64x3x80/random/-/reference",
        "quantise/mx16.canonical/rows/bf16/64x3x80/random/-/reference",
        "quantise/mx16.canonical/rows/bf16/64x8x64/random/-/reference",
        "quantise/mx16.canonical/rows/bf16/64x8x128/random/-/reference",
        "quantise/mx16.canonical/rows/bf16/64x5x80/random/-/reference",
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (!has_case(&config, ids[i])) fail_msg("no case %s", ids[i]);
    }
    assert_int_equal(config.case_count, sizeof ids / sizeof ids[0]);
    kvg_config_close(&config);
}

static void test_captures_are_found_from_the_configs_folder(void **state)
{
    (void)state;
    kvg_config config = config_from(
        "{'op':'quantise','format':'mx16','fill':[{'capture':'a/b.safetensors','k':'x','v':'y'},"
        "{'capture':'/abs.safetensors','k':'x.1','v':'y'}]," SHAPE "}");
    assert_string_equal(config.cases[0].capture_file, KVG_SOURCE_DIR "/configs/a/b.safetensors");
    assert_string_equal(config.cases[1].capture_file, "/abs.safetensors");
    assert_string_equal(config.cases[0].id, "quantise/mx16.canonical/rows/bf16/64x2x64/capture:x,y/-/reference");
    kvg_config_close(&config);
}

static void test_ids_are_stable_unique_and_name_no_position(void **state)
{
    (void)state;
    kvg_config config;
    const uint64_t seed = 0x77;
    assert_int_equal(kvg_config_open(KVG_SOURCE_DIR "/configs/ci_formats.json", &seed, NULL, &config), KVG_OK);
    assert_int_equal(config.seed, seed);
    assert_true(config.case_count > 500);
    const char **ids = malloc(config.case_count * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < config.case_count; i++) {
        ids[i] = config.cases[i].id;
        assert_int_equal(config.cases[i].seed, seed);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(ids[i], ids[j]);
    }
    free(ids);
    kvg_config_close(&config);
    /* the same case among others and in another order */
    kvg_config one = config_from("{'op':'quantise','format':['f16','mx16'],'fill':'zero'," SHAPE "}");
    kvg_config two = config_from("{'fill':['random','zero'],'format':['mx16','e4m3'],'op':['dequantise','quantise'],"
                                 SHAPE "}");
    assert_true(has_case(&two, one.cases[1].id));
    kvg_config_close(&one);
    kvg_config_close(&two);
}

static void test_each_case_is_in_one_shard(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':['quantise','dequantise'],'format':'mx16','fill':'random',"
                                    "'tokens':[1,2,3,4,5,6,7,8,9,10],'kv_heads':[1,2,3,4,5],'head_dim':64}");
    for (uint32_t n = 1; n <= 7; n++) {
        size_t sizes[7] = {0};
        for (size_t i = 0; i < config.case_count; i++) {
            kvg_case alone = config.cases[i]; /* by its id alone */
            alone.seed = 99;
            const uint32_t shard = kvg_case_shard(&config.cases[i], n);
            assert_true(shard < n);
            assert_int_equal(kvg_case_shard(&alone, n), shard);
            sizes[shard]++;
        }
        for (uint32_t shard = 0; shard < n; shard++) assert_true(sizes[shard] > 0);
    }
    /* fixed for ever: shards of one run may come from different builds */
    kvg_case c = config.cases[0];
    snprintf(c.id, sizeof c.id, "a");
    assert_int_equal(kvg_case_shard(&c, 1000), 0xAF63DC4C8601EC8Cull % 1000); /* FNV-1a of "a" */
    kvg_config_close(&config);
}

static void test_another_backend_renames_and_merges(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'quantise','format':['f16','mx16'],'fill':'random',"
                                    "'backend':['reference','slowref']," SHAPE "}");
    assert_int_equal(config.case_count, 4);
    assert_int_equal(kvg_config_use_backend(&config, "/x/liby.so"), KVG_OK);
    assert_int_equal(config.case_count, 2);
    assert_string_equal(config.cases[1].id, "quantise/mx16.canonical/rows/bf16/64x2x64/random/-//x/liby.so");
    kvg_config_close(&config);
}

static void test_the_repro_line_survives_a_shell(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'quantise','format':'mx16',"
                                    "'fill':{'capture':'c','k':'it\\u0027s $k','v':'v'}," SHAPE "}");
    char repro[KVG_REPRO_SIZE], command[KVG_REPRO_SIZE + 32], line[512];
    kvg_case_repro(&config.cases[0], "my configs/a.json", "the claims.json", NULL, repro, sizeof repro);
    assert_int_equal(strncmp(repro, "kvgold ", 7), 0);
    snprintf(command, sizeof command, "printf '%%s\\n' %s", repro + 7);
    FILE *shell = popen(command, "r");
    assert_non_null(shell);
    static const char *const words[] = {
        "check", "my configs/a.json", "--backend", "reference", "--capabilities", "the claims.json", "--case",
        "quantise/mx16.canonical/rows/bf16/64x2x64/capture:it's $k,v/-/reference", "--seed", "0x5",
        "-o", "kvgold-repro",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_non_null(fgets(line, sizeof line, shell));
        line[strcspn(line, "\n")] = '\0';
        assert_string_equal(line, words[i]);
    }
    assert_null(fgets(line, sizeof line, shell));
    assert_int_equal(pclose(shell), 0);
    kvg_config_close(&config);
}

/* --- paged layouts --- */

#define PAGED "'format':'nvfp4','tokens':40,'fill':'random'"

static void test_paged_ids_name_every_option(void **state)
{
    (void)state;
    kvg_config config = config_from(
        "{'op':'append','layout':'turbomind','rope':{'dims':64},'bias':true," PAGED "," SHAPE "},"
        "{'op':'append','layout':'hnd','block_tokens':8,'blocks':20,'layers':5,'sequences':2,'v_scale_swizzle':true,"
        "'padding':{'row':3,'data':64,'scales':32},'rope':{'dims':6,'pairing':'halves','positions':9}," PAGED "," SHAPE
        "},{'op':'flatten','layout':'mla','shared_kv':{'v_first':16,'v_dim':32}," PAGED ",'kv_heads':1,'head_dim':64},"
        "{'op':'probe','layout':['contiguous','slot'],'rope':{'dims':0},'padding':{},'bias':false," PAGED "," SHAPE
        "}");
    static const char *const ids[] = {
        "append/nvfp4.canonical/turbomind:B16:N8:L2:S3:rope64a256:bias/bf16/40x2x64/random/P2/reference",
        "append/nvfp4.canonical/hnd:B8:N20:L5:S2:pad3+64+32:swizzle:rope6h9/bf16/40x2x64/random/P2/reference",
        "flatten/nvfp4.canonical/mla:B16:N8:L2:S3:v32@16/bf16/40x1x64/random/P2/reference",
        "probe/nvfp4.canonical/contiguous:B16:N5:L2:S3/bf16/40x2x64/random/P2/reference",
        "probe/nvfp4.canonical/slot:B16:N8:L2:S3/bf16/40x2x64/random/P2/reference",
    };
    assert_int_equal(config.case_count, sizeof ids / sizeof ids[0]);
    for (size_t i = 0; i < config.case_count; i++) {
        assert_string_equal(config.cases[i].id, ids[i]);
        const kvg_problem *p = &config.cases[i].problem;
        assert_int_equal(p->paging.layer, (p->tokens + p->paging.block_tokens) % p->paging.layers);
    }
    kvg_config_close(&config);
}

/* The config names it, in the id and for all draws; or the seed chooses. */
static void test_the_layer_of_a_case(void **state)
{
    (void)state;
    static const char path[] = KVG_BINARY_DIR "/layers.json";
    static const char text[] =
        "{\"kvgold\": 1, \"name\": \"a\", \"seed\": \"0x1\", \"cases\": [{\"op\": \"append\", \"format\": \"nvfp4\", "
        "\"layout\": \"hnd\", \"layers\": 5, \"layer\": [\"seed\", 0, 4], \"kv_heads\": 2, \"head_dim\": 64, "
        "\"fill\": \"random\"}]}";
    kvg_config config;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    if (kvg_config_open(path, NULL, NULL, &config)) fail_msg("%s", kvg_error_text());
    assert_int_equal(config.case_count, 3);
    assert_null(strstr(config.cases[0].id, ":layer"));
    assert_non_null(strstr(config.cases[1].id, ":L5:layer0:S3/"));
    assert_non_null(strstr(config.cases[2].id, ":L5:layer4:S3/"));
    bool moves = false;
    for (uint64_t draw = 0; draw <= KVG_REDRAWS; draw++) {
        assert_int_equal(kvg_fill_draw(&config.cases[1], draw).problem.paging.layer, 0);
        assert_int_equal(kvg_fill_draw(&config.cases[2], draw).problem.paging.layer, 4);
        moves |= kvg_fill_draw(&config.cases[0], draw).problem.paging.layer != config.cases[0].problem.paging.layer;
    }
    assert_true(moves);
    kvg_config_close(&config);
}

/* Geometry number i of many, with a number of blocks or (0) the default. */
static kvg_status parse_spread(uint32_t i, uint32_t blocks, kvg_config *config)
{
    static const char *const layouts[] = {"nhd", "contiguous", "ring"}, *const ops[] = {"append", "flatten", "probe"};
    const uint32_t tokens = 1 + i * 7 % 50, sequences = 1 + i * 5 % 7;
    const bool may_share = i % 9 == 1 && sequences > 1; /* flatten of nhd */
    char text[512], word[32] = "";
    if (blocks) snprintf(word, sizeof word, "'blocks':%u,", blocks);
    snprintf(text, sizeof text,
             "{'op':'%s','layout':'%s','format':'mx16','tokens':%u,'sequences':%u,'block_tokens':%u,%s"
             "'shared_prefix':%u,'fill':'random','kv_heads':1,'head_dim':32}", ops[i % 3], layouts[i / 3 % 3], tokens,
             sequences, 1 + i * 3 % 17, word, may_share ? tokens / 3 : 0);
    return config_of(text, config);
}

/* Of 40 seeds, those with which the case has too few blocks. */
static size_t seeds_without_blocks(const kvg_case *c)
{
    size_t count = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        kvg_paged_fill fill;
        count += kvg_paged_fill_make(c, seed, &fill) && strstr(kvg_error_text(), "need more than");
        kvg_paged_fill_free(&fill);
    }
    return count;
}

/* What loads has blocks enough for every seed; one block less does not load, and may not be enough. */
static void test_blocks_are_enough_and_not_too_many(void **state)
{
    (void)state;
    size_t count = 0, tight = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        kvg_config config, less;
        if (parse_spread(i, 0, &config)) {
            assert_non_null(strstr(kvg_error_text(), "as capacity")); /* a contiguous cache that is too small */
            continue;
        }
        kvg_case c = config.cases[0];
        const uint32_t needed = c.problem.paging.blocks -= 2;
        if (seeds_without_blocks(&c)) fail_msg("%s: %u blocks are not enough", c.id, needed);
        c.problem.paging.blocks--;
        if (needed > 1) assert_int_equal(parse_spread(i, needed - 1, &less), KVG_ERR_INVALID);
        tight += needed > 1 && seeds_without_blocks(&c) > 0;
        kvg_config_close(&config);
        count++;
    }
    assert_true(count > 1500);
    assert_true(tight > 800); /* a bound that is one too large has none */
}

/* --- policies --- */

#define POLICIES "'op':'append','layout':'turbomind','tokens':40,'fill':'random'," SHAPE

static void test_policies_choose_formats(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *id; /* the part of the id before and after the geometry */
    } chosen[] = {
        {"{'number':0}", "bf16.canonical/policy0"},
        {"{'number':4,'on_unsupported':'fallback'}", "int4.canonical/policy4"},
        {"{'number':8,'sm':75}", "int8.canonical/policy8@sm75"},
        {"{'number':16,'sm':90}", "mx16.canonical/policy16@sm90"},
        {"{'number':16,'sm':120}", "nvfp4.canonical/policy16@sm120"},
        {"{'number':16,'sm':100,'fp4_nv':false}", "bf16.canonical/policy16@sm100>none:no_fp4_nv"},
        {"{'number':16,'sm':80,'on_unsupported':'fallback'}", "bf16.canonical/policy16@sm80>none"},
        {"{'number':16,'sm':90,'fp4_build':false,'on_unsupported':'fallback'}",
         "bf16.canonical/policy16@sm90>none:no_fp4_build"},
        {"{'number':16,'domain':'lmdeploy_2026'}", "e4m3.canonical/policy16.lmdeploy_2026"},
        {"{'number':17,'domain':'lmdeploy_2026','sm':90,'engine_kernels':true,'on_unsupported':'fallback'}",
         "bf16.canonical/policy17.lmdeploy_2026@sm90>none:engine_kernels"},
        {"{'number':16,'sm':90,'gating':'design','partial_kv':true,'prefix_cache':true}",
         "mx16.canonical/policy16@sm90:design:prefix_cache:partial_kv"},
    };
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) {
        char text[512], id[256];
        snprintf(text, sizeof text, "{'policy':%s," POLICIES "}", chosen[i].policy);
        kvg_config config = config_from(text);
        const kvg_case *c = &config.cases[0];
        const kvg_format format = c->problem.storage[KVG_K].format;
        const char *word = strchr(chosen[i].id, '/');
        snprintf(id, sizeof id, "append/%.*s/turbomind:B16:N8:L2:S3:%s/bf16/40x2x64/random/%s/reference",
                 (int)(word - chosen[i].id), chosen[i].id, word + 1, kvg_format_get(format)->tensor_scale ? "P2" : "-");
        assert_string_equal(c->id, id);
        assert_int_equal(c->problem.storage[KVG_V].format, format);
        assert_int_equal(kvg_mode_format(c->policy.effective, KVG_DTYPE_BF16), format);
        assert_int_equal(c->policy.fell_back, strchr(id, '>') != NULL);
        assert_int_equal(c->policy.reason[0] != 0, c->policy.fell_back);
        kvg_config_close(&config);
    }
}

/* The mode knows the case's type and geometry: its blocks are those of the case's pools. */
static void test_a_policys_blocks_are_those_of_the_pools(void **state)
{
    (void)state;
    kvg_config config = config_from("{'policy':[{'number':0},{'number':4},{'number':8},{'number':16,'sm':90},"
                                    "{'number':16,'sm':100}],'layers':[1,5],'block_tokens':[8,64],"
                                    "'dtype':['f16','bf16']," POLICIES ",'include':[{'kv_heads':1,'head_dim':576,"
                                    "'shared_kv':{'v_dim':512},'policy':{'number':4}}]}");
    assert_int_equal(config.case_count, 41);
    for (size_t i = 0; i < config.case_count; i++) {
        const kvg_case *c = &config.cases[i];
        kvg_mode_choice choice;
        uint64_t bytes;
        assert_int_equal(kvg_mode_select(&c->policy.request, &choice), KVG_OK);
        assert_int_equal(kvg_problem_pool_bytes(&c->problem, KVG_ROLE_DATA_POOL, KVG_K, &bytes), KVG_OK);
        assert_int_equal(bytes, c->problem.paging.blocks * choice.data_block_bytes);
        assert_int_equal(kvg_problem_pool_bytes(&c->problem, KVG_ROLE_SCALE_POOL, KVG_K, &bytes), KVG_OK);
        assert_int_equal(bytes, c->problem.paging.blocks * choice.scale_block_bytes);
    }
    kvg_config_close(&config);
}

static void test_features_that_are_off_say_why(void **state)
{
    (void)state;
    kvg_config config = config_from("{'policy':[{'number':16,'sm':90,'gating':'design','partial_kv':true,"
                                    "'prefix_cache':true},{'number':16,'sm':90,'prefix_cache':true}]," POLICIES "}");
    const kvg_case_policy *design = &config.cases[0].policy, *kvgold = &config.cases[1].policy;
    assert_non_null(strstr(design->partial_kv, "design gating"));
    assert_non_null(strstr(design->prefix_cache, "design gating"));
    assert_string_equal(kvgold->partial_kv, "");
    assert_string_equal(kvgold->prefix_cache, "on");
    kvg_config_close(&config);
}

/* --- fills --- */

/* K and V of a case one after the other, to be freed. */
static uint8_t *filled(const kvg_case *c, size_t *size)
{
    kvg_tensor t = kvg_problem_tensor(&c->problem, KVG_ROLE_VALUES, KVG_K);
    uint8_t *bytes = malloc(2 * t.bytes);
    assert_non_null(bytes);
    *size = 2 * t.bytes;
    for (int side = KVG_K; side <= KVG_V; side++) {
        t.data = bytes + (size_t)side * t.bytes;
        if (kvg_fill_values(c, &c->problem, (kvg_side)side, &t)) fail_msg("%s: %s", c->id, kvg_error_text());
    }
    return bytes;
}

/* Whether a case's data stays the same under another backend or seed. */
static bool same_data(const kvg_case *c, const char *backend, uint64_t seed)
{
    kvg_case other = *c;
    size_t size, other_size;
    other.backend = backend;
    other.seed = seed;
    assert_int_equal(kvg_case_name(&other), KVG_OK);
    uint8_t *a = filled(c, &size), *b = filled(&other, &other_size);
    assert_int_equal(size, other_size);
    const bool same = memcmp(a, b, size) == 0;
    free(a);
    free(b);
    return same;
}

static void test_data_depends_on_seed_and_case_but_not_on_the_backend(void **state)
{
    (void)state;
    kvg_config config = config_from(
        "{'op':['quantise','dequantise'],'format':['f16','int8','nvfp4'],'dtype':['bf16','f16'],"
        "'fill':['exact','adversarial','random'],'scale':'P4','tokens':24," SHAPE "}");
    for (size_t i = 0; i < config.case_count; i++) {
        const kvg_case *c = &config.cases[i];
        if (!same_data(c, c->backend, c->seed)) fail_msg("%s: other data the second time", c->id);
        if (!same_data(c, "slowref", c->seed)) fail_msg("%s: other data for another backend", c->id);
        if (!same_data(c, "/a/b/c.so", c->seed)) fail_msg("%s: other data for a backend by path", c->id);
        if (same_data(c, c->backend, c->seed + 1)) fail_msg("%s: the same data from another seed", c->id);
        size_t size, next_size;
        uint8_t *a = filled(c, &size), *b = filled(&config.cases[(i + 1) % config.case_count], &next_size);
        if (size == next_size && memcmp(a, b, size) == 0) fail_msg("%s: the next case has the same data", c->id);
        if (memcmp(a, a + size / 2, size / 2) == 0) fail_msg("%s: K and V are the same", c->id);
        free(a);
        free(b);
    }
    kvg_config_close(&config);
}

static void test_zero_is_zero(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'quantise','format':'mx16','fill':'zero'," SHAPE "}");
    size_t size, set = 0;
    uint8_t *bytes = filled(&config.cases[0], &size);
    for (size_t i = 0; i < size; i++) set += bytes[i] != 0;
    assert_int_equal(set, 0);
    free(bytes);
    kvg_config_close(&config);
}

/* What both sides of a case reached, after a run on the reference that must pass. */
static kvg_result_reach reached(const kvg_case *c)
{
    kvg_result r;
    kvg_check_run(c, kvg_reference_backend(), &r);
    if (r.verdict != KVG_VERDICT_PASS) fail_msg("%s: %s: %s", c->id, kvg_verdict_name(r.verdict), r.detail);
    assert_true(r.reach.measured);
    return r.reach;
}

/* The elements that are -0 in the K and V of a case, whose model type has 16 bits. */
static uint64_t negative_zeros(const kvg_case *c)
{
    kvg_question data;
    uint64_t count = 0;
    assert_int_equal(kvg_question_make(c, &data), KVG_OK);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *values = kvg_set_tensor(&data.values, KVG_ROLE_VALUES, (kvg_side)side);
        for (size_t i = 0; i < values->bytes / 2; i++) count += ((const uint16_t *)values->data)[i] == 0x8000;
    }
    kvg_question_free(&data);
    return count;
}

static void need(const kvg_case *c, const char *what, uint64_t count, uint64_t least)
{
    if (count >= least) return;
    fail_msg("%s: %llu %s, not %llu or more", c->id, (unsigned long long)count, what, (unsigned long long)least);
}

/* The codes that the fill must reach: all that an encoder writes (e4m3 drops the NaN's sign, rowint4 has no -8), but of
 * e5m2, which runs from 2^-16 to 57344, the fill does not visit both ends. */
static size_t reachable_codes(const kvg_format_info *f)
{
    const size_t all = (size_t)1 << f->element_bits;
    switch (f->codes) {
    case KVG_CODES_E4M3: return 255;
    case KVG_CODES_E5M2: return 190;
    case KVG_CODES_OFFSET:
    case KVG_CODES_SIGNED: return all - 1;
    case KVG_CODES_E2M1:
    case KVG_CODES_UNSIGNED: return all;
    case KVG_CODES_F16:
    case KVG_CODES_BF16: break; /* more than a fill reaches */
    }
    return 0;
}

static void test_adversarial_data_reaches_every_decision(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'quantise','format':['e4m3','e5m2','int8','int4','rowint4','rowfp4',"
                                    "'mx16','mxfp4','nvfp4'],"
                                    "'dtype':['bf16','f16'],'fill':'adversarial','scale':{'k':0.5,'v':1},'tokens':96,"
                                    "'kv_heads':2,'head_dim':128}");
    for (size_t i = 0; i < config.case_count; i++) {
        const kvg_case *c = &config.cases[i];
        const kvg_format_info *f = kvg_format_get(c->problem.storage[KVG_K].format);
        const kvg_result_reach r = reached(c);
        need(c, "codes", r.codes, reachable_codes(f));
        need(c, "ties", r.met[KVG_MET_TIES], 1);
        need(c, "negative zeros", r.met[KVG_MET_NEGATIVE_ZEROS], 1);
        assert_int_equal(r.met[KVG_MET_NEGATIVE_ZEROS], negative_zeros(c));
        need(c, "subnormals", r.met[KVG_MET_SUBNORMALS], 1);
        need(c, "specials", r.met[KVG_MET_SPECIALS], 1);
        if (f->block || f->row_param_bytes) need(c, "zero blocks", r.met[KVG_MET_ZERO_BLOCKS], 1);
        if (f->tensor_scale && f->format != KVG_FORMAT_E5M2) need(c, "saturations", r.met[KVG_MET_SATURATIONS], 1);
        if (f->format == KVG_FORMAT_NVFP4) need(c, "scale underflows", r.met[KVG_MET_SCALE_UNDERFLOWS], 1);
    }
    kvg_config_close(&config);
}

/* Every byte pattern of codes and of scales, in both halves of a nibble pair. */
static void test_codes_holds_every_pattern(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'dequantise','format':['e4m3','int8','int4','mx16','mxfp4','nvfp4'],"
                                    "'fill':'codes','tokens':256,'kv_heads':8,'head_dim':64}");
    for (size_t i = 0; i < config.case_count; i++) {
        const kvg_case *c = &config.cases[i];
        kvg_tensor codes = kvg_problem_tensor(&c->problem, KVG_ROLE_CODES, KVG_K);
        kvg_tensor scales = kvg_problem_tensor(&c->problem, KVG_ROLE_SCALES, KVG_K);
        size_t seen[2][256] = {0}, count[2] = {0};
        codes.data = malloc(codes.bytes);
        scales.data = malloc(scales.bytes + 1);
        assert_true(codes.data && scales.data);
        kvg_fill_codes(c, KVG_K, &codes, &scales);
        for (size_t b = 0; b < codes.bytes; b++) count[0] += seen[0][((uint8_t *)codes.data)[b]]++ == 0;
        for (size_t b = 0; b < scales.bytes; b++) count[1] += seen[1][((uint8_t *)scales.data)[b]]++ == 0;
        assert_int_equal(count[0], 256);
        if (scales.bytes) assert_int_equal(count[1], 256);
        free(codes.data);
        free(scales.data);
    }
    kvg_config_close(&config);
}

static void test_scales_follow_the_convention(void **state)
{
    (void)state;
    kvg_config config = config_from("{'op':'quantise','format':'nvfp4','fill':'random',"
                                    "'scale':['P1','P2','P3','P4',{'k':0.3,'v':2}]," SHAPE "}");
    static const double divisors[] = {2688, 448, 6};
    float values[128], given[2];
    for (size_t i = 0; i < 128; i++) values[i] = (float)i - 100;
    values[7] = 1e30f / 1e-30f; /* Inf is no magnitude to calibrate on */
    const kvg_tensor t = {
        .dtype = KVG_DTYPE_F32, .rank = 3, .shape = {1, 2, 64}, .data = values, .bytes = sizeof values,
    };
    for (size_t i = 0; i < config.case_count; i++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            assert_int_equal(kvg_fill_scale(&config.cases[i], (kvg_side)side, &t, &given[side]), KVG_OK);
        }
        if (i < 3) assert_true(given[KVG_K] == (float)(100 / divisors[i]) && given[KVG_V] == given[KVG_K]);
        if (i == 3) assert_true(given[KVG_K] == 1 && given[KVG_V] == 1);
        if (i == 4) assert_true(given[KVG_K] == 0.3f && given[KVG_V] == 2);
    }
    assert_int_equal(config.case_count, 5);
    kvg_config_close(&config);
}

/* Whatever the seed, an implementation that always works on the first layer, or on the last, is asked for another one
 * somewhere in every op and layout; for one seed, not in the same cases as for another. */
static void test_the_layer_follows_from_the_seed(void **state)
{
    (void)state;
    enum { SEEDS = 4 };
    bool first[KVG_OP_END][KVG_LAYOUT_END] = {{0}}, last[KVG_OP_END][KVG_LAYOUT_END] = {{0}};
    bool asked[KVG_OP_END][KVG_LAYOUT_END] = {{0}};
    size_t moved = 0;
    kvg_config config[SEEDS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const char *path = KVG_SOURCE_DIR "/configs/ci_layouts.json";
        if (kvg_config_open(path, &seed, NULL, &config[seed])) fail_msg("%s", kvg_error_text());
        for (size_t i = 0; i < config[seed].case_count; i++) {
            const kvg_problem *p = &config[seed].cases[i].problem;
            const kvg_paging *g = &p->paging;
            if (!kvg_layout_get(p->layout)->paged || g->layers < 2) continue;
            assert_true(g->layer < g->layers);
            const int layout = p->layout == KVG_LAYOUT_TEXT ? 0 : (int)p->layout; /* no row of the table has 0 */
            asked[p->op][layout] = true;
            first[p->op][layout] |= g->layer > 0;
            last[p->op][layout] |= g->layer < g->layers - 1;
            moved += g->layer != config[0].cases[i].problem.paging.layer;
        }
    }
    assert_true(moved > 0);
    size_t pairs = 0;
    for (int op = 0; op < KVG_OP_END; op++) {
        for (int layout = 0; layout < KVG_LAYOUT_END; layout++) {
            pairs += asked[op][layout];
            assert_true(first[op][layout] == asked[op][layout] && last[op][layout] == asked[op][layout]);
        }
    }
    assert_true(pairs > 0);
    for (uint64_t seed = 0; seed < SEEDS; seed++) kvg_config_close(&config[seed]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_layer_of_a_case),
        cmocka_unit_test(test_bad_configs_are_refused_with_their_reason),
        cmocka_unit_test(test_an_error_is_one_line_without_control_bytes),
        cmocka_unit_test(test_files_that_cannot_be_read),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_a_short_hang_is_no_slower_than_slow),
        cmocka_unit_test(test_products_includes_and_excludes),
        cmocka_unit_test(test_all_is_every_dialect_of_each_format),
        cmocka_unit_test(test_sides_of_their_own),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_captures_are_found_from_the_configs_folder),
        cmocka_unit_test(test_ids_are_stable_unique_and_name_no_position),
        cmocka_unit_test(test_each_case_is_in_one_shard),
        cmocka_unit_test(test_another_backend_renames_and_merges),
        cmocka_unit_test(test_the_repro_line_survives_a_shell),
        cmocka_unit_test(test_paged_ids_name_every_option),
        cmocka_unit_test(test_blocks_are_enough_and_not_too_many),
        cmocka_unit_test(test_policies_choose_formats),
        cmocka_unit_test(test_a_policys_blocks_are_those_of_the_pools),
        cmocka_unit_test(test_features_that_are_off_say_why),
        cmocka_unit_test(test_data_depends_on_seed_and_case_but_not_on_the_backend),
        cmocka_unit_test(test_zero_is_zero),
        cmocka_unit_test(test_adversarial_data_reaches_every_decision),
        cmocka_unit_test(test_codes_holds_every_pattern),
        cmocka_unit_test(test_scales_follow_the_convention),
        cmocka_unit_test(test_the_layer_follows_from_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
