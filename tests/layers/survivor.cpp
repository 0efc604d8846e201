// survivor MODEL DEVICE OTHER: a process that goes on through failures of DEVICE. It compiles and
// runs until that works or the device is lost. Then the results of DEVICE, and those of OTHER, must
// be right every time. Prints a summary of its attempts.
#include <cmath>
#include <cstdio>

#include "tenon/cpp/session.hpp"

namespace {

constexpr int kAttempts = 50;
int g_failures = 0;
bool g_lost = false;

// Repeats a call until it works. The same object is used again after a failure.
template <class Call>
bool insist(const char* what, Call call) {
  for (int i = 0; i < kAttempts && !g_lost; ++i) {
    if (call().ok()) return true;
    const std::string text = tenon::failure_text();
    std::printf("%s failed: %s\n", what, text.c_str());
    ++g_failures;
    g_lost = text.find("T0611") != std::string::npos || text.find("T0618") != std::string::npos;
  }
  return false;
}

struct Runner {
  std::vector<float> x = std::vector<float>(128), y = std::vector<float>(128);
  tenon::Program program;
  tenon::Binding binding;
  std::vector<float> result;

  bool run(const tenon::Model& model, std::string_view device) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 7) - 3, y[i] = static_cast<float>(i % 5) / 4;
    if (!insist("compile", [&] {
          return model.compile(
              {.device = device, .pipeline = {}, .no_fallback = true, .options = {}}, &program);
        }))
      return false;
    if (!insist("bind", [&] { return program.bind(&binding); })) return false;
    for (int i = 0; i < 3; ++i) {
      tenon::ArrayView out;
      if (!binding.input("x", tenon::ArrayView::of(x, {8, 16})).ok() ||
          !binding.input("y", tenon::ArrayView::of(y, {8, 16})).ok())
        return false;
      if (!insist("run", [&] { return binding.run(); }) || !binding.output("z", &out).ok())
        return false;
      const std::vector<float> now(out.as<float>().begin(), out.as<float>().end());
      if (!result.empty() && now != result) {
        std::printf("run %d differs from the one before\n", i);
        std::exit(1);
      }
      result = now;
    }
    return true;
  }
};

}  // namespace

int main(int argc, char** argv) {
  tenon::Session session;
  tenon::Model model;
  if (argc != 4 || !session.open().ok() || !session.load(argv[1], &model).ok()) return 2;
  Runner device, other;
  const bool worked = device.run(model, argv[2]);
  const int failures = g_failures;
  const bool lost = g_lost;
  g_lost = false;
  if (!other.run(model, argv[3]) || g_failures != failures) return 1;
  for (size_t i = 0; worked && i < other.result.size(); ++i) {
    if (!(std::abs(device.result[i] - other.result[i]) < 1e-4f)) {
      std::printf("element %zu is %g, and %g on the other device\n", i,
                  static_cast<double>(device.result[i]), static_cast<double>(other.result[i]));
      return 1;
    }
  }
  if (!worked && !lost) return 1;
  std::printf("%s after %d failures\n", lost ? "lost" : "right", failures);
  return 0;
}
