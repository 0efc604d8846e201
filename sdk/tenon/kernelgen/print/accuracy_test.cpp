// The generated function of every float opcode against libm in long double: f32 within 4 ulp, f64
// within 8 ulp, and the special values of IEEE. lgamma and digamma have an absolute bound near
// their zeros.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "tenon/kernelgen/print/prelude.h"
#include "tenon/kernelgen/testing/test_support.h"

namespace tenon::kernelgen {
namespace {

using Real = long double;

Real digamma(Real x) {
  if (x < 0.5L) return digamma(1 - x) - M_PIl / std::tan(M_PIl * (x - std::floor(x)));
  Real r = 0;
  for (; x < 40; x += 1) r -= 1 / x;
  const Real w = 1 / (x * x);
  return r + std::log(x) - 0.5L / x -
         w * (1 / 12.L - w * (1 / 120.L - w * (1 / 252.L - w * (1 / 240.L - w * (5 / 660.L)))));
}

// Newton's method, on the side where nothing cancels.
Real erf_inv(Real x) {
  const Real a = std::fabs(x);
  if (!(a < 1)) return a == 1 ? std::copysign(INFINITY, x) : NAN;
  Real y = 0;
  for (int i = 0; i < 200; ++i) {
    const Real f = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const Real d = f * std::exp(y * y) * 0.886226925452758013649L;
    y -= d / (1 + y * d);
  }
  return std::copysign(y, x);
}

struct Op {
  uint32_t op;
  const char* name;
  Real (*f)(Real);
  double low, high;
  double slack = 0;  // absolute, for functions whose zeros are not simple numbers
};

const Op kOps[] = {
    {TENON_S_EXP, "exp", [](Real x) { return std::exp(x); }, -105, 90},
    {TENON_S_EXPM1, "expm1", [](Real x) { return std::expm1(x); }, -5, 5},
    {TENON_S_LOG, "log", [](Real x) { return std::log(x); }, 0, 50},
    {TENON_S_LOG1P, "log1p", [](Real x) { return std::log1p(x); }, -1, 3},
    {TENON_S_SIN, "sin", [](Real x) { return std::sin(x); }, -50, 50},
    {TENON_S_COS, "cos", [](Real x) { return std::cos(x); }, -50, 50},
    {TENON_S_SIN, "sin", [](Real x) { return std::sin(x); }, -1e9, 1e9},
    {TENON_S_COS, "cos", [](Real x) { return std::cos(x); }, -1e30, 1e30},
    {TENON_S_TANH, "tanh", [](Real x) { return std::tanh(x); }, -5, 5},
    {TENON_S_LOGISTIC, "logistic", [](Real x) { return 1 / (1 + std::exp(-x)); }, -20, 20},
    {TENON_S_ERF, "erf", [](Real x) { return std::erf(x); }, -4, 4},
    {TENON_S_ERFC, "erfc", [](Real x) { return std::erfc(x); }, -3, 9},
    {TENON_S_LGAMMA, "lgamma", [](Real x) { return std::lgamma(x); }, -5.9, 40, 2e-14},
    {TENON_S_DIGAMMA, "digamma", [](Real x) { return digamma(x); }, -3.9, 40, 2e-14},
    {TENON_S_ERF_INV, "erf_inv", erf_inv, -1, 1},
    {TENON_S_SQRT, "sqrt", [](Real x) { return std::sqrt(x); }, 0, 100},
    {TENON_S_RSQRT, "rsqrt", [](Real x) { return 1 / std::sqrt(x); }, 0, 100},
    {TENON_S_FLOOR, "floor", [](Real x) { return std::floor(x); }, -10, 10},
    {TENON_S_CEIL, "ceil", [](Real x) { return std::ceil(x); }, -10, 10},
    {TENON_S_TRUNC, "trunc", [](Real x) { return std::trunc(x); }, -10, 10},
    {TENON_S_ROUND_EVEN, "round_even", [](Real x) { return std::nearbyint(x); }, -10, 10},
    {TENON_S_SIGN, "sign", [](Real x) { return x > 0   ? 1.0L
                                               : x < 0 ? -1.0L
                                                       : x; }, -1, 1},
    {TENON_S_ABS, "abs", [](Real x) { return std::fabs(x); }, -1, 1},
};

Real ulp(Real want, DType t) {
  const int bits = t == TENON_F32 ? 24 : 53, low = t == TENON_F32 ? -149 : -1074;
  int e = 0;
  std::frexp(want, &e);
  return std::ldexp(1.0L, std::max(e - bits, low));
}

// One op and its operands.
struct Job {
  uint32_t op;
  std::vector<std::vector<double>> in;
};

// Runs all jobs as one module; returns the results of the target, by job.
std::vector<std::vector<double>> run(const Target& target, DType t, const std::vector<Job>& jobs) {
  Builder b;
  std::vector<testing::Data> memory;
  std::vector<uint32_t> results;
  for (const Job& job : jobs) {
    std::vector<Tensor> args;
    std::vector<uint32_t> program;
    const size_t n = job.in[0].size();
    for (const auto& v : job.in) {
      program.push_back(TENON_SCALAR_WORD(TENON_S_ARG, args.size()));
      args.push_back(b.input(t, {b.dim(static_cast<int64_t>(n))}));
      memory.emplace_back(t, n);
      for (size_t i = 0; i < n; ++i) memory.back().set(i, v[i]);
    }
    program.push_back(TENON_SCALAR_WORD(job.op, 0));
    const DType types[] = {t};
    const Tensor y = b.map(program, args, {}, types)[0];
    b.output(y);
    memory.emplace_back(t, n);
    results.push_back(y.buffer);
  }
  EXPECT_TRUE(b.ok()) << b.why();
  testing::Session s;
  EXPECT_TRUE(s.build(b.take_program(), target, {})) << s.why;
  if (!s.library.handle) return {};
  s.run(&memory, 2);
  std::vector<std::vector<double>> out;
  for (uint32_t r : results) {
    out.emplace_back();
    for (size_t i = 0; i < memory[r].size(); ++i) out.back().push_back(memory[r].get(i));
  }
  return out;
}

std::vector<Target> targets() {
  std::vector<Target> all = {Target::avx512(), Target::avx2(), Target::baseline(),
                             Target::scalar()};
  std::erase_if(all, [](const Target& t) { return !testing::machine_has(t); });
  return testing::in_this_run(all);
}

void expect_close(double got, Real want, DType t, double slack, const std::string& what) {
  const Real rounded = t == TENON_F32 ? static_cast<Real>(static_cast<float>(want))
                                      : static_cast<Real>(static_cast<double>(want));
  if (std::isnan(rounded)) {
    EXPECT_TRUE(std::isnan(got)) << what << ": " << got;
  } else if (std::isinf(rounded)) {
    EXPECT_EQ(got, static_cast<double>(rounded)) << what;
  } else {
    const Real error = std::fabs(static_cast<Real>(got) - want);
    EXPECT_LE(error, std::max<Real>((t == TENON_F32 ? 4 : 8) * ulp(want, t), slack))
        << what << ": " << got << " not " << static_cast<double>(want);
  }
}

TEST(Accuracy, Unary) {
  for (DType t : {TENON_F32, TENON_F64}) {
    std::mt19937_64 rng(3);
    std::vector<Job> jobs;
    for (const Op& op : kOps) {
      std::uniform_real_distribution<double> u(op.low, op.high);
      std::vector<double> x = {0.0, -0.0, INFINITY, -INFINITY, NAN,   1.0,    -1.0, 2.0,
                               0.5, -0.5, 1.5,      2.5,       1e-40, 1e-300, 1e-9, 1e30};
      for (int i = 0; i < 3000; ++i) x.push_back(u(rng));
      for (double& v : x) {
        if (t == TENON_F32) v = static_cast<float>(v);
      }
      jobs.push_back({op.op, {x}});
    }
    for (const Target& target : targets()) {
      const auto got = run(target, static_cast<DType>(t), jobs);
      ASSERT_EQ(got.size(), jobs.size());
      for (size_t j = 0; j < jobs.size(); ++j) {
        const Op& op = kOps[j];
        for (size_t i = 0; i < got[j].size() && !::testing::Test::HasFailure(); ++i) {
          const double x = jobs[j].in[0][i];
          // Poles where libm and scalar.h differ in sign or value are skipped.
          if (op.op == TENON_S_DIGAMMA && ((x <= 0 && std::floor(x) == x) || !std::isfinite(x)))
            continue;
          char what[96];
          std::snprintf(what, sizeof what, "%s %s %s(%.17g)", target.isa.c_str(),
                        t == TENON_F32 ? "f32" : "f64", op.name, x);
          expect_close(got[j][i], op.f(x), static_cast<DType>(t), op.slack, what);
        }
      }
    }
  }
}

TEST(Accuracy, Binary) {
  struct Two {
    uint32_t op;
    const char* name;
    Real (*f)(Real, Real);
  };
  const Two ops[] = {
      {TENON_S_POW, "pow", [](Real a, Real b) { return std::pow(a, b); }},
      {TENON_S_ATAN2, "atan2", [](Real a, Real b) { return std::atan2(a, b); }},
      {TENON_S_REM, "rem", [](Real a, Real b) { return std::fmod(a, b); }},
      {TENON_S_MAX, "max",
       [](Real a, Real b) {
         return std::isnan(a + b) ? a + b : a > b || (a == b && !std::signbit(a)) ? a : b;
       }},
      {TENON_S_MIN, "min",
       [](Real a, Real b) {
         return std::isnan(a + b) ? a + b : a < b || (a == b && std::signbit(a)) ? a : b;
       }},
  };
  std::mt19937_64 rng(5);
  std::vector<double> a, b;
  const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN,  1,     -1,   2,
                        -2,  3,    -3,       0.5,       -0.5, 1e-30, 1e30, 2.5};
  for (double x : odd) {
    for (double y : odd) {
      if (std::isinf(x) && std::isinf(y)) continue;
      a.push_back(x);
      b.push_back(y);
    }
  }
  std::uniform_real_distribution<double> u(-8, 8), v(0, 60);
  for (int i = 0; i < 3000; ++i) {
    a.push_back(i % 2 ? v(rng) : u(rng));
    b.push_back(i % 3 ? u(rng) : std::floor(u(rng)));
  }
  for (DType t : {TENON_F32, TENON_F64}) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (t == TENON_F32) {
        a[i] = static_cast<float>(a[i]);
        b[i] = static_cast<float>(b[i]);
      }
    }
    std::vector<Job> jobs;
    for (const Two& op : ops) jobs.push_back({op.op, {a, b}});
    for (const Target& target : targets()) {
      const auto got = run(target, static_cast<DType>(t), jobs);
      ASSERT_EQ(got.size(), jobs.size());
      for (size_t j = 0; j < jobs.size(); ++j) {
        for (size_t i = 0; i < a.size() && !::testing::Test::HasFailure(); ++i) {
          char what[96];
          std::snprintf(what, sizeof what, "%s %s %s(%.17g, %.17g)", target.isa.c_str(),
                        t == TENON_F32 ? "f32" : "f64", ops[j].name, a[i], b[i]);
          const Real want = ops[j].f(a[i], b[i]);
          expect_close(got[j][i], want, static_cast<DType>(t), 0, what);
          if (want == 0) EXPECT_EQ(std::signbit(got[j][i]), std::signbit(want)) << what;
        }
      }
    }
  }
}

