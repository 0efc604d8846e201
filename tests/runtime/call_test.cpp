// Calls by position (tenon.host.call/1): from many threads, into memory of the caller, with results
// that outlive their program, and with what callers get wrong.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;
using tenon::Input;
using tenon::Output;

// One result twice, an input as a result, a constant as a result.
constexpr std::string_view kModel = R"(tenon.tir 1
graph @g<n in [1, 64]>(%x: f32[n, 3], %z: f32[n, 3]) -> (e: f32[n, 3], y: f32[n, 3], again: f32[n, 3], same: f32[n, 3], k: f32[2]) {
  %k = const f32[2] [1.5, 2.5]
  %y = add(%x, %z) : f32[n, 3]
  %m = mul(%y, %z) : f32[n, 3]
  %e = exp(%m) : f32[n, 3]
  yield %e, %y, %y, %x, %k
}
)";
constexpr size_t kOutputs = 5;

struct Case {
  explicit Case(int64_t rows, float shift = 0) : n(rows) {
    for (int64_t i = 0; i < rows * 3; ++i) {
      x.push_back(0.25f * static_cast<float>(i % 7) - 1 + shift);
      z.push_back(0.5f - 0.125f * static_cast<float>(i % 5));
    }
  }
  std::vector<Input> inputs() const { return {x_view(), z_view()}; }
  ArrayView x_view() const { return ArrayView::of(x, {n, 3}); }
  ArrayView z_view() const { return ArrayView::of(z, {n, 3}); }
  // Empty when all outputs are right.
  std::string fault(std::span<const Output> out) const {
    for (int64_t i = 0; i < n * 3; ++i) {
      const float sum = x[i] + z[i];
      if (std::fabs(out[0].as<float>()[i] - std::exp(sum * z[i])) > 1e-5) return "e";
      if (out[1].as<float>()[i] != sum) return "y";
      if (out[2].as<float>()[i] != sum) return "again";
      if (out[3].as<float>()[i] != x[i]) return "same";
    }
    return out[4].as<float>()[0] == 1.5f && out[4].as<float>()[1] == 2.5f ? "" : "k";
  }

  int64_t n;
  std::vector<float> x, z;
};

class CallTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session.open().ok());
    tenon::Model model;
    ASSERT_TRUE(session.load_bytes(kModel, "g.tir", &model).ok()) << tenon::failure_text();
    ASSERT_TRUE(model.compile({.device = GetParam()}, &program).ok()) << tenon::failure_text();
  }
  tenon::Session session;
  tenon::Program program;
};

TEST_P(CallTest, ResultsAreTheCallersAndOutliveTheProgram) {
  const Case small(2), large(40, 0.125f);
  std::vector<Output> first(kOutputs), second(kOutputs);
  tenon_program_call_t information{};
  ASSERT_TRUE(program.call(small.inputs(), first, &information).ok()) << tenon::failure_text();
  // Only the result that is there twice and the constant lie in memory of others; an input that is
  // a result is copied once as well.
  EXPECT_EQ(information.repacked_bytes, 0u);
  EXPECT_EQ(information.copied_out_bytes, 3u * 2 * 3 * 4 + 8);
  ASSERT_TRUE(program.call(large.inputs(), second).ok()) << tenon::failure_text();
  program = {};
  EXPECT_EQ(small.fault(first), "");
  EXPECT_EQ(large.fault(second), "");
  EXPECT_NE(first[1].array().data, first[2].array().data);
  for (Output& output : first) {  // all of it may be written
    auto* data = static_cast<float*>(const_cast<void*>(output.array().data));
    std::fill_n(data, output.array().element_count(), 7.0f);
  }
  EXPECT_EQ(large.fault(second), "");
}

TEST_P(CallTest, OutputsLandWhereTheCallerSays) {
  const Case c(4);
  std::vector<std::vector<float>> memory(4, std::vector<float>(12, -1));
  std::vector<Output> out;
  for (std::vector<float>& values : memory) out.push_back(Output::into(values, {4, 3}));
  out.emplace_back();  // the constant in memory of its own
  ASSERT_TRUE(program.call(c.inputs(), out).ok()) << tenon::failure_text();
  EXPECT_EQ(c.fault(out), "");
  EXPECT_EQ(out[0].array().data, memory[0].data());
}

// The memory of an input may be that of an output: it is read first.
TEST_P(CallTest, InPlace) {
  Case c(4);
  const Case before = c;
  std::vector<Output> out(kOutputs);
  out[1] = Output::into(c.x, {4, 3});
  ASSERT_TRUE(program.call(c.inputs(), out).ok()) << tenon::failure_text();
  EXPECT_EQ(before.fault(out), "");
}

