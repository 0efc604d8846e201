// The peak rates of this machine's processor, measured: the scale for judging the costliest
// kernels. For programs; a plugin has no use for them.
#ifndef TENON_CPP_PEAKS_HPP_
#define TENON_CPP_PEAKS_HPP_

#include <stdint.h>
#include <stdio.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/abi/host.h"
#include "tenon/abi/plugin.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/record.hpp"

namespace tenon::peaks {

// The tables of the host that a measurement needs.
struct Tables {
  const tenon_host_t* host = nullptr;
  const tenon_host_registry_t* registry = nullptr;
  const tenon_host_threads_t* threads = nullptr;
};

struct Peaks {
  double gflops = 0;  // f32 multiply-adds of all threads of the pool; 0: unknown
  // Rate of reading streams of `bytes` in total: faster if they fit a cache. Ascending.
  struct Stream {
    double bytes = 0, gigabytes_per_second = 0;
  };
  std::vector<Stream> streams;

  bool known() const { return gflops > 0 && !streams.empty(); }
  // Shortest possible time for this work, in ns: the larger of the multiply-adds at their peak, and
  // of the bytes at the rate of the smallest stream that holds them.
  double bound_ns(double flops, double bytes) const;
  // {"gflops": 123.45, "streams": [{"bytes": 1024, "gigabytes_per_second": 12.34}]}: `peaks` of a
  // run in a report's page.
  std::string json() const;
};

namespace detail {

inline tenon_str_t str(std::string_view text) {
  return {text.data(), text.size()};
}

// Ten chains hide the latency of a multiply-add and leave registers for the operands on every
// target. The vector width is found by trying: the widest that is fast.
inline constexpr int kLanes[] = {16, 8, 4}, kChains = 10;
inline constexpr int64_t kFmaRounds = 200'000, kChunks = 8;
inline constexpr int kTries = 3;
// Per thread: within a second-level cache, within a shared cache, beyond both.
inline constexpr size_t kStreamBytes[] = {256 << 10, 4 << 20, 64 << 20};
inline constexpr size_t kLeastTraffic = 64 << 20;  // per thread and try

// A loop of multiply-adds in vectors of `lanes`.
inline std::string fma_text(int lanes) {
  const std::string n = std::to_string(lanes);
  std::string text = "extern \"C\" __attribute__((visibility(\"default\"))) void fma" + n +
                     "(const float* in, float* out, long rounds) {\n"
                     "  _Pragma(\"clang fp contract(on)\")\n"
                     "  typedef float V __attribute__((ext_vector_type(" +
                     n + "), aligned(4)));\n  const V f = *(const V*)in, g = *(const V*)(in + " +
                     n + ");\n";
  const auto chain = [](int c) { return "a" + std::to_string(c); };
  const auto at = [&](int vector) { return std::to_string(vector * lanes); };
  for (int c = 0; c < kChains; ++c)
    text += "  V " + chain(c) + " = *(const V*)(in + " + at(c + 2) + ");\n";
  text += "  for (long r = 0; r < rounds; ++r) {\n";
  for (int c = 0; c < kChains; ++c) text += "    " + chain(c) + " = " + chain(c) + " * f + g;\n";
  text += "  }\n";
  for (int c = 0; c < kChains; ++c) text += "  *(V*)(out + " + at(c) + ") = " + chain(c) + ";\n";
  return text + "}\n";
}

inline std::string loop_text() {
  std::string text;
  for (int lanes : kLanes) text += fma_text(lanes);
  return text +
         "extern \"C\" __attribute__((visibility(\"default\"))) void read(const float* in, float* "
         "out, long count) {\n"
         "  typedef float V __attribute__((ext_vector_type(16), aligned(4)));\n"
         "  V a = 0, b = 0, c = 0, d = 0;\n"
         "  for (long i = 0; i + 64 <= count; i += 64) {\n"
         "    a += *(const V*)(in + i); b += *(const V*)(in + i + 16); c += *(const V*)(in + i + "
         "32); d += *(const V*)(in + i + 48);\n"
         "  }\n"
         "  *(V*)out = a + b + c + d;\n"
         "}\n";
}

using Loop = void (*)(const float* in, float* out, long count);

// The loops of loop_text, built and loaded.
class Loops {
 public:
  explicit Loops(const Tables& host) : host_(host) {}
  Loops(const Loops&) = delete;
  Loops& operator=(const Loops&) = delete;
  ~Loops() {
    if (module_ != nullptr) toolchain_->release(toolchain_->self, module_);
  }

  bool open(std::string& why) {
    const void* table = nullptr;
    tenon_code_t code =
        host_.registry->plugin_interface(host_.registry->self, str("toolchain"),
                                         str(TENON_DIALECT_CPP), str(TENON_TOOLCHAIN_ID), &table);
    if (code != TENON_OK) return failed(why);
    toolchain_ = static_cast<const tenon_toolchain_api_t*>(table);
    auto options = sized<tenon_toolchain_options_t>();
    options.optimise = 2;
    std::string object, messages;
    const tenon_sink_t object_sink = sink_to(&object), message_sink = sink_to(&messages);
    const std::string text = loop_text();
    code = toolchain_->build(toolchain_->self, {}, str(TENON_DIALECT_CPP), str(text), &options,
                             &object_sink, &message_sink);
    if (code != TENON_OK) return failed(why);
    code = toolchain_->load(toolchain_->self, object.data(), object.size(), &module_);
    return code == TENON_OK || failed(why);
  }

