// The output head for greedy decoding: exact argmax while reading a little over half of an 8-bit head's bytes.
//
// Weights u = 16 h + l lie in two planes. A pass over the high plane scores every row with l taken as 7.5. The error of
// a row's score is |sum_j e_j x_j| <= ||e * s|| * ||x / s|| (Cauchy-Schwarz) for any positive s; s = sqrt(|w|), w the
// final norm's weights, makes it tight because |x_j| grows with |w_j|. Only tiles with a row that the bound lets reach
// the exact score of the best-looking tile are computed in full, by the same code as full logits: same bits.
#pragma once

#include <vector>

#include "matrix.h"

namespace miton {

class PlaneHead {
public:
    PlaneHead(ThreadPool& pool, const Matrix& q8, const float* norm_weights);
    ~PlaneHead();
    PlaneHead(const PlaneHead&) = delete;
    PlaneHead& operator=(const PlaneHead&) = delete;

    int tiles() const { return (rows + 31) / 32; }
    size_t high_bytes() const { return size_t(tiles()) * high_tile_bytes(); }
    size_t low_bytes() const { return size_t(tiles()) * low_tile_bytes(); }

    // Exact scores out[token * 32 + row], equal to the q8_0 matrix's.
    void multiply_tile(int tile, const Activations& x, int tokens, float* out) const;
    // Scores from the high plane, and how far each row's may be off per unit of reach(): errors[row].
    void approximate_tile(int tile, const Activations& x, int tokens, float* out) const;
    const float* errors(int tile) const { return errors_.data() + 32 * tile; }
    // ||x / s|| of one token, with a margin for rounding.
    float reach(const Activations& x, int token) const;

    const int rows, columns;

private:
    size_t high_tile_bytes() const { return size_t(columns / 32) * (64 + 512); }
    size_t low_tile_bytes() const { return size_t(columns / 32) * 512; }

    uint8_t* high_ = nullptr;  // like q4_0: scales, then nibbles
    uint8_t* low_ = nullptr;   // nibbles
    std::vector<float> errors_, inverse_scale_;
};

}  // namespace miton
