#include "decoder.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace miton {

namespace {

constexpr int stages_per_layer = 5;

inline int groups_of(const Config& c) { return c.heads / c.kv_heads; }

// y = x / rms(x) * weights
void rms_norm(const float* x, const float* weights, int n, float eps, float* y) {
    float squares = 0;
    int i = 0;
    F32x16 acc = splat(0.0f);
    for (; i + 16 <= n; i += 16) acc = fma(load(x + i), load(x + i), acc);
    squares = sum(acc);
    for (; i < n; i++) squares += x[i] * x[i];
    float scale = 1.0f / std::sqrt(squares / float(n) + eps);
    for (i = 0; i + 16 <= n; i += 16) store(y + i, load(x + i) * splat(scale) * load(weights + i));
    for (; i < n; i++) y[i] = x[i] * scale * weights[i];
}

}  // namespace

Decoder::Decoder(ThreadPool& pool, const Config& config, const float* cosines, const float* sines)
    : pool_(pool), config_(config), attend_(attend_for(config.head_dim)), layers_(config.layers) {
    if (!attend_) throw std::invalid_argument("head size");
    size_t table = size_t(config.max_position) * (config.rope_dim / 2);
    cosines_.assign(cosines, cosines + table);
    sines_.assign(sines, sines + table);
    int q_width = config.heads * config.head_dim, kv_width = config.kv_heads * config.head_dim;
    x_.resize(size_t(max_tokens) * config.hidden);
    q_.resize(size_t(max_tokens) * q_width);
    k_.resize(size_t(max_tokens) * kv_width);
    v_.resize(size_t(max_tokens) * kv_width);
    attended_.resize(size_t(max_tokens) * q_width);
    int queries = max_tokens * groups_of(config);
    for (int i = 0; i < pool.size(); i++) {
        auto thread = std::make_unique<Thread>();
        thread->scratch.resize(queries, config.head_dim);
        thread->normed.resize(std::max(config.hidden, q_width));
        thread->queries.resize(size_t(queries) * config.head_dim);
        thread->state.resize(size_t(queries) * (config.head_dim + 2));
        thread->tiles.resize(2 * 32 * max_tokens);
        threads_.push_back(std::move(thread));
    }
}

void Decoder::step(const Step& step) {
    for (int t = 0; t < step.tokens; t++) embedding_->dequantise_row(step.token_ids[t], x_.data() + size_t(t) * config_.hidden);
    shares_.reset(config_.layers * stages_per_layer + 2, pool_.size());
    feed_forward_.resize(step.tokens, config_.intermediate);
    parts_ = parts_for(step);
    partial_.resize(size_t(config_.kv_heads) * parts_ * step.tokens * groups_of(config_) * (config_.head_dim + 2));
    if (planes_) tile_reach_.resize(size_t(planes_->tiles()) * step.logit_rows);
    for (auto& thread : threads_) thread->exact_tiles = 0;
    pool_.run([&](int index) { run_thread(index, step); });
}

void Decoder::run_thread(int index, const Step& step) {
    Thread& thread = *threads_[index];
    int tokens = step.tokens, q_width = config_.heads * config_.head_dim;
    for (int l = 0; l < config_.layers; l++) {
        const Layer& layer = layers_[l];
        int stage = l * stages_per_layer;
        normalise(thread, tokens, layer.vectors[attention_norm].data());
        project_qkv(thread, index, stage, step, layer);
        pool_.barrier();
        attention(thread, index, stage + 1, step, l);
        pool_.barrier();
        thread.attended.resize(tokens, q_width);
        for (int t = 0; t < tokens; t++) thread.attended.quantise(t, attended_.data() + size_t(t) * q_width);
        add_product(thread, index, stage + 2, *layer.weights[output], thread.attended, tokens, layer.vectors[output_bias]);
        pool_.barrier();
        normalise(thread, tokens, layer.vectors[ffn_norm].data());
        gate_up(thread, index, stage + 3, tokens, layer);
        pool_.barrier();
        add_product(thread, index, stage + 4, *layer.weights[down], feed_forward_, tokens, {});
        pool_.barrier();
    }
    if (!step.logit_rows) return;
    int first = tokens - step.logit_rows;
    thread.input.resize(step.logit_rows, config_.hidden);
    for (int t = first; t < tokens; t++) {
        rms_norm(x_.data() + size_t(t) * config_.hidden, final_norm_.data(), config_.hidden, config_.rms_norm_eps, thread.normed.data());
        thread.input.quantise(t - first, thread.normed.data());
    }
    if (step.logits) head_logits(thread, index, step);
    else head_best(thread, index, step);
}

