// Calls that are like the one before, and calls that only look like it (docs/adr/0059). What
// differs is always seen, and a mistake is the error that it is in a first call.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;
using tenon::Input;
using tenon::Output;

constexpr int64_t kSize = 8;
constexpr std::string_view kSum = R"(tenon.tir 1
graph @g(%a: f32[8], %b: f32[8]) -> (c: f32[8]) {
  %c = add(%a, %b) : f32[8]
  yield %c
}
)";
constexpr std::string_view kAnySize = R"(tenon.tir 1
graph @g<n>(%a: f32[n], %b: f32[n]) -> (c: f32[n], d: f32[n]) {
  %c = add(%a, %b) : f32[n]
  %d = mul(%a, %b) : f32[n]
  yield %c, %d
}
)";
constexpr std::string_view kRows = R"(tenon.tir 1
graph @g(%table: f32[4, 2], %at: i64[3]) -> (y: f32[3, 2]) {
  %y = take(%table, %at) {dim = 0, mode = "in_bounds"} : f32[3, 2]
  yield %y
}
)";

// Floats at a start of one's choice.
struct Floats : std::vector<float> {
  Floats(size_t count, float first, float step = 1) : std::vector<float>(count) {
    for (size_t i = 0; i < count; ++i) (*this)[i] = first + step * static_cast<float>(i);
  }
  ArrayView view(size_t from = 0, int64_t count = kSize) const {
    return {TENON_F32, {count}, data() + from};
  }
};

// Records of a call of two arrays, which a test changes. It stays where it is: they point into it.
struct RawCall {
  RawCall(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c)
      : arrays{array_of(const_cast<float*>(a.data())), array_of(const_cast<float*>(b.data())),
               array_of(c.data())} {
    call.size_bytes = sizeof call;
    call.input_count = 2;
    call.output_count = 1;
    call.inputs = inputs;
    call.outputs = &output;
  }
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;
  static tenon_array_t array_of(float* data) {
    static constexpr int64_t kDims[1] = {kSize};
    return {sizeof(tenon_array_t), TENON_F32, 0, 1, 0, data, kDims, nullptr};
  }
  tenon_array_t arrays[3];
  tenon_input_t inputs[2] = {{sizeof(tenon_input_t), 0, &arrays[0], nullptr},
                             {sizeof(tenon_input_t), 0, &arrays[1], nullptr}};
  tenon_output_t output = {sizeof(tenon_output_t), TENON_OUTPUT_GIVEN, &arrays[2], nullptr};
  tenon_program_call_t call{};
};

class RepeatTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ASSERT_TRUE(session.open().ok()); }
  void compile(std::string_view text, std::vector<uint32_t> stable = {}) {
    tenon::Model model;
    ASSERT_TRUE(session.load_bytes(text, "g.tir", &model).ok()) << tenon::failure_text();
    const tenon::CompileOptions options{.device = GetParam(), .stable_inputs = std::move(stable)};
    ASSERT_TRUE(model.compile(options, &program).ok()) << tenon::failure_text();
  }
  // Twice, so that the last one repeats.
  void settle(std::span<const Input> inputs, std::span<Output> outputs) {
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(program.call(inputs, outputs).ok()) << tenon::failure_text();
  }
  // a + b of every element, and nothing else.
  static void expect_sum(std::span<const float> c, std::span<const float> a,
                         std::span<const float> b) {
    for (size_t i = 0; i < kSize; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
  }
  void expect_failure(std::span<const Input> inputs, std::span<Output> outputs,
                      std::string_view id) {
    EXPECT_FALSE(program.call(inputs, outputs).ok());
    EXPECT_TRUE(tenon::failure_text().starts_with(id)) << tenon::failure_text();
  }
  tenon::Session session;
  tenon::Program program;
};

TEST_P(RepeatTest, AReplacedParameterIsSeen) {
  compile(kSum, {1});
  const Floats a(kSize, 1), first(kSize, 100), second(kSize, -5, 0.5f);
  std::vector<float> c(kSize);
  Output out = Output::into(c, {kSize});
  tenon::Tensor p, q;
  ASSERT_TRUE(tenon::Tensor::borrow(first.view(), &p).ok());
  ASSERT_TRUE(tenon::Tensor::borrow(second.view(), &q).ok());
  for (int i = 0; i < 6; ++i) {
    const bool odd = i % 3 == 1;
    ASSERT_TRUE(program.call(std::vector<Input>{a.view(), odd ? q : p}, {&out, 1}).ok());
    expect_sum(c, a, odd ? second : first);
  }
}

