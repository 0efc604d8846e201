// Running cases on the device under test and on the reference, and comparing. All of it through
// tenon.host.session/1, as a program does.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/tools/conform/checks/kernels/op_cases.h"
#include "sdk/tools/conform/fixtures/program.h"
#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

// By what results are judged.
enum class Judge {
  kTolerance,  // of the op and its element type
  kDenormals,  // only what denormals change: kept, or zeros of their sign, as operand and as result
  kZeroSigns,  // also the sign of each zero
  kExact,      // the same numbers, and NaN for NaN
};

struct CaseOptions {
  std::string device;    // kind
  unsigned threads = 1;  // run the same inputs in so many threads at once
  Judge judge = Judge::kTolerance;
};

// What became of the cases.
struct CaseTally {
  size_t on_device = 0, elsewhere = 0;
  std::map<std::pair<std::string, std::string>, size_t> kernels;  // cases by op and element type
  std::set<std::string> ops;                                      // that ran on the device
};

// Runs all, in graphs of some dozens, once with each of the fills. Failed with the first case whose
// result differs. A case that the reference does not run on one of them takes no part.
Outcome run_cases(Session& session, std::span<const OpCase> cases, std::span<const Fill> fills,
                  const CaseOptions& options, CaseTally* tally);

// Runs the program, under the name `step`, and compares what it gives with what is expected.
Outcome same_outputs(Session& session, const Program& program, const std::vector<Named>& inputs,
                     const std::vector<Named>& expected, std::string_view step);

// Runs a graph given as text and wants every node on the device.
Outcome run_whole_graph(Session& session, const std::string& text, const std::string& device);

}  // namespace tenon::conform
