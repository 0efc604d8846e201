// tenon bench: times of loading, compiling and the first run, percentiles of repeated runs on one
// binding, the costliest kernels.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "sdk/tools/tenon/commands/bench_collectives.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/execution.h"

namespace tenon::tools {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

constexpr double kMeasureMs = 1000, kMostRoundMs = 600e3;
constexpr size_t kLeastRuns = 10, kMostRuns = 100000;

// Times of one round of runs, in ms.
struct Round {
  size_t runs = 0;
  double min = 0, median = 0, p90 = 0, p99 = 0;
};

struct Measured {
  double load_ms = 0, compile_ms = 0, first_run_ms = 0;
  Round round;
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

// By linear interpolation between the two nearest of the sorted times.
double percentile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Exactly `wanted` runs; with 0, for `round_ms` and at least `least` runs.
int repeat(const Host& host, const Binding& binding, size_t wanted, double round_ms, size_t least,
           Round& round) {
  std::vector<double> times;
  const auto start = Clock::now();
  const auto more = [&] {
    if (wanted > 0) return times.size() < wanted;
    return times.size() < kMostRuns && (times.size() < least || ms_since(start) < round_ms);
  };
  while (more()) {
    if (int s = timed_run(host, binding, times.emplace_back())) return s;
  }
  std::sort(times.begin(), times.end());
  round = {times.size(), times.front(), percentile(times, 0.5), percentile(times, 0.9),
           percentile(times, 0.99)};
  return kOk;
}

// Resident memory of the process; 0 if the system does not report it.
uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0, resident = 0;
  return statm >> pages >> resident ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// The most resident memory of this process; 0 if the system does not report it. getrusage would
// count what the process had before it became this program, such as a large Python.
uint64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kKey = "VmHWM:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey))
      return std::strtoull(line.c_str() + kKey.size(), nullptr, 10) * 1024;
  }
  return 0;
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
  m.peak_rss_bytes = peak_resident_bytes();
  return kOk;
}

std::string round_json(const Round& r) {
  return fmt::format(
      "\"runs\": {}, \"median_ms\": {:.6f}, \"min_ms\": {:.6f}, \"p90_ms\": {:.6f}, \"p99_ms\": "
      "{:.6f}, "
      "\"rss_bytes\": {}",
      r.runs, r.median, r.min, r.p90, r.p99, resident_bytes());
}

void print_json(const RunOptions& options, const Measured& m, std::string_view more) {
  out("{{\"schema\": 1, \"model\": {}, \"device\": {}, \"threads\": {}, \"load_ms\": {:.3f}, "
      "\"compile_ms\": {:.3f}, "
      "\"weights_ms\": {:.3f}, \"first_run_ms\": {:.3f}, {}, \"peak_rss_bytes\": {}, "
      "\"arena_bytes\": {}, \"kernels_compiled\": {}, "
      "\"kernels_from_cache\": {}{}}}\n",
      json_string(options.model), json_string(m.device), m.threads, m.load_ms, m.compile_ms,
      m.program.load_ms, m.first_run_ms, round_json(m.round), m.peak_rss_bytes, m.run.arena_bytes,
      m.program.kernels_compiled, m.program.kernels_from_cache, more);
}

void print_text(const RunOptions& options, const Measured& m) {
  out("model      {}\ndevice     {}, {} threads\n", safe(options.model), safe(m.device), m.threads);
  out("load       {:.1f} ms\ncompile    {:.1f} ms, of it {:.1f} ms to take in the weights; {} "
      "kernels compiled, {} from the cache\n",
      m.load_ms, m.compile_ms, m.program.load_ms, m.program.kernels_compiled,
      m.program.kernels_from_cache);
  out("first run  {:.3f} ms\nmedian     {:.4f} ms\nminimum    {:.4f} ms of {} runs\n",
      m.first_run_ms, m.round.median, m.round.min, m.round.runs);
  out("90 %, 99 % {:.4f} ms, {:.4f} ms\n", m.round.p90, m.round.p99);
  out("memory     {} bytes workspace and outputs, {} bytes at most in the process\n",
      m.run.arena_bytes, m.peak_rss_bytes);
}

// Runs another round for every line of standard input, which gives its length in seconds, so that a
// script can measure several loaded programs in turn. Prints one JSON object per round.
int serve(const Host& host, const Binding& binding) {
  for (std::string line; std::getline(std::cin, line);) {
    double seconds = -1;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), seconds);
    if (error != std::errc() || end != line.data() + line.size() ||
        !(seconds >= 0 && seconds * 1e3 <= kMostRoundMs)) {
      return fail(kUsage, "T0004",
                  fmt::format("{} is not the seconds of a round.", in_quotes(line)),
                  "With --serve each line of standard input is a number from 0 to 600.");
    }
    Round round;
    if (int s = repeat(host, binding, 0, seconds * 1e3, 1, round)) return s;
    out("{{{}}}\n", round_json(round));
    flush_out();
  }
  return kOk;
}