// Remainders are exact, also of the largest by the smallest number, of numbers next to a multiple,
// and of those that are no normal numbers.
template <class T, class Word>
void exact_remainders(DType t) {
  std::mt19937_64 rng(9);
  std::vector<double> a, b;
  const auto add = [&](T x, T y) {
    for (const T s : {T{1}, T{-1}}) {
      a.push_back(s * x);
      b.push_back(y);
    }
  };
  using Limits = std::numeric_limits<T>;
  const T odd[] = {0,
                   1,
                   3,
                   T(0.1),
                   Limits::max(),
                   Limits::min(),
                   Limits::denorm_min(),
                   Limits::min() - Limits::denorm_min(),
                   Limits::infinity(),
                   Limits::quiet_NaN()};
  for (T x : odd) {
    for (T y : odd) add(x, y);
  }
  for (int i = 0; i < 4000; ++i) {
    // Any bits, quotients of any size, and multiples with their neighbours.
    const T x = std::bit_cast<T>(static_cast<Word>(rng())),
            y = std::bit_cast<T>(static_cast<Word>(rng()));
    add(x, y);
    const T few = static_cast<T>(rng() % 1000003) / 77,
            scale = std::ldexp(T{1}, static_cast<int>(rng() % 60));
    add(few * scale, few / (1 + rng() % 8));
    const T multiple = y * static_cast<T>(rng() >> rng() % 63);
    for (T z :
         {std::nextafter(multiple, T{0}), multiple, std::nextafter(multiple, Limits::infinity())})
      add(z, y);
  }
  for (const Target& target : targets()) {
    const auto got = run(target, t, {{TENON_S_REM, {a, b}}});
    ASSERT_EQ(got.size(), 1u);
    for (size_t i = 0; i < a.size() && !::testing::Test::HasFailure(); ++i) {
      const double want = std::fmod(a[i], b[i]);
      char what[96];
      std::snprintf(what, sizeof what, "%s rem(%.17g, %.17g)", target.isa.c_str(), a[i], b[i]);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got[0][i])) << what;
      } else {
        EXPECT_EQ(got[0][i], want) << what;
        EXPECT_EQ(std::signbit(got[0][i]), std::signbit(want)) << what;
      }
    }
  }
}
TEST(Accuracy, RemaindersAreExact) {
  exact_remainders<float, uint32_t>(TENON_F32);
  exact_remainders<double, uint64_t>(TENON_F64);
}

