// For tests of kernelgen only, beside test_support.h: draws inputs and compares results with
// GoogleTest.
#ifndef TENON_KERNELGEN_TESTING_TEST_VALUES_H_
#define TENON_KERNELGEN_TESTING_TEST_VALUES_H_

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>

#include "tenon/kernelgen/fuse/load_time.h"
#include "tenon/kernelgen/testing/test_support.h"

namespace tenon::kernelgen::testing {

// The targets that this machine can run.
inline std::vector<Target> all_targets() {
  std::vector<Target> all = {Target::avx512(), Target::avx2(), Target::baseline(),
                             Target::scalar()};
  std::erase_if(all, [](const Target& t) { return !machine_has(t); });
  return all;
}
inline std::vector<Target> targets() {
  return in_this_run(all_targets());
}

// An element-wise op of one opcode, as lowering would make it from a scalar program.
inline Tensor op(Builder& b, uint32_t code, std::initializer_list<Tensor> in) {
  std::vector<Tensor> args(in);
  std::vector<uint32_t> program;
  for (uint32_t i = 0; i < args.size(); ++i) program.push_back(TENON_SCALAR_WORD(TENON_S_ARG, i));
  program.push_back(TENON_SCALAR_WORD(code, 0));
  const DType t[] = {args[0].type};
  return b.map(program, args, {}, t)[0];
}

inline std::vector<ExprId> dims(Builder& b, std::initializer_list<int64_t> list) {
  std::vector<ExprId> out;
  for (int64_t d : list) out.push_back(b.dim(d));
  return out;
}

// One number in `odd_in` is NaN or an infinity; 0: none.
inline double draw(std::mt19937& rng, uint32_t odd_in) {
  if (odd_in != 0 && rng() % odd_in == 0) return std::array{NAN, INFINITY, -INFINITY}[rng() % 3];
  return std::uniform_real_distribution<double>(-2, 2)(rng);
}

// Requires NaN for NaN, equal infinities, and other values within tolerance times the largest
// magnitude.
inline void compare(const Data& got, const std::vector<double>& want, double tolerance,
                    uint32_t buffer) {
  double scale = 1e-30;
  for (double v : want) scale = std::isfinite(v) ? std::max(scale, std::fabs(v)) : scale;
  for (size_t i = 0; i < got.size(); ++i) {
    const double x = got.get(i);
    const bool same = std::isnan(want[i])   ? std::isnan(x)
                      : std::isinf(want[i]) ? x == want[i]
                                            : std::fabs(x - want[i]) <= tolerance * scale;
    ASSERT_TRUE(same) << "buffer " << buffer << " element " << i << ": " << x << ", not "
                      << want[i];
  }
}

struct Values {
  std::vector<uint32_t> odd;  // inputs that hold NaN and infinities
  double tolerance = 2e-5;
  bool whole_bytes = false;  // bytes take all their values, not just a few
};

inline double draw_byte(std::mt19937& rng, DType type) {
  return static_cast<double>(rng() % 256) - (type == TENON_I8 ? 128 : 0);
}

// Inputs and constants of a program for one tuple of sizes, and the expected values of all its
// buffers.
struct Meaning {
  std::vector<Data> input;
  std::vector<std::vector<double>> want;

  Meaning(const Kernel& program, const std::vector<int64_t>& ext, const Values& values) {
    std::mt19937 rng(5);
    for (uint32_t id = 0; id < program.buffers.size(); ++id) {
      const Buffer& x = program.buffers[id];
      const bool odd = std::find(values.odd.begin(), values.odd.end(), id) != values.odd.end();
      const bool given = x.role == Role::kIn || x.role == Role::kConstant;
      int64_t n = 1;
      for (ExprId d : x.dims) n *= program.pool.evaluate(d, ext);
      Data data(x.type, static_cast<size_t>(n));
      for (size_t i = 0; given && i < data.size(); ++i)
        data.set(i, is_float(x.type)                             ? draw(rng, odd ? 61 : 0)
                    : values.whole_bytes && size_of(x.type) == 1 ? draw_byte(rng, x.type)
                                                                 : std::floor(3 + draw(rng, 0)));
      want.emplace_back();
      for (size_t i = 0; i < data.size(); ++i) want.back().push_back(data.get(i));
      input.push_back(std::move(data));
    }
    Oracle(program, ext, &want).run();
  }
};

// Runs the program on every instruction set and every tuple of sizes, with each range in one piece
// and in three, and compares the outputs. Their bits must not depend on the pieces. change: edits
// each target first.
inline void check(
    Builder& b, const std::vector<std::vector<int64_t>>& sizes, const Values& values = {},
    const std::function<void(Target&)>& change = [](Target&) {}) {
  ASSERT_TRUE(b.ok()) << b.why();
  const Kernel program = b.take_program();
  std::vector<Meaning> meanings;
  for (const auto& ext : sizes) meanings.emplace_back(program, ext, values);
  for (Target target : targets()) {
    SCOPED_TRACE(target.isa);
    change(target);
    Kernel moved = program;
    Verifier verifier(Verifier::kThorough);
    move_to_load(moved, target, &verifier);
    ASSERT_TRUE(verifier.notes.empty()) << verifier.notes[0];
    Session session;
    ASSERT_TRUE(session.build(moved, target, {})) << session.why << "\n" << session.module.text;
    for (size_t n = 0; n < sizes.size(); ++n) {
      session.ext = sizes[n];
      std::vector<Data> first;
      for (int64_t pieces : {1, 3}) {
        std::vector<Data> memory = meanings[n].input;
        session.run(&memory, pieces);
        if (first.empty()) first = memory;
        for (uint32_t i = 0; i < program.buffers.size(); ++i) {
          if (program.buffers[i].role != Role::kOut) continue;
          EXPECT_EQ(memory[i].bytes, first[i].bytes) << "buffer " << i << " depends on the split";
          compare(memory[i], meanings[n].want[i], values.tolerance, i);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace tenon::kernelgen::testing
#endif
