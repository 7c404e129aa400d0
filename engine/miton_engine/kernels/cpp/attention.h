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
    std::vector<uint16_t> rounded;  // queries in bf16
    const char *next_keys = nullptr, *next_values = nullptr;  // fetched while the present block is computed
    // Fetches piece `index` of `pieces` of the next block's rows [base, base + 16): spread between the products, so that
    // reading and computing overlap (one burst per block would stall on the few outstanding misses a core may have).
    void fetch(int base, int head_dim, int index, int pieces) const {
        if (!next_keys) return;
        int bytes = 32 * head_dim, lines = bytes / 64, from = lines * index / pieces, to = lines * (index + 1) / pieces;
        for (int line = from; line < to; line++) {
            prefetch(next_keys + 2 * base * head_dim + 64 * line);
            prefetch(next_values + 2 * base * head_dim + 64 * line);
        }
    }
    void resize(int queries, int head_dim) {
        rounded.resize(size_t(queries) * head_dim);
        keys.resize(16 * head_dim);
        values.resize(size_t(block) * head_dim);
        scores.resize(size_t(queries) * block);
    }
};

// scores[query * block + row] = queries[query] . keys[row] for 16 rows, of which those past `rows` are arbitrary.
template <int C>
inline void score_sixteen(const uint16_t* keys, int base, int rows, const float* queries, int first, int last,
                          AttentionScratch& scratch, float* scores) {
    constexpr int head_dim = 16 * C, block = AttentionScratch::block;
#if MITON_BF16
    if constexpr (C % 2 == 0) {
        for (int query = first; query < last; query++) {
            const uint16_t* q = scratch.rounded.data() + query * head_dim;
            F32x16 sixteen[16];
            for (int row = 0; row < 16; row++) {
                const uint16_t* k = keys + std::min(row, rows - 1) * head_dim;
                F32x16 acc = splat(0.0f);
                for (int c = 0; c < C / 2; c++) acc = dot_bf16(acc, load_pairs(k + 32 * c), load_pairs(q + 32 * c));
                sixteen[row] = acc;
            }
            store(scores + query * block, sums(sixteen));
            scratch.fetch(base, head_dim, query - first, last - first);
        }
        return;
    }
#endif
    float* k = scratch.keys.data();
    for (int row = 0; row < rows; row++)
        for (int c = 0; c < C; c++) store(k + row * head_dim + 16 * c, load_bf16(keys + row * head_dim + 16 * c));
    for (int row = rows; row < 16; row++) std::fill_n(k + row * head_dim, head_dim, 0.0f);
    for (int query = first; query < last; query++) {
        const float* q = queries + query * head_dim;
        F32x16 sixteen[16];
        for (int row = 0; row < 16; row++) {
            F32x16 acc = load(k + row * head_dim) * load(q);
            for (int c = 1; c < C; c++) acc = fma(load(k + row * head_dim + 16 * c), load(q + 16 * c), acc);
            sixteen[row] = acc;
        }
        store(scores + query * block, sums(sixteen));
        scratch.fetch(base, head_dim, query - first, last - first);
    }
}

// state.values[query] += sum over rows of scores[query][row] * values[row], for n queries from `query` on; `v` is what
// prepare_values() made.
template <int C, int n>
inline void add_values(const float* v, int count, int query, const float* scores, AttentionState state) {
    constexpr int head_dim = 16 * C, block = AttentionScratch::block;
    F32x16 acc[n][C];
    for (int i = 0; i < n; i++)
        for (int c = 0; c < C; c++) acc[i][c] = load(state.values + (query + i) * head_dim + 16 * c);
#if MITON_BF16
    uint32_t pairs[n][block / 2];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < (count + 31) / 32; j++) store_pairs(&pairs[i][16 * j], scores + (query + i) * block + 32 * j);
    for (int pair = 0; pair < (count + 1) / 2; pair++)
        for (int i = 0; i < n; i++)
            for (int c = 0; c < C; c++) acc[i][c] = dot_bf16(acc[i][c], load_pairs(v + (pair * C + c) * 16), splat_pair(pairs[i][pair]));
#else
    for (int row = 0; row < count; row++)
        for (int i = 0; i < n; i++) {
            F32x16 p = splat(scores[(query + i) * block + row]);
            for (int c = 0; c < C; c++) acc[i][c] = fma(p, load(v + row * head_dim + 16 * c), acc[i][c]);
        }
#endif
    for (int i = 0; i < n; i++)
        for (int c = 0; c < C; c++) store(state.values + (query + i) * head_dim + 16 * c, acc[i][c]);
}

