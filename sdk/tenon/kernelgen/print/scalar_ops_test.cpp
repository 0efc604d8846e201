// Integers, predicates and conversions, bit by bit as scalar.h defines them, on every instruction
// set of this machine.
#include <gtest/gtest.h>

#include <random>

#include "tenon/kernelgen/print/print.h"
#include "tenon/kernelgen/testing/test_support.h"

namespace tenon::kernelgen {
namespace {

using testing::Data;

std::vector<Target> targets() {
  std::vector<Target> all = {Target::avx512(), Target::avx2(), Target::baseline(),
                             Target::scalar()};
  std::erase_if(all, [](const Target& t) { return !testing::machine_has(t); });
  return all;
}

template <class T>
constexpr DType type_of() {
  if (std::is_same_v<T, int8_t>) return TENON_I8;
  if (std::is_same_v<T, int16_t>) return TENON_I16;
  if (std::is_same_v<T, int32_t>) return TENON_I32;
  if (std::is_same_v<T, int64_t>) return TENON_I64;
  if (std::is_same_v<T, uint8_t>) return TENON_U8;
  if (std::is_same_v<T, uint16_t>) return TENON_U16;
  if (std::is_same_v<T, uint32_t>) return TENON_U32;
  return TENON_U64;
}

// The definition in scalar.h, computed in 128 bits.
template <class T>
T meaning(uint32_t op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  constexpr int kBits = sizeof(T) * 8;
  const bool is_signed = std::is_signed_v<T>;
  const bool wide_shift = static_cast<U>(b) >= static_cast<U>(kBits);
  switch (op) {
    case TENON_S_ADD:
      return static_cast<T>(static_cast<__int128>(a) + b);
    case TENON_S_SUB:
      return static_cast<T>(static_cast<__int128>(a) - b);
    case TENON_S_MUL:
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case TENON_S_DIV:
      return b == 0                                 ? static_cast<T>(-1)
             : is_signed && b == static_cast<T>(-1) ? static_cast<T>(-static_cast<__int128>(a))
                                                    : a / b;
    case TENON_S_REM:
      return b == 0 ? a : is_signed && b == static_cast<T>(-1) ? 0 : a % b;
    case TENON_S_MAX:
      return std::max(a, b);
    case TENON_S_MIN:
      return std::min(a, b);
    case TENON_S_AND:
      return a & b;
    case TENON_S_OR:
      return a | b;
    case TENON_S_XOR:
      return a ^ b;
    case TENON_S_SHL:
      return wide_shift ? 0 : static_cast<T>(static_cast<U>(a) << b);
    case TENON_S_SHR_L:
      return wide_shift ? 0 : static_cast<T>(static_cast<U>(a) >> b);
    case TENON_S_SHR_A:
      if (!is_signed) return wide_shift ? 0 : static_cast<T>(static_cast<U>(a) >> b);
      return static_cast<T>(static_cast<std::make_signed_t<T>>(a) >>
                            (wide_shift ? kBits - 1 : static_cast<int>(b)));
    case TENON_S_NEG:
      return static_cast<T>(-static_cast<__int128>(a));
    case TENON_S_ABS:
      return a < 0 ? static_cast<T>(-static_cast<__int128>(a)) : a;
    case TENON_S_SIGN:
      return static_cast<T>((a > 0) - (a < 0));
    case TENON_S_NOT:
      return static_cast<T>(~a);
    case TENON_S_POPCOUNT:
      return static_cast<T>(std::popcount(static_cast<U>(a)));
    default:
      return static_cast<T>(std::countl_zero(static_cast<U>(a)));
  }
}

constexpr uint32_t kBinary[] = {TENON_S_ADD, TENON_S_SUB,   TENON_S_MUL,  TENON_S_DIV, TENON_S_REM,
                                TENON_S_MAX, TENON_S_MIN,   TENON_S_AND,  TENON_S_OR,  TENON_S_XOR,
                                TENON_S_SHL, TENON_S_SHR_L, TENON_S_SHR_A};
constexpr uint32_t kUnary[] = {TENON_S_NEG, TENON_S_ABS,      TENON_S_SIGN,
                               TENON_S_NOT, TENON_S_POPCOUNT, TENON_S_CLZ};

template <class T>
void integers() {
  SCOPED_TRACE(name_of(type_of<T>()));
  std::vector<T> a, b;
  const T odd[] = {0,
                   1,
                   2,
                   3,
                   7,
                   8,
                   15,
                   16,
                   31,
                   32,
                   63,
                   64,
                   100,
                   static_cast<T>(-1),
                   static_cast<T>(-2),
                   static_cast<T>(-8),
                   std::numeric_limits<T>::min(),
                   std::numeric_limits<T>::max(),
                   static_cast<T>(std::numeric_limits<T>::max() - 1)};
  for (T x : odd) {
    for (T y : odd) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  std::mt19937_64 rng(1);
  for (int i = 0; i < 200; ++i) {
    a.push_back(static_cast<T>(rng()));
    b.push_back(static_cast<T>(rng() >> (rng() % 64)));
  }
  Builder builder;
  const DType t[] = {type_of<T>()};
  const Tensor in[] = {builder.input(t[0], {builder.dim(static_cast<int64_t>(a.size()))}),
                       builder.input(t[0], {builder.dim(static_cast<int64_t>(a.size()))})};
  std::vector<std::pair<uint32_t, uint32_t>> results;  // op, buffer
  for (uint32_t op : kBinary) {
    const uint32_t program[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0),
                                TENON_SCALAR_WORD(TENON_S_ARG, 1), TENON_SCALAR_WORD(op, 0)};
    const Tensor y = builder.map(program, in, {}, t)[0];
    builder.output(y);
    results.push_back({op, y.buffer});
  }
  for (uint32_t op : kUnary) {
    const uint32_t program[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0), TENON_SCALAR_WORD(op, 0)};
    const Tensor y = builder.map(program, std::span(in, 1), {}, t)[0];
    builder.output(y);
    results.push_back({op, y.buffer});
  }
  ASSERT_TRUE(builder.ok()) << builder.why();
  const Kernel program = builder.take_program();
  for (const Target& target : targets()) {
    testing::Session s;
    ASSERT_TRUE(s.build(program, target, {})) << s.why;
    std::vector<Data> memory(program.buffers.size(), Data(t[0], a.size()));
    std::memcpy(memory[0].bytes.data(), a.data(), memory[0].bytes.size());
    std::memcpy(memory[1].bytes.data(), b.data(), memory[1].bytes.size());
    s.run(&memory, 1);
    for (auto& [op, buffer] : results) {
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_EQ(memory[buffer].raw<T>(i), meaning<T>(op, a[i], b[i]))
            << target.isa << " " << name_of_op(static_cast<uint16_t>(op)) << " of " << +a[i] << ", "
            << +b[i];
      }
    }
  }
}

