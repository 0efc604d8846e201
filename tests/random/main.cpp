// Makes random graphs, checks each with a runner, and shrinks failing ones.
//   random_graphs [--mode ops|fusion] [--device NAME|none] [--seed FIRST] [--count N] [--threads N]
//                 [--model FILE] [--shrink 0|1] [--save FOLDER]
//   random_graphs --device stages [--target NAME,...] [--targets N] [--trees N] [--verify 0|1]
//                 [--texts 0|1] ...
// The second form needs no compiler: the interpreter runs kernelgen's output for N of the targets,
// chosen by the seed, after each of its steps, and the loop trees of every N-th graph. --verify 1
// also runs kernelgen's verifier at each step; its errors are failures. Each failure is reported
// with its seed, and the run goes on; the exit status is 1 if any failed.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include <tenon/cpp/session.hpp>

#include "tests/random/device_runner.h"
#include "tests/random/graphs/fusion_graphs.h"
#include "tests/random/graphs/op_graphs.h"
#include "tests/random/replay.h"
#include "tests/random/rounding/evaluation.h"
#include "tests/random/shrink/shrink.h"
#include "tests/random/stages/stage_check.h"

namespace tenon::random_tests {
namespace {

struct Options {
  std::string mode = "ops", device = "cpu", model, save, target;
  uint64_t seed = 1, count = 200, threads = 0, shrink = 1, targets = 1, trees = 1, verify = 0,
           texts = 0;
};

bool parse(int argc, char** argv, Options* options) {
  const std::map<std::string, std::string*> texts = {{"--mode", &options->mode},
                                                     {"--device", &options->device},
                                                     {"--model", &options->model},
                                                     {"--save", &options->save},
                                                     {"--target", &options->target}};
  const std::map<std::string, uint64_t*> numbers = {
      {"--seed", &options->seed},       {"--count", &options->count},
      {"--threads", &options->threads}, {"--shrink", &options->shrink},
      {"--targets", &options->targets}, {"--trees", &options->trees},
      {"--verify", &options->verify},   {"--texts", &options->texts}};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (const auto text = texts.find(argv[i]); text != texts.end()) {
      *text->second = argv[i + 1];
    } else if (const auto number = numbers.find(argv[i]); number != numbers.end()) {
      *number->second = std::strtoull(argv[i + 1], nullptr, 10);
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && (options->mode == "ops" || options->mode == "fusion");
}

constexpr uint64_t kShrunkMax = 20;     // others are reported by their seeds
constexpr uint64_t kFailuresMax = 100;  // beyond this, the graphs are not the cause

class Driver {
 public:
  Driver(const Options& options, Runner runner) : options_(options), runner_(std::move(runner)) {}

  int run() {
    const auto begin = std::chrono::steady_clock::now();
    uint64_t made = 0;
    for (; made < options_.count && failed_ < kFailuresMax; ++made) one(options_.seed + made);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print("{} graphs with {} nodes on {} in {:.1f} s: {} failed{}\n", made, nodes_,
               options_.device, seconds, failed_,
               options_.mode == "ops" && options_.model.empty()
                   ? "; ops never used:" + op_graphs_.unused()
                   : "");
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void one(uint64_t seed) {
    Generated generated;
    std::string problem;
    if (!options_.model.empty()) {
      problem = model_graph(options_.model, seed, &generated);
    } else if (!(options_.mode == "ops" ? op_graphs_.make(seed, &generated)
                                        : fusion_graph(seed, &generated))
                    .ok()) {
      problem = failure_text();
    }
    if (!problem.empty()) return report(seed, "generate: " + problem);
    nodes_ += generated.nodes;
    problem = runner_(generated);
    if (problem.empty()) return;
    report(seed, problem);
    if (failed_ <= kShrunkMax) show(std::move(generated), std::move(problem));
  }

  void report(uint64_t seed, const std::string& problem) {
    ++failed_;
    fmt::print("seed {}: {}\n", seed, problem);
    std::fflush(stdout);
  }

  void show(Generated generated, std::string problem) {
    if (options_.shrink != 0) {
      generated = shrink(std::move(generated), runner_, &problem);
      fmt::print("as small as it gets: {}\n", problem);
    }
    fmt::print("{}", text_of(generated));
    if (!options_.save.empty()) {
      std::string command;
      const std::string name = fmt::format("{}{}", options_.mode, generated.seed);
      const std::string refused = save(generated, options_.save, name, &command);
      fmt::print("{}\n", refused.empty() ? command : refused);
    }
    std::fflush(stdout);
  }

  const Options& options_;
  const Runner runner_;
  OpGraphs op_graphs_;
  uint64_t nodes_ = 0, failed_ = 0;
};

// Empty if a target is unknown.
Runner stage_runner(const Options& options, std::shared_ptr<StageCheck>* check) {
  StageCheckOptions chosen;
  kernelgen::HostTables host;
  chosen.targets_per_graph = static_cast<uint32_t>(options.targets);
  chosen.trees_every = static_cast<uint32_t>(options.trees);
  chosen.verify = options.verify != 0;
  chosen.texts = options.texts != 0;
  if (!choose_targets(options.target, &chosen.targets) || !find_host_tables(&host).ok()) return {};
  *check = std::make_shared<StageCheck>(host, chosen);
  return [check = *check](const Generated& generated) { return (*check)(generated); };
}

void print_statistics(const StageStatistics& s) {
  fmt::print("{} kernels, {} loop trees", s.kernels, s.trees);
  for (const auto& [shape, count] : s.shapes) fmt::print(", {} {}", count, shape);
  fmt::print("\n");
  for (const auto& [why, count] : s.left_out) fmt::print("left out {}: {}\n", count, why);
}

int main_of(const Options& options) {
  if (options.threads > 0) setenv("TENON_NUM_THREADS", std::to_string(options.threads).c_str(), 1);
  Session session;
  if (!session.open().ok()) {
    fmt::print(stderr, "{}\n", failure_text());
    return 3;
  }
  Runner runner = [](const Generated&) { return std::string(); };
  std::shared_ptr<StageCheck> stages;
  if (options.device == "stages") {
    runner = stage_runner(options, &stages);
  } else if (options.device != "none") {
    runner = device_runner(session, options.device);
  }
  if (runner == nullptr) {
    fmt::print(stderr, "no target `{}`; there are {}\n", options.target, target_names());
    return 2;
  }
  const int status = Driver(options, runner).run();
  if (stages != nullptr) print_statistics(stages->statistics());
  return status;
}

}  // namespace
}  // namespace tenon::random_tests

int main(int argc, char** argv) {
  tenon::random_tests::Options options;
  if (!tenon::random_tests::parse(argc, argv, &options)) {
    fmt::print(
        stderr,
        "usage: random_graphs [--mode ops|fusion] [--device NAME|none] [--seed FIRST] [--count N] "
        "[--threads N] [--model FILE] [--shrink 0|1] [--save FOLDER]\n"
        "       random_graphs --device stages [--target NAME,...] [--targets N] [--trees N] "
        "[--verify 0|1] [--texts 0|1] ...\n");
    return 2;
  }
  const char* full = std::getenv("CHECK_FULL");
  if (full != nullptr && std::strcmp(full, "1") == 0) options.count *= 50;
  return tenon::random_tests::main_of(options);
}
