// What a call costs beyond its kernel: an addition of two small arrays, by name through a binding
// and by position (tenon.host.call/1), with a hundred parameters as arrays and as tensors, and how
// calls from several threads of one program scale.
//
//     ninja -C build bench_calls && build/bin/bench_calls [DEVICE]
//
// Medians of rounds that are interleaved. The kernel of the addition takes some nanoseconds, that
// of the sum of a hundred parameters some hundred.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;

constexpr int kCalls = 2000, kRounds = 25, kParameters = 100;
constexpr std::string_view kModel = R"(tenon.tir 1
graph @g(%a: f32[8], %b: f32[8]) -> (c: f32[8]) {
  %c = add(%a, %b) : f32[8]
  yield %c
}
)";

// a + p0 + p1 + ..., where the parameters are inputs.
std::string sum_of_parameters() {
  std::string arguments = "%a: f32[8]", body, last = "%a";
  for (int i = 0; i < kParameters; ++i) {
    const std::string p = "%p" + std::to_string(i), s = "%s" + std::to_string(i);
    arguments += ", " + p + ": f32[8]";
    body += "  " + s + " = add(" + last + ", " + p + ") : f32[8]\n";
    last = s;
  }
  return "tenon.tir 1\ngraph @g(" + arguments + ") -> (c: f32[8]) {\n" + body + "  yield " + last +
         "\n}\n";
}

template <class F>
double nanoseconds_per_call(F&& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  return spent.count() / kCalls;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<long>(values.size() / 2));
  return values[values.size() / 2];
}

void stop_if(tenon::Status status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", tenon::failure_text().c_str());
  std::exit(1);
}

struct Timing {
  const char* name;
  std::function<void()> call;
  std::vector<double> nanoseconds;
};

}  // namespace

int main(int argc, char** argv) {
  const char* const device = argc > 1 ? argv[1] : "cpu";
  tenon::Session session;
  tenon::Model model, large;
  tenon::Program program, sum;
  tenon::Binding binding;
  stop_if(session.open());
  stop_if(session.load_bytes(kModel, "g.tir", &model));
  stop_if(model.compile({.device = device}, &program));
  stop_if(session.load_bytes(sum_of_parameters(), "sum.tir", &large));
  stop_if(large.compile({.device = device}, &sum));
  stop_if(program.bind(&binding));

  const std::vector<float> a(8, 1), b(8, 2);
  std::vector<float> c(8);
  const ArrayView a_view = ArrayView::of(a, {8}), b_view = ArrayView::of(b, {8});
  const std::vector<tenon::Input> inputs = {a_view, b_view};
  stop_if(binding.input("a", a_view));
  stop_if(binding.input("b", b_view));
  tenon::Output given = tenon::Output::into(c, {8});
  tenon::Call prepared(program, inputs, {&given, 1});
  std::vector<tenon::Tensor> parameters(kParameters);
  std::vector<tenon::Input> arrays = {a_view}, tensors = {a_view};
  for (tenon::Tensor& parameter : parameters) {
    stop_if(tenon::Tensor::borrow(b_view, &parameter));
    arrays.emplace_back(b_view);
    tensors.emplace_back(parameter);
  }
  tenon::Call with_arrays(sum, arrays, {&given, 1}), with_tensors(sum, tensors, {&given, 1});

  const auto owned = [&] {
    tenon::Output out;
    stop_if(program.call(inputs, {&out, 1}));
  };
  std::vector<Timing> timings = {
      {"by name", [&] { stop_if(binding.run()); }, {}},
      {"owned", owned, {}},
      {"given", [&] { stop_if(program.call(inputs, {&given, 1})); }, {}},
      {"given, records kept", [&] { stop_if(prepared.run()); }, {}},
      {"100 parameters as arrays", [&] { stop_if(with_arrays.run()); }, {}},
      {"100 parameters as tensors", [&] { stop_if(with_tensors.run()); }, {}},
  };
  std::vector<double> alone, in_two;
  for (int round = 0; round < kRounds; ++round) {
    for (Timing& timing : timings) timing.nanoseconds.push_back(nanoseconds_per_call(timing.call));
    alone.push_back(nanoseconds_per_call([&] { stop_if(prepared.run()); }));
    double other = 0;
    std::thread second([&] {
      std::vector<float> memory(8);
      tenon::Output out = tenon::Output::into(memory, {8});
      tenon::Call call(program, inputs, {&out, 1});
      other = nanoseconds_per_call([&] { stop_if(call.run()); });
    });
    const double own = nanoseconds_per_call([&] { stop_if(prepared.run()); });
    second.join();
    in_two.push_back(std::max(own, other));
  }
  for (const Timing& timing : timings)
    std::printf("%-26s %6.0f ns per call\n", timing.name, median(timing.nanoseconds));
  std::printf("two threads at once: %.0f ns per call, %.0f alone\n", median(in_two), median(alone));
}