TEST(Scalar, Integers) {
  integers<int8_t>();
  integers<int16_t>();
  integers<int32_t>();
  integers<int64_t>();
  integers<uint8_t>();
  integers<uint16_t>();
  integers<uint32_t>();
  integers<uint64_t>();
}

// Converts `in` to every type of `to`; returns the results.
std::vector<std::vector<Data>> convert_all(const Data& in, std::span<const DType> to) {
  Builder b;
  const Tensor x = b.input(in.type, {b.dim(static_cast<int64_t>(in.size()))});
  for (DType t : to) b.output(b.convert(x, t));
  EXPECT_TRUE(b.ok()) << b.why();
  const Kernel program = b.take_program();
  std::vector<std::vector<Data>> out;
  for (const Target& target : targets()) {
    testing::Session s;
    EXPECT_TRUE(s.build(program, target, {})) << s.why;
    if (!s.library.handle) return {};
    std::vector<Data> memory = {in};
    for (DType t : to) memory.emplace_back(t, in.size());
    s.run(&memory, 1);
    out.push_back({memory.begin() + 1, memory.end()});
  }
  return out;
}

TEST(Scalar, EveryHalfWidens) {
  for (DType half : {TENON_F16, TENON_BF16}) {
    Data in(static_cast<DType>(half), 65536);
    for (uint32_t i = 0; i < 65536; ++i) in.put(i, static_cast<uint16_t>(i));
    const DType to[] = {TENON_F32};
    for (const auto& memory : convert_all(in, to)) {
      for (uint32_t i = 0; i < 65536; ++i) {
        const double want = in.get(i), got = memory[0].get(i);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << i;
        } else {
          ASSERT_EQ(got, want) << i;
          ASSERT_EQ(std::signbit(got), std::signbit(want)) << i;
        }
      }
    }
  }
}

