#include "nvfp4_rows.h"

#include <math.h>
#include <string.h>

static float e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7F) == 0x7F) return NAN;
    const float magnitude = exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
    return code & 0x80 ? -magnitude : magnitude;
}

static float e2m1(unsigned code)
{
    static const float magnitudes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

static uint16_t bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return isnan(value) ? 0x7FFF : (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void nvfp4_decode(const uint8_t *codes, const uint8_t *scales, float tensor_scale, size_t blocks, bool modelopt,
                  uint16_t *out)
{
    for (size_t i = 0; i < 16 * blocks; i++) {
        const unsigned code = codes[i / 2] >> 4 * (i % 2) & 15;
        const float scale = e4m3(scales[i / 16]), element = modelopt && code == 8 ? 0 : e2m1(code);
        out[i] = bf16(modelopt ? element * (scale * tensor_scale) : element * scale * tensor_scale);
    }
}
