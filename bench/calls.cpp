// What a call costs beyond its kernel: an addition of two small arrays, by name through a binding
// and by position (tenon.host.call/1), and how calls from several threads of one program scale.
//
//     ninja -C build bench_calls && build/bin/bench_calls [DEVICE]
//
// Medians of rounds that are interleaved. The kernel itself takes some nanoseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <tenon/cpp/session.hpp>

namespace {

constexpr int kCalls = 2000, kRounds = 25;
constexpr std::string_view kModel = R"(tenon.tir 1
graph @g(%a: f32[8], %b: f32[8]) -> (c: f32[8]) {
  %c = add(%a, %b) : f32[8]
  yield %c
}
)";

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

}  // namespace

int main(int argc, char** argv) {
  tenon::Session session;
  tenon::Model model;
  tenon::Program program;
  tenon::Binding binding;
  stop_if(session.open());
  stop_if(session.load_bytes(kModel, "g.tir", &model));
  stop_if(model.compile({.device = argc > 1 ? argv[1] : "cpu"}, &program));
  stop_if(program.bind(&binding));
  const std::vector<float> a(8, 1), b(8, 2);
  std::vector<float> c(8);
  const tenon::ArrayView a_view = tenon::ArrayView::of(a, {8}),
                         b_view = tenon::ArrayView::of(b, {8});
  const std::vector<tenon::Input> inputs = {a_view, b_view};
  stop_if(binding.input("a", a_view));
  stop_if(binding.input("b", b_view));

  const auto owned = [&] {
    tenon::Output out;
    stop_if(program.call(inputs, {&out, 1}));
  };
  std::vector<double> by_name, in_owned, in_given, in_two;
  for (int round = 0; round < kRounds; ++round) {
    by_name.push_back(nanoseconds_per_call([&] { stop_if(binding.run()); }));
    in_owned.push_back(nanoseconds_per_call(owned));
    tenon::Output given = tenon::Output::into(c, {8});
    in_given.push_back(nanoseconds_per_call([&] { stop_if(program.call(inputs, {&given, 1})); }));
    double other = 0;
    std::thread second([&] { other = nanoseconds_per_call(owned); });
    const double own = nanoseconds_per_call(owned);
    second.join();
    in_two.push_back(std::max(own, other));
  }
  std::printf("ns per call: by name %.0f, owned %.0f, given %.0f, owned from two threads %.0f\n",
              median(by_name), median(in_owned), median(in_given), median(in_two));
}