void Decoder::head_tile(int tile, const Activations& x, int tokens, float* out) const {
    if (planes_) planes_->multiply_tile(tile, x, tokens, out);
    else multiply_tile(*head_, tile, x, tokens, out);
}

void Decoder::head_logits(Thread& thread, int index, const Step& step) {
    int tiles = (config_.vocabulary + 31) / 32;
    shares_.each(config_.layers * stages_per_layer, index, tiles, [&](int tile) {
        head_tile(tile, thread.input, step.logit_rows, thread.tiles.data());
        int rows = std::min(32, config_.vocabulary - 32 * tile);
        for (int t = 0; t < step.logit_rows; t++)
            std::memcpy(step.logits + size_t(t) * config_.vocabulary + 32 * tile, thread.tiles.data() + 32 * t, rows * sizeof(float));
    });
}

void Decoder::take_best(Thread& thread, int tile, int tokens) const {
    int rows = std::min(32, config_.vocabulary - 32 * tile);
    for (int t = 0; t < tokens; t++) {
        float largest = maximum(max(load(thread.tiles.data() + 32 * t), load(thread.tiles.data() + 32 * t + 16)));
        if (largest < thread.best[t].score) continue;
        for (int r = 0; r < rows; r++) thread.best[t] = std::max(thread.best[t], Best{thread.tiles[32 * t + r], 32 * tile + r});
    }
}

Decoder::Best Decoder::best_of_all(int token) const {
    Best best = threads_[0]->best[token];
    for (const auto& thread : threads_) best = std::max(best, thread->best[token]);
    return best;
}

// Without planes: every tile. With them: the high plane of every tile, then in full the tile that looks best for each
// token (every thread does these few), then the tiles whose rows could reach what was found there.
void Decoder::head_best(Thread& thread, int index, const Step& step) {
    int tiles = (config_.vocabulary + 31) / 32, tokens = step.logit_rows, stage = config_.layers * stages_per_layer;
    float* out = thread.tiles.data();
    thread.best.fill({-INFINITY, INT32_MAX});
    if (planes_) {
        std::array<float, max_tokens> reach;
        for (int t = 0; t < tokens; t++) reach[t] = planes_->reach(thread.input, t);
        shares_.each(stage, index, tiles, [&](int tile) {
            planes_->approximate_tile(tile, thread.input, tokens, out);
            take_best(thread, tile, tokens);
            const float* errors = planes_->errors(tile);
            for (int t = 0; t < tokens; t++) {
                F32x16 r = splat(reach[t]);
                F32x16 top = max(fma(load(errors), r, load(out + 32 * t)), fma(load(errors + 16), r, load(out + 32 * t + 16)));
                tile_reach_[size_t(tile) * tokens + t] = maximum(top);
            }
        });
        pool_.barrier();
        std::array<int, max_tokens> likely;
        for (int t = 0; t < tokens; t++) likely[t] = std::min(best_of_all(t).row, config_.vocabulary - 1) / 32;
        pool_.barrier();
        thread.best.fill({-INFINITY, INT32_MAX});
        for (int t = 0; t < tokens; t++) {
            head_tile(likely[t], thread.input, tokens, out);
            take_best(thread, likely[t], tokens);
        }
        std::array<float, max_tokens> floor;
        for (int t = 0; t < tokens; t++) floor[t] = thread.best[t].score;
        shares_.each(stage + 1, index, tiles, [&](int tile) {
            for (int t = 0; t < tokens; t++) {
                if (tile_reach_[size_t(tile) * tokens + t] < floor[t]) continue;
                head_tile(tile, thread.input, tokens, out);
                take_best(thread, tile, tokens);
                thread.exact_tiles++;
                return;
            }
        });
    } else {
        shares_.each(stage, index, tiles, [&](int tile) {
            head_tile(tile, thread.input, tokens, out);
            take_best(thread, tile, tokens);
        });
    }
    pool_.barrier();
    if (index) return;
    *step.exact_tiles = 0;
    for (const auto& each : threads_) *step.exact_tiles += each->exact_tiles;
    for (int t = 0; t < tokens; t++) step.best[t] = std::min(best_of_all(t).row, config_.vocabulary - 1);
}

void Decoder::normalise(Thread& thread, int tokens, const float* weights) {
    thread.input.resize(tokens, config_.hidden);
    for (int t = 0; t < tokens; t++) {
        rms_norm(x_.data() + size_t(t) * config_.hidden, weights, config_.hidden, config_.rms_norm_eps, thread.normed.data());
        thread.input.quantise(t, thread.normed.data());
    }
}

