/* Judges reference/numbers/ref_round.h by the host conversions of NVIDIA's CUDA headers. Host code: no GPU, no CUDA
 * library.
 *
 *     oracle_cuda [--stride N]     every N-th of the 2^32 f32 patterns besides the chosen inputs; default 61
 *
 * Where the headers follow another convention for NaN, those elements are mapped: counted by name, the headers'
 * result held to the headers' own rule, ours to docs/spec/formats.md section 2. Ends with `N passed, M failed`; exit
 * status 1 on failure. */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include "core/bits.h"
extern "C" {
#include "reference/numbers/ref_round.h"
}

namespace {

/* One line of output. */
class Check {
public:
    explicit Check(std::string name) : name_(std::move(name)) {}

    void equal(uint64_t input, uint32_t reference, uint32_t oracle)
    {
        count_++;
        if (reference == oracle) return;
        if (bad_++ < 3) {
            std::printf("       input %#llx: reference %#x, oracle %#x\n", (unsigned long long)input, reference,
                        oracle);
        }
    }

    /* A NaN input: theirs must follow their rule, ours our own. */
    void mapped_nan(uint64_t input, uint32_t reference, uint32_t ours, uint32_t oracle, uint32_t theirs)
    {
        mapped_++;
        equal(input, reference, ours);
        if (oracle != theirs && bad_++ < 3) {
            std::printf("       input %#llx: the header gives %#x, not %#x as documented\n",
                        (unsigned long long)input, oracle, theirs);
        }
    }

    void leave_out() { left_out_++; }

    void done(const char *mapping)
    {
        bool good = bad_ == 0 && count_ > 0;
        std::printf("%s %s: %llu compared, %llu differ", good ? "ok  " : "FAIL", name_.c_str(),
                    (unsigned long long)count_, (unsigned long long)bad_);
        if (mapped_) std::printf("; mapped %llu %s", (unsigned long long)mapped_, mapping);
        if (left_out_) std::printf("; left out %llu %s", (unsigned long long)left_out_, mapping);
        std::printf("\n");
        (good ? passed : failed)++;
    }

    static int passed, failed;

private:
    std::string name_;
    uint64_t count_ = 0, bad_ = 0, mapped_ = 0, left_out_ = 0;
};

int Check::passed = 0;
int Check::failed = 0;

uint16_t half_bits(__half x) { return static_cast<__half_raw>(x).x; }
uint16_t bfloat_bits(__nv_bfloat16 x) { return static_cast<__nv_bfloat16_raw>(x).x; }
float f32_of_half_raw(__half_raw raw) { return __half2float(__half(raw)); }
float f32_of_bfloat_raw(__nv_bfloat16_raw raw) { return __bfloat162float(__nv_bfloat16(raw)); }

/* The headers' decoders. */
float f16_header(uint32_t c) { return f32_of_half_raw({(uint16_t)c}); }
float bf16_header(uint32_t c) { return f32_of_bfloat_raw({(uint16_t)c}); }
float e4m3_header(uint32_t c) { return f32_of_half_raw(__nv_cvt_fp8_to_halfraw((uint8_t)c, __NV_E4M3)); }
float e5m2_header(uint32_t c) { return f32_of_half_raw(__nv_cvt_fp8_to_halfraw((uint8_t)c, __NV_E5M2)); }
float e2m1_header(uint32_t c) { return f32_of_half_raw(__nv_cvt_fp4_to_halfraw((uint8_t)c, __NV_E2M1)); }
float e8m0_header(uint32_t c) { return f32_of_bfloat_raw(__nv_cvt_e8m0_to_bf16raw((uint8_t)c)); }

/* docs/spec/formats.md 2.4: sign and leading payload bits, the quiet bit if those are all zero. */
uint32_t narrow_nan(uint32_t x, int fraction_bits)
{
    const uint32_t fraction = (1u << fraction_bits) - 1, payload = x >> (23 - fraction_bits) & fraction;
    const uint32_t infinity = 0x7FFF & ~fraction;
    return (x >> 16 & 0x8000) | infinity | (payload ? payload : 1u << (fraction_bits - 1));
}

uint32_t ours_f16_nan(uint32_t x) { return narrow_nan(x, 10); }
uint32_t ours_bf16_nan(uint32_t x) { return narrow_nan(x, 7); }
uint32_t ours_fp8_nan(uint32_t) { return 0x7F; }

/* A conversion from f32: the reference, the header, and what each makes of NaN. */
struct Narrow {
    const char *name;
    uint32_t (*reference)(float x);
    uint32_t (*oracle)(float x);
    uint32_t (*our_nan)(uint32_t bits); /* NULL: the reference does not take NaN */
    uint32_t their_nan;
    const char *mapping;
    float (*value)(uint32_t code); /* of codes 0 to last: the finite values >= 0, in order */
    uint32_t last;
};

uint32_t e2m1_reference(float x)
{
    return (std::signbit(x) ? 8u : 0u) | kvg_ref_e2m1_magnitude(x, KVG_REF_TIES_EVEN);
}

const Narrow narrows[] = {
    {"f16", [](float x) -> uint32_t { return kvg_ref_f16_of_f32(x); },
     [](float x) -> uint32_t { return half_bits(__float2half_rn(x)); }, ours_f16_nan, 0x7FFF,
     "NaN: payload kept, not 0x7FFF", f16_header, 0x7BFF},
    {"bf16", [](float x) -> uint32_t { return kvg_ref_bf16_of_f32(x); },
     [](float x) -> uint32_t { return bfloat_bits(__float2bfloat16_rn(x)); }, ours_bf16_nan, 0x7FFF,
     "NaN: payload kept, not 0x7FFF", bf16_header, 0x7F7F},
    {"e4m3", [](float x) -> uint32_t { return kvg_ref_e4m3_of_f32(x); },
     [](float x) -> uint32_t { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }, ours_fp8_nan, 0x7F,
     "NaN: 0x7F in both", e4m3_header, 0x7E},
    {"e5m2", [](float x) -> uint32_t { return kvg_ref_e5m2_of_f32(x); },
     [](float x) -> uint32_t { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2); }, ours_fp8_nan, 0x7F,
     "NaN: 0x7F in both", e5m2_header, 0x7B},
    {"e2m1 (ties even, sign bit kept)", e2m1_reference,
     [](float x) -> uint32_t { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); }, nullptr, 0,
     "NaN: the dialect's business", e2m1_header, 7},
};

