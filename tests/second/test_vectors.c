/* The worked bytes of docs/spec/formats.md section 10 and a few more, on both references. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reference/reference.h"
#include "second/slow_codec.h"
#include "tests/second/pair.h"
#include "tests/second/test_slowref.h"

/* Two digits a byte. */
static size_t parse_hex(const char *text, uint8_t *bytes)
{
    size_t count = 0;
    for (; *text; text += *text == ' ' ? 1 : 2) {
        if (*text != ' ') bytes[count++] = (uint8_t)strtoul((const char[]){text[0], text[1], 0}, NULL, 16);
    }
    return count;
}

/* `want`: one block's scale byte, then its code bytes, of a block of 16 that is repeated to fill the format's block. */
static void check_block(tally *t, const storage_case *c, const float block[16], const char *want)
{
    const kvg_backend *backends[] = {golden_backend(), slow_backend()};
    uint8_t bytes[9];
    assert_int_equal(parse_hex(want, bytes), sizeof bytes);
    size_t repeats = kvg_format_get(c->format)->block / 16;
    for (size_t b = 0; b < 2; b++) {
        kit k = kit_open((const storage_case[2]){*c, *c}, 1, 16 * repeats);
        for (size_t i = 0; i < 2 * repeats; i++) {
            memcpy((float *)k.tensor[KVG_ROLE_VALUES][i % 2].data + 16 * (i / 2), block, 16 * sizeof *block);
        }
        assert_int_equal(kit_run(&k, backends[b], KVG_OP_QUANTISE), KVG_OK);
        for (size_t i = 0; i < 2 * repeats; i++) {
            const uint8_t *codes = (const uint8_t *)k.tensor[KVG_ROLE_CODES][i % 2].data + 8 * (i / 2);
            const uint8_t *scale = k.tensor[KVG_ROLE_SCALES][i % 2].data;
            if (scale[0] != bytes[0] || memcmp(codes, bytes + 1, 8) != 0) {
                print_error("  %s: %s %s, g %g: want %s, got %02X", backends[b]->name,
                            kvg_format_get(c->format)->name, c->dialect, (double)c->g, want, scale[0]);
                for (size_t j = 0; j < 8; j++) print_error(" %02X", codes[j]);
                print_error("\n");
                t->differing++;
            }
            t->compared += 9;
        }
        kit_close(&k);
    }
}

static const float block_a[16] = {0.25f, -0.25f, 0.75f, -0.75f, 1.25f, 1.75f, 2.5f,   -3.5f,
                                  5,     6,      -6,    0,      -0.0f, 0.5f,  -0.125f, 4};
static const float block_b[16] = {7,    -6.9375f, 3,      -1,    0.0625f, 0.3125f, -0.4375f, 0.875f,
                                  1.5f, 1.625f,   -2.25f, 2.75f, -4.5f,   5.5f,    0,        -0.0078125f};

void test_worked_bytes(void **state)
{
    (void)state;
    static const struct {
        kvg_format format;
        const char *dialect;
        float g;
        const char *a, *b;
    } vectors[] = {
        {KVG_FORMAT_MX16, "sglang", 1, "7F 91 A2 43 E5 77 0F 10 68", "80 D6 93 00 18 22 3A 5C 80"},
        {KVG_FORMAT_MX16, "canonical", 1, "7F 80 A2 42 E4 76 0F 18 68", "80 D6 93 00 18 22 3A 5C 80"},
        {KVG_FORMAT_MXFP4, "canonical", 1, "7F 80 A2 42 E4 76 0F 18 68", "80 D6 93 00 18 22 3A 5C 80"},
        {KVG_FORMAT_MXFP4, "ocp", 1, "7F 80 A2 42 E4 76 0F 18 68", "7F F7 A5 10 29 33 5C 7E 80"},
        {KVG_FORMAT_MXFP4, "modelopt", 1, "7F 80 91 32 D4 76 8F 18 68", "80 D5 93 00 18 21 3A 5C 88"},
        {KVG_FORMAT_NVFP4, "modelopt", 1, "38 80 A2 42 E4 76 0F 10 68", "39 F7 A5 10 29 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "canonical", 1, "38 80 A2 42 E4 76 0F 18 68", "39 F7 A5 10 29 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "flashinfer-page", 1, "38 80 A2 42 E4 76 0F 18 68", "39 F7 A5 10 29 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "trtllm", 1, "38 80 A2 42 E4 76 0F 18 68", "39 F7 A5 10 29 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "flashinfer-page", 20.0f / 448, "5B 91 A2 43 E5 77 0F 18 68", "5D F7 A5 10 29 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "trtllm", 20.0f / 448, "5B 91 A2 43 E5 77 0F 18 68", "5D F7 A5 10 29 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "flashinfer-page", 20.0f / 2688, "70 91 A2 43 E5 77 0F 18 68", "72 F7 A5 10 19 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "trtllm", 20.0f / 2688, "70 91 A2 43 E5 77 0F 18 68", "72 F7 A5 10 19 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "modelopt", 20.0f / 448, "5B 91 A2 43 E5 77 0F 10 68", "5D F7 A5 10 29 33 4C 6E 80"},
        {KVG_FORMAT_NVFP4, "modelopt", 20.0f / 2688, "70 91 A2 43 E5 77 0F 10 68", "72 F7 A5 10 19 33 4C 6E 80"},
    };
    tally t = {0};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        storage_case c = {vectors[i].format, vectors[i].dialect, KVG_DTYPE_F32, vectors[i].g};
        check_block(&t, &c, block_a, vectors[i].a);
        check_block(&t, &c, block_b, vectors[i].b);
    }
    tally_close(&t, __func__);
}

