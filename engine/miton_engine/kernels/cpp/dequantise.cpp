// ggml blocks straight to bf16, for the prefill's weights: reading a model takes under a second.
#include <cstdint>
#include <cstring>
#include <functional>

#include "matrix.h"
#include "pool.h"

namespace miton {
namespace {

float half(const uint8_t* at) {
    uint16_t value;
    std::memcpy(&value, at, 2);
    return f16_to_f32(value);
}

uint16_t bf16(float value) {  // round to nearest even, as torch does
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void store(const float* values, int count, uint16_t* out) {
    for (int i = 0; i < count; i++) out[i] = bf16(values[i]);
}

// One block of 32: scale, optional minimum, optional plane of fifth bits, nibbles.
void nibbles(const uint8_t* p, bool minimum, bool fifth, uint16_t* out) {
    float d = half(p), m = minimum ? half(p + 2) : 0.f, values[32];
    p += minimum ? 4 : 2;
    uint32_t high = 0;
    if (fifth) std::memcpy(&high, p, 4), p += 4;
    int centre = minimum ? 0 : fifth ? 16 : 8;
    for (int i = 0; i < 16; i++) {
        int low = (p[i] & 15) | (((high >> i) & 1) << 4), top = (p[i] >> 4) | (((high >> (i + 16)) & 1) << 4);
        values[i] = d * float(low - centre) + m;
        values[i + 16] = d * float(top - centre) + m;
    }
    store(values, 32, out);
}

void q8_0(const uint8_t* p, uint16_t* out) {
    float d = half(p), values[32];
    for (int i = 0; i < 32; i++) values[i] = d * float(int8_t(p[2 + i]));
    store(values, 32, out);
}

// Super-blocks of 256 with 6-bit scales and minima per 32.
void k45(const uint8_t* p, bool fifth, uint16_t* out) {
    float d = half(p), dmin = half(p + 2), values[256];
    const uint8_t* s = p + 4;
    const uint8_t* high = p + 16;
    const uint8_t* q = high + (fifth ? 32 : 0);
    for (int g = 0; g < 8; g++) {
        int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | ((s[g - 4] >> 6) << 4);
        int minimum = g < 4 ? s[g + 4] & 63 : (s[g + 4] >> 4) | ((s[g] >> 6) << 4);
        float dl = d * float(scale), ml = dmin * float(minimum);
        for (int i = 0; i < 32; i++) {
            int value = (q[32 * (g / 2) + i] >> (4 * (g % 2))) & 15;
            if (fifth) value |= ((high[i] >> g) & 1) << 4;
            values[32 * g + i] = dl * float(value) - ml;
        }
    }
    store(values, 256, out);
}

void q6_k(const uint8_t* p, uint16_t* out) {
    const uint8_t *low = p, *high = p + 128;
    const auto* scales = reinterpret_cast<const int8_t*>(p + 192);
    float d = half(p + 208), values[256];
    for (int i = 0; i < 256; i++) {
        int n = i / 128, part = (i % 128) / 32, l = i % 32;
        int nibble = (low[64 * n + l + 32 * (part % 2)] >> (4 * (part / 2))) & 15;
        int value = (nibble | (((high[32 * n + l] >> (2 * part)) & 3) << 4)) - 32;
        values[i] = d * float(scales[8 * n + l / 16 + 2 * part]) * float(value);
    }
    store(values, 256, out);
}

void block(Kind kind, const uint8_t* p, uint16_t* out) {
    switch (kind) {
        case Kind::q4_0: return nibbles(p, false, false, out);
        case Kind::q4_1: return nibbles(p, true, false, out);
        case Kind::q5_0: return nibbles(p, false, true, out);
        case Kind::q5_1: return nibbles(p, true, true, out);
        case Kind::q8_0: return q8_0(p, out);
        case Kind::q4_k: return k45(p, false, out);
        case Kind::q5_k: return k45(p, true, out);
        case Kind::q6_k: return q6_k(p, out);
    }
}

}  // namespace
}  // namespace miton

extern "C" {

// out [rows, columns] bf16 of `rows` rows of raw blocks
void miton_dequantise(void* pool, int kind, int64_t rows, int64_t columns, int64_t block_columns,
                      int64_t block_bytes, const uint8_t* raw, uint16_t* out) {
    auto& threads = *static_cast<miton::ThreadPool*>(pool);
    int64_t blocks = rows * (columns / block_columns);
    threads.run([&](int thread) {
        int64_t first = blocks * thread / threads.size(), last = blocks * (thread + 1) / threads.size();
        for (int64_t b = first; b < last; b++)
            miton::block(miton::Kind(kind), raw + b * block_bytes, out + b * block_columns);
    });
}

}  // extern "C"
