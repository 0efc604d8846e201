// What a call costs beyond its kernel: an addition of two small arrays, by name through a binding
// and by position (tenon.host.call/1); what a hundred parameters add, as arrays and as tensors, to
// the same sum with a hundred constants; and how calls of one program from two and from eight
// threads scale on the cores at hand.
//
//     ninja -C build bench_calls && build/bin/bench_calls [DEVICE [ROW]]
//
// With the name of a row, only that row runs, for a profiler.
// Medians of rounds that are interleaved. The kernel of the addition takes some nanoseconds. Ideal
// for threads is the time of one alone, times threads over cores where there are fewer cores.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <span>
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

// The same sum of constants: what its kernel and the rest of a call take.
std::string sum_of_constants() {
  std::string body, last = "%a";
  for (int i = 0; i < kParameters; ++i) {
    const std::string p = "%p" + std::to_string(i), s = "%s" + std::to_string(i);
    const std::string n = std::to_string(i + 1);
    body += "  " + p + " = const f32[8] [" + n + ", 2, 3, 4, 5, 6, 7, 8]\n";
    body += "  " + s + " = add(" + last + ", " + p + ") : f32[8]\n";
    last = s;
  }
  return "tenon.tir 1\ngraph @g(%a: f32[8]) -> (c: f32[8]) {\n" + body + "  yield " + last +
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

// The slowest of several threads that call one program at once, each into memory of its own.
double in_threads(const tenon::Program& program, std::span<const tenon::Input> inputs,
                  unsigned count) {
  std::vector<double> spent(count);
  std::barrier together(count);
  {
    std::vector<std::jthread> threads;
    for (double& mine : spent) {
      threads.emplace_back([&] {
        std::vector<float> memory(8);
        tenon::Output out = tenon::Output::into(memory, {8});
        tenon::Call call(program, inputs, {&out, 1});
        together.arrive_and_wait();
        mine = nanoseconds_per_call([&] { stop_if(call.run()); });
      });
    }
  }
  return *std::ranges::max_element(spent);
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
  tenon::Model model, large, constant;
  tenon::Program program, sum, constant_sum;
  tenon::Binding binding;
  stop_if(session.open());
  stop_if(session.load_bytes(kModel, "g.tir", &model));
  stop_if(model.compile({.device = device}, &program));
  stop_if(session.load_bytes(sum_of_parameters(), "sum.tir", &large));
  stop_if(large.compile({.device = device}, &sum));
  stop_if(session.load_bytes(sum_of_constants(), "constants.tir", &constant));
  stop_if(constant.compile({.device = device}, &constant_sum));
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
  const std::vector<tenon::Input> one = {a_view};
  tenon::Call with_constants(constant_sum, one, {&given, 1});
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
      {"100 constants", [&] { stop_if(with_constants.run()); }, {}},
      {"100 parameters as arrays", [&] { stop_if(with_arrays.run()); }, {}},
      {"100 parameters as tensors", [&] { stop_if(with_tensors.run()); }, {}},
  };
  const bool whole = argc < 3;
  if (!whole)
    std::erase_if(timings, [&](const Timing& t) { return t.name != std::string_view(argv[2]); });
  std::vector<double> alone, in_two, in_eight;
  for (int round = 0; round < kRounds; ++round) {
    for (Timing& timing : timings) timing.nanoseconds.push_back(nanoseconds_per_call(timing.call));
    if (!whole) continue;
    alone.push_back(nanoseconds_per_call([&] { stop_if(prepared.run()); }));
    in_two.push_back(in_threads(program, inputs, 2));
    in_eight.push_back(in_threads(program, inputs, 8));
  }
  for (const Timing& timing : timings)
    std::printf("%-26s %6.0f ns per call\n", timing.name, median(timing.nanoseconds));
  if (!whole) return 0;
  const double cores = std::max(std::thread::hardware_concurrency(), 1u);
  for (const auto& [count, times] : {std::pair{2, &in_two}, {8, &in_eight}}) {
    const double ideal = median(alone) * std::max(count / cores, 1.0);
    std::printf("%d threads on %.0f cores: %.0f ns per call, %.0f alone: %.2f of ideal\n", count,
                cores, median(*times), median(alone), ideal / median(*times));
  }
}