TEST(Scalar, FloatsRoundToHalvesOnceKeepingDenormals) {
  Data in(TENON_F32, 60000);
  std::mt19937 rng(2);
  for (size_t i = 0; i < in.size(); ++i) in.put(i, static_cast<uint32_t>(rng()));
  // Around every f16: exact values, and the ties between them.
  for (uint32_t h = 0; h < 0x7c00; h += 2) {
    const float x = testing::half_to_float(static_cast<uint16_t>(h)),
                y = testing::half_to_float(static_cast<uint16_t>(h + 1));
    in.set(h, (static_cast<double>(x) + y) / 2);
    in.set(h + 1, -x);
  }
  const DType to[] = {TENON_F16, TENON_BF16};
  for (const auto& memory : convert_all(in, to)) {
    for (size_t i = 0; i < in.size(); ++i) {
      for (int k = 0; k < 2; ++k) {
        Data want(to[k], 1);
        want.set(0, in.get(i));
        if (std::isnan(in.get(i))) {
          ASSERT_TRUE(std::isnan(memory[k].get(i)));
        } else {
          ASSERT_EQ(memory[k].raw<uint16_t>(i), want.raw<uint16_t>(0))
              << name_of(to[k]) << " of " << in.get(i);
        }
      }
    }
  }
}

// Data wraps, and so do positions that are used as data. Only index arithmetic may be assumed not
// to wrap.
TEST(Scalar, WideIntegersWrapWhereBoundsAreKnown) {
  constexpr int64_t kFactor = 6364136223846793005;
  Builder b;
  const Tensor at = b.iota(TENON_I64, {b.dim(4)}, 0), x = b.input(TENON_I64, {b.dim(4)});
  const uint32_t low = static_cast<uint32_t>(kFactor), high = static_cast<uint32_t>(kFactor >> 32);
  const uint32_t negative[] = {
      TENON_SCALAR_WORD(TENON_S_ARG, 0),           TENON_SCALAR_WORD(TENON_S_CONST_I, 0), low, high,
      TENON_SCALAR_WORD(TENON_S_MUL, 0),           TENON_SCALAR_WORD(TENON_S_CONST_I, 0), 0,   0,
      TENON_SCALAR_WORD(TENON_S_CMP, TENON_CMP_LT)};
  const uint32_t next[] = {
      TENON_SCALAR_WORD(TENON_S_ARG, 0), TENON_SCALAR_WORD(TENON_S_CONST_I, 0), 0, 0,
      TENON_SCALAR_WORD(TENON_S_MAX, 0), TENON_SCALAR_WORD(TENON_S_CONST_I, 0), 1, 0,
      TENON_SCALAR_WORD(TENON_S_ADD, 0), TENON_SCALAR_WORD(TENON_S_CONST_I, 0), 0, 0,
      TENON_SCALAR_WORD(TENON_S_MAX, 0)};
  const DType pred[] = {TENON_PRED}, wide[] = {TENON_I64};
  b.output(b.map(negative, std::span(&at, 1), {}, pred)[0]);
  const Tensor y = b.map(next, std::span(&x, 1), {}, wide)[0];
  b.output(y);
  ASSERT_TRUE(b.ok()) << b.why();
  const uint32_t last = y.buffer;
  const Kernel program = b.take_program();
  for (const Target& target : targets()) {
    testing::Session s;
    ASSERT_TRUE(s.build(program, target, {})) << s.why;
    std::vector<Data> memory;
    uint32_t wraps = 0;
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
      memory.emplace_back(program.buffers[i].type, 4);
      if (program.buffers[i].role == Role::kOut && program.buffers[i].type == TENON_PRED) wraps = i;
    }
    const int64_t values[] = {INT64_MAX, INT64_MAX - 1, -5, 7};
    for (size_t i = 0; i < 4; ++i) memory[x.buffer].put(i, values[i]);
    s.run(&memory, 1);
    for (size_t i = 0; i < 4; ++i) {
      const int64_t product = static_cast<int64_t>(i * static_cast<uint64_t>(kFactor));
      EXPECT_EQ(memory[wraps].raw<uint8_t>(i), product < 0) << target.isa << " " << i;
    }
    const int64_t want[] = {0, INT64_MAX, 1, 8};
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(memory[last].raw<int64_t>(i), want[i]) << target.isa << " " << i;
  }
}

