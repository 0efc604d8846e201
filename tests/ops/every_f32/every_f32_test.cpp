// The generated C++ of each op of one argument over f32, on each instruction set of this machine,
// against double precision within the bound that the op states: a sample in each exponent or, with
// CHECK_FULL=1, all 2^32 numbers. EVERY_F32_OPS=a,b chooses ops. EVERY_F32_SAMPLES=FILE gets
// samples of the oracle, including those where each op has its largest error; oracle_samples.py
// compares them with mpmath.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "core/base/errors/failure.h"
#include "core/op/registry.h"
#include "oracle.h"
#include "tenon/kernelgen/testing/test_support.h"
#include "test_host.h"

namespace tenon::every_f32 {
namespace {

namespace kg = kernelgen;

struct Case {
  const tenon_op_def_t* op;
  Function meaning;
  std::string name() const { return std::string(from_abi_str(op->name)); }
};

bool takes_one_float(const tenon_op_def_t& op) {
  if (op.scalar_words == 0 || op.operand_count != 1 || op.ulp_f32 == 0) return false;
  if (!(op.operands[0].dtypes >> TENON_F32 & 1)) return false;
  for (uint32_t i = 0; i < op.attr_count; ++i) {
    if (op.attrs[i].kind != TENON_ATTR_F64) return false;  // a conversion
  }
  return true;
}

bool chosen(const std::string& name) {
  const char* list = std::getenv("EVERY_F32_OPS");
  return !list || ("," + std::string(list) + ",").find("," + name + ",") != std::string::npos;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out;
    EXPECT_EQ(register_test_ops(), "");
    for (const op::OpRecord* record : op::Registry::instance().records()) {
      if (!takes_one_float(record->def)) continue;
      const Case c{&record->def, meaning_of(from_abi_str(record->def.name))};
      EXPECT_NE(c.meaning, nullptr)
          << c.name()
          << " has no meaning in double precision: give `cpp` in "
             "MEANINGS of a file in tests/ops/cases (tests/ops/README.md)";
      if (c.meaning && chosen(c.name())) out.push_back(c);
    }
    return out;
  }();
  return all;
}

// ---- Allowed results ----

constexpr double kSlack = 1 + 0x1p-9;  // for the error of double precision
constexpr double kRoundsToInfinity = 0x1p128 * (1 - 0x1p-25);

// 2^(exponent of x) * 2^-23, for f32 exponents from `lowest` on.
double unit_of(double x, int lowest) {
  const int e = static_cast<int>(std::bit_cast<uint64_t>(x) >> 52 & 2047) - 1023;
  return std::bit_cast<double>(static_cast<uint64_t>(std::min(std::max(e, lowest), 127) - 23 + 1023)
                               << 52);
}

struct Worst {
  double ulps = -1;
  float at = 0;
};

class Judge {
 public:
  explicit Judge(const tenon_op_def_t& op)
      : bound_(op.ulp_f32),
        exact_(op.ulp_f32 == 0.5),
        of_(op.ulp_of),
        lowest_(op.decompose != nullptr ? -126 + 8 : -126) {}

  // True if the result is right. Keeps the worst.
  bool right(float x, float got, double want, Worst* worst) const {
    if (exact_) {
      const auto nearest = static_cast<float>(want);
      return std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(nearest) ||
             (std::isnan(got) && std::isnan(nearest));
    }
    double scale = std::fabs(want);
    if (of_ == TENON_ULP_OF_OPERANDS && std::isfinite(x))
      scale = std::max<double>(scale, std::fabs(x));
    if (of_ == TENON_ULP_OF_ONE) scale = std::max(scale, 1.0);
    const double unit = unit_of(scale, lowest_), ulps = std::fabs(got - want) / unit;
    if (ulps > worst->ulps && std::isfinite(got)) *worst = {ulps, x};
    if (got != 0 && want != 0 && ulps <= bound_ * kSlack) return true;
    return odd(got, want, ulps, unit);
  }

