// One fused decode step of a llama-like model for 1..16 tokens: embedding, layers, final norm, head.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "attention.h"
#include "head.h"
#include "matrix.h"
#include "pool.h"

namespace miton {

struct Config {
    int32_t vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim, rope_dim, max_position;
    float rms_norm_eps;
};

enum Weight : int { query, key, value, output, gate, up, down, weight_count };
enum Vector : int { attention_norm, ffn_norm, query_bias, key_bias, value_bias, output_bias, query_norm, key_norm, vector_count };

struct Layer {
    std::array<const Matrix*, weight_count> weights{};
    std::array<std::vector<float>, vector_count> vectors;
};

// What one step reads and writes besides the weights.
struct Step {
    int32_t tokens;
    const int32_t* token_ids;      // [tokens]
    const int64_t* positions;      // [tokens], rotary positions
    int64_t slot;                  // first of the slots that receive the new keys and values
    uint16_t* keys;                // bf16 [layers, kv_heads, slots, head_dim]
    uint16_t* values;
    int64_t layer_stride, head_stride;  // in elements; slots are contiguous
    const int64_t* ranges;         // pairs [begin, end) of visible earlier slots
    const int32_t* range_offsets;  // [layers * kv_heads + 1] into `ranges`, or null: all of `ranges` for every head
    int32_t range_count;
    int32_t logit_rows;            // 0: none; 1: last token only; tokens: all
    float* logits;                 // [logit_rows, vocabulary], or null: only `best` is wanted
    int32_t* best;                 // [logit_rows] argmax, lowest id among equals; used when logits is null
    int32_t* exact_tiles;          // 1 number: head tiles that were computed in full for `best`
};

class Decoder {
public:
    Decoder(ThreadPool& pool, const Config& config, const float* cosines, const float* sines);
    Layer& layer(int index) { return layers_[index]; }
    void set_embedding(const Matrix* matrix) { embedding_ = matrix; }
    void set_head(const Matrix* matrix, const PlaneHead* planes) { head_ = matrix, planes_ = planes; }  // one of the two
    void set_final_norm(const float* weights) { final_norm_.assign(weights, weights + config_.hidden); }
    void step(const Step& step);

private:
    struct Best {
        float score;
        int row;
        bool operator<(const Best& other) const { return score != other.score ? score < other.score : row > other.row; }
    };

    struct Thread {
        Activations input, attended;
        AttentionScratch scratch;
        std::vector<float> normed, queries, state, tiles;
        std::vector<SlotRange> ranges;
        std::array<Best, max_tokens> best;
        int exact_tiles = 0;
    };

    void run_thread(int index, const Step& step);
    void normalise(Thread& thread, int tokens, const float* weights);
    void project_qkv(Thread& thread, int index, int stage, const Step& step, const Layer& layer);
    void attention(Thread& thread, int index, int stage, const Step& step, int layer_index);
    void attend_item(Thread& thread, const Step& step, int layer_index, int kv_head, int part);
    void merge_parts(int kv_head, int tokens);
    void add_product(Thread& thread, int index, int stage, const Matrix& matrix, const Activations& x, int tokens, const std::vector<float>& bias);
    void gate_up(Thread& thread, int index, int stage, int tokens, const Layer& layer);
    void head_logits(Thread& thread, int index, const Step& step);
    void head_best(Thread& thread, int index, const Step& step);
    void head_tile(int tile, const Activations& x, int tokens, float* out) const;
    void take_best(Thread& thread, int tile, int tokens) const;
    Best best_of_all(int token) const;
    void rotate(float* vector, int64_t position) const;
    int parts_for(const Step& step) const;
    void visible(const Step& step, int layer_index, int kv_head, std::vector<SlotRange>& out) const;

    ThreadPool& pool_;
    Config config_;
    Attend attend_;
    const Matrix* embedding_ = nullptr;
    const Matrix* head_ = nullptr;
    const PlaneHead* planes_ = nullptr;
    std::vector<float> final_norm_, cosines_, sines_;
    std::vector<Layer> layers_;
    std::vector<std::unique_ptr<Thread>> threads_;
    Shares shares_;
    std::vector<float> x_, q_, k_, v_, attended_, partial_, tile_reach_;
    Activations feed_forward_;
    int parts_ = 1;
};

}  // namespace miton