// The half nearest to an exact number, ties to even.
uint16_t nearest_half(DType half, long double v) {
  const int digits = half == TENON_F16 ? 11 : 8, smallest = half == TENON_F16 ? -13 : -125;
  int e = 0;
  std::frexp(v, &e);
  const int shift = std::max(e, smallest) - digits;
  const long double rounded = std::ldexp(std::nearbyint(std::ldexp(v, -shift)), shift);
  Data out(half, 1);
  out.set(0, static_cast<double>(rounded));
  return out.raw<uint16_t>(0);
}

template <class T>
void rounds_once(DType from, const std::vector<T>& values) {
  SCOPED_TRACE(name_of(from));
  Data in(from, values.size());
  for (size_t i = 0; i < values.size(); ++i) in.put(i, values[i]);
  const DType to[] = {TENON_F16, TENON_BF16};
  size_t isa = 0;
  for (const auto& memory : convert_all(in, to)) {
    SCOPED_TRACE(targets()[isa++].isa);
    for (size_t i = 0; i < values.size(); ++i) {
      for (int k = 0; k < 2; ++k) {
        ASSERT_EQ(memory[k].raw<uint16_t>(i),
                  nearest_half(to[k], static_cast<long double>(values[i])))
            << name_of(to[k]) << " of " << values[i];
      }
    }
  }
}

TEST(Scalar, WideNumbersRoundToHalvesOnce) {
  std::mt19937_64 rng(5);
  std::vector<double> doubles = {0,
                                 -0.0,
                                 1 + 0x1p-11 + 0x1p-40,
                                 -1 - 0x1p-11 - 0x1p-40,
                                 1 + 0x1p-11 - 0x1p-40,
                                 1 + 0x1p-8 + 0x1p-40,
                                 1e300,
                                 -1e300,
                                 1e-300,
                                 0x1p-25 + 0x1p-70,
                                 65520 - 0x1p-30,
                                 65520,
                                 INFINITY,
                                 -INFINITY};
  std::vector<int32_t> narrow = {16842753,  -16842753, 16842751, INT32_MAX,
                                 INT32_MIN, 65519,     65520,    1 << 24};
  std::vector<uint32_t> natural = {16842753, UINT32_MAX, 0x80800001u};
  std::vector<int64_t> wide = {16842753,
                               -16842753,
                               INT64_MAX,
                               INT64_MIN,
                               (int64_t{1} << 62) + (int64_t{1} << 54) + 1,
                               -(int64_t{1} << 62) - (int64_t{1} << 54) - 1};
  std::vector<uint64_t> whole = {UINT64_MAX, (uint64_t{1} << 63) + (uint64_t{1} << 55) + 1,
                                 16842753};
  for (int i = 0; i < 2000; ++i) {
    // A tie of f16 or bf16, and numbers just beside it.
    const int digits = i % 2 ? 11 : 8, exponent = static_cast<int>(rng() % 40) - 20;
    const double tie =
        1 + std::ldexp(static_cast<double>(2 * (rng() % (1u << (digits - 1))) + 1), -digits);
    doubles.push_back(
        std::ldexp(tie + std::ldexp(static_cast<double>(static_cast<int>(rng() % 3)) - 1,
                                    -30 - static_cast<int>(rng() % 20)),
                   exponent));
    const int up = static_cast<int>(rng() % 55);
    wide.push_back((static_cast<int64_t>(256 + rng() % 256) << up) +
                   static_cast<int64_t>(rng() % 3) - 1);
    wide.push_back(-wide.back());
    whole.push_back((uint64_t{257 + 2 * (rng() % 128)} << (up + 1)) + rng() % 3 - 1);
    narrow.push_back((static_cast<int32_t>(257 + 2 * (rng() % 128)) << (up % 22)) +
                     static_cast<int32_t>(rng() % 3) - 1);
    narrow.push_back(-narrow.back());
    natural.push_back((uint32_t{257} + 2 * static_cast<uint32_t>(rng() % 128)) * (1u << (up % 24)) +
                      static_cast<uint32_t>(rng() % 3) - 1);
  }
  rounds_once(TENON_F64, doubles);
  rounds_once(TENON_I32, narrow);
  rounds_once(TENON_U32, natural);
  rounds_once(TENON_I64, wide);
  rounds_once(TENON_U64, whole);
}

