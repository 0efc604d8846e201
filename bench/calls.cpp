// What a call costs beyond its kernel: an addition of two small arrays, by name through a binding
// and by position (tenon.host.call/1), with the same memory and with other memory each time; what a
// hundred parameters add, as arrays, as tensors that rarely change, and as tensors of which one is
// new each time, to the same sum with a hundred constants; and how calls of one program from two
// and from eight threads scale on the cores at hand.
//
//     ninja -C build bench_calls && build/bin/bench_calls [DEVICE [ROW]]
//
// With the name of a row, only that row runs, for a profiler.
// Medians and best of rounds that are interleaved; "nothing" is the loop with an empty call. The
// kernel of an addition takes some nanoseconds, that of the sum of a hundred some tens. For
// threads, ideal is the time of one alone divided by threads, or by cores where there are fewer;
// and the processor time of one alone, which other work on the machine disturbs less.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <thread>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;

constexpr int kCalls = 500, kRounds = 100, kParameters = 100, kCallsOfThread = 20000;
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

// For each call of all threads together, in nanoseconds.
struct Together {
  double time = 0, processor_time = 0;
};

// Each thread calls the program with records and memory of its own.
Together in_threads(const tenon::Program& program, std::span<const tenon::Input> inputs,
                    unsigned count) {
  std::chrono::steady_clock::time_point begin;
  std::clock_t begin_processor = 0;
  std::barrier together(count, [&]() noexcept {
    begin = std::chrono::steady_clock::now();
    begin_processor = std::clock();
  });
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        std::vector<float> memory(64);
        tenon::Output out = tenon::Output::into({memory.data() + 16, 8}, {8});  // a line of its own
        tenon::Call call(program, inputs, {&out, 1});
        stop_if(call.run());
        together.arrive_and_wait();
        for (int k = 0; k < kCallsOfThread; ++k) stop_if(call.run());
      });
    }
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  const double processor =
      1e9 * static_cast<double>(std::clock() - begin_processor) / double{CLOCKS_PER_SEC};
  const double calls = double{kCallsOfThread} * count;
  return {spent.count() / calls, processor / calls};
}

struct Timing {
  const char* name;
  std::function<void()> call;
  std::vector<double> nanoseconds;
};

struct Programs {
  tenon::Program sum, parameters, stable, constants;
};

void compile(tenon::Session& session, std::string_view text, const char* device,
             tenon::Program* out, bool stable = false) {
  tenon::Model model;
  tenon::CompileOptions options{.device = device};
  for (uint32_t i = 1; stable && i <= kParameters; ++i) options.stable_inputs.push_back(i);
  stop_if(session.load_bytes(text, "g.tir", &model));
  stop_if(model.compile(options, out));
}