TEST_P(CallTest, EightThreadsOfDifferentSizes) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Case c(1 + t * 5, 0.0625f * static_cast<float>(t));
      for (int i = 0; i < 50; ++i) {
        std::vector<Output> out(kOutputs);
        if (!program.call(c.inputs(), out).ok() || !c.fault(out).empty()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- Tensors ----

// A decoder's state: a cache that grows in place, one row per step.
constexpr std::string_view kCache = R"(tenon.tir 1
graph @g(%cache: f32[64, 3], %row: f32[1, 3], %at: i64[2]) -> (next: f32[64, 3], sum: f32[3]) {
  %next = dynamic_update_slice(%cache, %row, %at) : f32[64, 3]
  %sum = reduce_sum(%next) {dims = [0]} : f32[3]
  yield %next, %sum
}
)";

// Inputs that share some bytes with an output's memory are read first as well.
TEST_P(CallTest, OutputsThatReachIntoInputs) {
  const Case before(4);
  std::vector<float> memory(24);
  std::ranges::copy(before.x, memory.begin());
  const std::vector<Input> inputs = {ArrayView::of(std::span(memory).first(12), {4, 3}),
                                     before.z_view()};
  std::vector<Output> out(kOutputs);
  out[0] = Output::into(std::span(memory).subspan(6, 12), {4, 3});
  ASSERT_TRUE(program.call(inputs, out).ok()) << tenon::failure_text();
  EXPECT_EQ(before.fault(out), "");
}

class TensorTest : public CallTest {
 protected:
  static std::string places(const tenon::Tensor& tensor) {
    tenon_tensor_info_t info{};
    return tensor.info(&info).ok() ? std::string(tenon::view(info.places)) : "none";
  }
  // The first device of the program: that of its only segment.
  static std::string device() {
    return std::string(GetParam()).substr(0, std::string_view(GetParam()).find(','));
  }
  bool far() const { return device() == "sim"; }
  void compile(std::string_view text) {
    tenon::Model model;
    ASSERT_TRUE(session.load_bytes(text, "t.tir", &model).ok()) << tenon::failure_text();
    ASSERT_TRUE(model.compile({.device = device()}, &program).ok()) << tenon::failure_text();
  }
};

TEST_P(TensorTest, WhatIsLeftIsReadWhenItIsAskedFor) {
  compile(kModel);
  const Case c(4);
  std::vector<Output> out;
  for (size_t i = 0; i < kOutputs; ++i) out.push_back(Output::left());
  tenon_program_call_t information{};
  ASSERT_TRUE(program.call(c.inputs(), out, &information).ok()) << tenon::failure_text();
  EXPECT_EQ(information.transferred_bytes, far() ? 2 * 48u : 0u);
  EXPECT_EQ(places(out[0].tensor()), device());
  EXPECT_EQ(out[0].array().data == nullptr, far());
  EXPECT_EQ(out[0].array().dims, (std::vector<int64_t>{4, 3}));
  ArrayView sum;
  ASSERT_TRUE(out[1].tensor().array(&sum).ok()) << tenon::failure_text();
  EXPECT_EQ(sum.as<float>()[5], c.x[5] + c.z[5]);
  EXPECT_EQ(places(out[1].tensor()), far() ? device() + ",host" : device());
  program = {};
  ASSERT_TRUE(out[4].tensor().array(&sum).ok());
  EXPECT_EQ(sum.as<float>()[1], 2.5f);
}

TEST_P(TensorTest, AStateOnTheDeviceMovesNoBytes) {
  compile(kCache);
  std::vector<float> zeros(64 * 3, 0.0f), row(3);
  int64_t at[2] = {0, 0};
  tenon::Tensor state;
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(zeros, {64, 3}), &state, device()).ok());
  EXPECT_EQ(places(state), device());
  float expected = 0;
  const void* before = nullptr;
  for (int step = 0; step < 20; ++step) {
    std::ranges::fill(row, static_cast<float>(step) + 1);
    expected += row[0];
    at[0] = step;
    std::vector<Output> out(2);
    out[0] = Output::left();
    const std::vector<Input> inputs = {Input::donate(state), ArrayView::of(row, {1, 3}),
                                       ArrayView{TENON_I64, {2}, at}};
    tenon_program_call_t information{};
    ASSERT_TRUE(program.call(inputs, out, &information).ok()) << tenon::failure_text();
    EXPECT_EQ(out[1].as<float>()[2], expected);
    EXPECT_EQ(information.transferred_bytes, far() ? 12u + 16 + 12 : 0u);
    EXPECT_EQ(information.copied_out_bytes, 0u);
    ArrayView gone;
    EXPECT_FALSE(state.array(&gone).ok());
    EXPECT_NE(tenon::failure_text().find("T0621"), std::string::npos) << tenon::failure_text();
    // The cpu writes the row where the cache is.
    if (device() == "cpu" && step > 0) EXPECT_EQ(out[0].array().data, before);
    before = out[0].array().data;
    state = std::move(out[0].tensor());
  }
  ArrayView all;
  ASSERT_TRUE(state.array(&all).ok());
  EXPECT_EQ(all.as<float>()[19 * 3], 20.0f);
  EXPECT_EQ(all.as<float>()[20 * 3], 0.0f);
}

// A device that works in host memory writes where the caller wants it. What is two outputs is
// written once and copied once.
TEST_P(TensorTest, GivenMemoryIsWrittenWithoutACopy) {
  compile(kModel);
  const Case c(4);
  std::vector<std::vector<double>> memory(3, std::vector<double>(6));  // aligned to 8 bytes
  std::vector<Output> out;
  for (std::vector<double>& m : memory)
    out.push_back(Output::into(std::span(reinterpret_cast<float*>(m.data()), 12), {4, 3}));
  out.emplace_back();
  out.emplace_back();
  tenon_program_call_t information{};
  ASSERT_TRUE(program.call(c.inputs(), out, &information).ok()) << tenon::failure_text();
  EXPECT_EQ(c.fault(out), "");
  const uint64_t passed = 48 + 8;  // an input and a constant as outputs
  EXPECT_EQ(information.copied_out_bytes, passed + (far() ? 3 : 1) * 48u);
}

