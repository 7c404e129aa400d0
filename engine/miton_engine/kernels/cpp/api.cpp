// The C interface that native.py loads. Pointers and sizes were checked there. Functions that can fail return a code.
#include <cstring>
#include <new>

#include "decoder.h"

using namespace miton;

extern "C" {

int miton_instruction_set() {
#if MITON_AVX512
    return 2;
#elif MITON_AVX2
    return 1;
#else
    return 0;
#endif
}

void* miton_pool_create(int threads) { return new (std::nothrow) ThreadPool(threads); }
void miton_pool_destroy(void* pool) { delete static_cast<ThreadPool*>(pool); }

void* miton_matrix_create(void* pool, int kind, int rows, int columns, const uint8_t* raw) {
    try {
        auto* matrix = new Matrix(Kind(kind), rows, columns);
        matrix->pack(*static_cast<ThreadPool*>(pool), raw);
        return matrix;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void miton_matrix_destroy(void* matrix) { delete static_cast<Matrix*>(matrix); }
int64_t miton_matrix_bytes(void* matrix) { return int64_t(static_cast<Matrix*>(matrix)->bytes); }
void miton_matrix_row(void* matrix, int row, float* out) { static_cast<Matrix*>(matrix)->dequantise_row(row, out); }

// y [tokens, rows] = x [tokens, columns] * matrix^T, tokens 1..16
void miton_matrix_multiply(void* pool_pointer, void* matrix_pointer, const float* x, int tokens, float* y) {
    auto& pool = *static_cast<ThreadPool*>(pool_pointer);
    auto& matrix = *static_cast<Matrix*>(matrix_pointer);
    Activations activations;
    activations.resize(tokens, matrix.columns);
    for (int t = 0; t < tokens; t++) activations.quantise(t, x + size_t(t) * matrix.columns);
    Shares shares;
    shares.reset(1, pool.size());
    pool.run([&](int thread) {
        float out[32 * max_tokens];
        shares.each(0, thread, matrix.tiles(), [&](int tile) {
            multiply_tile(matrix, tile, activations, tokens, out);
            int rows = std::min(32, matrix.rows - 32 * tile);
            for (int t = 0; t < tokens; t++) std::memcpy(y + size_t(t) * matrix.rows + 32 * tile, out + 32 * t, rows * sizeof(float));
        });
    });
}

void* miton_decoder_create(void* pool, const Config* config, const float* cosines, const float* sines) {
    try {
        return new Decoder(*static_cast<ThreadPool*>(pool), *config, cosines, sines);
    } catch (const std::exception&) {
        return nullptr;
    }
}
void miton_decoder_destroy(void* decoder) { delete static_cast<Decoder*>(decoder); }
void miton_decoder_set_weight(void* decoder, int layer, int which, void* matrix) {
    static_cast<Decoder*>(decoder)->layer(layer).weights[which] = static_cast<Matrix*>(matrix);
}
void miton_decoder_set_vector(void* decoder, int layer, int which, const float* values, int count) {
    static_cast<Decoder*>(decoder)->layer(layer).vectors[which].assign(values, values + count);
}
// head is a matrix, or planes made of one (the other is null)
void miton_decoder_set_ends(void* decoder, void* embedding, void* head, void* planes, const float* final_norm) {
    auto* d = static_cast<Decoder*>(decoder);
    d->set_embedding(static_cast<Matrix*>(embedding));
    d->set_head(static_cast<Matrix*>(head), static_cast<PlaneHead*>(planes));
    d->set_final_norm(final_norm);
}
void* miton_planes_create(void* pool, void* q8_matrix, const float* norm_weights) {
    try {
        return new PlaneHead(*static_cast<ThreadPool*>(pool), *static_cast<Matrix*>(q8_matrix), norm_weights);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void miton_planes_destroy(void* planes) { delete static_cast<PlaneHead*>(planes); }
int miton_decoder_step(void* decoder, const Step* step) {
    try {
        static_cast<Decoder*>(decoder)->step(*step);
        return 0;
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

struct AttachShape {
    int64_t layers, kv_heads, tokens, head_dim, rope_dim, slot, layer_stride, head_stride;
};

// Places stored chunk KV into the caches: keys turned by one constant rotation, values copied, all layers in one call.
// Sources are bf16 [layers, kv_heads, tokens, head_dim], targets [layers, kv_heads, slots, head_dim] with strides.
void miton_attach(void* pool_pointer, const AttachShape* shape, const float* cosines, const float* sines,
                  const uint16_t* source_keys, const uint16_t* source_values, uint16_t* keys, uint16_t* values) {
    auto& pool = *static_cast<ThreadPool*>(pool_pointer);
    const AttachShape s = *shape;
    Shares shares;
    shares.reset(1, pool.size());
    int half = int(s.rope_dim / 2);
    pool.run([&](int thread) {
        shares.each(0, thread, int(s.layers * s.kv_heads), [&](int item) {
            int64_t from = item * s.tokens * s.head_dim;
            int64_t target = item / s.kv_heads * s.layer_stride + item % s.kv_heads * s.head_stride + s.slot * s.head_dim;
            const uint16_t* k = source_keys + from;
            uint16_t* to = keys + target;
            for (int64_t t = 0; t < s.tokens; t++, k += s.head_dim, to += s.head_dim) {
                int i = 0;
                for (; i + 16 <= half; i += 16) {
                    F32x16 a = load_bf16(k + i), b = load_bf16(k + half + i), c = load(cosines + i), d = load(sines + i);
                    store_bf16(to + i, a * c - b * d);
                    store_bf16(to + half + i, b * c + a * d);
                }
                for (; i < half; i++) {
                    float a = bf16_to_f32(k[i]), b = bf16_to_f32(k[half + i]);
                    to[i] = f32_to_bf16(a * cosines[i] - b * sines[i]);
                    to[half + i] = f32_to_bf16(b * cosines[i] + a * sines[i]);
                }
                for (i = int(s.rope_dim); i < s.head_dim; i++) to[i] = k[i];
            }
            std::memcpy(values + target, source_values + from, size_t(s.tokens) * s.head_dim * 2);
        });
    });
}

}  // extern "C"