// Values of a block as add_values() wants them: fp32 rows, or bf16 with two rows interleaved (the second may be zero).
template <int C> inline void prepare_values(const uint16_t* values, int count, float* v) {
    constexpr int head_dim = 16 * C;
#if MITON_BF16
    for (int row = 0; row < count; row += 2)
        for (int c = 0; c < C; c++) {
            const uint16_t* at = values + row * head_dim + 16 * c;
            interleave(at, row + 1 < count ? at + head_dim : nullptr, v + (row / 2 * C + c) * 16);
        }
#else
    for (int row = 0; row < count; row++)
        for (int c = 0; c < C; c++) store(v + row * head_dim + 16 * c, load_bf16(values + row * head_dim + 16 * c));
#endif
}

// Folds `count` (<= 64) consecutive slots into the state of queries [first, last); queries are [queries, head_dim],
// scaled. visible(query) says how many of these slots it may see.
template <int C, typename Visible>
void attend_block(const uint16_t* keys, const uint16_t* values, int count, const float* queries, int first, int last,
                  Visible visible, AttentionScratch& scratch, AttentionState state) {
    constexpr int head_dim = 16 * C, block = AttentionScratch::block;
    float* v = scratch.values.data();
    float* scores = scratch.scores.data();
    for (int base = 0; base < count; base += 16)
        score_sixteen<C>(keys + base * head_dim, base, std::min(16, count - base), queries, first, last, scratch, scores + base);
    prepare_values<C>(values, count, v);
    for (int query = first; query < last; query++) {
        float* s = scores + query * block;
        int seen = std::min(count, visible(query)), padded = (count + 31) / 32 * 32;
        if (seen <= 0) {
            std::fill_n(s, padded, 0.0f);
            continue;
        }
        std::fill_n(s + seen, padded - seen, -1e30f);
        F32x16 largest = load(s);
        for (int i = 16; i < seen; i += 16) largest = max(largest, load(s + i));
        float old_maximum = state.maximum[query], new_maximum = std::max(old_maximum, maximum(largest));
        F32x16 total = splat(0.0f);
        for (int i = 0; i < seen; i += 16) store(s + i, exp(load(s + i) - splat(new_maximum)));
        std::fill_n(s + seen, padded - seen, 0.0f);
        for (int i = 0; i < seen; i += 16) total = total + load(s + i);
        if (new_maximum > old_maximum) {
            float shrink = std::exp(old_maximum - new_maximum);
            state.total[query] *= shrink;
            float* o = state.values + query * head_dim;
            for (int c = 0; c < C; c++) store(o + 16 * c, load(o + 16 * c) * splat(shrink));
            state.maximum[query] = new_maximum;
        }
        state.total[query] += sum(total);
    }
    constexpr int together = C <= 4 ? 4 : C <= 8 ? 3 : 1;  // queries whose sums stay in registers
    int query = first;
    for (; query + together <= last; query += together) add_values<C, together>(v, count, query, scores, state);
    if (together > 3 && last - query == 3) add_values<C, 3>(v, count, query, scores, state), query += 3;
    if (together > 2 && last - query == 2) add_values<C, 2>(v, count, query, scores, state), query += 2;
    for (; query < last; query++) add_values<C, 1>(v, count, query, scores, state);
}

// Attention of one KV head: the slots of `past` are seen by every query, the `fresh` slots causally (token t, of `group`
// queries each, sees fresh.begin .. fresh.begin + t). Adds to the state, which the caller has set up.
template <int C>
void attend(const uint16_t* keys, const uint16_t* values, const std::vector<SlotRange>& past, SlotRange fresh, int group,
            int tokens, const float* queries, AttentionScratch& scratch, AttentionState state) {
    constexpr int head_dim = 16 * C, block = AttentionScratch::block;
    int total = tokens * group;
    for (int i = 0; i < total * head_dim; i += 16) store_bf16(scratch.rounded.data() + i, load(queries + i));
    for (SlotRange range : past) {
        for (int64_t slot = range.begin; slot < range.end; slot += block) {
            int count = int(std::min<int64_t>(block, range.end - slot));
            bool more = slot + block < range.end;
            scratch.next_keys = more ? reinterpret_cast<const char*>(keys + (slot + block) * head_dim) : nullptr;
            scratch.next_values = reinterpret_cast<const char*>(values + (slot + block) * head_dim);
            attend_block<C>(keys + slot * head_dim, values + slot * head_dim, count, queries, 0, total,
                            [&](int) { return count; }, scratch, state);
        }
    }
    scratch.next_keys = nullptr;
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