// Powers that are whole numbers are whole: 24.999999999999996 is cut to 24.
TEST(Accuracy, WholePowers) {
  std::vector<double> a, b;
  for (int x = -12; x <= 12; ++x) {
    for (int y = 0; y <= 12; ++y) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  for (const Target& target : targets()) {
    const auto got = run(target, TENON_F64, {{TENON_S_POW, {a, b}}});
    ASSERT_EQ(got.size(), 1u);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(got[0][i], std::pow(a[i], b[i])) << target.isa << " " << a[i] << " ^ " << b[i];
    }
  }
}

// Powers of the number 2, which have an operation of their own.
TEST(Accuracy, PowersOfTwo) {
  std::vector<double> x = {0, -0.0, 1, 127, 128, 129, -126, -149, -150, -151, INFINITY, -INFINITY};
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> u(-152, 130), near(-1, 1);
  for (int i = 0; i < 4000; ++i) x.push_back(static_cast<float>(i % 2 == 0 ? u(rng) : near(rng)));
  for (const Target& target : targets()) {
    Builder b;
    const uint32_t words[] = {TENON_SCALAR_WORD(TENON_S_CONST_I, 0), 2, 0,
                              TENON_SCALAR_WORD(TENON_S_ARG, 0), TENON_SCALAR_WORD(TENON_S_POW, 0)};
    const Tensor in = b.input(TENON_F32, {b.dim(static_cast<int64_t>(x.size()))});
    const DType types[] = {TENON_F32};
    b.output(b.map(words, std::span(&in, 1), {}, types)[0]);
    std::vector<testing::Data> memory;
    for (int i = 0; i < 2; ++i) memory.emplace_back(TENON_F32, x.size());
    for (size_t i = 0; i < x.size(); ++i) memory[0].set(i, x[i]);
    testing::Session s;
    ASSERT_TRUE(s.build(b.take_program(), target, {})) << s.why;
    s.run(&memory, 2);
    for (size_t i = 0; i < x.size(); ++i) {
      const Real want = std::exp2(static_cast<Real>(x[i])), got = memory[1].get(i);
      if (static_cast<float>(want) == got) continue;
      EXPECT_LE(std::fabs(got - want), 4 * ulp(want, TENON_F32)) << target.isa << " " << x[i];
    }
  }
}