void print_threads(unsigned count, const std::vector<Together>& alone,
                   const std::vector<Together>& together) {
  const auto middle = [](const std::vector<Together>& all, double Together::* of) {
    std::vector<double> values;
    for (const Together& one : all) values.push_back(one.*of);
    return median(std::move(values));
  };
  const double cores = std::max(std::thread::hardware_concurrency(), 1u);
  const double time = middle(together, &Together::time);
  const double processor = middle(together, &Together::processor_time);
  const double ideal = middle(alone, &Together::time) / std::min<double>(count, cores);
  std::printf(
      "%u threads on %.0f cores: %.0f ns per call, %.2f of ideal; %.0f ns of a processor, "
      "%.2f of ideal\n",
      count, cores, time, ideal / time, processor,
      middle(alone, &Together::processor_time) / processor);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const device = argc > 1 ? argv[1] : "cpu";
  tenon::Session session;
  Programs programs;
  tenon::Binding binding;
  stop_if(session.open());
  compile(session, kModel, device, &programs.sum);
  compile(session, sum_of_parameters(), device, &programs.parameters);
  compile(session, sum_of_parameters(), device, &programs.stable, true);
  compile(session, sum_of_constants(), device, &programs.constants);
  stop_if(programs.sum.bind(&binding));

  const std::vector<float> a(8, 1), b(8, 2), other_a(8, 3), other_b(8, 4);
  std::vector<float> c(8), other_c(8);
  const ArrayView a_view = ArrayView::of(a, {8}), b_view = ArrayView::of(b, {8});
  const std::vector<tenon::Input> inputs = {a_view, b_view};
  const std::vector<tenon::Input> others = {ArrayView::of(other_a, {8}),
                                            ArrayView::of(other_b, {8})};
  stop_if(binding.input("a", a_view));
  stop_if(binding.input("b", b_view));
  tenon::Output given = tenon::Output::into(c, {8}), elsewhere = tenon::Output::into(other_c, {8});
  tenon::Call prepared(programs.sum, inputs, {&given, 1});
  tenon::Call moved(programs.sum, others, {&elsewhere, 1});
  std::vector<tenon::Tensor> parameters(kParameters + 1);
  std::vector<tenon::Input> arrays = {a_view}, tensors = {a_view};
  for (tenon::Tensor& parameter : parameters) stop_if(tenon::Tensor::borrow(b_view, &parameter));
  for (size_t i = 0; i < kParameters; ++i) {
    arrays.emplace_back(b_view);
    tensors.emplace_back(parameters[i]);
  }
  std::vector<tenon::Input> one_new = tensors;
  one_new.back() = parameters.back();
  const std::vector<tenon::Input> one = {a_view};
  tenon::Call with_constants(programs.constants, one, {&given, 1});
  tenon::Call with_arrays(programs.parameters, arrays, {&given, 1});
  tenon::Call with_tensors(programs.parameters, tensors, {&given, 1});
  tenon::Call with_stable(programs.stable, tensors, {&given, 1});
  tenon::Call with_new(programs.stable, one_new, {&given, 1});

  const auto owned = [&] {
    tenon::Output out;
    stop_if(programs.sum.call(inputs, {&out, 1}));
  };
  // One call, then the other.
  bool odd = false;
  const auto in_turn = [&odd](tenon::Call& first, tenon::Call& second) {
    odd = !odd;
    stop_if((odd ? first : second).run());
  };
  std::vector<Timing> timings = {
      {"nothing", [] {}, {}},
      {"by name", [&] { stop_if(binding.run()); }, {}},
      {"owned", owned, {}},
      {"given", [&] { stop_if(programs.sum.call(inputs, {&given, 1})); }, {}},
      {"given, records kept", [&] { stop_if(prepared.run()); }, {}},
      {"given, memory moves", [&] { in_turn(prepared, moved); }, {}},
      {"100 constants", [&] { stop_if(with_constants.run()); }, {}},
      {"100 parameters as arrays", [&] { stop_if(with_arrays.run()); }, {}},
      {"100 parameters as tensors", [&] { stop_if(with_tensors.run()); }, {}},
      {"100 STABLE parameters", [&] { stop_if(with_stable.run()); }, {}},
      {"100 STABLE, one is new", [&] { in_turn(with_stable, with_new); }, {}},
  };
  const bool whole = argc < 3;
  if (!whole)
    std::erase_if(timings, [&](const Timing& t) { return t.name != std::string_view(argv[2]); });
  std::vector<Together> alone, in_two, in_eight;
  const int rounds = whole ? kRounds : 50 * kRounds;  // a profiler needs some time
  for (int round = 0; round < rounds; ++round) {
    for (Timing& timing : timings) timing.nanoseconds.push_back(nanoseconds_per_call(timing.call));
    if (!whole) continue;
    alone.push_back(in_threads(programs.sum, inputs, 1));
    in_two.push_back(in_threads(programs.sum, inputs, 2));
    in_eight.push_back(in_threads(programs.sum, inputs, 8));
  }
  for (const Timing& timing : timings) {
    std::printf("%-26s %6.0f ns per call, at best %.0f\n", timing.name, median(timing.nanoseconds),
                *std::ranges::min_element(timing.nanoseconds));
  }
  if (!whole) return 0;
  print_threads(2, alone, in_two);
  print_threads(8, alone, in_eight);
}
