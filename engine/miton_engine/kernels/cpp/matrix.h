// Quantised weight matrices, repacked without loss from ggml blocks so that a product streams them once, in order.
//
// A tile is 32 rows; within it one block after another along the columns, each block 32 rows x 32 columns:
//   scales (f16 x 32 rows), then per half (16 rows) its values. Column group g (0..7) of a half is 64 bytes,
//   16 rows x 4 columns: nibble vector i holds group i (low) and i + 4 (high); the fifth bits are one 64-bit mask per
//   group; sixth-and-fifth bits share a vector, two bits per group. K-formats have a header every 8 blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pool.h"
#include "simd.h"

namespace miton {

// Numbers are ggml's own type numbers (gguf.GGMLQuantizationType).
enum class Kind : int { q4_0 = 2, q4_1 = 3, q5_0 = 6, q5_1 = 7, q8_0 = 8, q4_k = 12, q5_k = 13, q6_k = 14 };

void* allocate(size_t bytes);  // aligned, in huge pages where large; freed with std::free; throws std::bad_alloc

struct Layout {
    int super_header;   // bytes before every 8 blocks
    int block_header;   // bytes of scales before the two halves
    int half;           // bytes of one half
    int ggml_columns;   // columns and bytes of the file's own block
    int ggml_bytes;
};

constexpr Layout layout_of(Kind kind) {
    switch (kind) {
        case Kind::q4_0: return {0, 64, 256, 32, 18};
        case Kind::q4_1: return {0, 128, 256, 32, 20};
        case Kind::q5_0: return {0, 64, 320, 32, 22};
        case Kind::q5_1: return {0, 128, 320, 32, 24};
        case Kind::q8_0: return {0, 64, 512, 32, 34};
        case Kind::q4_k: return {128, 64, 256, 256, 144};
        case Kind::q5_k: return {128, 64, 320, 256, 176};
        case Kind::q6_k: return {64, 64, 384, 256, 210};
    }
    return {0, 0, 0, 0, 0};
}

struct Matrix {
    Kind kind;
    int rows, columns;
    uint8_t* data = nullptr;
    size_t bytes = 0;

    int tiles() const { return (rows + 31) / 32; }
    int blocks() const { return columns / 32; }
    size_t tile_bytes() const {
        Layout l = layout_of(kind);
        return size_t(blocks()) * (l.block_header + 2 * l.half) + (l.super_header ? size_t(blocks() / 8) * l.super_header : 0);
    }
    const uint8_t* tile(int index) const { return data + size_t(index) * tile_bytes(); }

    Matrix(Kind kind, int rows, int columns);
    ~Matrix();
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;

    void pack(ThreadPool& pool, const uint8_t* raw);      // raw: rows of ggml blocks, one after another
    void dequantise_row(int row, float* out) const;       // [columns]
};

// Activations as int8 with one scale per 32 columns (ggml's Q8_0, scales in f32) and sums for the weights' offsets.
struct Activations {
    int columns = 0, blocks = 0;
    int8_t* values = nullptr;    // [tokens, columns]
    float* scales = nullptr;     // [tokens, blocks]
    int32_t* sums = nullptr;     // [tokens, blocks, 2]: sums of each 16 values

    void resize(int tokens, int columns);
    void quantise_block(int token, int block, const float* x);  // x: 32 values
    void quantise(int token, const float* x) {
        for (int b = 0; b < blocks; b++) quantise_block(token, b, x + 32 * b);
    }
    Activations() = default;
    ~Activations();
    Activations(const Activations&) = delete;
    Activations& operator=(const Activations&) = delete;

private:
    size_t capacity_ = 0;
    void* memory_ = nullptr;
};

constexpr int max_tokens = 16;

// out[token * 32 + row] for one tile of 32 rows and `tokens` (1..16) rows of activations.
void multiply_tile(const Matrix& matrix, int tile, const Activations& x, int tokens, float* out);

}  // namespace miton