void compare(const Narrow &n, Check &check, uint32_t bits)
{
    const float x = kvg_f32_of_bits(bits);
    if (x == x) {
        check.equal(bits, n.reference(x), n.oracle(x));
    } else if (n.our_nan) {
        check.mapped_nan(bits, n.reference(x), n.our_nan(bits), n.oracle(x), n.their_nan);
    } else {
        check.leave_out();
    }
}

/* The midpoint of code and its successor. The step above the last value is taken as the one below it. */
double midpoint(const Narrow &n, uint32_t code)
{
    const double low = n.value(code), step = code < n.last ? n.value(code + 1) - low : low - n.value(code - 1);
    return low + step / 2; /* exact: two bits more than a code's significand */
}

void check_narrow(const Narrow &n, uint64_t stride)
{
    const std::string name = std::string("f32 -> ") + n.name;
    Check all16(name + ", all bf16 and f16");
    for (uint32_t code = 0; code < 65536; code++) {
        compare(n, all16, code << 16);
        compare(n, all16, kvg_bits_of_f32(f32_of_half_raw({(uint16_t)code})));
    }
    all16.done(n.mapping);

    Check near(name + ", midpoints, values and neighbours");
    for (uint32_t code = 0; code <= n.last; code++) {
        const float middle = static_cast<float>(midpoint(n, code));
        for (float x : {n.value(code), middle}) {
            for (int step = -1; step <= 1; step++) {
                const uint32_t bits = kvg_bits_of_f32(x) + static_cast<uint32_t>(step); /* 0 - 1 is a NaN: welcome */
                compare(n, near, bits);
                compare(n, near, bits ^ 0x80000000);
            }
        }
    }
    near.done(n.mapping);

    Check patterns(name + ", f32 patterns, stride " + std::to_string(stride));
    for (uint64_t bits = 0; bits < (1ULL << 32); bits += stride) compare(n, patterns, static_cast<uint32_t>(bits));
    patterns.done(n.mapping);
}

