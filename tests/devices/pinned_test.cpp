// Results come to the host, and inputs to the device, through pinned memory, which the device keeps
// when it comes back.
#include "devices.h"

namespace tenon::devices_test {
namespace {

constexpr std::string_view kModel = R"(tenon.tir 1
graph @g<n in [1, 4096]>(%x: f32[n]) -> (y: f32[n]) {
  %y = neg(%x) : f32[n]
  yield %y
}
)";

void results_are_pinned() {
  Session session;
  Program program;
  ASSERT_TRUE(compile(session, kModel, "sim", &program).ok()) << failure_text();
  const auto call = [&](int64_t n, Output* out) {
    std::vector<float> x(static_cast<size_t>(n), 2.0f);
    x[0] = 1;  // one element repeated would not be copied at all
    const std::vector<Input> inputs = {ArrayView::of(x, {n})};
    ASSERT_TRUE(program.call(inputs, {out, 1}).ok()) << failure_text();
    EXPECT_EQ(out->as<float>()[static_cast<size_t>(n - 1)], -2.0f);
  };
  Output first, second;
  call(4096, &first);
  call(4096, &second);
  EXPECT_EQ(counts().pinned_copies, 4u);  // inputs too
  EXPECT_EQ(counts().pinned, 3u);         // both results are there, and what inputs are staged in
  first = Output(), second = Output();
  for (int64_t n = 4000; n < 4020; ++n) {
    Output out;
    call(n, &out);  // sizes that are nearly the same share memory
  }
  EXPECT_EQ(counts().pinned, 3u);
  EXPECT_EQ(counts().pinned_copies, 44u);
  end_process();
}

TEST(Pinned, ResultsLandThere) {
  IN_A_PROCESS(results_are_pinned);
}

// What inputs are staged in is lent only while a run needs it, not while its results are there.
void a_second_run_uses_it_again() {
  Case c(
      "tenon.tir 1\ngraph @g(%x: f32[64]) -> (y: f32[64]) {\n  %y = neg(%x) : f32[64]\n"
      "  yield %y\n}\n",
      {"x"}, {"y"}, 64);
  Program program;
  Binding first, second;
  ASSERT_TRUE(c.compile("sim", &program).ok()) << failure_text();
  ASSERT_TRUE(program.bind(&first).ok());
  ASSERT_TRUE(program.bind(&second).ok());
  ASSERT_TRUE(c.run(&first).ok()) << failure_text();
  ASSERT_TRUE(c.run(&second).ok()) << failure_text();
  c.expect_right(&first);
  c.expect_right(&second);
  EXPECT_EQ(counts().pinned_copies, 4u);
  EXPECT_EQ(counts().pinned, 3u);  // two results, and what both inputs were staged in
  end_process();
}

TEST(Pinned, IdleRunsHoldNone) {
  IN_A_PROCESS(a_second_run_uses_it_again);
}

// Where there is no pinned memory, other memory serves. The allocations of a call: the buffer of x,
// what x is staged in, the buffer of y, what y comes to the host in.
void no_pinned_memory(const char* fault) {
  setenv("TENON_SIM_FAULTS", fault, 1);
  Case c(
      "tenon.tir 1\ngraph @g(%x: f32[64]) -> (y: f32[64]) {\n  %y = neg(%x) : f32[64]\n"
      "  yield %y\n}\n",
      {"x"}, {"y"}, 64);
  c.expect_works("sim");
  EXPECT_EQ(counts().pinned, 1u);  // the other one
  end_process();
}

TEST(Pinned, OtherMemoryServesInputs) {
  IN_A_PROCESS([] { no_pinned_memory("alloc=2"); });
}

TEST(Pinned, OtherMemoryServesResults) {
  IN_A_PROCESS([] { no_pinned_memory("alloc=4"); });
}

}  // namespace
}  // namespace tenon::devices_test