void test_all_zero_blocks(void **state)
{
    (void)state;
    static const struct {
        kvg_format format;
        const char *dialect, *bytes;
    } vectors[] = {
        {KVG_FORMAT_MX16, "sglang", "5E 00 00 00 00 00 00 00 00"},
        {KVG_FORMAT_MXFP4, "modelopt", "00 88 88 88 88 88 88 88 88"},
        {KVG_FORMAT_MXFP4, "ocp", "00 00 00 00 00 00 00 00 00"},
        {KVG_FORMAT_NVFP4, "modelopt", "38 00 00 00 00 00 00 00 00"},
        {KVG_FORMAT_NVFP4, "canonical", "00 00 00 00 00 00 00 00 00"},
        {KVG_FORMAT_NVFP4, "flashinfer-page", "00 00 00 00 00 00 00 00 00"},
        {KVG_FORMAT_NVFP4, "trtllm", "00 00 00 00 00 00 00 00 00"},
    };
    static const float zeros[16];
    tally t = {0};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        storage_case c = {vectors[i].format, vectors[i].dialect, KVG_DTYPE_F32, 1};
        check_block(&t, &c, zeros, vectors[i].bytes);
    }
    tally_close(&t, __func__);
}

/* (+-)(1 + i/16) * 2^-14, odd i negative: at g = 1 every block scale underflows, and the dialects part. */
void test_tiny_block(void **state)
{
    (void)state;
    static const struct {
        const char *dialect;
        float g;
        const char *bytes;
    } vectors[] = {
        {"modelopt", 1, "01 80 80 80 80 80 80 80 80"},
        {"flashinfer-page", 1, "00 80 80 80 80 80 80 80 80"},
        {"trtllm", 1, "00 F7 F7 F7 F7 F7 F7 F7 F7"},
        {"modelopt", 20.0f / 448, "01 91 A2 A2 A2 A2 A2 B2 B3"},
        {"flashinfer-page", 20.0f / 448, "00 80 80 80 80 80 80 80 80"},
        {"trtllm", 20.0f / 448, "00 F7 F7 F7 F7 F7 F7 F7 F7"},
        {"modelopt", 20.0f / 2688, "01 E6 E6 F7 F7 F7 F7 F7 F7"},
        {"flashinfer-page", 20.0f / 2688, "01 E6 E6 F7 F7 F7 F7 F7 F7"},
        {"trtllm", 20.0f / 2688, "01 E6 E6 F7 F7 F7 F7 F7 F7"},
    };
    float block[16];
    for (int i = 0; i < 16; i++) block[i] = (i % 2 ? -1.0f : 1.0f) * (1 + (float)i / 16) / 16384;
    tally t = {0};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        storage_case c = {KVG_FORMAT_NVFP4, vectors[i].dialect, KVG_DTYPE_F32, vectors[i].g};
        check_block(&t, &c, block, vectors[i].bytes);
    }
    tally_close(&t, __func__);
}

