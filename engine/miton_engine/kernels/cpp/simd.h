// Sixteen-lane vectors in three builds chosen at compile time: AVX-512 (VNNI), AVX2, and plain C++.
// A U8x64 holds 16 rows x 4 columns (byte 4 * row + column), so that one dot() adds four columns to sixteen rows at once.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && \
    defined(__AVX512VNNI__) && !defined(MITON_FORCE_AVX2) && !defined(MITON_FORCE_PORTABLE)
#define MITON_AVX512 1
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(MITON_FORCE_PORTABLE)
#define MITON_AVX2 1
#include <immintrin.h>
#endif

namespace miton {

inline void prefetch(const void* address) { __builtin_prefetch(address, 0, 2); }

inline float bf16_to_f32(uint16_t value) {
    uint32_t bits = uint32_t(value) << 16;
    float result;
    std::memcpy(&result, &bits, 4);
    return result;
}

inline uint16_t f32_to_bf16(float value) {  // round to nearest even, NaN stays NaN
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40);
    return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

inline float f16_to_f32(uint16_t half) {
    uint32_t sign = uint32_t(half & 0x8000u) << 16, exponent = (half >> 10) & 31, mantissa = half & 0x3ffu, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | (mantissa << 13);
    } else if (exponent) {
        bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
    } else {
        float value = float(mantissa) * 5.9604644775390625e-8f;  // 2^-24
        return sign ? -value : value;
    }
    float result;
    std::memcpy(&result, &bits, 4);
    return result;
}

#if MITON_AVX512

struct F32x16 { __m512 v; };
struct I32x16 { __m512i v; };
struct U8x64 { __m512i v; };

inline U8x64 load_u8(const uint8_t* p) { return {_mm512_load_si512(p)}; }
inline U8x64 low_nibbles(U8x64 x) { return {_mm512_and_si512(x.v, _mm512_set1_epi8(15))}; }
inline U8x64 high_nibbles(U8x64 x) { return {_mm512_and_si512(_mm512_srli_epi16(x.v, 4), _mm512_set1_epi8(15))}; }
inline U8x64 add_sixteen_where(U8x64 x, uint64_t bits) {
    return {_mm512_mask_add_epi8(x.v, bits, x.v, _mm512_set1_epi8(16))};
}
// 16 * high + low
inline U8x64 join_nibbles(U8x64 high, U8x64 low) { return {_mm512_or_si512(_mm512_slli_epi16(high.v, 4), low.v)}; }
// Adds 16 * (two bits of `plane` starting at bit 2 * index).
template <int index> inline U8x64 add_two_bits(U8x64 x, U8x64 plane) {
    __m512i bits = index < 2 ? _mm512_slli_epi16(plane.v, 4 - 2 * index) : _mm512_srli_epi16(plane.v, 2 * index - 4);
    return {_mm512_or_si512(x.v, _mm512_and_si512(bits, _mm512_set1_epi8(48)))};
}
inline I32x16 splat_i32(int32_t x) { return {_mm512_set1_epi32(x)}; }
// acc[row] += sum over four columns of weights (unsigned) * activations (signed). `narrow` promises weights < 128.
template <bool narrow> inline I32x16 dot(I32x16 acc, U8x64 weights, const int8_t* activations) {
    int32_t four;
    std::memcpy(&four, activations, 4);
    return {_mm512_dpbusd_epi32(acc.v, weights.v, _mm512_set1_epi32(four))};
}
inline F32x16 to_f32(I32x16 x) { return {_mm512_cvtepi32_ps(x.v)}; }
inline F32x16 splat(float x) { return {_mm512_set1_ps(x)}; }
inline F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, F32x16 x) { _mm512_storeu_ps(p, x.v); }
inline F32x16 load_f16(const void* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }
inline F32x16 load_bf16(const uint16_t* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16))};
}
inline void store_bf16(uint16_t* p, F32x16 x) {
    __m512i bits = _mm512_castps_si512(x.v);
    __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even);
    __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
