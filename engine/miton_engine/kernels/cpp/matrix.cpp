#include "matrix.h"

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "simd.h"

namespace miton {

void* allocate(size_t bytes) {
    constexpr size_t huge_page = size_t(2) << 20;
    size_t alignment = bytes >= huge_page ? huge_page : 64;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, bytes);
    if (!memory) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (alignment == huge_page) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

namespace {

// One row's values of 32 columns, as unsigned numbers, from a ggml block; and the scales of that block.
struct RowBlock {
    uint8_t values[32];
    uint16_t scale = 0, minimum = 0;          // f16 of the block, or of the 256-column superblock
    uint8_t sub_scale[2] = {0, 0};            // K-formats: 6-bit scale and minimum, or two int8 scales (q6_k)
};

void read_k_scales(const uint8_t* packed, int index, uint8_t* scale, uint8_t* minimum) {  // ggml's 6-bit scale packing
    if (index < 4) {
        *scale = packed[index] & 63;
        *minimum = packed[index + 4] & 63;
    } else {
        *scale = (packed[index + 4] & 15) | ((packed[index - 4] >> 6) << 4);
        *minimum = (packed[index + 4] >> 4) | ((packed[index] >> 6) << 4);
    }
}

RowBlock read_block(Kind kind, const uint8_t* row, int block) {
    RowBlock r;
    Layout l = layout_of(kind);
    const uint8_t* p = row + size_t(block * 32 / l.ggml_columns) * l.ggml_bytes;
    int sub = block % 8;
    switch (kind) {
        case Kind::q4_0:
        case Kind::q4_1: {
            bool has_minimum = kind == Kind::q4_1;
            std::memcpy(&r.scale, p, 2);
            if (has_minimum) std::memcpy(&r.minimum, p + 2, 2);
            const uint8_t* q = p + (has_minimum ? 4 : 2);
            for (int i = 0; i < 16; i++) r.values[i] = q[i] & 15, r.values[i + 16] = q[i] >> 4;
            break;
        }
        case Kind::q5_0:
        case Kind::q5_1: {
            bool has_minimum = kind == Kind::q5_1;
            std::memcpy(&r.scale, p, 2);
            if (has_minimum) std::memcpy(&r.minimum, p + 2, 2);
            uint32_t high;
            std::memcpy(&high, p + (has_minimum ? 4 : 2), 4);
            const uint8_t* q = p + (has_minimum ? 8 : 6);
            for (int i = 0; i < 16; i++) {
                r.values[i] = uint8_t((q[i] & 15) | (((high >> i) & 1) << 4));
                r.values[i + 16] = uint8_t((q[i] >> 4) | (((high >> (i + 16)) & 1) << 4));
            }
            break;
        }
        case Kind::q8_0:
            std::memcpy(&r.scale, p, 2);
            for (int i = 0; i < 32; i++) r.values[i] = p[2 + i] ^ 0x80;
            break;
        case Kind::q4_k:
        case Kind::q5_k: {
            std::memcpy(&r.scale, p, 2);
            std::memcpy(&r.minimum, p + 2, 2);
            read_k_scales(p + 4, sub, &r.sub_scale[0], &r.sub_scale[1]);
            bool five = kind == Kind::q5_k;
            const uint8_t* q = p + (five ? 48 : 16) + (sub / 2) * 32;
            for (int i = 0; i < 32; i++) {
                r.values[i] = sub % 2 ? q[i] >> 4 : q[i] & 15;
                if (five) r.values[i] |= uint8_t(((p[16 + i] >> sub) & 1) << 4);
            }
            break;
        }
        case Kind::q6_k: {
            std::memcpy(&r.scale, p + 208, 2);
            std::memcpy(r.sub_scale, p + 192 + 2 * sub, 2);
            const uint8_t* low = p + (sub / 4) * 64 + (sub % 2) * 32;
            const uint8_t* high = p + 128 + (sub / 4) * 32;
            for (int i = 0; i < 32; i++) {
                int four = (sub % 4) < 2 ? low[i] & 15 : low[i] >> 4;
                r.values[i] = uint8_t(four | (((high[i] >> (2 * (sub % 4))) & 3) << 4));
            }
            break;
        }
    }
    return r;
}

void write_block(Kind kind, uint8_t* header, uint8_t* super_header, int block, int row, const RowBlock& r) {
    Layout l = layout_of(kind);
    int half = row / 16, lane = row % 16;
    if (l.super_header) {
        if (block % 8 == 0) {
            std::memcpy(super_header + 2 * row, &r.scale, 2);
            if (kind != Kind::q6_k) std::memcpy(super_header + 64 + 2 * row, &r.minimum, 2);
        }
        header[row] = r.sub_scale[0];
        header[32 + row] = r.sub_scale[1];
    } else {
        std::memcpy(header + 2 * row, &r.scale, 2);
        if (l.block_header == 128) std::memcpy(header + 64 + 2 * row, &r.minimum, 2);
    }
    uint8_t* p = header + l.block_header + half * l.half;
    if (kind == Kind::q8_0) {
        for (int c = 0; c < 32; c++) p[(c / 4) * 64 + 4 * lane + c % 4] = r.values[c];
        return;
    }
    int planes = l.half - 256;  // bytes of the bits above the nibbles, stored first
    for (int c = 0; c < 32; c++) {
        int group = c / 4, byte = 4 * lane + c % 4;
        p[planes + (group % 4) * 64 + byte] |= uint8_t((r.values[c] & 15) << (group < 4 ? 0 : 4));
        if (planes == 64) p[group * 8 + byte / 8] |= uint8_t(((r.values[c] >> 4) & 1) << (byte % 8));
        if (planes == 128) p[(group / 4) * 64 + byte] |= uint8_t((r.values[c] >> 4) << (2 * (group % 4)));
    }
}

}  // namespace

Matrix::Matrix(Kind kind, int rows, int columns) : kind(kind), rows(rows), columns(columns) {
    bytes = tile_bytes() * tiles();
    data = static_cast<uint8_t*>(allocate(bytes + 8192));  // slack: prefetches run past the end
}

Matrix::~Matrix() { std::free(data); }

void Matrix::pack(ThreadPool& pool, const uint8_t* raw) {
    Layout l = layout_of(kind);
    size_t row_bytes = size_t(columns / l.ggml_columns) * l.ggml_bytes;
    Shares shares;
    shares.reset(1, pool.size());
    pool.run([&](int thread) {
        shares.each(0, thread, tiles(), [&](int index) {
            uint8_t* p = data + size_t(index) * tile_bytes();
            std::memset(p, 0, tile_bytes());
            uint8_t* super_header = nullptr;
            for (int b = 0; b < blocks(); b++) {
                if (l.super_header && b % 8 == 0) super_header = p, p += l.super_header;
                for (int row = 0; row < 32 && index * 32 + row < rows; row++) {
                    write_block(kind, p, super_header, b, row, read_block(kind, raw + size_t(index * 32 + row) * row_bytes, b));
                }
                p += l.block_header + 2 * l.half;
            }
        });
    });
}

void Matrix::dequantise_row(int row, float* out) const {
    Layout l = layout_of(kind);
    const uint8_t* p = tile(row / 32);
    const uint8_t* super_header = nullptr;
    int r = row % 32, lane = r % 16;
    auto half_at = [](const uint8_t* at, int index) {
        uint16_t value;
        std::memcpy(&value, at + 2 * index, 2);
        return f16_to_f32(value);
    };
    for (int b = 0; b < blocks(); b++) {
        if (l.super_header && b % 8 == 0) super_header = p, p += l.super_header;
        const uint8_t* q = p + l.block_header + (r / 16) * l.half;
        int planes = l.half - 256;
        for (int c = 0; c < 32; c++) {
            int group = c / 4, byte = 4 * lane + c % 4, value;
            if (kind == Kind::q8_0) {
                value = q[group * 64 + byte];
            } else {
                value = (q[planes + (group % 4) * 64 + byte] >> (group < 4 ? 0 : 4)) & 15;
                if (planes == 64) value |= ((q[group * 8 + byte / 8] >> (byte % 8)) & 1) << 4;
                if (planes == 128) value |= ((q[(group / 4) * 64 + byte] >> (2 * (group % 4))) & 3) << 4;
            }
            switch (kind) {
                case Kind::q4_0: out[32 * b + c] = half_at(p, r) * float(value - 8); break;
                case Kind::q5_0: out[32 * b + c] = half_at(p, r) * float(value - 16); break;
                case Kind::q8_0: out[32 * b + c] = half_at(p, r) * float(value - 128); break;
                case Kind::q4_1:
                case Kind::q5_1: out[32 * b + c] = half_at(p, r) * float(value) + half_at(p + 64, r); break;
                case Kind::q4_k:
                case Kind::q5_k:
                    out[32 * b + c] = half_at(super_header, r) * float(p[r]) * float(value) - half_at(super_header + 64, r) * float(p[32 + r]);
                    break;
                case Kind::q6_k: out[32 * b + c] = half_at(super_header, r) * float(int8_t(p[32 * (c / 16) + r])) * float(value - 32); break;
            }
        }
        p += l.block_header + 2 * l.half;
    }
}

Activations::~Activations() { std::free(memory_); }

void Activations::resize(int tokens, int new_columns) {
    columns = new_columns;
    blocks = columns / 32;
    size_t value_bytes = (size_t(tokens) * columns + 63) / 64 * 64, scale_bytes = (size_t(tokens) * blocks * 4 + 63) / 64 * 64;
    size_t total = value_bytes + 3 * scale_bytes;
    if (total > capacity_) {
        std::free(memory_);
        memory_ = allocate(total);
        capacity_ = total;
    }
    values = static_cast<int8_t*>(memory_);
    scales = reinterpret_cast<float*>(values + value_bytes);
    sums = reinterpret_cast<int32_t*>(values + value_bytes + scale_bytes);
}

void Activations::quantise_block(int token, int block, const float* x) {
    F32x16 a = load(x), b = load(x + 16);
    float largest = maximum(max(abs(a), abs(b)));
    float scale = largest / 127.0f, inverse = largest > 0 ? 127.0f / largest : 0.0f;
    int8_t* q = values + size_t(token) * columns + 32 * block;
    int32_t* s = sums + (size_t(token) * blocks + block) * 2;
    s[0] = store_i8(q, a * splat(inverse));
    s[1] = store_i8(q + 16, b * splat(inverse));
    scales[size_t(token) * blocks + block] = scale;
}

namespace {

constexpr int prefetch_distance = 2048;

template <Kind kind> inline void unpack(const uint8_t* p, U8x64 w[8]) {
    constexpr int planes = layout_of(kind).half - 256;
    if constexpr (kind == Kind::q8_0) {
        for (int g = 0; g < 8; g++) w[g] = load_u8(p + 64 * g);
    } else {
        for (int i = 0; i < 4; i++) {
            U8x64 nibbles = load_u8(p + planes + 64 * i);
            w[i] = low_nibbles(nibbles);
            w[i + 4] = high_nibbles(nibbles);
        }
        if constexpr (planes == 64) {
            uint64_t bits[8];
            std::memcpy(bits, p, 64);
            for (int g = 0; g < 8; g++) w[g] = add_sixteen_where(w[g], bits[g]);
        }
        if constexpr (planes == 128) {
            for (int i = 0; i < 2; i++) {
                U8x64 plane = load_u8(p + 64 * i);
                w[4 * i] = add_two_bits<0>(w[4 * i], plane);
                w[4 * i + 1] = add_two_bits<1>(w[4 * i + 1], plane);
                w[4 * i + 2] = add_two_bits<2>(w[4 * i + 2], plane);
                w[4 * i + 3] = add_two_bits<3>(w[4 * i + 3], plane);
            }
        }
    }
}

template <Kind kind, int T> void multiply(const uint8_t* p, const Activations& x, int token, float* out) {
    constexpr Layout l = layout_of(kind);
    constexpr int block_bytes = l.block_header + 2 * l.half;
    constexpr bool narrow = kind != Kind::q8_0;
    constexpr int offset = kind == Kind::q8_0 ? 128 : kind == Kind::q5_0 ? 16 : kind == Kind::q4_0 ? 8 : 0;
    F32x16 acc[2][T];
    for (int half = 0; half < 2; half++)
        for (int t = 0; t < T; t++) acc[half][t] = splat(0.0f);
    const uint8_t* super = nullptr;
    for (int b = 0; b < x.blocks; b++) {
        if constexpr (l.super_header > 0) {
            if (b % 8 == 0) super = p, p += l.super_header;
        }
        for (int line = 0; line < block_bytes; line += 64) prefetch(p + prefetch_distance + line);
        for (int half = 0; half < 2; half++) {
            U8x64 w[8];
            unpack<kind>(p + l.block_header + half * l.half, w);
            F32x16 scale, second;  // second: minimum, or the scale of columns 16..31 (q6_k)
            if constexpr (kind == Kind::q6_k) {
                F32x16 d = load_f16(super + 32 * half);
                scale = d * load_i8_f32(p + 16 * half);
                second = d * load_i8_f32(p + 32 + 16 * half);
            } else if constexpr (l.super_header > 0) {
                scale = load_f16(super + 32 * half) * load_u8_f32(p + 16 * half);
                second = splat(0.0f) - load_f16(super + 64 + 32 * half) * load_u8_f32(p + 32 + 16 * half);
            } else {
                scale = load_f16(p + 32 * half);
                if constexpr (l.block_header == 128) second = load_f16(p + 64 + 32 * half);
            }
            for (int t = 0; t < T; t++) {
                size_t at = size_t(token + t) * x.blocks + b;
                const int8_t* a = x.values + 32 * at;
                F32x16 activation_scale = splat(x.scales[at]);
                if constexpr (kind == Kind::q6_k) {
                    I32x16 first = splat_i32(-32 * x.sums[2 * at]), last = splat_i32(-32 * x.sums[2 * at + 1]);
                    for (int g = 0; g < 4; g++) first = dot<narrow>(first, w[g], a + 4 * g);
                    for (int g = 4; g < 8; g++) last = dot<narrow>(last, w[g], a + 4 * g);
                    acc[half][t] = fma(fma(to_f32(first), scale, to_f32(last) * second), activation_scale, acc[half][t]);
                } else {
                    int32_t total = x.sums[2 * at] + x.sums[2 * at + 1];
                    I32x16 product = splat_i32(-offset * total);
                    for (int g = 0; g < 8; g++) product = dot<narrow>(product, w[g], a + 4 * g);
                    acc[half][t] = fma(to_f32(product), scale * activation_scale, acc[half][t]);
                    if constexpr (l.block_header == 128 || l.super_header > 0)
                        acc[half][t] = fma(second, splat(x.scales[at] * float(total)), acc[half][t]);
                }
            }
        }
        p += block_bytes;
    }
    for (int half = 0; half < 2; half++)
        for (int t = 0; t < T; t++) store(out + 32 * t + 16 * half, acc[half][t]);
}

template <Kind kind> void multiply_tokens(const uint8_t* p, const Activations& x, int tokens, float* out) {
    for (int token = 0; token < tokens;) {
        int rest = tokens - token;
        float* to = out + 32 * token;
        if (rest >= 8) multiply<kind, 8>(p, x, token, to), token += 8;
        else if (rest >= 6) multiply<kind, 6>(p, x, token, to), token += 6;
        else if (rest >= 4) multiply<kind, 4>(p, x, token, to), token += 4;
        else if (rest == 3) multiply<kind, 3>(p, x, token, to), token += 3;
        else if (rest == 2) multiply<kind, 2>(p, x, token, to), token += 2;
        else multiply<kind, 1>(p, x, token, to), token += 1;
    }
}

}  // namespace

void multiply_tile(const Matrix& matrix, int index, const Activations& x, int tokens, float* out) {
    const uint8_t* p = matrix.tile(index);
    switch (matrix.kind) {
        case Kind::q4_0: return multiply_tokens<Kind::q4_0>(p, x, tokens, out);
        case Kind::q4_1: return multiply_tokens<Kind::q4_1>(p, x, tokens, out);
        case Kind::q5_0: return multiply_tokens<Kind::q5_0>(p, x, tokens, out);
        case Kind::q5_1: return multiply_tokens<Kind::q5_1>(p, x, tokens, out);
        case Kind::q8_0: return multiply_tokens<Kind::q8_0>(p, x, tokens, out);
        case Kind::q4_k: return multiply_tokens<Kind::q4_k>(p, x, tokens, out);
        case Kind::q5_k: return multiply_tokens<Kind::q5_k>(p, x, tokens, out);
        case Kind::q6_k: return multiply_tokens<Kind::q6_k>(p, x, tokens, out);
    }
}

}  // namespace miton