/* An f16 row of 8 by both references: parameters, codes, decoded values. */
static void check_affine(tally *t, kvg_format format, const char *dialect, const uint16_t x[8], const uint8_t *params,
                         const uint8_t *codes, const float *decoded)
{
    const kvg_backend *backends[] = {golden_backend(), slow_backend()};
    storage_case c = {format, dialect, KVG_DTYPE_F16, 1};
    uint16_t want[8];
    kvg_reference_store(KVG_DTYPE_F16, decoded, 8, want);
    for (size_t b = 0; b < 2; b++) {
        kit k = kit_open((const storage_case[2]){c, c}, 1, 8);
        for (int side = KVG_K; side <= KVG_V; side++) memcpy(k.tensor[KVG_ROLE_VALUES][side].data, x, 16);
        assert_int_equal(kit_run(&k, backends[b], KVG_OP_QUANTISE), KVG_OK);
        for (int side = KVG_K; side <= KVG_V; side++) {
            const kvg_tensor *code = &k.tensor[KVG_ROLE_CODES][side];
            assert_memory_equal(k.tensor[KVG_ROLE_SCALES][side].data, params, 4);
            assert_memory_equal(code->data, codes, code->bytes);
        }
        assert_int_equal(kit_run(&k, backends[b], KVG_OP_DEQUANTISE), KVG_OK);
        for (int side = KVG_K; side <= KVG_V; side++) {
            assert_memory_equal(k.tensor[KVG_ROLE_VALUES][side].data, want, sizeof want);
        }
        t->compared += 4 + 8 + 8;
        kit_close(&k);
    }
}

/* RN_T(1 / scale), which no backend shows. */
static uint64_t inverse_of(uint64_t f16_scale)
{
    return slow_encode(&slow_f16, slow_divide(slow_scaled(1, 0), slow_decode(&slow_f16, f16_scale)));
}

void test_affine_row(void **state)
{
    (void)state;
    static const uint16_t row[8] = {0xBC00, 0xB800, 0x0000, 0x3400, 0x3800, 0x3C00, 0x3E00, 0x4000};
    static const uint8_t int4_params[] = {0x66, 0x32, 0x00, 0xBC}, int4_codes[] = {0x50, 0xC8, 0x62, 0xFA};
    static const uint8_t int8_params[] = {0x06, 0x22, 0x00, 0xBC};
    static const uint8_t int8_codes[] = {0, 42, 85, 106, 128, 170, 212, 255};
    static const float fused[] = {-1, -.600098f, -.000244141f, .199707f, .599609f, .999512f, 1.39941f, 1.99902f};
    static const float muladd[] = {-1, -.600098f, 0, .199219f, .599609f, 1, 1.39844f, 2};
    tally t = {0};
    check_affine(&t, KVG_FORMAT_INT4, "canonical", row, int4_params, int4_codes, fused);
    check_affine(&t, KVG_FORMAT_INT4, "turbomind-muladd", row, int4_params, int4_codes, muladd);

    /* 0.0117645...: q * scale - 1 fused, rounded to f16 by the conversion in check_affine */
    float int8_fused[8];
    for (size_t i = 0; i < 8; i++) int8_fused[i] = (float)int8_codes[i] * 0.01176452636718750f - 1;
    check_affine(&t, KVG_FORMAT_INT8, "canonical", row, int8_params, int8_codes, int8_fused);

    static const uint16_t constant[8] = {0x34CD, 0x34CD, 0x34CD, 0x34CD, 0x34CD, 0x34CD, 0x34CD, 0x34CD};
    static const uint8_t constant_params[] = {0x00, 0x00, 0xCD, 0x34}, constant_codes[4] = {0};
    float exact[8];
    kvg_reference_load(KVG_DTYPE_F16, constant, 8, exact);
    check_affine(&t, KVG_FORMAT_INT4, "canonical", constant, constant_params, constant_codes, exact);

    assert_int_equal(inverse_of(0x3266), 0x4500);
    assert_int_equal(inverse_of(0x2206), 0x5550);
    tally_close(&t, __func__);
}

/* Rows of engines' kernels as an H200 and an H100 wrote them, those of FP8 by the page. Each differs from the dialect
 * of IEEE division. Then rows of engines' torch code. */