inline F32x16 load_u8_f32(const uint8_t* p) { return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)))}; }
inline F32x16 load_i8_f32(const uint8_t* p) { return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)))}; }
inline F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32x16 abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
inline float sum(F32x16 a) { return _mm512_reduce_add_ps(a.v); }
inline float maximum(F32x16 a) { return _mm512_reduce_max_ps(a.v); }
inline F32x16 round_nearest(F32x16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
inline F32x16 scale_by_power_of_two(F32x16 a, F32x16 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
// Rounds to int8 (values within [-127, 127]), stores 16 of them, returns their sum.
inline int32_t store_i8(int8_t* p, F32x16 a) {
    __m512i rounded = _mm512_cvtps_epi32(a.v);
    _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(rounded));
    return _mm512_reduce_add_epi32(rounded);
}
// Horizontal sums of sixteen vectors, in order.
inline F32x16 sums(const F32x16 a[16]) {
    __m512 pair[8], quad[4];
    for (int i = 0; i < 8; i++)
        pair[i] = _mm512_add_ps(_mm512_unpacklo_ps(a[2 * i].v, a[2 * i + 1].v), _mm512_unpackhi_ps(a[2 * i].v, a[2 * i + 1].v));
    for (int i = 0; i < 4; i++)
        quad[i] = _mm512_add_ps(_mm512_shuffle_ps(pair[2 * i], pair[2 * i + 1], 0x44), _mm512_shuffle_ps(pair[2 * i], pair[2 * i + 1], 0xee));
    // quad[i]: four 128-bit lanes, each [row 4i, 4i+1, 4i+2, 4i+3] partial; add lanes across.
    __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(quad[0], quad[1], 0x88), _mm512_shuffle_f32x4(quad[0], quad[1], 0xdd));
    __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(quad[2], quad[3], 0x88), _mm512_shuffle_f32x4(quad[2], quad[3], 0xdd));
    return {_mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd))};
}


#if defined(__AVX512BF16__)
#define MITON_BF16 1
struct Pairs { __m512i v; };  // 16 lanes of two bf16
inline Pairs load_pairs(const void* p) { return {_mm512_loadu_si512(p)}; }
inline Pairs splat_pair(uint32_t pair) { return {_mm512_set1_epi32(int(pair))}; }
inline F32x16 dot_bf16(F32x16 acc, Pairs a, Pairs b) { return {_mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)b.v)}; }
// Rounds 32 floats to bf16, in order.
inline void store_pairs(void* p, const float* x) {
    _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x)));
}
// Lane i: (a[i], b[i]) for 16 bf16 of each; b null stands for zeros.
inline void interleave(const uint16_t* a, const uint16_t* b, void* out) {
    __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)a));
    __m512i high = b ? _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)b)), 16) : _mm512_setzero_si512();
    _mm512_storeu_si512(out, _mm512_or_si512(low, high));
}
#endif

#elif MITON_AVX2

struct F32x16 { __m256 lo, hi; };
struct I32x16 { __m256i lo, hi; };
struct U8x64 { __m256i lo, hi; };