 private:
  // Handles zeros, infinities and NaN, and reports errors.
  bool odd(float got, double want, double ulps, double unit) const {
    if (std::isnan(want)) return std::isnan(got);
    if (std::isinf(want)) return got == want;
    const bool signs = std::signbit(got) == std::signbit(want);
    if (std::isinf(got))
      return signs && std::fabs(want) + bound_ * kSlack * unit >= kRoundsToInfinity;
    const bool cancelled = unit * bound_ > 64 * unit_of(want, -126);
    return ulps <= bound_ * kSlack && (cancelled || (signs && (want != 0 || got == 0)));
  }

  double bound_;
  bool exact_;
  uint32_t of_;
  int lowest_;
};

// ---- Generated code ----

std::vector<kg::ScalarAttr> defaults_of(const tenon_op_def_t& op) {
  std::vector<kg::ScalarAttr> out;
  for (uint32_t i = 0; i < op.attr_count; ++i) out.push_back({true, 0, op.attrs[i].default_f});
  return out;
}

// All ops as one module. Each has an extent of its own, so each becomes a kernel.
struct Module {
  kg::Target target;
  kg::testing::Session session;
  std::vector<uint32_t> in, out;  // buffers

  bool build(const std::vector<Case>& all) {
    kg::Builder b;
    for (const Case& c : all) {
      const kg::Tensor x = b.input(TENON_F32, {b.extent()});
      const uint16_t type = TENON_F32;
      const kg::Tensor y =
          b.map({c.op->scalar, c.op->scalar_words}, {&x, 1}, defaults_of(*c.op), {&type, 1})[0];
      b.output(y);
      in.push_back(x.buffer);
      out.push_back(y.buffer);
    }
    if (!b.ok()) return session.why = b.why(), false;
    return session.build(b.take_program(), target, std::vector<int64_t>(all.size(), 0));
  }
};

std::vector<Module>& modules() {
  static std::vector<Module> all = [] {
    std::vector<Module> out;
    for (kg::Target t : {kg::Target::avx512(), kg::Target::avx2(), kg::Target::baseline()}) {
      if (kg::testing::machine_has(t)) out.push_back({t, {}, {}, {}});
    }
    std::vector<std::thread> threads;
    for (Module& m : out) threads.emplace_back([&m] { m.build(cases()); });
    for (std::thread& t : threads) t.join();
    for (Module& m : out)
      EXPECT_NE(m.session.library.handle, nullptr) << m.target.isa << ": " << m.session.why;
    return out;
  }();
  return all;
}

// One op of one module over blocks of numbers.
class Runner {
 public:
  Runner(const Module& module, size_t op, size_t block)
      : session_(module.session), in_(module.in[op]), out_(module.out[op]) {
    for (size_t i = 0; i < module.in.size() + module.out.size(); ++i)
      memory_.emplace_back(TENON_F32, 0);
    memory_[in_] = kg::testing::Data(TENON_F32, block);
    memory_[out_] = kg::testing::Data(TENON_F32, block);
    session_.ext[op] = static_cast<int64_t>(block);
  }
  const float* run(std::span<const float> x) {
    std::memcpy(memory_[in_].bytes.data(), x.data(), x.size_bytes());
    session_.run(&memory_, 1);
    return reinterpret_cast<const float*>(memory_[out_].bytes.data());
  }