void test_rows_of_engines(void **state)
{
    (void)state;
    static const char fp8_row[] = "7839 B035 007E 00FE 007C 00FC 0080 7831"; /* 25 g, 13 g, NaN, ..., 6.25 g */
    static const float fp8_g = 7.0f / 256;
    static const struct {
        kvg_format format;
        const char *dialect;
        kvg_dtype dtype;
        float g;
        const char *row, *scales, *codes;
    } vectors[] = {
        {KVG_FORMAT_INT8_TOKEN_HEAD, "vllm-sm90", KVG_DTYPE_BF16, 1,
         "18C1 BF40 E040 1042 A6C1 75BE E7C0 D4C1 ED41 B3BE 1541 713F 8341 0EC1 04C2 933F", "4422913E",
         "DE15197FB7FFE7A369FF21033AE18C04"},
        {KVG_FORMAT_INT8_TOKEN_HEAD, "vllm-sm90", KVG_DTYPE_F16, 1,
         "4F81 7A89 0B85 7A01 F082 F888 B084 9802 AA85 1A02 2106 4003 6181 DC00 7409 A004", "42A1B035",
         "F181C611DE8DCA1EBE184726F00A7E36"},
        {KVG_FORMAT_FP8_TOKEN_HEAD, "vllm-sm90", KVG_DTYPE_BF16, 1,
         "9D45 88C5 A845 8644 E343 5C45 C944 5AC4 5AC5 DAC4 DD44 FDC4 0DC5 3AC3 7145 C344", "01004041",
         "7DFB7E6B617970E9F9F171F3F4D77A70"},
        {KVG_FORMAT_FP8_TOKEN_HEAD, "vllm-sm90", KVG_DTYPE_F16, 1,
         "5721 959E D598 7E23 CC9B 5C8D 0A1E CD1D 721E 8524 B29C AD9F 44A2 1E25 AA1D C49D", "93243B38",
         "77F1E57AEBCF7070717CEDF2F97E6FF0"},
        {KVG_FORMAT_INT8, "lmdeploy-sm90", KVG_DTYPE_BF16, 1,
         "2209 9209 AC87 B388 6489 2389 5D88 8F89 E688 1E88 D488 F907 7109 AA08 ED08 8488", "1106FC42",
         "C6FF75571A3666004B6D4F8CE8A4B261"},
        {KVG_FORMAT_INT8, "lmdeploy-sm90", KVG_DTYPE_F16, 1,
         "38CF 5B53 8051 8EC6 5E52 95D3 8C4C 84D7 B455 32C8 5E54 5ED6 5A51 A755 C04B 1CDB", "003DB059",
         "9FE5D9B1DF85C556FFAFEE64D8FEC200"},
        {KVG_FORMAT_INT4, "lmdeploy-sm90", KVG_DTYPE_BF16, 1,
         "868C BD8D 958C EE0C BA0D AD0D 5F8D 7D0D 070C E18D 0A8D 8D0D 870D C48D 0D0D 048E", "700C0D41",
         "981268DBDF2FB50D"},
        {KVG_FORMAT_INT4, "lmdeploy-sm90", KVG_DTYPE_F16, 1,
         "0403 EA03 7605 C680 5688 9D02 5400 6005 4D03 DC05 9F82 3781 EB80 9D87 0002 B281", "F8007A48",
         "CCFD6F88801CB97E"},
        {KVG_FORMAT_MX16, "sglang-sm90", KVG_DTYPE_BF16, 1,
         "80FF 807F 807F 807F 807F 80FF 80FF 80FF 80FF 80FF 80FF 80FF 807F 80FF 80FF 807F", "FF",
         "0000000000000000"},
        {KVG_FORMAT_MX16, "sglang-sm90", KVG_DTYPE_F16, 1,
         "017E 017E 017E 017C 017E 017E 017E 017E 017E 017E 017E 017E 017E 017E 017E 017E", "00",
         "0000000000000000"},
        {KVG_FORMAT_MX16, "sglang-eager-sm90", KVG_DTYPE_BF16, 1,
         "DB2F 20AF 88AE 4130 162F 2B2F 2EB0 E62F 83AF 0BB0 2DB0 EBAF B32F B4AD 85AE CB2F", "5E",
         "B579326FECEF8559"},
        {KVG_FORMAT_MX16, "sglang-eager-sm90", KVG_DTYPE_F16, 1,
         "0580 0100 0200 0800 0600 0700 0700 0480 0800 0800 0700 0400 0200 0380 0200 0500", "67",
         "2F7477E77767D474"},
        {KVG_FORMAT_MX16, "sglang-eager-sm90", KVG_DTYPE_F16, 1,
         "0180 0200 0100 0200 0200 0000 0000 0100 0180 0100 0180 0200 0280 0100 0280 0100", "00",
         "7F7707707F7F7F7F"},
        {KVG_FORMAT_MX16, "sglang-eager-sm90", KVG_DTYPE_F16, 1,
         "00FC 00FC 007C 007C 00FC 007C 00FC 00FC 007C 00FC 007C 00FC 007C 007C 007C 007C", "FF",
         "0000000000000000"},
        {KVG_FORMAT_NVFP4, "flashinfer-page-sm90", KVG_DTYPE_BF16, 0.25f,
         "D53E 85FF CABE C93E 52BD D0BE 473D 453D 0000 483D D93F 073F 0C3E 1CBF 603E 0000", "39", "033BB8000047C102"},
        {KVG_FORMAT_NVFP4, "flashinfer-page-sm90", KVG_DTYPE_F16, 17,
         "E3B7 C8C1 E7C1 FB44 0843 A037 134A A534 E248 56B6 6C44 85C0 A93C 25C7 A0C9 B7BC", "1F", "B84B040786A4E19F"},
        {KVG_FORMAT_NVFP4, "flashinfer-page-sm90", KVG_DTYPE_F16, 0.0251f,
         "4339 0000 E9C8 69CE 8CBD 9F3F D145 2ACA 4B4D 963A 0080 0000 46C7 8B45 05FC AE40", "73", "00FC19D306083B10"},
        {KVG_FORMAT_E4M3, "vllm-sm90", KVG_DTYPE_F16, fp8_g, fp8_row, "", "5D557F7F7EFE804D"},
        {KVG_FORMAT_E4M3, "lmdeploy-sm90", KVG_DTYPE_F16, fp8_g, fp8_row, "", "5D557E7E7EFE804D"},
        {KVG_FORMAT_E5M2, "lmdeploy-sm90", KVG_DTYPE_F16, fp8_g, fp8_row, "", "4E4B7B7B7BFB8046"},
        {KVG_FORMAT_NVFP4, "torchao", KVG_DTYPE_BF16, 0.0371f,
         "C0BF E33E 9740 54C0 D6BF 623E 9C3E 1540 E23F 8440 C540 27C0 E83E B33F 2140 AA3E", "5E", "1BD60B4163D73114"},
        {KVG_FORMAT_NVFP4, "torchao", KVG_DTYPE_BF16, 0.0371f,
         "3CB7 B0B7 C338 9DB8 9436 D238 1DB9 0BB9 83B7 EF38 0CB9 3E39 1938 FDB7 2DB9 4036", "08", "8880008908188009"},
        {KVG_FORMAT_INT4, "quanto", KVG_DTYPE_BF16, 1,
         "D140 2440 84C0 83C0 E240 473E 1C3F 54C0 0B40 713F 44C0 99BF 7E40 84BE 41BF ACBF", "3F3F84C0",
         "0E6F0916185B4745"},
        {KVG_FORMAT_INT4, "quanto", KVG_DTYPE_F16, 1,
         "E132 CABC 1846 6637 C546 753F 9F43 36C6 7338 6143 4A41 D6C3 72C4 1536 9FB8 18C4", "ED3A36C6",
         "E7CF8609A8723B28"},
        {KVG_FORMAT_INT4, "hqq", KVG_DTYPE_BF16, 1,
         "0EBF B640 9740 B040 1B40 3540 D1BF 9DBF ED3F 60C0 953D 50BF 9DC0 173F D440 BA3F", "453FCC40",
         "D64AEE5A69F05287"},
        {KVG_FORMAT_INT4, "hqq", KVG_DTYPE_F16, 1,
         "FDBD 1837 B544 A2C2 B1BE 1133 DD34 AB40 123F 2344 2546 39C1 3C37 963D 0541 5035", "0C394245",
         "D3630696F8961C67"},
        {KVG_FORMAT_INT8, "hqq", KVG_DTYPE_BF16, 1,
         "0A40 7A40 C93F C73F 6A40 9F40 1B3F 5BC0 8ABE D23F C0BE 2D40 3040 503E 1040 0941", "413D9242",
         "779C6A6A97B35600436C4182834D79FF"},
        {KVG_FORMAT_INT8, "hqq", KVG_DTYPE_F16, 1,
         "DB40 9D45 9E42 BB45 93C2 1AC1 D444 0A43 FBC0 3BBE 4C44 7F38 F7C4 5441 1740 053C", "5E296657",
         "B0FCC5FF283AE9CA3B51DD8400B6A78E"},
    };
    const kvg_backend *backends[] = {golden_backend(), slow_backend()};
    tally t = {0};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t row[32], scales[4], codes[16];
        const size_t dim = parse_hex(vectors[i].row, row) / 2, scale_bytes = parse_hex(vectors[i].scales, scales);
        const size_t code_bytes = parse_hex(vectors[i].codes, codes);
        const storage_case c = {vectors[i].format, vectors[i].dialect, vectors[i].dtype, vectors[i].g};
        for (size_t b = 0; b < 2; b++) {
            kit k = kit_open((const storage_case[2]){c, c}, 1, dim);
            for (int side = KVG_K; side <= KVG_V; side++) memcpy(k.tensor[KVG_ROLE_VALUES][side].data, row, 2 * dim);
            assert_int_equal(kit_run(&k, backends[b], KVG_OP_QUANTISE), KVG_OK);
            for (int side = KVG_K; side <= KVG_V; side++) {
                assert_memory_equal(k.tensor[KVG_ROLE_CODES][side].data, codes, code_bytes);
                if (scale_bytes) assert_memory_equal(k.tensor[KVG_ROLE_SCALES][side].data, scales, scale_bytes);
                t.compared += code_bytes + scale_bytes;
            }
            kit_close(&k);
        }
    }
    tally_close(&t, __func__);
}

