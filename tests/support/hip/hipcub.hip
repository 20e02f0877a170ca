// hipCUB's operations of a device, a block and a wave against loops on the host.
#include <hipcub/hipcub.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include "check.h"

#if !defined(__HIP_DEVICE_COMPILE__)
#pragma clang optimize off  // the host's loops are short, and take longer to be compiled
#endif

using u32 = unsigned;

// Calls twice: how much storage, and with it.
template <typename Call> void with_storage(Call call) {
  size_t bytes = 0;
  OK(call(nullptr, bytes));
  EXPECT(bytes > 0);
  DeviceArray<char> storage(bytes);
  size_t less = bytes - 1;
  EXPECT(bytes == 1 || call(storage.data, less) == hipErrorInvalidValue);
  OK(call(storage.data, bytes));
  OK(hipDeviceSynchronize());
}

// --- the device's ---------------------------------------------------------------------------------

template <typename Key> Key random_key(u32 i) {
  u32 x = hashed(i);
  if constexpr (hipcub::cdna::is_float<Key>)
    return i % 50 == 7 ? Key(i % 4 < 2 ? -0.0f : 0.0f) : Key(float(int(x % 2001) - 1000) / 4);
  else return Key(i % 5 ? (uint64_t(x) << 32 | hashed(x)) >> (i % 3) : 12);
}

// Keys of every kind, over some of their bits, with their first places as values: stable, both ways.
template <typename Key> void device_sort(u32 n, int begin, int end) {
  std::vector<Key> keys(n);
  std::vector<u32> places(n), order(n);
  for (u32 i = 0; i < n; i++) keys[i] = random_key<Key>(i), places[i] = i;
  DeviceArray<Key> keys_in(keys), keys_out(n);
  DeviceArray<u32> values_in(places), values_out(n);
  for (bool descending : {false, true}) {
    auto digit = [&](u32 i) {
      uint64_t bits = uint64_t(hipcub::cdna::ordered_bits(keys[i])) >> begin;
      return end - begin < 64 ? bits & ((1ull << (end - begin)) - 1) : bits;
    };
    order = places;
    std::stable_sort(order.begin(), order.end(),
                     [&](u32 a, u32 b) { return descending ? digit(b) < digit(a) : digit(a) < digit(b); });
    with_storage([&](void* storage, size_t& bytes) {
      auto sort = [&](auto... rest) {
        return descending ? hipcub::DeviceRadixSort::SortPairsDescending(storage, bytes, rest...)
                          : hipcub::DeviceRadixSort::SortPairs(storage, bytes, rest...);
      };
      return sort((const Key*)keys_in.data, keys_out.data, (const u32*)values_in.data, values_out.data, n, begin, end);
    });
    std::vector<Key> sorted = keys_out.host();
    std::vector<u32> moved = values_out.host();
    EXPECT(moved == order);
    for (u32 i = 0; i < n; i++) EXPECT(!memcmp(&sorted[i], &keys[order[i]], sizeof(Key)));
    EXPECT(values_in.host() == places);
  }
}

void device_sorts() {
  device_sort<float>(2100, 0, 32);
  device_sort<int64_t>(5000, 0, 64);
  device_sort<int64_t>(300, 3, 9);
  device_sort<int64_t>(10, 4, 4);
  device_sort<__half>(64, 0, 16);
  size_t bytes = 0;
  OK(hipcub::DeviceRadixSort::SortKeys(nullptr, bytes, (int*)nullptr, (int*)nullptr, 0));

  std::vector<u32> keys(1000);
  for (u32 i = 0; i < keys.size(); i++) keys[i] = hashed(i) % 100000;
  DeviceArray<u32> a(keys), b(keys.size());
  hipcub::DoubleBuffer<u32> buffers(a.data, b.data);
  with_storage([&](void* storage, size_t& n) {
    return hipcub::DeviceRadixSort::SortKeysDescending(storage, n, buffers, int(keys.size()), 0, 17);
  });
  std::sort(keys.begin(), keys.end(), std::greater<u32>());
  EXPECT(buffers.Current() == b.data && b.host() == keys);  // three passes
}

struct Twice {
  __host__ __device__ long operator()(int x) const { return 2l * x; }
};
// Not commutative, but associative: x -> a x + b, one after the other.
struct Line {
  u32 a, b;
};
struct Then {
  __host__ __device__ Line operator()(const Line& f, const Line& g) const { return {g.a * f.a, g.a * f.b + g.b}; }
};

