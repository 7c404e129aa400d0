#include "head.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "simd.h"

namespace miton {

PlaneHead::PlaneHead(ThreadPool& pool, const Matrix& q8, const float* norm_weights) : rows(q8.rows), columns(q8.columns) {
    high_ = static_cast<uint8_t*>(allocate(high_bytes() + 8192));  // slack: prefetches run past the end
    low_ = static_cast<uint8_t*>(allocate(low_bytes() + 8192));
    errors_.resize(size_t(tiles()) * 32);
    float largest = 0;
    for (int j = 0; j < columns; j++) largest = std::max(largest, std::fabs(norm_weights[j]));
    std::vector<float> squared(columns);  // s^2
    inverse_scale_.resize(columns);
    for (int j = 0; j < columns; j++) {
        squared[j] = std::max(std::fabs(norm_weights[j]), 1e-4f * largest + 1e-30f);
        inverse_scale_[j] = 1.0f / std::sqrt(squared[j]);
    }
    Shares shares;
    shares.reset(1, pool.size());
    pool.run([&](int thread) {
        shares.each(0, thread, tiles(), [&](int tile) {
            const uint8_t* p = q8.tile(tile);
            uint8_t* high = high_ + size_t(tile) * high_tile_bytes();
            uint8_t* low = low_ + size_t(tile) * low_tile_bytes();
            double squares[32] = {};
            for (int b = 0; b < columns / 32; b++, p += 1088, high += 576, low += 512) {
                std::memcpy(high, p, 64);
                for (int half = 0; half < 2; half++) {
                    const uint8_t* q = p + 64 + 512 * half;
                    for (int i = 0; i < 256; i++) {
                        high[64 + 256 * half + i] = uint8_t((q[i] >> 4) | (q[i + 256] & 0xf0));
                        low[256 * half + i] = uint8_t((q[i] & 15) | (q[i + 256] << 4));
                    }
                    for (int i = 0; i < 512; i++) {
                        int row = 16 * half + i % 64 / 4, column = 32 * b + i / 64 * 4 + i % 4;
                        uint16_t scale;
                        std::memcpy(&scale, p + 2 * row, 2);
                        double error = double(f16_to_f32(scale)) * (double(q[i] & 15) - 7.5);
                        squares[row] += error * error * squared[column];
                    }
                }
            }
            for (int row = 0; row < 32; row++) errors_[32 * tile + row] = float(std::sqrt(squares[row]));
        });
    });
}

PlaneHead::~PlaneHead() {
    std::free(high_);
    std::free(low_);
}

float PlaneHead::reach(const Activations& x, int token) const {
    double squares = 0;
    for (int b = 0; b < x.blocks; b++) {
        double scale = x.scales[size_t(token) * x.blocks + b];
        for (int j = 32 * b; j < 32 * b + 32; j++) {
            double value = scale * x.values[size_t(token) * columns + j] * inverse_scale_[j];
            squares += value * value;
        }
    }
    return float(std::sqrt(squares) * 1.001);  // fp32 sums of both passes are off by far less than a thousandth of it
}

namespace {

constexpr int prefetch_distance = 2048;

template <bool exact, int T>
void multiply(const uint8_t* high, const uint8_t* low, const Activations& x, int token, float* out) {
    F32x16 acc[2][T];
    for (int half = 0; half < 2; half++)
        for (int t = 0; t < T; t++) acc[half][t] = splat(0.0f);
    for (int b = 0; b < x.blocks; b++, high += 576, low += 512) {
        for (int line = 0; line < 576; line += 64) prefetch(high + prefetch_distance + line);
        if constexpr (exact)
            for (int line = 0; line < 512; line += 64) prefetch(low + prefetch_distance + line);
        for (int half = 0; half < 2; half++) {
            U8x64 w[8];
            for (int i = 0; i < 4; i++) {
                U8x64 h = load_u8(high + 64 + 256 * half + 64 * i);
                if constexpr (exact) {
                    U8x64 l = load_u8(low + 256 * half + 64 * i);
                    w[i] = join_nibbles(low_nibbles(h), low_nibbles(l));
                    w[i + 4] = join_nibbles(high_nibbles(h), high_nibbles(l));
                } else {
                    w[i] = low_nibbles(h);
                    w[i + 4] = high_nibbles(h);
                }
            }
            F32x16 scale = load_f16(high + 32 * half);
            for (int t = 0; t < T; t++) {
                size_t at = size_t(token + t) * x.blocks + b;
                int32_t total = x.sums[2 * at] + x.sums[2 * at + 1];
                I32x16 product = splat_i32(exact ? -128 * total : 0);
                for (int g = 0; g < 8; g++) product = dot<!exact>(product, w[g], x.values + 32 * at + 4 * g);
                F32x16 score = to_f32(product);
                if constexpr (!exact) score = fma(score, splat(16.0f), splat(-120.5f * float(total)));
                acc[half][t] = fma(score, scale * splat(x.scales[at]), acc[half][t]);
            }
        }
    }
    for (int half = 0; half < 2; half++)
        for (int t = 0; t < T; t++) store(out + 32 * t + 16 * half, acc[half][t]);
}

template <bool exact>
void multiply_tokens(const uint8_t* high, const uint8_t* low, const Activations& x, int tokens, float* out) {
    for (int token = 0; token < tokens;) {
        int rest = tokens - token;
        float* to = out + 32 * token;
        if (rest >= 8) multiply<exact, 8>(high, low, x, token, to), token += 8;
        else if (rest >= 4) multiply<exact, 4>(high, low, x, token, to), token += 4;
        else if (rest >= 2) multiply<exact, 2>(high, low, x, token, to), token += 2;
        else multiply<exact, 1>(high, low, x, token, to), token += 1;
    }
}

}  // namespace

void PlaneHead::multiply_tile(int tile, const Activations& x, int tokens, float* out) const {
    multiply_tokens<true>(high_ + size_t(tile) * high_tile_bytes(), low_ + size_t(tile) * low_tile_bytes(), x, tokens, out);
}

void PlaneHead::approximate_tile(int tile, const Activations& x, int tokens, float* out) const {
    multiply_tokens<false>(high_ + size_t(tile) * high_tile_bytes(), low_ + size_t(tile) * low_tile_bytes(), x, tokens, out);
}

}  // namespace miton
