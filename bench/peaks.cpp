// Measures the machine's peaks: multiply-adds on the widest vectors, and memory streams, on 1 and 2
// threads.
//
// cc -O2 -march=native; prints one JSON object. Operands are random, because zeros draw less power
// and raise the clock.
// Vectors are as wide as the compiler's target allows; the choice depends on its features, never on
// a vendor.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float V __attribute__((vector_size(kLanes * 4), aligned(64)));
typedef float Stored __attribute__((vector_size(kLanes * 4), aligned(64), may_alias));

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

V random_vector(std::mt19937& random, float low, float high) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = std::uniform_real_distribution<float>(low, high)(random);
  return v;
}

template <typename T>
void keep(T& value) {
#ifdef __AVX512F__
  asm volatile("" : "+v"(value));  // any of 32 registers
#else
  asm volatile("" : "+x"(value));
#endif
}

// Twelve chains hide the latency of any known multiply-add unit. The factors keep the sums finite.
double fma_gflops() {
  std::mt19937 random(7);
  V sums[12], factor = random_vector(random, 0.5f, 0.99f), addend = random_vector(random, -1, 1);
  for (V& s : sums) s = random_vector(random, -1, 1);
  constexpr int64_t kRounds = 4'000'000;
  keep(factor);
  keep(addend);
  const double begin = now_s();
  for (int64_t r = 0; r < kRounds; ++r) {
    for (V& s : sums) s = s * factor + addend;
    for (V& s : sums) keep(s);
  }
  return 12.0 * kRounds * kLanes * 2 / (now_s() - begin) * 1e-9;
}

#ifdef __AVX512BF16__
double bf16_gflops() {
  std::mt19937 random(7);
  __m512 sums[16];
  const __m512 low = (__m512)random_vector(random, -1, 1),
               high = (__m512)random_vector(random, -1, 1);
  __m512bh a = _mm512_cvtne2ps_pbh(low, high), b = _mm512_cvtne2ps_pbh(high, low);
  for (__m512& s : sums) s = (__m512)random_vector(random, -1, 1);
  keep(a);
  keep(b);
  constexpr int64_t kRounds = 3'000'000;
  const double begin = now_s();
  for (int64_t r = 0; r < kRounds; ++r) {
    for (__m512& s : sums) s = _mm512_dpbf16_ps(s, a, b);
    for (__m512& s : sums) keep(s);
  }
  return 16.0 * kRounds * 64 / (now_s() - begin) * 1e-9;
}
#endif

struct Streams {
  float *a, *b, *c;
  int64_t count;  // floats in each stream
};

double read_gbs(const Streams& s) {
  V sums[8] = {};
  const double begin = now_s();
  for (int64_t i = 0; i + 8 * kLanes <= s.count; i += 8 * kLanes) {
    for (int k = 0; k < 8; ++k) sums[k] += *reinterpret_cast<const Stored*>(s.a + i + k * kLanes);
  }
  for (V& v : sums) keep(v);
  return 4.0 * static_cast<double>(s.count) / (now_s() - begin) * 1e-9;
}

// a = b + c * k; counts three streams, not the line that a store fetches.
double triad_gbs(const Streams& s) {
  V factor = {};
  factor += 1.5f;
  keep(factor);
  const double begin = now_s();
  for (int64_t i = 0; i + kLanes <= s.count; i += kLanes) {
    *reinterpret_cast<Stored*>(s.a + i) = *reinterpret_cast<const Stored*>(s.b + i) +
                                          *reinterpret_cast<const Stored*>(s.c + i) * factor;
  }
  return 12.0 * static_cast<double>(s.count) / (now_s() - begin) * 1e-9;
}

float* random_floats(int64_t count) {
  float* data = static_cast<float*>(aligned_alloc(4096, static_cast<size_t>(count) * 4));
  if (data == nullptr) exit(1);
  uint32_t state = 88172645;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    data[i] = static_cast<float>(state >> 8) * 1e-7f;
  }
  return data;
}

// The sum over `threads` threads that start together; the best of `tries`.
template <typename F>
double together(int threads, int tries, F measure) {
  double best = 0;
  for (int t = 0; t < tries; ++t) {
    std::atomic<int> ready{0};
    std::vector<double> rates(static_cast<size_t>(threads));
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] {
        for (ready.fetch_add(1); ready.load() < threads;) {
        }
        rates[static_cast<size_t>(i)] = measure(i);
      });
    }
    double sum = 0;
    for (std::thread& w : workers) w.join();
    for (double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

}  // namespace

int main() {
  constexpr int64_t kCount = 24 << 20;  // 96 MB per stream, larger than the caches
  std::vector<Streams> streams;
  for (int i = 0; i < 2; ++i) {
    streams.push_back({random_floats(kCount / 2), random_floats(kCount / 2),
                       random_floats(kCount / 2), kCount / 2});
  }
  printf("{");
  for (int threads = 1; threads <= 2; ++threads) {
    const double f32 = together(threads, 3, [](int) { return fma_gflops(); });
    double bf16 = 0;
#ifdef __AVX512BF16__
    bf16 = together(threads, 3, [](int) { return bf16_gflops(); });
#endif
    const double read =
        together(threads, 3, [&](int i) { return read_gbs(streams[static_cast<size_t>(i)]); });
    const double triad =
        together(threads, 3, [&](int i) { return triad_gbs(streams[static_cast<size_t>(i)]); });
    printf(
        "%s\"%d\": {\"f32_gflops\": %.1f, \"bf16_gflops\": %.1f, \"read_gbs\": %.1f, "
        "\"triad_gbs\": %.1f}",
        threads == 1 ? "" : ", ", threads, f32, bf16, read, triad);
  }
  printf("}\n");
}