  Loop find(const std::string& name) const {
    void* address = nullptr;
    return toolchain_->symbol(toolchain_->self, module_, str(name), &address) == TENON_OK
               ? reinterpret_cast<Loop>(address)
               : nullptr;
  }

 private:
  bool failed(std::string& why) const {
    auto failure = sized<tenon_failure_t>();
    host_.host->last_failure(host_.host->self, &failure);
    why.assign(failure.message.data, failure.message.size);
    return false;
  }

  const Tables& host_;
  const tenon_toolchain_api_t* toolchain_ = nullptr;
  tenon_module_t* module_ = nullptr;
};

// One measurement: `chunks` equal pieces, which the pool's threads claim one by one.
struct Work {
  Loop loop;
  const float* in;
  size_t stride;  // floats between the pieces of `in`
  long count;     // of the loop
  long repeats;
};

inline tenon_code_t run_chunks(void* context, uint32_t, int64_t begin, int64_t end) {
  const Work& work = *static_cast<const Work*>(context);
  float out[16 * kChains];
  for (int64_t i = begin; i < end; ++i) {
    for (long r = 0; r < work.repeats; ++r)
      work.loop(work.in + static_cast<size_t>(i) * work.stride, out, work.count);
  }
  return TENON_OK;
}

// Seconds of the fastest of several tries.
inline double fastest(const Tables& host, Work work, int64_t chunks) {
  double best = 1e30;
  for (int t = 0; t < kTries; ++t) {
    const auto start = std::chrono::steady_clock::now();
    if (host.threads->parallel(host.threads->self, run_chunks, &work, chunks, 1) != TENON_OK)
      return 0;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

}  // namespace detail

inline double Peaks::bound_ns(double flops, double bytes) const {
  if (!known()) return 0;
  double rate = streams.back().gigabytes_per_second;
  for (size_t i = streams.size(); i-- > 0 && streams[i].bytes >= bytes;)
    rate = streams[i].gigabytes_per_second;
  return std::max(flops / gflops, bytes / rate);
}

inline std::string Peaks::json() const {
  const auto number = [](double value, int digits) {
    char text[64];
    snprintf(text, sizeof text, "%.*f", digits, value);
    return std::string(text);
  };
  std::string list;
  for (const Stream& s : streams) {
    list += (list.empty() ? "" : ",") + std::string("{\"bytes\":") + number(s.bytes, 0) +
            ",\"gigabytes_per_second\":" + number(s.gigabytes_per_second, 2) + "}";
  }
  return "{\"gflops\":" + number(gflops, 2) + ",\"streams\":[" + list + "]}";
}

// Builds a few loops with the process's C++ toolchain and times them on the host's pool; takes
// about half a second. `why`: set if no plugin offers a toolchain; the peaks are then unknown.
inline Peaks measure(const Tables& host, std::string& why) {
  using namespace detail;
  Peaks peaks;
  Loops loops(host);
  if (!loops.open(why)) return peaks;
  const int64_t threads = host.threads->count(host.threads->self);
  const size_t floats = static_cast<size_t>(threads) * kStreamBytes[2] / sizeof(float);
  const auto data = std::make_unique_for_overwrite<float[]>(floats);
  uint32_t state = 88172645;  // zeros would draw less power and raise the clock
  for (size_t i = 0; i < floats; ++i) {
    state = state * 1664525u + 1013904223u;
    data[i] = 0.25f + static_cast<float>(state >> 8) * 0x1p-25f;  // the chains stay finite
  }
  for (int lanes : kLanes) {
    if (const Loop loop = loops.find("fma" + std::to_string(lanes))) {
      const double s = fastest(host, {loop, data.get(), 0, kFmaRounds, 1}, threads * kChunks);
      const double work =
          2.0 * lanes * kChains * static_cast<double>(kFmaRounds * threads * kChunks);
      if (s > 0) peaks.gflops = std::max(peaks.gflops, work / s * 1e-9);
    }
  }
  const Loop read = loops.find("read");
  for (size_t bytes : kStreamBytes) {
    if (read == nullptr) break;
    // One piece per thread to stay in its cache; several if memory is the limit.
    const int64_t chunks = bytes == kStreamBytes[2] ? threads * kChunks : threads;
    const size_t all = bytes * static_cast<size_t>(threads),
                 piece = all / static_cast<size_t>(chunks) / sizeof(float);
    const long repeats = static_cast<long>(std::max<size_t>(1, kLeastTraffic / bytes));
    const double s =
        fastest(host, {read, data.get(), piece, static_cast<long>(piece), repeats}, chunks);
    if (s > 0)
      peaks.streams.push_back({static_cast<double>(all),
                               static_cast<double>(all) * static_cast<double>(repeats) / s * 1e-9});
  }
  return peaks;
}

}  // namespace tenon::peaks

#endif
