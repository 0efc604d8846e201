// Runs cases on the device under test and on the reference, and compares. All of it goes through
// tenon.host.session/1, as in a program.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/tools/conform/checks/kernels/op_cases.h"
#include "sdk/tools/conform/fixtures/graphs/program.h"
#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

// How results are judged.
enum class Judge {
  kTolerance,  // that of the op and its element type
  kDenormals,  // only denormals matter: kept, or flushed to zeros of their sign
  kZeroSigns,  // also the sign of each zero
  kExact,      // the same numbers, and NaN for NaN
};

struct CaseOptions {
  std::string device;    // kind
  unsigned threads = 1;  // run the same inputs in this many threads at once
  Judge judge = Judge::kTolerance;
};

// How many cases ran.
struct CaseTally {
  size_t on_device = 0, elsewhere = 0;
  std::map<std::pair<std::string, std::string>, size_t> kernels;  // cases by op and element type
  std::set<std::string> ops;                                      // ops that ran on the device
};

// Runs all cases, in graphs of some dozens, once with each of the fills. Fails with the first case
// whose result differs. A case that the reference does not run on one of the fills is left out.
Outcome run_cases(Session& session, std::span<const OpCase> cases, std::span<const Fill> fills,
                  const CaseOptions& options, CaseTally* tally);

// Runs the program, as step `step`, and compares its outputs with the expected ones.
Outcome same_outputs(Session& session, const Program& program, const std::vector<Named>& inputs,
                     const std::vector<Named>& expected, std::string_view step);

// Runs a graph given as text; fails unless every node runs on the device.
Outcome run_whole_graph(Session& session, const std::string& text, const std::string& device);

}  // namespace tenon::conform