// What another library has on the device goes into a call, and a result into that library.
TEST_P(TensorTest, MemoryOfAnotherLibrary) {
  compile(kModel);
  const Case c(4);
  tenon::Tensor both, x;
  tenon_native_memory_t memory;
  std::vector<float> values(64 + 12);
  std::ranges::copy(c.x, values.begin() + 64);
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(values, {76}), &both, device()).ok());
  if (!far()) {
    EXPECT_FALSE(both.native(device(), "host.pointer", &memory).ok());
    EXPECT_NE(tenon::failure_text().find("T0633"), std::string::npos) << tenon::failure_text();
    return;
  }
  ASSERT_TRUE(both.native(device(), "sim.handle", &memory).ok()) << tenon::failure_text();
  EXPECT_EQ(memory.length_bytes, values.size() * sizeof(float));
  memory.offset_bytes = 64 * sizeof(float);
  memory.length_bytes = 12 * sizeof(float);
  const int64_t dims[] = {4, 3};
  ASSERT_TRUE(tenon::Tensor::adopt(TENON_F32, dims, device(), memory, &x).ok())
      << tenon::failure_text();
  std::vector<Output> out(kOutputs);
  out[1] = Output::left();
  tenon_program_call_t information{};
  ASSERT_TRUE(program.call(std::vector<Input>{Input(x), c.z_view()}, out, &information).ok())
      << tenon::failure_text();
  ASSERT_TRUE(out[1].tensor().native(device(), "sim.handle", &memory).ok());
  tenon::Tensor sum;
  ASSERT_TRUE(tenon::Tensor::adopt(TENON_F32, dims, device(), memory, &sum).ok());
  ArrayView array;
  ASSERT_TRUE(sum.array(&array).ok()) << tenon::failure_text();
  EXPECT_EQ(array.as<float>()[7], c.x[7] + c.z[7]);
  // Memory of others is read and never written.
  ASSERT_TRUE(program.call(std::vector<Input>{Input::donate(x), c.z_view()}, out).ok());
  ASSERT_TRUE(both.array(&array).ok());
  EXPECT_EQ(array.as<float>()[64 + 5], c.x[5]);
}

TEST_P(TensorTest, HandlesThatAreNone) {
  tenon::Tensor tensor, other;
  const std::vector<float> values(16);
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(values, {16}), &tensor, "sim").ok());
  tenon_native_memory_t memory;
  const auto fails = [](tenon::Status status, std::string_view why) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(tenon::failure_text().find(why), std::string::npos) << tenon::failure_text();
  };
  fails(tensor.native("sim", "cuda.pointer", &memory), "T0633");
  fails(tensor.native("sim", "cuda.pointer", &memory),
        "\"cuda.pointer\"; the device takes memory of the kind sim.handle");
  fails(tensor.native("nowhere", "sim.handle", &memory), "T0502");
  ASSERT_TRUE(tensor.native("sim", "sim.handle", &memory).ok());
  const int64_t dims[] = {16};
  const int64_t more[] = {17};
  fails(tenon::Tensor::adopt(TENON_F32, more, "sim", memory, &other), "T0613");
  fails(tenon::Tensor::adopt(TENON_F32, dims, "sim:1", memory, &other), "of device 0");
  tenon_native_memory_t wrong = memory;
  wrong.offset_bytes = 32;
  fails(tenon::Tensor::adopt(TENON_F32, dims, "sim", wrong, &other), "outside a buffer");
  wrong = memory;
  wrong.handle += 1000000;
  fails(tenon::Tensor::adopt(TENON_F32, dims, "sim", wrong, &other), "never allocated");
  EXPECT_EQ(tenon::failure_text().find("the device takes"), std::string::npos)
      << tenon::failure_text();
  wrong = memory;
  wrong.kind = tenon::str("cuda.pointer");
  fails(tenon::Tensor::adopt(TENON_F32, dims, "sim", wrong, &other), "T0633");
  fails(tenon::Tensor::adopt(TENON_F32, dims, "sim", wrong, &other),
        "the device takes memory of the kind sim.handle");
}