template <class T>
T saturated(double x) {
  if (std::isnan(x)) return 0;
  const double low = static_cast<double>(std::numeric_limits<T>::min()),
               high = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (x <= low) return std::numeric_limits<T>::min();
  if (x >= high) return std::numeric_limits<T>::max();
  return static_cast<T>(x);
}

TEST(Scalar, FloatsToIntegersSaturate) {
  for (DType f : {TENON_F32, TENON_F64}) {
    Data in(static_cast<DType>(f), 400);
    std::mt19937_64 rng(4);
    const double odd[] = {0,
                          -0.0,
                          0.9,
                          -0.9,
                          1.5,
                          -1.5,
                          127,
                          128,
                          -128,
                          -129,
                          -129.5,
                          255,
                          256,
                          32767,
                          32768,
                          65535.5,
                          65536,
                          2147483520.0,
                          2147483648.0,
                          -2147483648.0,
                          -2147483904.0,
                          4294967040.0,
                          4294967296.0,
                          9.2e18,
                          9.3e18,
                          -9.3e18,
                          1.8e19,
                          1.9e19,
                          1e30,
                          -1e30,
                          INFINITY,
                          -INFINITY,
                          NAN};
    for (size_t i = 0; i < in.size(); ++i) {
      in.set(i, i < std::size(odd) ? odd[i]
                                   : std::ldexp(static_cast<double>(static_cast<int64_t>(rng())),
                                                -static_cast<int>(rng() % 64)));
    }
    const DType to[] = {TENON_I8,  TENON_I16, TENON_I32, TENON_I64, TENON_U8,
                        TENON_U16, TENON_U32, TENON_U64, TENON_PRED};
    size_t isa = 0;
    for (const auto& m : convert_all(in, to)) {
      SCOPED_TRACE(targets()[isa++].isa);
      for (size_t i = 0; i < in.size(); ++i) {
        const double x = in.get(i);
        ASSERT_EQ(m[0].raw<int8_t>(i), saturated<int8_t>(x)) << x;
        ASSERT_EQ(m[1].raw<int16_t>(i), saturated<int16_t>(x)) << x;
        ASSERT_EQ(m[2].raw<int32_t>(i), saturated<int32_t>(x)) << x;
        ASSERT_EQ(m[3].raw<int64_t>(i), saturated<int64_t>(x)) << x;
        ASSERT_EQ(m[4].raw<uint8_t>(i), saturated<uint8_t>(x)) << x;
        ASSERT_EQ(m[5].raw<uint16_t>(i), saturated<uint16_t>(x)) << x;
        ASSERT_EQ(m[6].raw<uint32_t>(i), saturated<uint32_t>(x)) << x;
        ASSERT_EQ(m[7].raw<uint64_t>(i), saturated<uint64_t>(x)) << x;
        ASSERT_EQ(m[8].raw<uint8_t>(i), x != 0) << x;
      }
    }
  }
}

TEST(Scalar, FloatsToIntegersWrapOnRequest) {
  Data in(TENON_F32, 6);
  const double values[] = {300, -1.5, 4294967296.0 * 3 + 2048, NAN, 65536 + 7, -4294967296.0};
  for (size_t i = 0; i < 6; ++i) in.set(i, values[i]);
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(6)});
  const DType to[] = {TENON_U8, TENON_I32};
  for (const DType& t : to) {
    const uint32_t program[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0),
                                TENON_SCALAR_WORD(TENON_S_CONVERT_WRAP, 0)};
    b.output(b.map(program, std::span(&x, 1), {}, std::span(&t, 1))[0]);
  }
  const Kernel program = b.take_program();
  for (const Target& target : targets()) {
    testing::Session s;
    ASSERT_TRUE(s.build(program, target, {})) << s.why;
    std::vector<Data> memory = {in, Data(TENON_U8, 6), Data(TENON_I32, 6)};
    s.run(&memory, 1);
    const int32_t want[] = {300, -1, 2048, 0, 65543, 0};
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(memory[2].raw<int32_t>(i), want[i]) << target.isa << " " << values[i];
      EXPECT_EQ(memory[1].raw<uint8_t>(i), static_cast<uint8_t>(want[i]))
          << target.isa << " " << values[i];
    }
  }
}