// The handle, the tensor and perhaps the memory are where the released ones were.
TEST_P(RepeatTest, AParameterInThePlaceOfAReleasedOne) {
  compile(kSum, {1});
  const Floats a(kSize, 1);
  std::vector<float> c(kSize);
  Output out = Output::into(c, {kSize});
  for (int i = 0; i < 20; ++i) {
    const Floats values(kSize, static_cast<float>(i));
    tenon::Tensor p;
    ASSERT_TRUE(tenon::Tensor::copy(values.view(), &p, i % 2 == 0 ? "" : GetParam()).ok());
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_TRUE(program.call(std::vector<Input>{a.view(), p}, {&out, 1}).ok());
      expect_sum(c, a, values);
    }
  }
}

// Large enough for a constant that comes late: what a repeated call finds is loaded with it.
TEST_P(RepeatTest, ALateConstantInThePlaceOfAReleasedOne) {
  constexpr int64_t kLarge = 4096;
  compile(R"(tenon.tir 1
graph @g(%a: f32[4096], %b: f32[4096]) -> (c: f32[4096]) {
  %c = add(%a, %b) : f32[4096]
  yield %c
}
)",
          {1});
  const Floats a(kLarge, 1, 0.5f);
  std::vector<float> c(kLarge);
  Output out = Output::into(c, {kLarge});
  for (int i = 0; i < 12; ++i) {
    const Floats values(kLarge, static_cast<float>(i));
    tenon::Tensor p;
    ASSERT_TRUE(tenon::Tensor::copy(values.view(0, kLarge), &p, i % 2 == 0 ? "" : GetParam()).ok());
    const std::vector<Input> inputs = {a.view(0, kLarge), p};
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_TRUE(program.call(inputs, {&out, 1}).ok()) << tenon::failure_text();
      for (size_t k = 0; k < kLarge; ++k) ASSERT_EQ(c[k], a[k] + values[k]) << i << " " << k;
    }
  }
}

TEST_P(RepeatTest, ADonatedTensorIsGone) {
  compile(kSum);
  const Floats a(kSize, 1), b(kSize, 2);
  std::vector<float> c(kSize);
  std::vector<Output> out;
  out.push_back(Output::into(c, {kSize}));
  tenon::Tensor p;
  ASSERT_TRUE(tenon::Tensor::copy(b.view(), &p, GetParam()).ok());
  const std::vector<Input> inputs = {a.view(), p};
  settle(inputs, out);
  std::vector<Output> owned(1);
  ASSERT_TRUE(program.call(std::vector<Input>{a.view(), Input::donate(p)}, owned).ok())
      << tenon::failure_text();
  expect_sum(owned[0].as<float>(), a, b);
  expect_failure(inputs, out, "T0621");
  expect_failure(inputs, owned, "T0621");
  // Another one in its place.
  ASSERT_TRUE(tenon::Tensor::copy(a.view(), &p, GetParam()).ok());
  settle(inputs, out);
  expect_sum(c, a, a);
}

// As in a first call, also where it is the very handle of the call before.
TEST_P(RepeatTest, AReleasedHandleIsReported) {
  compile(kSum);
  const Floats a(kSize, 1), b(kSize, 2);
  std::vector<float> c(kSize);
  RawCall raw(a, b, c);
  const auto& api = *tenon::context().query<tenon_host_call_t>(TENON_HOST_CALL_ID);
  tenon_tensor_t* tensor = nullptr;
  ASSERT_EQ(api.tensor_copy(api.self, &raw.arrays[1], tenon::str(""), &tensor), TENON_OK);
  raw.inputs[1] = {sizeof(tenon_input_t), 0, nullptr, tensor};
  for (int i = 0; i < 3; ++i) ASSERT_EQ(api.call(api.self, program.get(), &raw.call), TENON_OK);
  expect_sum(c, a, b);
  api.tensor_release(api.self, tensor);
  EXPECT_EQ(api.call(api.self, program.get(), &raw.call), TENON_FAILED_PRECONDITION);
  EXPECT_TRUE(tenon::failure_text().starts_with("T0626")) << tenon::failure_text();
}