/* One rounding from binary64. Both give 0x7FFF for NaN. */
void check_f64(const Narrow &n, uint32_t (*reference)(double), uint32_t (*oracle)(double))
{
    Check near(std::string("f64 -> ") + n.name + ", midpoints, values and neighbours");
    for (uint32_t code = 0; code <= n.last; code++) {
        for (double x : {static_cast<double>(n.value(code)), midpoint(n, code)}) {
            for (int step = -1; step <= 1; step++) {
                const uint64_t bits = kvg_bits_of_f64(x) + static_cast<uint64_t>(static_cast<int64_t>(step));
                for (uint64_t sign : {0ULL, 1ULL << 63}) {
                    const double v = kvg_f64_of_bits(bits ^ sign);
                    near.equal(bits ^ sign, reference(v), oracle(v));
                }
            }
        }
    }
    near.done("");

    /* Random signs and fractions, exponents over the range of the type and a little beyond. */
    Check random(std::string("f64 -> ") + n.name + ", random");
    uint64_t state = 0x6B766F72;
    for (int i = 0; i < 4000000; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const uint64_t mixed = state ^ state >> 29;
        const uint64_t exponent = i % 2 ? 1023 - 30 + (mixed >> 52 & 63) : 1023 - 150 + (mixed >> 52 & 511) % 290;
        const uint64_t bits = (mixed & 0x800FFFFFFFFFFFFFULL) | exponent << 52;
        const double v = kvg_f64_of_bits(bits);
        random.equal(bits, reference(v), oracle(v));
    }
    random.done("");
}

/* All codes of a decoder. NaN becomes 0x7FC00000, or keeps sign and payload (f16, bf16). */
void check_decoder(const char *name, uint32_t codes, float (*reference)(uint32_t), float (*oracle)(uint32_t),
                   uint32_t (*our_nan)(uint32_t))
{
    Check check(std::string(name) + " -> f32, all codes");
    for (uint32_t code = 0; code < codes; code++) {
        const float theirs = oracle(code);
        const uint32_t ours = kvg_bits_of_f32(reference(code));
        const uint32_t bits = kvg_bits_of_f32(theirs);
        if (theirs == theirs) check.equal(code, ours, bits);
        else check.mapped_nan(code, ours, our_nan(code), bits, bits);
    }
    check.done("NaN");
}

void check_decoders()
{
    const auto canonical = [](uint32_t) -> uint32_t { return 0x7FC00000; };
    check_decoder("e2m1", 16, [](uint32_t c) { return kvg_ref_f32_of_e2m1((uint8_t)c); }, e2m1_header, canonical);
    check_decoder("e4m3", 256, [](uint32_t c) { return kvg_ref_f32_of_e4m3((uint8_t)c); }, e4m3_header, canonical);
    check_decoder("e5m2", 256, [](uint32_t c) { return kvg_ref_f32_of_e5m2((uint8_t)c); }, e5m2_header, canonical);
    check_decoder("e8m0", 256, [](uint32_t c) { return kvg_ref_f32_of_e8m0((uint8_t)c); }, e8m0_header, canonical);
    check_decoder("f16", 65536, [](uint32_t c) { return kvg_ref_f32_of_f16((uint16_t)c); }, f16_header,
                  [](uint32_t c) -> uint32_t { return (c & 0x8000) << 16 | 0x7F800000 | (c & 0x3FF) << 13; });
    check_decoder("bf16", 65536, [](uint32_t c) { return kvg_ref_f32_of_bf16((uint16_t)c); }, bf16_header,
                  [](uint32_t c) -> uint32_t { return c << 16; });
}

} // namespace

int main(int argc, char **argv)
{
    unsigned long long stride = 61;
    if (argc == 3 && std::strcmp(argv[1], "--stride") == 0) stride = std::strtoull(argv[2], nullptr, 10);
    if ((argc != 1 && argc != 3) || stride == 0 || (argc == 3 && std::strcmp(argv[1], "--stride") != 0)) {
        std::fprintf(stderr, "usage: oracle_cuda [--stride N], N at least 1\n");
        return 2;
    }
    check_decoders();
    for (const Narrow &n : narrows) check_narrow(n, stride);
    check_f64(narrows[0], [](double x) -> uint32_t { return kvg_ref_f16_of_f64(x); },
              [](double x) -> uint32_t { return half_bits(__double2half(x)); });
    check_f64(narrows[1], [](double x) -> uint32_t { return kvg_ref_bf16_of_f64(x); },
              [](double x) -> uint32_t { return bfloat_bits(__double2bfloat16(x)); });
    std::printf("%d passed, %d failed\n", Check::passed, Check::failed);
    return Check::failed == 0 && Check::passed > 0 ? 0 : 1;
}