// Loads and compiles a model, or takes a package, which needs no more than to be loaded.
int prepare(const Host& host, const RunOptions& options, Model& model, Inputs& inputs,
            Program& program, Measured& m) {
  Signature signature(host);
  auto start = Clock::now();
  if (is_package(options.model)) {
    if (int s = load_package(host, options, program)) return s;
    m.load_ms = ms_since(start);
    if (int s = signature_of(host, program, signature)) return s;
    return gather_inputs(host, signature, options, true, inputs);
  }
  if (int s = load(host, options, model, &signature.fixed_dims)) return s;
  m.load_ms = ms_since(start);
  if (int s = signature_of(host, model, signature)) return s;
  if (int s = gather_inputs(host, signature, options, true, inputs)) return s;
  start = Clock::now();
  if (int s = compile(host, model, options, options.device, program)) return s;
  m.compile_ms = ms_since(start);
  return kOk;
}

constexpr int64_t kProfiledRuns = 5;

// The costliest kernels, from runs of their own: measuring changes the times.
struct Top {
  std::vector<KernelRow> rows;
  Peaks peaks;
  uint32_t threads = 0;
};

int measure_top(const Host& host, const RunOptions& options, const Binding& binding, Top& top) {
  if (int s = check_peaks(options.peaks)) return s;
  (void)parse_peaks(options.peaks, top.peaks);
  top.threads = host.threads->count(host.threads->self);
  std::string why;
  if (options.peaks.empty()) top.peaks = measure_peaks(host, why);
  if (!why.empty())
    write_err(
        fmt::format("tenon: no percentage of the bound, the peaks are not known: {}\n", safe(why)));
  tenon_code_t code = host.session->profile_enable(host.session->self, binding.get(), 1);
  for (int64_t i = 0; code == TENON_OK && i < kProfiledRuns; ++i)
    code = host.session->run(host.session->self, binding.get());
  if (code != TENON_OK) return report(host, code);
  if (int s = kernel_rows(host, binding, options.top, top.rows)) return s;
  code = host.session->profile_enable(host.session->self, binding.get(), 0);
  return code == TENON_OK ? kOk : report(host, code);
}

std::string top_json(const Top& top) {
  std::string streams;
  for (const Peaks::Stream& s : top.peaks.streams) {
    streams += fmt::format("{}{{\"bytes\": {:.0f}, \"gigabytes_per_second\": {:.1f}}}",
                           streams.empty() ? "" : ", ", s.bytes, s.gigabytes_per_second);
  }
  return fmt::format(", \"peaks\": {{\"gflops\": {:.1f}, \"streams\": [{}]}}, \"kernels\": {}",
                     top.peaks.gflops, streams, kernels_json(top.rows, top.peaks, kProfiledRuns));
}

void print_top(const RunOptions& options, const Top& top) {
  write_out("\n" + kernel_table(top.rows, top.peaks, kProfiledRuns, options.model));
  if (!top.peaks.known()) return;
  out("bound: {:.0f} GFLOP/s of f32 multiply-adds, ", top.peaks.gflops);
  for (const Peaks::Stream& s : top.peaks.streams) {
    out("{:.0f} GB/s{}", s.gigabytes_per_second,
        s.bytes > 0 ? fmt::format(" reading {:.1f} MB; ", s.bytes / 1e6) : "");
  }
  out("{} threads\n", top.threads);
}

}  // namespace

int command_bench(const RunOptions& options) {
  apply_threads(options);
  Host host;
  if (int s = host_open(host)) return s;
  if (int s = check_layers(host)) return s;
  if (options.collectives) return bench_collectives(host, options.json);
  Model model(host);
  Inputs inputs;
  Program program(host);
  Binding binding(host);
  Measured m;
  if (int s = prepare(host, options, model, inputs, program, m)) return s;
  if (int s = bind_inputs(host, program, inputs, binding)) return s;
  if (int s = timed_run(host, binding, m.first_run_ms)) return s;
  const size_t wanted = options.serve && options.runs == 0 ? 1 : static_cast<size_t>(options.runs);
  if (int s = repeat(host, binding, wanted, kMeasureMs, kLeastRuns, m.round)) return s;
  if (int s = inform(host, program, binding, m)) return s;
  Top top;
  if (int s = options.top > 0 ? measure_top(host, options, binding, top) : kOk) return s;
  if (options.json || options.serve) {
    print_json(options, m, options.top > 0 ? top_json(top) : "");
  } else {
    print_text(options, m);
    if (options.top > 0) print_top(options, top);
  }
  flush_out();
  return options.serve ? serve(host, binding) : kOk;
}

}  // namespace tenon::tools