TEST_P(RepeatTest, MistakesAfterRightCalls) {
  compile(kSum);
  const Floats a(16, 1), b(16, 2);
  std::vector<float> c(kSize);
  std::vector<Output> out;
  out.push_back(Output::into(c, {kSize}));
  const std::vector<Input> right = {a.view(), b.view()};
  const ArrayView whole_numbers(TENON_I32, {kSize}, a.data()), nothing(TENON_F32, {kSize}, nullptr);
  tenon::Tensor large;
  ASSERT_TRUE(tenon::Tensor::borrow(b.view(0, 9), &large).ok());
  const auto mistake = [&](const Input& second, std::string_view id) {
    settle(right, out);
    expect_failure(std::vector<Input>{a.view(), second}, out, id);
  };
  mistake(whole_numbers, "T0603");
  mistake(ArrayView(TENON_F32, {2, 4}, b.data()), "T0604");
  mistake(b.view(0, 9), "T0605");
  mistake(large, "T0605");
  mistake(nothing, "T0613");
  settle(right, out);
  EXPECT_FALSE(program.call({right.data(), 1}, out).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0601")) << tenon::failure_text();
  std::vector<Output> wrong;
  wrong.push_back(Output(TENON_F32, {9}, c.data()));
  settle(right, out);
  expect_failure(right, wrong, "T0620");
  wrong[0] = Output(TENON_F32, {kSize}, nullptr);
  settle(right, out);
  expect_failure(right, wrong, "T0620");
  settle(right, out);
  expect_sum(c, a, b);
}

// Each kind of output after each other one.
TEST_P(RepeatTest, OutputsOfAllKinds) {
  compile(kSum);
  Floats a(kSize, 1), b(kSize, 2);
  const Floats same = a;
  std::vector<float> c(kSize), d(kSize);
  std::vector<Output> kept;
  for (int i = 0; i < 40; ++i) {
    std::vector<Output> out;
    const int kind = i % 8 < 4 ? i % 4 : (i * i + i / 8) % 4;
    if (kind == 0) out.push_back(Output::into(i % 3 == 0 ? c : d, {kSize}));
    if (kind == 1) out.emplace_back();
    if (kind == 2) out.push_back(Output::left());
    if (kind == 3) out.push_back(Output::in_place(a, {kSize}));
    ASSERT_TRUE(program.call(std::vector<Input>{a.view(), b.view()}, out).ok());
    if (kind == 0) expect_sum(i % 3 == 0 ? c : d, same, b);
    if (kind == 3) expect_sum(a, same, b);
    std::copy(same.begin(), same.end(), a.begin());
    if (kind == 1 || kind == 2) kept.push_back(std::move(out[0]));
  }
  // Each has memory of its own.
  for (Output& output : kept) {
    ArrayView c_view;
    ASSERT_TRUE(output.tensor().array(&c_view).ok());
    expect_sum(c_view.as<float>(), same, b);
    for (Output& other : kept) {
      ArrayView other_view;
      ASSERT_TRUE(other.tensor().array(&other_view).ok());
      EXPECT_EQ(c_view.data == other_view.data, &output == &other);
    }
  }
}

// Inputs are read before an output is written in their memory, wherever that moves.
TEST_P(RepeatTest, OutputsThatMoveIntoInputs) {
  compile(kAnySize);
  for (const int64_t from : {0, 1, 2, 4, 6, 8, 12}) {
    Floats memory(32, 1);
    const Floats before = memory, b(kSize, 3);
    std::vector<float> far(kSize), product(kSize);
    const auto run = [&](void* c, void* d) {
      std::vector<Output> out;
      out.emplace_back(TENON_F32, std::vector<int64_t>{kSize}, c);
      out.emplace_back(TENON_F32, std::vector<int64_t>{kSize}, d);
      return program.call(std::vector<Input>{memory.view(4), b.view()}, out);
    };
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(run(far.data(), product.data()).ok());
    ASSERT_TRUE(run(memory.data() + from, product.data()).ok()) << tenon::failure_text();
    for (int64_t i = 0; i < kSize; ++i) {
      EXPECT_EQ(memory[from + i], before[4 + i] + b[i]) << from << " " << i;
      EXPECT_EQ(product[i], before[4 + i] * b[i]) << from << " " << i;
    }
    // Two outputs in one place are refused, as ever.
    EXPECT_FALSE(run(far.data(), far.data()).ok());
    EXPECT_TRUE(tenon::failure_text().starts_with("T0620")) << tenon::failure_text();
  }
}

// An input that moves to where the output was, and back: two buffers that swap.
TEST_P(RepeatTest, BuffersThatSwap) {
  compile(kSum);
  Floats x(kSize, 1), y(kSize, 0);
  const Floats b(kSize, 1, 0);
  for (int i = 0; i < 10; ++i) {
    Floats& from = i % 2 == 0 ? x : y;
    Output out = Output::into(i % 2 == 0 ? y : x, {kSize});
    ASSERT_TRUE(program.call(std::vector<Input>{from.view(), b.view()}, {&out, 1}).ok());
  }
  for (size_t i = 0; i < kSize; ++i) EXPECT_EQ(x[i], static_cast<float>(i) + 11) << i;
}

TEST_P(RepeatTest, SizesAndAlignmentsThatChange) {
  compile(kAnySize);
  const Floats a(64, 1), b(64, 2);
  std::vector<float> c(64), d(64);
  for (const int64_t n : {8, 8, 9, 9, 0, 0, 8, 1, 1, 40, 8, 8}) {
    for (const size_t from : {0, 2, 1}) {  // 1: not at a multiple of 8 bytes
      std::vector<Output> out;
      out.emplace_back(TENON_F32, std::vector<int64_t>{n}, c.data() + from);
      out.emplace_back(TENON_F32, std::vector<int64_t>{n}, d.data());
      tenon_program_call_t information{};
      ASSERT_TRUE(
          program.call(std::vector<Input>{a.view(from, n), b.view(0, n)}, out, &information).ok())
          << tenon::failure_text();
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(c[from + i], a[from + i] + b[i]) << n << " " << from << " " << i;
        ASSERT_EQ(d[i], a[from + i] * b[i]) << n << " " << from << " " << i;
      }
    }
  }
}

