// What becomes of a graph when it is compiled and run, decided by a process of its own, so that a
// crash or a hang is an answer like any other (ADR 0041).
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/tenon/cli/options.h"

namespace tenon::tools {

struct Verdict {
  enum class Kind { kRight, kWrong, kFails, kHangs } kind = Kind::kRight;
  std::string code;     // kFails: "T0505"; empty if none was printed
  std::string message;  // the first line that the process wrote of it
  std::string misuse;   // not empty: the options are at fault, not the model, in the same words
  bool same(const Verdict& other) const { return kind == other.kind && code == other.code; }
};

// The words of the command that a trial runs, without those that only a program needs.
// `with_inputs`: also those that name the model's own inputs and dims; a part of it has others.
std::vector<std::string> trial_command(const BisectOptions& options, const std::string& file,
                                       const std::string& passes, bool with_inputs);

// Runs `file` after `passes`, and compares with options.check. Options of the model are passed on.
// Ends with the status kInterrupted in `status` after Ctrl-C.
Verdict verdict_of(const BisectOptions& options, const std::string& file, const std::string& passes,
                   bool with_inputs, int& status);

}  // namespace tenon::tools