// Parameters: they go to a device once.
TEST_P(TensorTest, AnInputRemembersWhereItIs) {
  compile(kModel);
  const Case c(4);
  int released = 0;
  const tenon_host_call_t& calls = *tenon::context().query<tenon_host_call_t>(TENON_HOST_CALL_ID);
  const int64_t dims[2] = {4, 3};
  tenon_array_t array{};
  array.size_bytes = sizeof array;
  array.dtype = TENON_F32;
  array.rank = 2;
  array.dims = dims;
  array.data = const_cast<float*>(c.x.data());
  tenon::Tensor x;
  ASSERT_EQ(calls.tensor_wrap(
                calls.self, &array, &released, [](void* n) { ++*static_cast<int*>(n); }, x.out()),
            TENON_OK);
  EXPECT_EQ(places(x), "host");
  for (int call = 0; call < 3; ++call) {
    std::vector<Output> out(kOutputs);
    tenon_program_call_t information{};
    const std::vector<Input> inputs = {x, c.z_view()};
    ASSERT_TRUE(program.call(inputs, out, &information).ok()) << tenon::failure_text();
    EXPECT_EQ(c.fault(out), "");
    const uint64_t results = 2 * 48;  // e and y; `same` is x, on the host
    if (far()) EXPECT_EQ(information.transferred_bytes, results + 48 + (call == 0 ? 48 : 0));
  }
  std::vector<Output> out(kOutputs);
  // Donating is a permission. The caller's memory is not written, and returned early.
  const std::vector<float> before = c.x;
  EXPECT_EQ(released, 0);
  const std::vector<Input> inputs = {Input::donate(x), c.z_view()};
  ASSERT_TRUE(program.call(inputs, out).ok()) << tenon::failure_text();
  EXPECT_EQ(c.fault(out), "");
  EXPECT_EQ(c.x, before);
  EXPECT_EQ(released, 1);
  EXPECT_FALSE(program.call(inputs, out).ok());
  EXPECT_NE(tenon::failure_text().find("T0621"), std::string::npos) << tenon::failure_text();
  x = {};
  EXPECT_EQ(released, 1);
}

// What is left on a device is read by a program of another one, again and again.
TEST_P(TensorTest, ATensorGoesWhereItIsNeeded) {
  compile(kModel);
  const Case c(4);
  std::vector<Output> made(kOutputs);
  for (Output& output : made) output = Output::left();
  ASSERT_TRUE(program.call(c.inputs(), made).ok()) << tenon::failure_text();
  for (const char* devices : {"reference", "sim", "sim,reference", "reference,sim"}) {
    tenon::Model model;
    tenon::Program other;
    ASSERT_TRUE(session.load_bytes(kModel, "t.tir", &model).ok());
    ASSERT_TRUE(model.compile({.device = devices}, &other).ok()) << tenon::failure_text();
    Case second(4);
    second.x.assign(made[1].tensor().get() == nullptr ? 0 : 12, 0.0f);
    for (int i = 0; i < 12; ++i) second.x[i] = c.x[i] + c.z[i];
    for (int call = 0; call < 4; ++call) {
      std::vector<Output> out(kOutputs);
      const std::vector<Input> inputs = {made[1].tensor(), c.z_view()};
      ASSERT_TRUE(other.call(inputs, out).ok()) << devices << tenon::failure_text();
      EXPECT_EQ(second.fault(out), "") << devices << " " << call;
      for (Output& output : out) {  // the caller's to write
        auto* data = static_cast<float*>(const_cast<void*>(output.array().data));
        std::fill_n(data, output.array().element_count(), 7.0f);
      }
    }
  }
}

// An output of one run is a donated input of the next run of the same records.
TEST_P(TensorTest, ACallIsRunAgainWithItsOwnOutputs) {
  compile(kCache);
  const std::vector<float> zeros(64 * 3, 0.0f), row = {1, 2, 3};
  int64_t at[2] = {0, 0};
  std::vector<Output> out(2);
  out[0] = Output::left();
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(zeros, {64, 3}), &out[0].tensor(), device()).ok());
  const std::vector<Input> inputs = {Input::donate(out[0].tensor()), ArrayView::of(row, {1, 3}),
                                     ArrayView{TENON_I64, {2}, at}};
  tenon::Call call(program, inputs, out);
  for (at[0] = 0; at[0] < 10; ++at[0]) {
    ASSERT_TRUE(call.run().ok()) << tenon::failure_text();
    EXPECT_EQ(out[1].as<float>()[2], 3.0f * static_cast<float>(at[0] + 1));
  }
}

// An output whose first elements come from an input, stored over what another kernel wrote before.
TEST_P(TensorTest, AnInputThatIsReadLateIsNotOverwritten) {
  compile(R"(tenon.tir 1
graph @g(%a: f32[64, 64], %b: f32[64, 64], %u: f32[64, 64]) -> (y: f32[64, 64]) {
  %m = matmul(%a, %b) : f32[64, 64]
  %i = iota() {shape = [64, 64], dim = 0, dtype = i64} : i64[64, 64]
  %e = const i64[64, 64] splat 8
  %p = compare(%i, %e) {direction = 2} : pred[64, 64]
  %s = add(%u, %u) : f32[64, 64]
  %y = select(%p, %s, %m) : f32[64, 64]
  yield %y
}
)");
  const std::vector<float> ones(64 * 64, 1.0f), threes(64 * 64, 3.0f);
  tenon::Tensor u;
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(threes, {64, 64}), &u, device()).ok());
  std::vector<Output> out(1);
  const ArrayView one = ArrayView::of(ones, {64, 64});
  const std::vector<Input> inputs = {one, one, Input::donate(u)};
  ASSERT_TRUE(program.call(inputs, out).ok()) << tenon::failure_text();
  EXPECT_EQ(out[0].as<float>()[0], 6.0f);
  EXPECT_EQ(out[0].as<float>()[64 * 63], 64.0f);
}

