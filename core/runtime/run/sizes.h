// The sizes of a run: the symbols that its inputs solve, the bytes of each value, and the needs of
// each executable. A run with the sizes of the run before finds all of them here.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/runtime/run/arguments.h"
#include "core/runtime/run/plan.h"

namespace tenon::runtime {

class Sizes {
 public:
  // What an executable is called with: the values of its symbols, and what it needs for them.
  struct OfStep {
    std::vector<int64_t> symbols;
    std::shared_ptr<const Needs> needs;  // null before the first run
  };

  explicit Sizes(const Plan& plan)
      : plan_(plan), steps_(plan.executables.size()), bytes_(plan.slots.size(), kUnknownBytes) {}

  // Begins a run. Fails as Shapes::solve.
  Status solve(std::span<const Argument> inputs, std::span<const GivenSize> sizes);
  // Sizes that only the work of a step has determined.
  Status learn(const Step& step, std::span<const int64_t> values);
  Result<uint64_t> bytes_of(uint32_t slot);
  Status dims_of(uint32_t slot, std::vector<int64_t>* out) const {
    return plan_.shapes.evaluate(plan_.slots[slot].dims, symbols_, out);
  }
  // Valid until the next step of the same executable.
  Result<const OfStep*> of(const Step& step);
  const OfStep& last_of(const Step& step) const { return steps_[step.executable]; }

 private:
  static constexpr uint64_t kUnknownBytes = UINT64_MAX;

  const Plan& plan_;
  std::vector<int64_t> symbols_;  // of this run
  std::vector<bool> set_;         // by symbol: a step of this run has set it
  std::vector<OfStep> steps_;     // by executable
  std::vector<uint64_t> bytes_;   // by slot: with the symbols of this run, once asked
  bool learned_ = false;          // a step of the last run has set symbols of its own
  bool solved_ = false;
  std::vector<int64_t> solved_dims_;  // of all inputs, for which solved_symbols_ is the solution
  std::vector<int64_t> solved_symbols_;
  std::vector<int64_t> scratch_;  // so that a run of known sizes allocates little
};

}  // namespace tenon::runtime