// What a call says of itself is of that call.
TEST_P(RepeatTest, WhatWasCopiedIsReportedForEachCall) {
  compile(kSum);
  const Floats a(16, 1), b(kSize, 2);
  std::vector<float> c(kSize);
  const int64_t strides[1] = {8};
  RawCall raw(a, b, c);
  const auto& api = *tenon::context().query<tenon_host_call_t>(TENON_HOST_CALL_ID);
  for (const bool strided : {false, false, true, false, false, true}) {
    raw.arrays[0].strides_bytes = strided ? strides : nullptr;
    raw.call.repacked_bytes = 12345;
    ASSERT_EQ(api.call(api.self, program.get(), &raw.call), TENON_OK) << tenon::failure_text();
    EXPECT_EQ(raw.call.repacked_bytes, strided ? 32u : 0u);
    for (size_t i = 0; i < kSize; ++i) ASSERT_EQ(c[i], a[strided ? 2 * i : i] + b[i]) << i;
  }
}

TEST_P(RepeatTest, ARunThatFailsAndTheNext) {
  compile(kRows);
  const Floats table(8, 1);
  const std::vector<int64_t> good = {3, 0, 1}, bad = {0, 4, 1};
  tenon::Binding binding;
  ASSERT_TRUE(program.bind(&binding).ok());
  ASSERT_TRUE(binding.input("table", {TENON_F32, {4, 2}, table.data()}).ok());
  std::vector<float> y(6);
  for (int turn = 0; turn < 3; ++turn) {
    for (const auto* at : {&good, &good, &bad, &good}) {
      const ArrayView places(TENON_I64, {3}, at->data());
      Output out = Output::into(y, {3, 2});
      const std::vector<Input> inputs = {ArrayView(TENON_F32, {4, 2}, table.data()), places};
      ASSERT_TRUE(binding.input("at", places).ok());
      ArrayView named;
      if (at == &bad) {
        expect_failure(inputs, {&out, 1}, "T0");
        EXPECT_FALSE(binding.run().ok());
        EXPECT_FALSE(binding.output("y", &named).ok());
        EXPECT_TRUE(tenon::failure_text().starts_with("T0614")) << tenon::failure_text();
        continue;
      }
      ASSERT_TRUE(program.call(inputs, {&out, 1}).ok()) << tenon::failure_text();
      ASSERT_TRUE(binding.run().ok()) << tenon::failure_text();
      ASSERT_TRUE(binding.output("y", &named).ok()) << tenon::failure_text();
      for (size_t i = 0; i < 6; ++i) {
        ASSERT_EQ(y[i], table[2 * (*at)[i / 2] + i % 2]) << i;
        ASSERT_EQ(named.as<float>()[i], y[i]) << i;
      }
    }
  }
}