inline U8x64 load_u8(const uint8_t* p) { return {_mm256_load_si256((const __m256i*)p), _mm256_load_si256((const __m256i*)(p + 32))}; }
inline U8x64 low_nibbles(U8x64 x) {
    __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.lo, mask), _mm256_and_si256(x.hi, mask)};
}
inline U8x64 high_nibbles(U8x64 x) { return low_nibbles({_mm256_srli_epi16(x.lo, 4), _mm256_srli_epi16(x.hi, 4)}); }
inline U8x64 join_nibbles(U8x64 high, U8x64 low) {
    return {_mm256_or_si256(_mm256_slli_epi16(high.lo, 4), low.lo), _mm256_or_si256(_mm256_slli_epi16(high.hi, 4), low.hi)};
}
inline __m256i sixteen_where(uint32_t bits) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i select = _mm256_set1_epi64x(int64_t(0x8040201008040201ull));
    __m256i bytes = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(int(bits)), spread), select);
    return _mm256_and_si256(_mm256_cmpeq_epi8(bytes, select), _mm256_set1_epi8(16));
}
inline U8x64 add_sixteen_where(U8x64 x, uint64_t bits) {
    return {_mm256_or_si256(x.lo, sixteen_where(uint32_t(bits))), _mm256_or_si256(x.hi, sixteen_where(uint32_t(bits >> 32)))};
}
template <int index> inline __m256i two_bits(__m256i plane) {
    __m256i bits = index < 2 ? _mm256_slli_epi16(plane, 4 - 2 * index) : _mm256_srli_epi16(plane, 2 * index - 4);
    return _mm256_and_si256(bits, _mm256_set1_epi8(48));
}
template <int index> inline U8x64 add_two_bits(U8x64 x, U8x64 plane) {
    return {_mm256_or_si256(x.lo, two_bits<index>(plane.lo)), _mm256_or_si256(x.hi, two_bits<index>(plane.hi))};
}
inline I32x16 splat_i32(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
template <bool narrow> inline __m256i dot_half(__m256i acc, __m256i weights, __m256i four) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(acc, weights, four);
#else
    if (narrow) {  // products of weights < 128 fit the saturating 16-bit sums
        return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(weights, four), _mm256_set1_epi16(1)));
    }
    __m256i mask = _mm256_set1_epi8(15);
    __m256i low = _mm256_maddubs_epi16(_mm256_and_si256(weights, mask), four);
    __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(weights, 4), mask), four);
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
#endif
}
template <bool narrow> inline I32x16 dot(I32x16 acc, U8x64 weights, const int8_t* activations) {
    int32_t bytes;
    std::memcpy(&bytes, activations, 4);
    __m256i four = _mm256_set1_epi32(bytes);
    return {dot_half<narrow>(acc.lo, weights.lo, four), dot_half<narrow>(acc.hi, weights.hi, four)};
}
inline F32x16 to_f32(I32x16 x) { return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)}; }
inline F32x16 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, F32x16 x) { _mm256_storeu_ps(p, x.lo); _mm256_storeu_ps(p + 8, x.hi); }
inline F32x16 load_f16(const void* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p + 1))};
}
inline __m256 widen_bf16(const uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
inline F32x16 load_bf16(const uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
inline void store_bf16(uint16_t* p, F32x16 x) {
    alignas(32) float values[16];
    store(values, x);
    for (int i = 0; i < 16; i++) p[i] = f32_to_bf16(values[i]);
}
inline F32x16 load_u8_f32(const uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p))), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8))))};
}
inline F32x16 load_i8_f32(const uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p))), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8))))};
}
inline F32x16 operator+(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline F32x16 operator-(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline F32x16 operator*(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline F32x16 operator/(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline F32x16 abs(F32x16 a) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline float sum(F32x16 a) {
    __m256 eight = _mm256_add_ps(a.lo, a.hi);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
inline float maximum(F32x16 a) {
    __m256 eight = _mm256_max_ps(a.lo, a.hi);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
inline F32x16 round_nearest(F32x16 a) {
    constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, mode), _mm256_round_ps(a.hi, mode)};
}
inline __m256 power_of_two(__m256 n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
inline F32x16 scale_by_power_of_two(F32x16 a, F32x16 n) { return {_mm256_mul_ps(a.lo, power_of_two(n.lo)), _mm256_mul_ps(a.hi, power_of_two(n.hi))}; }
inline int32_t store_i8(int8_t* p, F32x16 a) {
    alignas(32) int32_t values[16];
    _mm256_store_si256((__m256i*)values, _mm256_cvtps_epi32(a.lo));
    _mm256_store_si256((__m256i*)(values + 8), _mm256_cvtps_epi32(a.hi));
    int32_t total = 0;
    for (int i = 0; i < 16; i++) { p[i] = int8_t(values[i]); total += values[i]; }
    return total;
}
inline F32x16 sums(const F32x16 a[16]) {
    alignas(32) float values[16];
    for (int i = 0; i < 16; i++) values[i] = sum(a[i]);
    return load(values);
}

#else  // plain C++: loops that compilers vectorise

struct F32x16 { float v[16]; };
struct I32x16 { int32_t v[16]; };
struct U8x64 { uint8_t v[64]; };
#define MITON_EACH(n, expression) for (int i = 0; i < n; i++) r.v[i] = expression; return r

inline U8x64 load_u8(const uint8_t* p) { U8x64 r; std::memcpy(r.v, p, 64); return r; }
inline U8x64 low_nibbles(U8x64 x) { U8x64 r; MITON_EACH(64, x.v[i] & 15); }
inline U8x64 high_nibbles(U8x64 x) { U8x64 r; MITON_EACH(64, x.v[i] >> 4); }
inline U8x64 join_nibbles(U8x64 high, U8x64 low) { U8x64 r; MITON_EACH(64, uint8_t(high.v[i] << 4 | low.v[i])); }
inline U8x64 add_sixteen_where(U8x64 x, uint64_t bits) { U8x64 r; MITON_EACH(64, uint8_t(x.v[i] + (((bits >> i) & 1) << 4))); }
template <int index> inline U8x64 add_two_bits(U8x64 x, U8x64 plane) { U8x64 r; MITON_EACH(64, uint8_t(x.v[i] | (((plane.v[i] >> (2 * index)) & 3) << 4))); }
inline I32x16 splat_i32(int32_t x) { I32x16 r; MITON_EACH(16, x); }
template <bool narrow> inline I32x16 dot(I32x16 acc, U8x64 w, const int8_t* a) {
    I32x16 r;
    MITON_EACH(16, acc.v[i] + w.v[4 * i] * a[0] + w.v[4 * i + 1] * a[1] + w.v[4 * i + 2] * a[2] + w.v[4 * i + 3] * a[3]);
}
inline F32x16 to_f32(I32x16 x) { F32x16 r; MITON_EACH(16, float(x.v[i])); }
inline F32x16 splat(float x) { F32x16 r; MITON_EACH(16, x); }
inline F32x16 load(const float* p) { F32x16 r; std::memcpy(r.v, p, 64); return r; }
inline void store(float* p, F32x16 x) { std::memcpy(p, x.v, 64); }
inline F32x16 load_f16(const void* p) { uint16_t h[16]; std::memcpy(h, p, 32); F32x16 r; MITON_EACH(16, f16_to_f32(h[i])); }
inline F32x16 load_bf16(const uint16_t* p) { F32x16 r; MITON_EACH(16, bf16_to_f32(p[i])); }
inline void store_bf16(uint16_t* p, F32x16 x) { for (int i = 0; i < 16; i++) p[i] = f32_to_bf16(x.v[i]); }
inline F32x16 load_u8_f32(const uint8_t* p) { F32x16 r; MITON_EACH(16, float(p[i])); }
inline F32x16 load_i8_f32(const uint8_t* p) { F32x16 r; MITON_EACH(16, float(int8_t(p[i]))); }
inline F32x16 operator+(F32x16 a, F32x16 b) { F32x16 r; MITON_EACH(16, a.v[i] + b.v[i]); }
inline F32x16 operator-(F32x16 a, F32x16 b) { F32x16 r; MITON_EACH(16, a.v[i] - b.v[i]); }
inline F32x16 operator*(F32x16 a, F32x16 b) { F32x16 r; MITON_EACH(16, a.v[i] * b.v[i]); }
inline F32x16 operator/(F32x16 a, F32x16 b) { F32x16 r; MITON_EACH(16, a.v[i] / b.v[i]); }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { F32x16 r; MITON_EACH(16, a.v[i] * b.v[i] + c.v[i]); }
inline F32x16 max(F32x16 a, F32x16 b) { F32x16 r; MITON_EACH(16, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
inline F32x16 min(F32x16 a, F32x16 b) { F32x16 r; MITON_EACH(16, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
inline F32x16 abs(F32x16 a) { F32x16 r; MITON_EACH(16, std::fabs(a.v[i])); }
inline float sum(F32x16 a) { float r = 0; for (float x : a.v) r += x; return r; }
inline float maximum(F32x16 a) { float r = a.v[0]; for (float x : a.v) r = x > r ? x : r; return r; }
inline F32x16 round_nearest(F32x16 a) { F32x16 r; MITON_EACH(16, std::nearbyint(a.v[i])); }
inline F32x16 scale_by_power_of_two(F32x16 a, F32x16 n) { F32x16 r; MITON_EACH(16, std::ldexp(a.v[i], int(n.v[i]))); }
inline int32_t store_i8(int8_t* p, F32x16 a) {
    int32_t total = 0;
    for (int i = 0; i < 16; i++) { p[i] = int8_t(std::nearbyint(a.v[i])); total += p[i]; }
    return total;
}
inline F32x16 sums(const F32x16 a[16]) { F32x16 r; MITON_EACH(16, sum(a[i])); }
#undef MITON_EACH

#endif

// e^x, relative error under 2e-7 on [-87, 88]; smaller x give values of at most 2^-125, never NaN.
inline F32x16 exp(F32x16 x) {
    x = min(max(x, splat(-87.0f)), splat(88.0f));
    F32x16 n = round_nearest(x * splat(1.44269504f));
    F32x16 r = fma(n, splat(-0.693359375f), x);
    r = fma(n, splat(2.12194440e-4f), r);
    F32x16 p = fma(splat(1.9875691500e-4f), r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    p = fma(p, r * r, r + splat(1.0f));
    return scale_by_power_of_two(p, n);
}

}  // namespace miton
