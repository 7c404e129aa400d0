// Grouped-query attention over a bf16 cache: several queries share each block of keys and values, softmax is online.
#pragma once

#include <algorithm>
#include <vector>

#include "simd.h"

namespace miton {

struct SlotRange { int64_t begin, end; };

// Running softmax of each query: largest score, sum of exponentials, weighted sum of values.
struct AttentionState {
    float* maximum;  // [queries]
    float* total;    // [queries]
    float* values;   // [queries, head_dim]
};

struct AttentionScratch {
    static constexpr int block = 64;  // slots per step
    std::vector<float> keys, values, scores;
    void resize(int queries, int head_dim) {
        keys.resize(16 * head_dim);
        values.resize(size_t(block) * head_dim);
        scores.resize(size_t(queries) * block);
    }
};

// Folds `count` (<= 64) consecutive slots into the state of queries [first, queries); queries are [queries, head_dim],
// scaled. visible(query) says how many of these slots it may see.
template <int C, typename Visible>
void attend_block(const uint16_t* keys, const uint16_t* values, int count, const float* queries, int first, int last,
                  Visible visible, AttentionScratch& scratch, AttentionState state) {
    constexpr int head_dim = 16 * C, block = AttentionScratch::block;
    float* k = scratch.keys.data();
    float* v = scratch.values.data();
    float* scores = scratch.scores.data();
    for (int base = 0; base < count; base += 16) {
        int rows = std::min(16, count - base);
        for (int row = 0; row < rows; row++) {
            for (int c = 0; c < C; c++) {
                int64_t at = int64_t(base + row) * head_dim + 16 * c;
                store(k + row * head_dim + 16 * c, load_bf16(keys + at));
                store(v + (base + row) * head_dim + 16 * c, load_bf16(values + at));
            }
        }
        for (int row = rows; row < 16; row++) std::fill_n(k + row * head_dim, head_dim, 0.0f);
        for (int query = first; query < last; query++) {
            const float* q = queries + query * head_dim;
            F32x16 sixteen[16];
            for (int row = 0; row < 16; row++) {
                F32x16 acc = load(k + row * head_dim) * load(q);
                for (int c = 1; c < C; c++) acc = fma(load(k + row * head_dim + 16 * c), load(q + 16 * c), acc);
                sixteen[row] = acc;
            }
            store(scores + query * block + base, sums(sixteen));
        }
    }
    for (int query = first; query < last; query++) {
        float* s = scores + query * block;
        int seen = std::min(count, visible(query));
        int padded = (count + 15) / 16 * 16;
        for (int i = std::max(seen, 0); i < padded; i++) s[i] = -1e30f;
        if (seen <= 0) {
            std::fill_n(s, padded, 0.0f);
            continue;
        }
        F32x16 largest = load(s);
        for (int i = 16; i < padded; i += 16) largest = max(largest, load(s + i));
        float old_maximum = state.maximum[query], new_maximum = std::max(old_maximum, maximum(largest));
        F32x16 total = splat(0.0f);
        for (int i = 0; i < padded; i += 16) {
            F32x16 p = exp(load(s + i) - splat(new_maximum));
            store(s + i, p);
            if (i + 16 <= seen) total = total + p;
        }
        for (int i = seen; i < padded; i++) s[i] = 0.0f;
        if (seen % 16) total = total + load(s + seen / 16 * 16);
        if (new_maximum > old_maximum) {
            float shrink = std::exp(old_maximum - new_maximum);
            state.total[query] *= shrink;
            float* o = state.values + query * head_dim;
            for (int c = 0; c < C; c++) store(o + 16 * c, load(o + 16 * c) * splat(shrink));
            state.maximum[query] = new_maximum;
        }
        state.total[query] += sum(total);
    }
    constexpr int together = C <= 4 ? 4 : C <= 8 ? 2 : 1;  // queries whose sums stay in registers
    auto add_values = [&](auto number, int query) {
        constexpr int n = decltype(number)::value;
        F32x16 acc[n][C];
        for (int i = 0; i < n; i++)
            for (int c = 0; c < C; c++) acc[i][c] = load(state.values + (query + i) * head_dim + 16 * c);
        for (int row = 0; row < count; row++)
            for (int i = 0; i < n; i++) {
                F32x16 p = splat(scores[(query + i) * block + row]);
                for (int c = 0; c < C; c++) acc[i][c] = fma(p, load(v + row * head_dim + 16 * c), acc[i][c]);
            }
        for (int i = 0; i < n; i++)
            for (int c = 0; c < C; c++) store(state.values + (query + i) * head_dim + 16 * c, acc[i][c]);
    };
    int query = first;
    for (; query + together <= last; query += together) add_values(std::integral_constant<int, together>(), query);
    for (; query < last; query++) add_values(std::integral_constant<int, 1>(), query);
}

// Attention of one KV head: the slots of `past` are seen by every query, the `fresh` slots causally (token t, of `group`
// queries each, sees fresh.begin .. fresh.begin + t). Adds to the state, which the caller has set up.
template <int C>
void attend(const uint16_t* keys, const uint16_t* values, const std::vector<SlotRange>& past, SlotRange fresh, int group,
            int tokens, const float* queries, AttentionScratch& scratch, AttentionState state) {
    constexpr int head_dim = 16 * C, block = AttentionScratch::block;
    int total = tokens * group;
    for (SlotRange range : past) {
        for (int64_t slot = range.begin; slot < range.end; slot += block) {
            int count = int(std::min<int64_t>(block, range.end - slot));
            int64_t next = std::min<int64_t>(slot + block, range.end - 1);
            for (int64_t byte = 0; byte < int64_t(block) * head_dim * 2; byte += 64) {
                prefetch(reinterpret_cast<const char*>(keys + next * head_dim) + byte);
                prefetch(reinterpret_cast<const char*>(values + next * head_dim) + byte);
            }
            attend_block<C>(keys + slot * head_dim, values + slot * head_dim, count, queries, 0, total,
                            [&](int) { return count; }, scratch, state);
        }
    }
    for (int64_t slot = fresh.begin; slot < fresh.end; slot += block) {
        int count = int(std::min<int64_t>(block, fresh.end - slot)), skipped = int(slot - fresh.begin);
        attend_block<C>(keys + slot * head_dim, values + slot * head_dim, count, queries, skipped * group, total,
                        [&](int query) { return query / group + 1 - skipped; }, scratch, state);
    }
}

using Attend = void (*)(const uint16_t*, const uint16_t*, const std::vector<SlotRange>&, SlotRange, int, int, const float*,
                        AttentionScratch&, AttentionState);

inline Attend attend_for(int head_dim) {  // null when the head size is not supported
    switch (head_dim) {
        case 16: return attend<1>;
        case 32: return attend<2>;
        case 48: return attend<3>;
        case 64: return attend<4>;
        case 80: return attend<5>;
        case 96: return attend<6>;
        case 112: return attend<7>;
        case 128: return attend<8>;
        case 256: return attend<16>;
        default: return nullptr;
    }
}

}  // namespace miton