TEST_P(RepeatTest, ACancelledCallAndTheNext) {
  compile(kSum);
  const Floats a(kSize, 1), b(kSize, 2);
  std::vector<float> c(kSize);
  std::vector<Output> out;
  out.push_back(Output::into(c, {kSize}));
  const std::vector<Input> inputs = {a.view(), b.view()};
  settle(inputs, out);
  tenon::Operation stopped;
  ASSERT_TRUE(stopped.open().ok());
  stopped.cancel();
  EXPECT_EQ(stopped.run([&] { return program.call(inputs, out); }).code(), TENON_CANCELLED);
  settle(inputs, out);
  expect_sum(c, a, b);
}

TEST_P(RepeatTest, BindingsThatAreBoundAnew) {
  compile(kAnySize);
  const Floats a(64, 1), b(64, 2), other(64, -7);
  tenon::Binding binding;
  ASSERT_TRUE(program.bind(&binding).ok());
  const auto check = [&](const Floats& first, int64_t n) {
    ASSERT_TRUE(binding.input("a", first.view(0, n)).ok());
    ASSERT_TRUE(binding.input("b", b.view(0, n)).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(binding.run().ok()) << tenon::failure_text();
    ArrayView c, d;
    ASSERT_TRUE(binding.output("c", &c).ok() && binding.output("d", &d).ok());
    ASSERT_EQ(c.dims, std::vector<int64_t>{n});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(c.as<float>()[i], first[i] + b[i]) << i;
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(d.as<float>()[i], first[i] * b[i]) << i;
  };
  for (const int64_t n : {8, 8, 3, 64, 8}) {
    check(a, n);
    check(other, n);
  }
  // Times are measured once they have been asked for.
  tenon_run_info_t info{};
  ASSERT_TRUE(binding.info(&info).ok());
  EXPECT_GT(info.run_ms, 0);
  ASSERT_TRUE(binding.run().ok());
  ASSERT_TRUE(binding.info(&info).ok());
  EXPECT_GT(info.run_ms, 0);
  ASSERT_TRUE(binding.input("a", a.view(0, 5)).ok());
  EXPECT_FALSE(binding.run().ok());  // `b` has 8
  EXPECT_TRUE(tenon::failure_text().starts_with("T0606")) << tenon::failure_text();
  check(a, 5);
}

// Each with records, memory and parameters of its own, some of which change.
TEST_P(RepeatTest, ThreadsWithCallsOfTheirOwn) {
  compile(kSum, {1});
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Floats a(kSize, static_cast<float>(t)), b(kSize, 2), d(kSize, static_cast<float>(-t));
      std::vector<float> c(kSize);
      Output out = Output::into(c, {kSize});
      tenon::Tensor p;
      std::vector<Input> inputs = {a.view(), p};
      tenon::Call call(program, inputs, {&out, 1});
      for (int i = 0; i < 60; ++i) {
        const Floats& values = i / 7 % 2 == 0 ? b : d;
        if (i % 7 == 0 && !tenon::Tensor::borrow(values.view(), &p).ok()) ++wrong;
        if (!call.run().ok()) ++wrong;
        for (size_t k = 0; k < kSize; ++k) wrong += c[k] != a[k] + values[k];
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, RepeatTest,
                         testing::Values("reference", "sim"
#if TENON_WITH_CPU
                                         ,
                                         "cpu"
#endif
                                         ));

}  // namespace