 private:
  kg::testing::Session session_;
  std::vector<kg::testing::Data> memory_;
  uint32_t in_, out_;
};

// ---- Blocks ----

constexpr size_t kBlock = size_t{1} << 20;
constexpr uint64_t kAll = uint64_t{1} << 32;

// Numbers by position. The sample has one number in every 4096 and those next to each power of two.
float number_at(uint64_t i, bool full) {
  if (full) return std::bit_cast<float>(static_cast<uint32_t>(i));
  const auto n = static_cast<uint32_t>(i);
  const uint32_t stride = n * 4096 + (n * 2654435761u >> 20);
  if (n % 64 >= 8) return std::bit_cast<float>(stride);
  return std::bit_cast<float>((n / 64 & 511) << 23 | (n % 8 < 5 ? n % 8 : 0x7ffffd + n % 8 - 5));
}

struct Found {
  Worst worst;
  std::string isa;                    // of the worst
  std::vector<std::string> failures;  // the first ones
};

// Judges the results of one instruction set, except those that equal bit by bit a result of another
// one, `known`.
void judge_block(const Judge& judge, const Module& m, const Case& c, std::span<const float> x,
                 std::span<const double> want, const float* got, const float* known, Found* found) {
  Worst worst = found->worst;
  for (size_t i = 0; i < x.size(); ++i) {
    if (known && std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(known[i])) continue;
    if (judge.right(x[i], got[i], want[i], &worst) || found->failures.size() > 4) continue;
    char text[160];
    std::snprintf(text, sizeof text, "%s %s(%.9g) = %.9g, not %.17g", m.target.isa.c_str(),
                  c.name().c_str(), x[i], got[i], want[i]);
    found->failures.push_back(text);
  }
  if (worst.ulps > found->worst.ulps) found->isa = m.target.isa;
  found->worst = worst;
}

void run_blocks(size_t op, bool full, uint64_t first, uint64_t step, Found* found) {
  const Case& c = cases()[op];
  const Judge judge(*c.op);
  std::vector<Runner> runners;
  for (const Module& m : modules()) runners.emplace_back(m, op, kBlock);
  std::vector<float> x(kBlock);
  std::vector<double> want(kBlock);
  for (uint64_t block = first; block < (full ? kAll : kBlock) / kBlock; block += step) {
    for (size_t i = 0; i < kBlock; ++i) {
      x[i] = number_at(block * kBlock + i, full);
      want[i] = c.meaning(x[i]);
    }
    const float* known = nullptr;
    for (size_t m = 0; m < runners.size(); ++m) {
      const float* got = runners[m].run(x);
      judge_block(judge, modules()[m], c, x, want, got, known, found);
      if (m == 0) known = got;
    }
  }
}

Found run_all(size_t op, bool full) {
  constexpr size_t kThreads = 2;
  Found parts[kThreads];
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { run_blocks(op, full, t, kThreads, &parts[t]); });
  }
  for (std::thread& t : threads) t.join();
  Found& worst =
      *std::max_element(std::begin(parts), std::end(parts),
                        [](const Found& a, const Found& b) { return a.worst.ulps < b.worst.ulps; });
  for (const Found& part : parts) {
    if (&part != &worst)
      worst.failures.insert(worst.failures.end(), part.failures.begin(), part.failures.end());
  }
  return std::move(worst);
}

bool is_full() {
  const char* full = std::getenv("CHECK_FULL");
  return full && std::string_view(full) == "1";
}

// Samples of the oracle in hexadecimal: name, number, value.
class Samples {
 public:
  Samples() {
    if (const char* path = std::getenv("EVERY_F32_SAMPLES")) out_.open(path);
  }
  void add(const Case& c, float x) {
    char line[96];
    std::snprintf(line, sizeof line, "%s %a %a\n", c.name().c_str(), x, c.meaning(x));
    out_ << line;
  }

 private:
  std::ofstream out_;
};

TEST(EveryF32, WithinWhatTheOpStates) {
  Samples samples;
  ASSERT_GT(cases().size(), 0u);
  ASSERT_GT(modules().size(), 0u);
  for (size_t i = 0; i < cases().size(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Found found = run_all(i, is_full());
    const double bound = cases()[i].op->ulp_f32;
    for (const std::string& f : found.failures) ADD_FAILURE() << f << " within " << bound << " ulp";
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%-12s states %.2f ulp", cases()[i].name().c_str(), bound);
    if (found.worst.ulps >= 0)
      std::printf(", is %.4f at %.9g on %s", found.worst.ulps, found.worst.at, found.isa.c_str());
    std::printf(" (%.1f s)\n", took.count());
    std::fflush(stdout);
    for (uint64_t n = 0; n < 1024; ++n)
      samples.add(cases()[i], number_at(n * 1021 + n % 64, false));
    if (found.worst.ulps >= 0) samples.add(cases()[i], found.worst.at);
  }
}

}  // namespace
}  // namespace tenon::every_f32