/* Rows that LMDeploy 0.18.0's flatten of its PyTorch cache gave on an H200. */
void test_flattened_rows(void **state)
{
    (void)state;
    static const struct {
        kvg_format format;
        kvg_dtype dtype;
        const char *codes, *scales, *row;
    } vectors[] = {
        {KVG_FORMAT_INT8, KVG_DTYPE_F16, "84858E89818979808B888990838B9581", "70303858",
         "A0B668B4C83B7834A4BA7834C2BFC0BB743880307834003D6CB87438C63FA4BA"},
        {KVG_FORMAT_INT8, KVG_DTYPE_BF16, "BECDC5C1CFC1BDB8BEBFC8C1D0D4C0BF", "043E4343",
         "22BFA63F8A3E7CBEC83F7CBE43BFB4BF22BF01BF283F7CBED83F0D40C0BE01BF"},
        {KVG_FORMAT_INT4, KVG_DTYPE_F16, "8777788788877878", "31406D47",
         "24BB24BBD03C24BBD03C24BBD03CD03CD03C24BB24BBD03CD03CD03C24BB24BB"},
        {KVG_FORMAT_INT4, KVG_DTYPE_BF16, "BBACBBBBBBBBBBBB", "66402F41",
         "903E7840903E903E903E903E903E903E903E54C0903E903E903E903E903E903E"},
        /* two rows with ties of bf16, which the rounding to f32 breaks */
        {KVG_FORMAT_INT8, KVG_DTYPE_BF16, "77283DCDA6BB1F5EA1C0583920873258", "CECCA693",
         "40D081CFC4CFA5D086D096D048CF17D082D09AD00ED0B7CF4ECF59D0A1CF0ED0"},
        {KVG_FORMAT_INT4, KVG_DTYPE_BF16, "F91319EA0B2F7BB2", "561FD8A8",
         "F1202020F1200621132149211321D61F4921561F561F3B21B508D61FBB201321"},
    };
    const kvg_backend *backends[] = {golden_backend(), slow_backend()};
    tally t = {0};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t row[32], scales[4], codes[16];
        const size_t row_bytes = parse_hex(vectors[i].row, row), code_bytes = parse_hex(vectors[i].codes, codes);
        parse_hex(vectors[i].scales, scales);
        const storage_case c = {vectors[i].format, "lmdeploy-flatten-sm90", vectors[i].dtype, 1};
        for (size_t b = 0; b < 2; b++) {
            kit k = kit_open((const storage_case[2]){c, c}, 1, row_bytes / 2);
            for (int side = KVG_K; side <= KVG_V; side++) {
                memcpy(k.tensor[KVG_ROLE_CODES][side].data, codes, code_bytes);
                memcpy(k.tensor[KVG_ROLE_SCALES][side].data, scales, sizeof scales);
            }
            assert_int_equal(kit_run(&k, backends[b], KVG_OP_DEQUANTISE), KVG_OK);
            for (int side = KVG_K; side <= KVG_V; side++) {
                assert_memory_equal(k.tensor[KVG_ROLE_VALUES][side].data, row, row_bytes);
                t.compared += row_bytes;
            }
            kit_close(&k);
        }
    }
    tally_close(&t, __func__);
}