// A run that fails before it writes leaves donated tensors as they are.
TEST_P(TensorTest, AFailedCallKeepsWhatItDidNotUse) {
  compile(kCache);
  const std::vector<float> zeros(64 * 3, 0.5f), row = {1, 2, 3};
  const int64_t at[2] = {0, 0};
  tenon::Tensor state;
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(zeros, {64, 3}), &state, device()).ok());
  const std::vector<Input> inputs = {Input::donate(state), ArrayView::of(row, {1, 3}),
                                     ArrayView{TENON_I64, {2}, at}};
  std::vector<Output> out(2);
  tenon::Operation stopped;
  ASSERT_TRUE(stopped.open().ok());
  stopped.cancel();
  EXPECT_EQ(stopped.run([&] { return program.call(inputs, out); }).code(), TENON_CANCELLED);
  ArrayView still;
  ASSERT_TRUE(state.array(&still).ok()) << tenon::failure_text();
  EXPECT_EQ(still.as<float>()[7], 0.5f);
  float wrong[9];
  out[1] = Output(TENON_F32, {9}, wrong);
  EXPECT_FALSE(program.call(inputs, out).ok());
  EXPECT_NE(tenon::failure_text().find("T0620: output `sum` is f32[3], and the memory is for"),
            std::string::npos)
      << tenon::failure_text();
  EXPECT_TRUE(state.array(&still).ok());
}

// A tensor that passes through is the same one again.
TEST_P(TensorTest, PassingThroughMovesNothing) {
  compile(kModel);
  const Case c(4);
  tenon::Tensor x;
  ASSERT_TRUE(tenon::Tensor::copy(c.x_view(), &x).ok());
  ArrayView before;
  ASSERT_TRUE(x.array(&before).ok());
  std::vector<Output> out(kOutputs);
  out[3] = Output::left();
  const std::vector<Input> inputs = {x, c.z_view()};
  ASSERT_TRUE(program.call(inputs, out).ok()) << tenon::failure_text();
  EXPECT_EQ(out[3].array().data, before.data);
  x = {};
  EXPECT_EQ(c.fault(out), "");
  // Two handles of one tensor: donating it takes nothing from the other.
  std::vector<Output> again(kOutputs);
  again[3] = Output::left();
  const std::vector<Input> same = {out[3].tensor(), c.z_view()};
  ASSERT_TRUE(program.call(same, again).ok());
  std::vector<Output> last(kOutputs);
  const std::vector<Input> donated = {Input::donate(again[3].tensor()), c.z_view()};
  ASSERT_TRUE(program.call(donated, last).ok()) << tenon::failure_text();
  EXPECT_EQ(c.fault(last), "");
  EXPECT_EQ(c.fault(out), "");
}

TEST_P(TensorTest, WhatCallersGetWrong) {
  compile(kModel);
  const Case c(4);
  tenon::Tensor x;
  ASSERT_TRUE(tenon::Tensor::copy(c.x_view(), &x).ok());
  std::vector<Output> out(kOutputs);
  const std::vector<Input> twice = {Input::donate(x), x};
  EXPECT_FALSE(program.call(twice, out).ok());
  EXPECT_NE(tenon::failure_text().find("T0621: input `x` donates a tensor that is input `z`"),
            std::string::npos)
      << tenon::failure_text();
  std::vector<float> values(24);
  tenon::Tensor wide;
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(values, {4, 6}), &wide).ok());
  const std::vector<Input> other = {Input::donate(wide), c.z_view()};
  EXPECT_FALSE(program.call(other, out).ok());
  EXPECT_NE(tenon::failure_text().find("T0605"), std::string::npos) << tenon::failure_text();
  ArrayView still;
  EXPECT_TRUE(wide.array(&still).ok());  // arguments that do not fit are not given up
  tenon::Tensor none;
  EXPECT_FALSE(tenon::Tensor::copy({TENON_F32, {-1}, values.data()}, &none).ok());
  EXPECT_FALSE(tenon::Tensor::copy({TENON_F32, {4}, nullptr}, &none).ok());
  EXPECT_FALSE(tenon::Tensor::copy({TENON_DTYPE_NONE, {4}, values.data()}, &none).ok());
  EXPECT_FALSE(tenon::Tensor::copy({TENON_F32, {int64_t{1} << 40, 1 << 30}, &none}, &none).ok());
  EXPECT_FALSE(tenon::Tensor::copy({TENON_F32, std::vector<int64_t>(40, 1), &none}, &none).ok());
  const int64_t dims[2] = {4, 3}, strides[2] = {INT64_MAX, 4};
  auto far = tenon::sized<tenon_array_t>();
  far.dtype = TENON_F32;
  far.rank = 2;
  far.data = values.data();
  far.dims = dims;
  far.strides_bytes = strides;
  const auto& calls = *tenon::context().query<tenon_host_call_t>(TENON_HOST_CALL_ID);
  EXPECT_EQ(calls.tensor_copy(calls.self, &far, tenon::str(""), none.out()),
            TENON_INVALID_ARGUMENT);
  EXPECT_NE(tenon::failure_text().find("T0613"), std::string::npos) << tenon::failure_text();
  EXPECT_FALSE(tenon::Tensor::copy(c.x_view(), &none, "no_such_device").ok());
  EXPECT_NE(tenon::failure_text().find("T0502"), std::string::npos) << tenon::failure_text();
  EXPECT_EQ(none.get(), nullptr);
}