void device_sums(u32 n) {
  std::vector<int> x(n);
  for (u32 i = 0; i < n; i++) x[i] = int(hashed(i) % 2000) - 1000;
  DeviceArray<int> in(x), one(1);
  DeviceArray<long> wide(1);
  auto reduced = [&](auto call, int wanted) {
    with_storage(call);
    EXPECT(one.host()[0] == wanted);
  };
  using hipcub::DeviceReduce;
  int sum = std::accumulate(x.begin(), x.end(), 0);
  reduced([&](void* s, size_t& b) { return DeviceReduce::Sum(s, b, in.data, one.data, n); }, sum);
  auto least = std::min_element(x.begin(), x.end()), most = std::max_element(x.begin(), x.end());
  reduced([&](void* s, size_t& b) { return DeviceReduce::Min(s, b, in.data, one.data, n); }, n ? *least : INT_MAX);
  reduced([&](void* s, size_t& b) { return DeviceReduce::Max(s, b, in.data, one.data, n); }, n ? *most : INT_MIN);
  reduced([&](void* s, size_t& b) { return DeviceReduce::Reduce(s, b, in.data, one.data, n, hipcub::Max(), 990); },
          n ? std::max(990, *most) : 990);
  hipcub::TransformInputIterator<long, Twice, int*> doubled(in.data, Twice());
  with_storage([&](void* s, size_t& b) { return DeviceReduce::Sum(s, b, doubled, wide.data, n); });
  EXPECT(wide.host()[0] == 2l * sum);

  using hipcub::DeviceScan;
  DeviceArray<int> out(std::vector<int>(n + 1));  // all of it comes back, more than is written
  auto scanned = [&](auto call, int first, bool inclusive) {
    with_storage(call);
    std::vector<int> got = out.host();
    for (u32 i = 0; i < n; i++) {
      if (inclusive) first += x[i];
      EXPECT(got[i] == first);
      if (!inclusive) first += x[i];
    }
  };
  scanned([&](void* s, size_t& b) { return DeviceScan::InclusiveSum(s, b, in.data, out.data, n); }, 0, true);
  scanned([&](void* s, size_t& b) { return DeviceScan::ExclusiveSum(s, b, in.data, out.data, n); }, 0, false);
  scanned([&](void* s, size_t& b) { return DeviceScan::ExclusiveScan(s, b, in.data, out.data, hipcub::Sum(), 7, n); },
          7, false);
  std::vector<Line> lines(n);
  for (u32 i = 0; i < n; i++) lines[i] = {hashed(i) | 1, hashed(~i)};
  DeviceArray<Line> steps(lines);
  with_storage([&](void* s, size_t& b) { return DeviceScan::InclusiveScan(s, b, steps.data, steps.data, Then(), n); });
  std::vector<Line> composed = steps.host();
  Line line = {1, 0};
  for (u32 i = 0; i < n; i++) {
    line = Then()(line, lines[i]);
    EXPECT(composed[i].a == line.a && composed[i].b == line.b);
  }

  using hipcub::DeviceSelect;
  std::vector<char> flags(n);
  for (u32 i = 0; i < n; i++) flags[i] = hashed(i + 5) % 3 == 0;
  DeviceArray<char> flagged(flags);
  with_storage(
      [&](void* s, size_t& b) { return DeviceSelect::Flagged(s, b, in.data, flagged.data, out.data, one.data, n); });
  std::vector<int> got = out.host();
  u32 count = 0;
  for (u32 i = 0; i < n; i++)
    if (flags[i]) EXPECT(got[count++] == x[i]);
  EXPECT(one.host()[0] == int(count));
}

// --- a block's ------------------------------------------------------------------------------------

// Sorts N = X * Y * ITEMS keys; values: their places. Then the sums of what a thread has, in two ways.
template <int X, int Y, int ITEMS>
__global__ void in_block(const int* in, int* keys_out, int* values_out, int* striped_out, int* sums, int* before) {
  constexpr int N = X * Y * ITEMS;
  using Load = hipcub::BlockLoad<int, X, ITEMS, hipcub::BLOCK_LOAD_WARP_TRANSPOSE, Y>;
  using Store = hipcub::BlockStore<int, X, ITEMS, hipcub::BLOCK_STORE_TRANSPOSE, Y>;
  using Striped = hipcub::BlockStore<int, X, ITEMS, hipcub::BLOCK_STORE_STRIPED, Y>;
  using Sort = hipcub::BlockRadixSort<int, X, ITEMS, int, 4, true, hipcub::BLOCK_SCAN_WARP_SCANS,
                                      hipSharedMemBankSizeFourByte, Y>;
  using Reduce = hipcub::BlockReduce<int, X, hipcub::BLOCK_REDUCE_WARP_REDUCTIONS, Y>;
  using Scan = hipcub::BlockScan<int, X, hipcub::BLOCK_SCAN_RAKING, Y>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Sort::TempStorage sort;
    typename Reduce::TempStorage reduce;
    typename Scan::TempStorage scan;
  } storage;
  int thread = threadIdx.x + X * threadIdx.y, keys[ITEMS], values[ITEMS];
  Load(storage.load).Load(in, keys, N - 1, -5);
  for (int i = 0; i < ITEMS; i++) values[i] = thread * ITEMS + i;
  Sort(storage.sort).Sort(keys, values);
  Store(storage.store).Store(keys_out, keys);
  Store(storage.store).Store(values_out, values);
  __syncthreads();
  Sort(storage.sort).SortDescendingBlockedToStriped(keys);
  Striped().Store(striped_out, keys);
  __syncthreads();
  int sum = Reduce(storage.reduce).Sum(thread, X * Y - 1);
  if (thread == 0) sums[0] = sum;
  __syncthreads();
  sum = Reduce(storage.reduce).Reduce(values, hipcub::Max());
  if (thread == 0) sums[1] = sum;
  __syncthreads();
  int scanned[ITEMS], total;
  Scan(storage.scan).ExclusiveSum(values, scanned, total);
  Store(storage.store).Store(before, scanned);
  if (thread == X * Y - 1) sums[2] = total;
}

