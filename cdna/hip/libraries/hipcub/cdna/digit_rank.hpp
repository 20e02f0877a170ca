// Where each value of a tile goes when the tile is sorted by one digit of its keys, equal ones in their order.
#pragma once

#include <hipcub/util_type.hpp>

namespace hipcub::cdna {

// A wave of the block has ITEMS rounds of the tile's values, one after another: its lane's value of round i stands at
// place(thread, i).
template <int THREADS, int ITEMS, int BITS>
struct DigitRank {
  static constexpr int WAVES = (THREADS + WAVE - 1) / WAVE, DIGITS = 1 << BITS;
  static constexpr unsigned NONE = DIGITS;  // the digit of a place where there is no value
  struct Storage {
    unsigned of_wave[WAVES][DIGITS];  // how many values a wave has with a digit; then how many the waves before have
    unsigned start[DIGITS];           // how many values of the tile have a smaller digit
  };

  __device__ static int place(int thread, int i) {
    int first = thread / WAVE * WAVE, lanes = min(WAVE, THREADS - first);  // the last wave may be a part of one
    return first * ITEMS + i * lanes + thread % WAVE;
  }

  // The lanes that have the same digit.
  __device__ static uint64_t same(unsigned digit) {
    uint64_t lanes = __ballot(1);
#pragma unroll
    for (int bit = 0; bit <= BITS; bit++) {
      uint64_t set = __ballot(digit >> bit & 1);
      lanes &= digit >> bit & 1 ? set : ~set;
    }
    return lanes;
  }

  // rank: each value's place in the sorted tile. All threads of the block must come here.
  __device__ static void rank(Storage& s, int thread, const unsigned (&digit)[ITEMS], unsigned (&rank)[ITEMS]) {
    int wave = thread / WAVE, lane = thread % WAVE;
    unsigned* mine = s.of_wave[wave];
    __syncthreads();  // whoever reads what a call before this one left has done so
    for (int d = thread; d < WAVES * DIGITS; d += THREADS) (&s.of_wave[0][0])[d] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      uint64_t lanes = same(digit[i]), below = lanes & ((1ull << lane) - 1);
      bool there = digit[i] < DIGITS;
      unsigned before = there ? mine[digit[i]] : 0;
      __builtin_amdgcn_wave_barrier();
      rank[i] = before + __popcll(below);
      if (there && !below) mine[digit[i]] = before + __popcll(lanes);
      __builtin_amdgcn_wave_barrier();
    }
    __syncthreads();
    for (int d = thread; d < DIGITS; d += THREADS) {
      unsigned sum = 0;
      for (int w = 0; w < WAVES; w++) {
        unsigned n = s.of_wave[w][d];
        s.of_wave[w][d] = sum;
        sum += n;
      }
      s.start[d] = sum;
    }
    __syncthreads();
    if (wave == 0) {
      unsigned sum = 0;
      for (int first = 0; first < DIGITS; first += WAVE) {
        int d = first + lane;
        unsigned n = d < DIGITS ? s.start[d] : 0, inclusive = n;
        for (int offset = 1; offset < WAVE; offset *= 2) {
          unsigned other = of_lane(inclusive, lane - offset);
          if (lane >= offset) inclusive += other;
        }
        if (d < DIGITS) s.start[d] = sum + inclusive - n;
        sum += of_lane(inclusive, WAVE - 1);
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
      if (digit[i] < DIGITS) rank[i] += s.start[digit[i]] + s.of_wave[wave][digit[i]];
  }
};

// `bits` bits of a key from bit `first` on; inverted where the order is descending.
template <typename KeyT> __device__ inline unsigned digit_of(const KeyT& key, int first, int bits, bool descending) {
  unsigned mask = (1u << bits) - 1, digit = unsigned(ordered_bits(key) >> first) & mask;
  return descending ? digit ^ mask : digit;
}

}  // namespace hipcub::cdna