// Eight threads with one set of parameters.
TEST_P(TensorTest, ThreadsShareATensor) {
  compile(kModel);
  const Case c(16);
  tenon::Tensor x;
  ASSERT_TRUE(tenon::Tensor::borrow(c.x_view(), &x).ok());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        std::vector<Output> out(kOutputs);
        if (i % 2 == 0) out[0] = Output::left();
        const std::vector<Input> inputs = {x, c.z_view()};
        if (!program.call(inputs, out).ok()) ++wrong;
        ArrayView e;
        if (!out[0].tensor().array(&e).ok())
          ++wrong;
        else if (std::fabs(e.as<float>()[5] - std::exp((c.x[5] + c.z[5]) * c.z[5])) > 1e-5)
          ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- Sizes ----

TEST_P(TensorTest, ASizeThatNoInputDecidesIsGiven) {
  compile(R"(tenon.tir 1
graph @g<n in [2, 64], m, unused>(%x: f32[1], %z: f32[m]) -> (y: f32[n], w: f32[m]) {
  %y = broadcast(%x) {shape = [n], dims = [0]} : f32[n]
  yield %y, %z
}
)");
  const std::vector<float> x = {3}, z = {1, 2};
  const std::vector<Input> inputs = {ArrayView::of(x, {1}), ArrayView::of(z, {2})};
  std::vector<Output> out(2);
  EXPECT_EQ(program.call(inputs, out).code(), TENON_INVALID_ARGUMENT);
  EXPECT_NE(tenon::failure_text().find("T0623: the size `n` follows from no input"),
            std::string::npos)
      << tenon::failure_text();
  tenon::Call call(program, inputs, out);
  for (const int64_t n : {5, 7, 5}) {
    call.size("n", n);
    ASSERT_TRUE(call.run().ok()) << tenon::failure_text();
    EXPECT_EQ(out[0].array().dims, std::vector<int64_t>{n});
    EXPECT_EQ(out[0].as<float>()[n - 1], 3.0f);
  }
  call.size("n", 65);
  EXPECT_FALSE(call.run().ok());
  EXPECT_NE(tenon::failure_text().find("T0608"), std::string::npos) << tenon::failure_text();
  call.size("n", 4);
  call.size("m", 3);  // z says 2
  EXPECT_FALSE(call.run().ok());
  EXPECT_NE(tenon::failure_text().find("T0606"), std::string::npos) << tenon::failure_text();
  call.size("m", 2);
  EXPECT_TRUE(call.run().ok()) << tenon::failure_text();
  call.size("k", 2);
  EXPECT_FALSE(call.run().ok());
  EXPECT_NE(tenon::failure_text().find("T0602: there is no size `k`"), std::string::npos)
      << tenon::failure_text();
}

// ---- Operations ----

TEST_P(CallTest, CallsInTheBackground) {
  const Case c(4);
  std::atomic<int> ended{0};
  tenon::Operation operation;
  operation.done = [&](tenon::Status status) { ended += status.ok() ? 1 : 100; };
  ASSERT_TRUE(operation.open().ok());
  const std::vector<Input> inputs = c.inputs();
  for (int i = 0; i < 3; ++i) {
    std::vector<Output> out(kOutputs);
    tenon::Call call(program, inputs, out);
    ASSERT_TRUE(call.start(operation).ok()) << tenon::failure_text();
    EXPECT_EQ(call.start(operation).code(), TENON_FAILED_PRECONDITION);
    EXPECT_NE(tenon::failure_text().find("T0622"), std::string::npos) << tenon::failure_text();
    ASSERT_TRUE(call.finish(operation).ok()) << tenon::failure_text();
    EXPECT_EQ(c.fault(out), "");
  }
  EXPECT_EQ(operation.wait().code(), TENON_FAILED_PRECONDITION);
  const std::vector<Input> wrong = {c.x_view()};
  std::vector<Output> out(kOutputs);
  tenon::Call call(program, wrong, out);
  ASSERT_TRUE(call.start(operation).ok());
  EXPECT_EQ(call.finish(operation).code(), TENON_INVALID_ARGUMENT);
  EXPECT_NE(tenon::failure_text().find("T0601: the model has 2 inputs"), std::string::npos)
      << tenon::failure_text();
  EXPECT_LE(ended % 100, 3);  // the last `done` may still be on its way
}

TEST_P(CallTest, OneOperationIsCancelledAndOthersGoOn) {
  const Case c(4);
  tenon::Operation stopped, other;
  ASSERT_TRUE(stopped.open().ok() && other.open().ok());
  stopped.cancel();
  std::vector<Output> out(kOutputs);
  const std::vector<Input> inputs = c.inputs();
  EXPECT_EQ(stopped.run([&] { return program.call(inputs, out); }).code(), TENON_CANCELLED);
  EXPECT_TRUE(other.run([&] { return program.call(inputs, out); }).ok()) << tenon::failure_text();
  // The inner one counts, and the outer one again afterwards.
  EXPECT_EQ(other
                .run([&] {
                  EXPECT_EQ(stopped.run([&] { return program.call(inputs, out); }).code(),
                            TENON_CANCELLED);
                  return program.call(inputs, out);
                })
                .code(),
            TENON_OK);
  tenon::Call call(program, inputs, out);
  ASSERT_TRUE(call.start(stopped).ok());
  EXPECT_EQ(call.finish(stopped).code(), TENON_CANCELLED);
  EXPECT_TRUE(program.call(inputs, out).ok());
  const auto& api = *tenon::context().query<tenon_host_operation_t>(TENON_HOST_OPERATION_ID);
  EXPECT_EQ(api.leave(api.self, other.get()), TENON_FAILED_PRECONDITION);
  EXPECT_NE(tenon::failure_text().find("T0622"), std::string::npos) << tenon::failure_text();
}

// An operation of the parent can be released in a forked child, and used for nothing else.
TEST_P(CallTest, AForkedChildReleasesAnOperation) {
  const Case c(2);
  auto operation = std::make_unique<tenon::Operation>();
  ASSERT_TRUE(operation->open().ok());
  const std::vector<Input> inputs = c.inputs();
  std::vector<Output> out(kOutputs);
  {
    tenon::Call call(program, inputs, out);
    ASSERT_TRUE(call.start(*operation).ok());
    ASSERT_TRUE(call.finish(*operation).ok()) << tenon::failure_text();
  }
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    const bool refused = operation->wait().code() == TENON_FAILED_PRECONDITION;
    operation.reset();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(CallTest, ThePollOfAnOperationStopsIt) {
  tenon::Operation operation;
  int asked = 0;
  std::vector<std::string> phases;
  operation.poll = [&] { return ++asked >= 2; };
  operation.progress = [&](std::string_view phase, uint64_t, uint64_t) {
    phases.emplace_back(phase);
  };
  ASSERT_TRUE(operation.open().ok());
  const Case c(4);
  tenon::Model model;
  tenon::Program again;
  ASSERT_TRUE(session.load_bytes(kModel, "g.tir", &model).ok());
  tenon::Status status;
  for (int i = 0; i < 100000 && status.ok(); ++i) {
    status = operation.run([&]() -> tenon::Status {
      if (i == 0) TENON_TRY(model.compile({.device = GetParam()}, &again));
      std::vector<Output> out(kOutputs);
      return program.call(c.inputs(), out);
    });
  }
  EXPECT_EQ(status.code(), TENON_CANCELLED);
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(std::ranges::count(phases, "compile") > 0 || asked == 2);
}

class RawCallTest : public CallTest {
 protected:
  void SetUp() override {
    CallTest::SetUp();
    calls = tenon::context().query<tenon_host_call_t>(TENON_HOST_CALL_ID);
    ASSERT_NE(calls, nullptr);
    for (size_t i = 0; i < 2; ++i) {
      inputs[i] = array(i == 0 ? c.x.data() : c.z.data(), dims);
      ins[i] = {sizeof(tenon_input_t), 0, &inputs[i], nullptr};
    }
    for (size_t i = 0; i < kOutputs; ++i) {
      given[i] = array(memory[i], i == 4 ? two : dims);
      if (i == 4) given[i].rank = 1;
      outputs[i] = {sizeof(tenon_output_t), TENON_OUTPUT_GIVEN, &given[i], nullptr};
      std::fill_n(memory[i], 12, -1.0f);
    }
    record.size_bytes = sizeof record;
    record.input_count = 2;
    record.output_count = kOutputs;
    record.inputs = ins;
    record.outputs = outputs;
  }
  static tenon_array_t array(float* data, const int64_t* dims) {
    tenon_array_t a{};
    a.size_bytes = sizeof a;
    a.dtype = TENON_F32;
    a.rank = 2;
    a.data = data;
    a.dims = dims;
    return a;
  }
  tenon_code_t call() { return calls->call(calls->self, program.get(), &record); }
  // The call fails with a text that has `says`, and gives nothing.
  void expect_refused(std::string_view says) {
    EXPECT_EQ(call(), TENON_INVALID_ARGUMENT);
    EXPECT_NE(tenon::failure_text().find(says), std::string::npos) << tenon::failure_text();
    for (const tenon_output_t& output : outputs) EXPECT_EQ(output.tensor, nullptr);
  }

  const tenon_host_call_t* calls = nullptr;
  Case c{4};
  int64_t dims[2] = {4, 3}, two[1] = {2}, other[2] = {3, 4};
  float memory[kOutputs][12];
  tenon_array_t inputs[2], given[kOutputs];
  tenon_input_t ins[2];
  tenon_output_t outputs[kOutputs];
  tenon_program_call_t record{};
};

TEST_P(RawCallTest, StridedInputsAndOutputs) {
  // Columns of both are stored backwards.
  float reversed[12];
  for (int i = 0; i < 12; ++i) reversed[i] = c.x[i / 3 * 3 + 2 - i % 3];
  const int64_t backwards[2] = {12, -4};
  inputs[0].data = reversed + 2;
  inputs[0].strides_bytes = given[3].strides_bytes = backwards;
  given[3].data = memory[3] + 2;
  ASSERT_EQ(call(), TENON_OK) << tenon::failure_text();
  EXPECT_EQ(record.repacked_bytes, 48u);
  const bool far = std::string_view(GetParam()) != "cpu" &&  // it has a memory of its own
                   std::string_view(GetParam()) != "reference";
  EXPECT_EQ(record.copied_out_bytes, (far ? 4 : 2) * 48u + 8);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(memory[3][i], reversed[i]);
    EXPECT_EQ(memory[1][i], c.x[i] + c.z[i]);
  }
}

TEST_P(RawCallTest, RecordsOfAnotherSize) {
  // A caller that was built with a longer record of inputs.
  struct Longer {
    tenon_input_t input;
    uint64_t more;
  } longer[2] = {{ins[0], 1}, {ins[1], 2}};
  for (Longer& record_of : longer) record_of.input.size_bytes = sizeof(Longer);
  record.inputs = &longer[0].input;
  ASSERT_EQ(call(), TENON_OK) << tenon::failure_text();
  EXPECT_EQ(memory[1][0], c.x[0] + c.z[0]);
  longer[0].input.size_bytes = 0;
  std::fill_n(&memory[0][0], kOutputs * 12, -1.0f);
  expect_refused("T0616");
}

TEST_P(RawCallTest, WhatCallersGetWrong) {
  record.output_count = 4;
  expect_refused("T0601: the model has 2 inputs and 5 outputs, and 2 and 4 were given");
  record.output_count = kOutputs;
  outputs[0].kind = 7;
  expect_refused("T0620: output 0 is of kind 7");
  outputs[0].kind = TENON_OUTPUT_GIVEN;
  given[0].dims = other;
  expect_refused("T0620: output `e` is f32[n, 3], and the memory is for f32[3, 4]");
  given[0].dims = dims;
  given[0].dtype = TENON_I32;
  expect_refused("the memory is for i32[4, 3]");
  given[0].dtype = TENON_F32;
  given[0].data = nullptr;
  expect_refused("T0620: output `e` has dims and no memory");
  given[0].data = memory[0];
  const int64_t shared[2] = {4, 4};
  given[0].strides_bytes = shared;
  expect_refused("T0620: the strides of output `e` may let elements share bytes");
  const int64_t endless[2] = {INT64_MAX, 4};
  given[0].strides_bytes = endless;
  expect_refused("let elements share bytes");
  // No two elements share bytes, but the second row has no address.
  const int64_t outside[2] = {-(int64_t{1} << 60), 4};
  given[0].strides_bytes = outside;
  expect_refused("T0620: the strides of output `e` lead out of the address space");
  given[0].strides_bytes = nullptr;
  for (const int64_t row : {INT64_MAX, INT64_MIN, int64_t{1} << 62, -(int64_t{1} << 60)}) {
    const int64_t strides[2] = {row, 4};
    inputs[0].strides_bytes = strides;
    expect_refused("T0613: the strides of input `x` lead out of the address space");
  }
  inputs[0].strides_bytes = nullptr;
  given[1].data = memory[0] + 4;
  expect_refused("T0620: the memory of output `");
  given[1].data = memory[1];
  inputs[1].dims = other;
  expect_refused("T0605");
  inputs[1].dims = dims;
  ins[0].flags = TENON_INPUT_DONATED;  // of an array, whose memory stays the caller's
  expect_refused("T0616: input 0 has flags 1, an array and no tensor");
  ins[0].flags = 0;
  outputs[3].array = nullptr;
  expect_refused("T0616");
  outputs[0].size_bytes = 16;
  expect_refused("T0616: the record of output 0 claims 16 bytes");
  outputs[0].size_bytes = sizeof outputs[0];
  outputs[3].array = &given[3];
  record.inputs = nullptr;
  expect_refused("T0616");
  EXPECT_EQ(calls->call(calls->self, nullptr, &record), TENON_INVALID_ARGUMENT);
  calls->tensor_release(calls->self, nullptr);
  record.inputs = ins;
  EXPECT_EQ(call(), TENON_OK) << tenon::failure_text();
}

const auto kDevices = testing::Values("reference", "sim"
#if TENON_WITH_CPU
                                      ,
                                      "cpu", "sim,cpu"
#endif
);
// Two elements in a byte: nothing of a second output may begin inside of the first.
TEST_P(RawCallTest, NarrowElementsShareNoMemory) {
  constexpr std::string_view kNarrow =
      "tenon.tir 1\ngraph @g(%a: i4[4], %b: i4[4]) -> (c: i4[4], d: i4[4]) {\n  yield %a, %b\n}\n";
  tenon::Model model;
  ASSERT_TRUE(session.load_bytes(kNarrow, "narrow.tir", &model).ok()) << tenon::failure_text();
  ASSERT_TRUE(model.compile({.device = GetParam()}, &program).ok()) << tenon::failure_text();
  const int64_t four[1] = {4};
  unsigned char a[2] = {0x21, 0x43}, b[2] = {0x65, 0x77}, out[4] = {};
  void* const data[4] = {a, b, out, out + 1};
  tenon_array_t arrays[4];
  for (int i = 0; i < 4; ++i) {
    arrays[i] = array(static_cast<float*>(data[i]), four);
    arrays[i].dtype = TENON_I4;
    arrays[i].rank = 1;
  }
  for (int i = 0; i < 2; ++i) outputs[i].array = &arrays[2 + i];
  for (int i = 0; i < 2; ++i) ins[i].array = &arrays[i];
  record.output_count = 2;
  EXPECT_EQ(call(), TENON_INVALID_ARGUMENT);
  EXPECT_NE(tenon::failure_text().find("overlaps"), std::string::npos) << tenon::failure_text();
  arrays[3].data = out + 2;
  ASSERT_EQ(call(), TENON_OK) << tenon::failure_text();
  EXPECT_EQ(memcmp(out, "\x21\x43\x65\x77", 4), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, CallTest, kDevices);
INSTANTIATE_TEST_SUITE_P(Devices, TensorTest, kDevices);
INSTANTIATE_TEST_SUITE_P(Devices, RawCallTest, kDevices);

}  // namespace