void Decoder::project_qkv(Thread& thread, int index, int stage, const Step& step, const Layer& layer) {
    const Matrix* matrices[3] = {layer.weights[query], layer.weights[key], layer.weights[value]};
    const std::vector<float>* biases[3] = {&layer.vectors[query_bias], &layer.vectors[key_bias], &layer.vectors[value_bias]};
    float* outputs[3] = {q_.data(), k_.data(), v_.data()};
    int total = matrices[0]->tiles() + matrices[1]->tiles() + matrices[2]->tiles();
    shares_.each(stage, index, total, [&](int item) {
        int which = 0;
        while (item >= matrices[which]->tiles()) item -= matrices[which++]->tiles();
        const Matrix& matrix = *matrices[which];
        multiply_tile(matrix, item, thread.input, step.tokens, thread.tiles.data());
        int rows = std::min(32, matrix.rows - 32 * item);
        const float* bias = biases[which]->empty() ? nullptr : biases[which]->data() + 32 * item;
        for (int t = 0; t < step.tokens; t++) {
            float* out = outputs[which] + size_t(t) * matrix.rows + 32 * item;
            for (int r = 0; r < rows; r++) out[r] = thread.tiles[32 * t + r] + (bias ? bias[r] : 0.0f);
        }
    });
}

void Decoder::rotate(float* vector, int64_t position) const {
    int half = config_.rope_dim / 2;
    const float* cosine = cosines_.data() + size_t(position) * half;
    const float* sine = sines_.data() + size_t(position) * half;
    for (int i = 0; i < half; i++) {
        float a = vector[i], b = vector[i + half];
        vector[i] = a * cosine[i] - b * sine[i];
        vector[i + half] = b * cosine[i] + a * sine[i];
    }
}

void Decoder::visible(const Step& step, int layer_index, int kv_head, std::vector<SlotRange>& out) const {
    int begin = 0, end = step.range_count;
    if (step.range_offsets) {
        begin = step.range_offsets[layer_index * config_.kv_heads + kv_head];
        end = step.range_offsets[layer_index * config_.kv_heads + kv_head + 1];
    }
    out.clear();
    for (int i = begin; i < end; i++) out.push_back({step.ranges[2 * i], step.ranges[2 * i + 1]});
}

// The cache of one head is cut where that is needed to give every thread work.
int Decoder::parts_for(const Step& step) const {
    int threads = pool_.size();
    if (config_.kv_heads % threads == 0) return 1;
    int64_t slots = 0;
    for (int i = 0; i < step.range_count; i++) slots += step.ranges[2 * i + 1] - step.ranges[2 * i];
    if (step.range_offsets) slots /= config_.layers * config_.kv_heads;
    int wanted = (2 * threads + config_.kv_heads - 1) / config_.kv_heads;
    return int(std::max<int64_t>(1, std::min<int64_t>(wanted, slots / 64)));
}

void Decoder::attention(Thread& thread, int index, int stage, const Step& step, int layer_index) {
    shares_.each(stage, index, config_.kv_heads * parts_, [&](int item) { attend_item(thread, step, layer_index, item / parts_, item % parts_); });
    if (parts_ == 1) return;
    pool_.barrier();
    for (int head = index; head < config_.kv_heads; head += pool_.size()) merge_parts(head, step.tokens);
}