// What GPUs without f64 compute themselves.
TEST(Accuracy, WithoutF64) {
  Target target = Target::scalar();
  target.fp64 = false;
  std::mt19937_64 rng(7);
  std::vector<Job> jobs;
  std::vector<Real (*)(Real)> functions;
  for (const Op& op : kOps) {
    if (op.op != TENON_S_SIN && op.op != TENON_S_COS) continue;
    std::vector<double> x = {0.0,    -0.0,        INFINITY,   NAN,
                             1e-40f, 0.785398163, 1.57079637, 16367173 * 0x1p72};
    std::uniform_real_distribution<double> u(op.low, op.high);
    for (int i = 0; i < 3000; ++i) x.push_back(static_cast<float>(u(rng)));
    for (int i = 0; i < 300; ++i) x.push_back(static_cast<float>(i * 1.57079632679489661923));
    for (double& v : x) v = static_cast<float>(v);
    jobs.push_back({op.op, {x}});
    functions.push_back(op.f);
  }
  std::vector<double> a, b;
  std::uniform_real_distribution<double> u(-8, 8);
  for (int i = 0; i < 3000; ++i) {
    a.push_back(i < 36 ? (i / 6 - 3) : static_cast<float>(u(rng)));
    b.push_back(i < 36 ? (i % 6 - 3) : static_cast<float>(u(rng)));
  }
  jobs.push_back({TENON_S_ATAN2, {a, b}});
  const auto got = run(target, TENON_F32, jobs);
  ASSERT_EQ(got.size(), jobs.size());
  for (size_t j = 0; j < jobs.size(); ++j) {
    for (size_t i = 0; i < got[j].size() && !::testing::Test::HasFailure(); ++i) {
      const std::vector<std::vector<double>>& in = jobs[j].in;
      const Real want =
          in.size() == 2 ? std::atan2(Real(in[0][i]), Real(in[1][i])) : functions[j](in[0][i]);
      expect_close(got[j][i], want, TENON_F32, 0,
                   std::to_string(jobs[j].op) + " of " + std::to_string(in[0][i]));
    }
  }
}

}  // namespace
}  // namespace tenon::kernelgen