TEST(Scalar, EmptyExtentsDoNothingOrGiveTheIdentity) {
  Builder b;
  const ExprId m = b.extent(), n = b.extent();
  const Tensor x = b.input(TENON_F32, {m, n}), y = b.input(TENON_F32, {n, m});
  const uint32_t last[] = {1}, first[] = {0};
  b.output(b.reduce(x, last, Fold::kSum));
  b.output(b.reduce(x, first, Fold::kMax));
  b.output(b.dot(x, y, {}, {}, last, first));
  b.output(b.reshape(x, {n, m}));
  const Kernel program = b.take_program();
  for (const Target& target : targets()) {
    testing::Session s;
    ASSERT_TRUE(s.build(program, target, {5, 0})) << s.why;
    std::vector<Data> memory = {Data(TENON_F32, 0), Data(TENON_F32, 0),  Data(TENON_F32, 5),
                                Data(TENON_F32, 0), Data(TENON_F32, 25), Data(TENON_F32, 0)};
    for (size_t i = 0; i < 25; ++i) memory[4].set(i, 7);
    for (size_t i = 0; i < 5; ++i) memory[2].set(i, 7);
    s.run(&memory, 1);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(memory[2].get(i), 0);
    for (size_t i = 0; i < 25; ++i) EXPECT_EQ(memory[4].get(i), 0);
    s.ext = {0, 0};
    s.run(&memory, 1);
  }
}

// A program of one op on f32, or from one type to another.
Kernel program_of(uint32_t op, uint32_t operands, DType from, DType to) {
  Builder b;
  std::vector<Tensor> in;
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < operands; ++i) {
    in.push_back(b.input(from, {b.dim(8)}));
    words.push_back(TENON_SCALAR_WORD(TENON_S_ARG, i));
  }
  words.push_back(TENON_SCALAR_WORD(op, 0));
  b.output(b.map(words, in, {}, std::span(&to, 1))[0]);
  EXPECT_TRUE(b.ok()) << b.why();
  return b.take_program();
}

bool prints(const Kernel& program, const Target& target) {
  std::vector<Kernel> kernels = partition(program, target);
  Module module;
  std::string why;
  return generate(kernels, target, &module, &why);
}

// A device without f64 claims exactly what its text can compute.
TEST(Scalar, WithoutF64TheClaimKnowsWhatCannotBePrinted) {
  constexpr uint32_t kFloats[] = {TENON_S_EXP,     TENON_S_EXPM1,   TENON_S_LOG,     TENON_S_LOG1P,
                                  TENON_S_SIN,     TENON_S_COS,     TENON_S_TANH,    TENON_S_ERF,
                                  TENON_S_ERFC,    TENON_S_LGAMMA,  TENON_S_SQRT,    TENON_S_FLOOR,
                                  TENON_S_ERF_INV, TENON_S_DIGAMMA, TENON_S_LOGISTIC};
  constexpr uint32_t kTwo[] = {TENON_S_ADD, TENON_S_DIV, TENON_S_POW, TENON_S_ATAN2, TENON_S_MAX};
  for (const Target& target : {Target::opencl(false, 16), Target::metal()}) {
    uint32_t refused = 0;
    const auto check = [&](const Kernel& program, const std::string& what) {
      const std::string why = needs_f64(program.pool, target);
      EXPECT_EQ(why.empty(), prints(program, target)) << what << ": " << why;
      refused += why.empty() ? 0 : 1;
    };
    for (uint32_t op : kFloats)
      check(program_of(op, 1, TENON_F32, TENON_F32), "op " + std::to_string(op));
    for (uint32_t op : kTwo)
      check(program_of(op, 2, TENON_F32, TENON_F32), "op " + std::to_string(op));
    check(program_of(TENON_S_CONVERT_WRAP, 1, TENON_F16, TENON_I8), "wrap");
    check(program_of(TENON_S_CONVERT_RESULT, 1, TENON_F32, TENON_I8), "convert");
    EXPECT_EQ(refused, 4u);  // lgamma, digamma, pow, wrap
    EXPECT_TRUE(
        needs_f64(program_of(TENON_S_POW, 2, TENON_F32, TENON_F32).pool, Target::opencl(true, 16))
            .empty());
  }
}

}  // namespace
}  // namespace tenon::kernelgen