void Decoder::attend_item(Thread& thread, const Step& step, int layer_index, int kv_head, int part) {
    const Layer& layer = layers_[layer_index];
    int d = config_.head_dim, group = groups_of(config_), tokens = step.tokens, queries = tokens * group;
    int64_t at = layer_index * step.layer_stride + kv_head * step.head_stride;
    uint16_t *keys = step.keys + at, *values = step.values + at;
    float scale = 1.0f / std::sqrt(float(d));
    for (int t = 0; t < tokens; t++) {
        for (int g = 0; g < group; g++) {
            float* q = thread.queries.data() + size_t(t * group + g) * d;
            std::memcpy(q, q_.data() + size_t(t) * config_.heads * d + size_t(kv_head * group + g) * d, d * sizeof(float));
            if (!layer.vectors[query_norm].empty()) rms_norm(q, layer.vectors[query_norm].data(), d, config_.rms_norm_eps, q);
            rotate(q, step.positions[t]);
            for (int i = 0; i < d; i++) q[i] *= scale;
        }
    }
    bool last = part == parts_ - 1;  // this part has the new tokens
    if (last) {
        for (int t = 0; t < tokens; t++) {
            size_t from = size_t(t) * config_.kv_heads * d + size_t(kv_head) * d;
            float* k = k_.data() + from;
            if (!layer.vectors[key_norm].empty()) rms_norm(k, layer.vectors[key_norm].data(), d, config_.rms_norm_eps, k);
            rotate(k, step.positions[t]);
            for (int i = 0; i < d; i += 16) {
                store_bf16(keys + (step.slot + t) * d + i, load(k + i));
                store_bf16(values + (step.slot + t) * d + i, load(v_.data() + from + i));
            }
        }
    }
    visible(step, layer_index, kv_head, thread.ranges);
    if (parts_ > 1) {  // keep this part's share of the visible slots
        int64_t slots = 0;
        for (SlotRange r : thread.ranges) slots += r.end - r.begin;
        int64_t begin = slots * part / parts_, end = slots * (part + 1) / parts_, seen = 0;
        for (SlotRange& r : thread.ranges) {
            int64_t length = r.end - r.begin, low = std::min(std::max(begin - seen, int64_t(0)), length), high = std::min(std::max(end - seen, int64_t(0)), length);
            r = {r.begin + low, r.begin + high};
            seen += length;
        }
    }
    float* memory = parts_ == 1 ? thread.state.data() : partial_.data() + size_t(kv_head * parts_ + part) * queries * (d + 2);
    AttentionState state{memory, memory + queries, memory + 2 * queries};
    std::fill_n(state.maximum, queries, -1e30f);
    std::fill_n(state.total, size_t(queries) * (d + 1), 0.0f);
    SlotRange fresh{step.slot, last ? step.slot + tokens : step.slot};
    attend_(keys, values, thread.ranges, fresh, group, tokens, thread.queries.data(), thread.scratch, state);
    if (parts_ > 1) return;
    for (int query = 0; query < queries; query++) {
        float* out = attended_.data() + size_t(query / group) * config_.heads * d + size_t(kv_head * group + query % group) * d;
        for (int i = 0; i < d; i++) out[i] = state.values[size_t(query) * d + i] / state.total[query];
    }
}

void Decoder::merge_parts(int kv_head, int tokens) {
    int d = config_.head_dim, group = groups_of(config_), queries = tokens * group;
    for (int query = 0; query < queries; query++) {
        float largest = -1e30f, total = 0;
        float* out = attended_.data() + size_t(query / group) * config_.heads * d + size_t(kv_head * group + query % group) * d;
        std::fill_n(out, d, 0.0f);
        const float* memory = partial_.data() + size_t(kv_head * parts_) * queries * (d + 2);
        size_t stride = size_t(queries) * (d + 2);
        for (int part = 0; part < parts_; part++) largest = std::max(largest, memory[part * stride + query]);
        for (int part = 0; part < parts_; part++) {
            const float* state = memory + part * stride;
            float weight = std::exp(state[query] - largest);
            total += weight * state[queries + query];
            for (int i = 0; i < d; i++) out[i] += weight * state[2 * queries + size_t(query) * d + i];
        }
        for (int i = 0; i < d; i++) out[i] /= total;
    }
}

void Decoder::add_product(Thread& thread, int index, int stage, const Matrix& matrix, const Activations& x, int tokens,
                          const std::vector<float>& bias) {
    shares_.each(stage, index, matrix.tiles(), [&](int tile) {
        multiply_tile(matrix, tile, x, tokens, thread.tiles.data());
        int rows = std::min(32, matrix.rows - 32 * tile);
        for (int t = 0; t < tokens; t++) {
            float* out = x_.data() + size_t(t) * config_.hidden + 32 * tile;
            for (int r = 0; r < rows; r++) out[r] += thread.tiles[32 * t + r] + (bias.empty() ? 0.0f : bias[32 * tile + r]);
        }
    });
}

void Decoder::gate_up(Thread& thread, int index, int stage, int tokens, const Layer& layer) {
    const Matrix &gates = *layer.weights[gate], &ups = *layer.weights[up];
    float *gated = thread.tiles.data(), *upped = gated + 32 * max_tokens;
    shares_.each(stage, index, gates.tiles(), [&](int tile) {
        multiply_tile(gates, tile, thread.input, tokens, gated);
        multiply_tile(ups, tile, thread.input, tokens, upped);
        for (int t = 0; t < tokens; t++) {
            for (int i = 32 * t; i < 32 * t + 32; i += 16) {
                F32x16 g = load(gated + i);
                store(gated + i, g / (splat(1.0f) + exp(splat(0.0f) - g)) * load(upped + i));
            }
            feed_forward_.quantise_block(t, tile, gated + 32 * t);
        }
    });
}

}  // namespace miton