template <int X, int Y, int ITEMS> void block() {
  constexpr int N = X * Y * ITEMS, THREADS = X * Y;
  std::vector<int> x(N), order(N);
  for (int i = 0; i < N; i++) x[i] = int(hashed(i) % 200) - 100;
  DeviceArray<int> in(x), keys(N), values(N), striped(N), sums(3), before(N);
  in_block<X, Y, ITEMS><<<1, dim3(X, Y)>>>(in.data, keys.data, values.data, striped.data, sums.data, before.data);
  OK(hipDeviceSynchronize());
  x[N - 1] = -5;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] < x[b]; });
  EXPECT(values.host() == order);
  std::sort(x.begin(), x.end());
  EXPECT(keys.host() == x);
  std::reverse(x.begin(), x.end());
  EXPECT(striped.host() == x);
  std::vector<int> s = sums.host(), prefixes = before.host();
  EXPECT(s[0] == (THREADS - 1) * (THREADS - 2) / 2 && s[1] == N - 1 && s[2] == N * (N - 1) / 2);
  for (int i = 0, sum = 0; i < N; sum += order[i++]) EXPECT(prefixes[i] == sum);
}

// --- a wave's -------------------------------------------------------------------------------------

// Per lane: the group's sum in its first lane, the scan of lanes, the exclusive scan of the maximum from 5 on, the
// total.
template <int GROUP> __global__ void in_wave(long* out) {
  __shared__ typename hipcub::WarpReduce<long, GROUP>::TempStorage reduce;
  __shared__ typename hipcub::WarpScan<long, GROUP>::TempStorage scan;
  long x = threadIdx.x, y, total;
  out[4 * x] = hipcub::WarpReduce<long, GROUP>(reduce).Sum(x);
  hipcub::WarpScan<long, GROUP>(scan).InclusiveSum(x, y, total);
  out[4 * x + 1] = y;
  out[4 * x + 3] = total;
  hipcub::WarpScan<long, GROUP>(scan).ExclusiveScan(x, y, 5l, hipcub::Max());
  out[4 * x + 2] = y;
}
template <int GROUP> void wave() {
  DeviceArray<long> out(256);
  in_wave<GROUP><<<1, 64>>>(out.data);
  OK(hipDeviceSynchronize());
  std::vector<long> got = out.host();
  for (int lane = 0; lane < 64; lane++) {
    long first = lane / GROUP * GROUP, sum = 0, upto = 0;
    for (long i = first; i < first + GROUP; i++) sum += i, upto += i <= lane ? i : 0;
    if (lane == first) EXPECT(got[4 * lane] == sum);
    EXPECT(got[4 * lane + 1] == upto && got[4 * lane + 3] == sum);
    EXPECT(got[4 * lane + 2] == (lane == first ? 5 : std::max(5, lane - 1)));
  }
}

template <typename T> void traits() {
  using hipcub::Traits;
  typename Traits<T>::UnsignedBits before = 0, bits;
  T most = Traits<T>::Max(), numbers[] = {Traits<T>::Lowest(), T(-3), T(-1), T(0), T(2), most};
  for (T x : numbers) {
    memcpy(&bits, &x, sizeof x);
    EXPECT(Traits<T>::TwiddleOut(Traits<T>::TwiddleIn(bits)) == bits && Traits<T>::TwiddleIn(bits) >= before);
    before = Traits<T>::TwiddleIn(bits);
  }
}

int main() {
  traits<float>();
  traits<int8_t>();
  device_sorts();
  for (u32 n : {0, 1, 3001}) device_sums(n);
  block<256, 1, 4>();
  block<20, 5, 3>();
  wave<64>();
  wave<16>();
}
