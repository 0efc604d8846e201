// tenon bench: compile time, first run, and the median of repeated runs on one binding.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "core/tools/console.h"
#include "core/tools/execution.h"

namespace tenon::tools {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

constexpr double kMeasureMs = 1000;
constexpr size_t kLeastRuns = 10, kMostRuns = 100000;

struct Measured {
  double compile_ms = 0, first_run_ms = 0, median_ms = 0, min_ms = 0;
  size_t runs = 0;
  tenon_program_info_t program = {};
  tenon_run_info_t run = {};
  std::string device;
  uint32_t threads = 0;
  uint64_t peak_rss_bytes = 0;
};

int timed_run(const Host& host, const Binding& binding, double& ms) {
  const auto start = Clock::now();
  const tenon_code_t code = host.session->run(host.session->self, binding.get());
  ms = ms_since(start);
  return code == TENON_OK ? kOk : report(host, code);
}

int repeat(const Host& host, const RunOptions& options, const Binding& binding, Measured& m) {
  std::vector<double> times;
  const auto start = Clock::now();
  const size_t wanted = static_cast<size_t>(options.runs);
  const auto more = [&] {
    if (wanted > 0) return times.size() < wanted;
    return times.size() < kMostRuns && (times.size() < kLeastRuns || ms_since(start) < kMeasureMs);
  };
  while (more()) {
    if (int s = timed_run(host, binding, times.emplace_back())) return s;
  }
  std::sort(times.begin(), times.end());
  m.runs = times.size();
  m.min_ms = times.front();
  m.median_ms = times.size() % 2 == 1 ? times[times.size() / 2]
                                      : (times[times.size() / 2 - 1] + times[times.size() / 2]) / 2;
  return kOk;
}

int inform(const Host& host, const Program& program, const Binding& binding, Measured& m) {
  m.program.size_bytes = sizeof m.program;
  m.run.size_bytes = sizeof m.run;
  tenon_code_t code = host.session->program_info(host.session->self, program.get(), &m.program);
  if (code == TENON_OK) code = host.session->run_info(host.session->self, binding.get(), &m.run);
  if (code != TENON_OK) return report(host, code);
  std::string json;
  if (int s = placement(host, program, json)) return s;
  m.device = devices_of(json);
  m.threads = host.threads->count(host.threads->self);
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  m.peak_rss_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  return kOk;
}

void print_json(const RunOptions& options, const Measured& m) {
  out("{{\"schema\": 1, \"model\": {}, \"device\": {}, \"threads\": {}, \"compile_ms\": {:.3f}, \"first_run_ms\": "
      "{:.3f}, \"median_ms\": {:.6f}, \"min_ms\": {:.6f}, \"runs\": {}, \"peak_rss_bytes\": {}, \"arena_bytes\": {}, "
      "\"kernels_compiled\": {}, \"kernels_from_cache\": {}}}\n",
      json_string(options.model), json_string(m.device), m.threads, m.compile_ms, m.first_run_ms, m.median_ms,
      m.min_ms, m.runs, m.peak_rss_bytes, m.run.arena_bytes, m.program.kernels_compiled,
      m.program.kernels_from_cache);
}

void print_text(const RunOptions& options, const Measured& m) {
  out("model      {}\ndevice     {}, {} threads\n", safe(options.model), safe(m.device), m.threads);
  out("compile    {:.1f} ms, {} kernels compiled, {} from the cache\n", m.compile_ms, m.program.kernels_compiled,
      m.program.kernels_from_cache);
  out("first run  {:.3f} ms\nmedian     {:.4f} ms\nminimum    {:.4f} ms of {} runs\n", m.first_run_ms, m.median_ms,
      m.min_ms, m.runs);
  out("memory     {} bytes workspace, {} bytes at most in the process\n", m.run.arena_bytes, m.peak_rss_bytes);
}

// The costliest kernels, from runs of their own: measuring changes the times. Talk when stdout carries JSON.
int print_top(const Host& host, const RunOptions& options, const Binding& binding) {
  tenon_code_t code = host.session->profile_enable(host.session->self, binding.get(), 1);
  for (int i = 0; code == TENON_OK && i < 5; ++i) code = host.session->run(host.session->self, binding.get());
  if (code != TENON_OK) return report(host, code);
  std::string table;
  if (int s = kernel_table(host, binding, options.top, table)) return s;
  if (options.json) {
    write_err(table);
  } else {
    write_out(table);
  }
  return kOk;
}

}  // namespace

int command_bench(const RunOptions& options) {
  apply_threads(options);
  Host host;
  if (int s = host_open(host)) return s;
  Model model(host);
  Inputs inputs;
  Program program(host);
  Binding binding(host);
  Measured m;
  if (int s = load(host, options, model)) return s;
  if (int s = gather_inputs(host, model.get(), options, true, inputs)) return s;
  const auto start = Clock::now();
  if (int s = compile(host, model, options, options.device, program)) return s;
  m.compile_ms = ms_since(start);
  if (int s = bind(host, program, inputs, binding)) return s;
  if (int s = timed_run(host, binding, m.first_run_ms)) return s;
  if (int s = repeat(host, options, binding, m)) return s;
  if (int s = inform(host, program, binding, m)) return s;
  if (options.json) {
    print_json(options, m);
  } else {
    print_text(options, m);
  }
  return options.top > 0 ? print_top(host, options, binding) : kOk;
}

}  // namespace tenon::tools
