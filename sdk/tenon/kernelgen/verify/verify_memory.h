// What must hold of the memory of a stage program whatever its values are. Each step of the way
// from a graph to loops is checked for it, so that a mistake in one is found here and not in a
// result:
//
//   each axis of a stage is one loop; each element of a result is stored once, by writers that are
//   apart; a load reads what was stored before and still lies there, of its own row; no access
//   leaves its buffer, unless a guard keeps it out.
//
// Small sizes are traced point by point (memory_trace.h), symbolic sizes with small numbers in
// their place; of large known sizes the pool decides bounds and counts, and the kernel is traced in
// its form for any sizes (general.h).
#ifndef TENON_KERNELGEN_VERIFY_VERIFY_MEMORY_H_
#define TENON_KERNELGEN_VERIFY_VERIFY_MEMORY_H_

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// Asked by lay_out(), move_to_load() and split() after each of their steps. A step that breaks a
// rule is taken back, or its kernel is made of single stages; `notes` says so, for a log. Threads:
// one at a time.
class Verifier {
 public:
  // How many accesses one check may trace: enough for tests, and little beside what a compiler
  // takes.
  static constexpr int64_t kThorough = int64_t{1} << 18, kQuick = int64_t{1} << 14;
  explicit Verifier(int64_t most_steps) : most_steps_(most_steps) {}
  virtual ~Verifier() = default;

  // A whole program after `step`. False: the last of `notes` has what is wrong.
  virtual bool program(const Kernel& program, std::string_view step);
  // A kernel that split() made, and the loops that it becomes. shared: by buffer, whether other
  // kernels write it too.
  virtual bool kernel(const Kernel& kernel, const std::vector<bool>& shared = {});
  // The order in which split() runs the stages of a program.
  virtual bool order(const Kernel& program, const std::vector<size_t>& group_of);

  std::vector<std::string> notes;  // what was found, in order; empty: everything holds
  std::string error;  // what could not be mended by taking a step back: the program must not run

 private:
  bool holds(const Kernel& kernel, bool prepared, const std::vector<bool>& shared,
             std::string* why) const;

  int64_t most_steps_;
  std::unordered_set<uint64_t> seen_;  // kernels that hold, by hash: layers repeat
};

// Whether programs of so many stages are verified, given the value of the variable TENON_VERIFY.
// "1": all, thoroughly; kVerifyStrictly: as well, and what else would be taken back is an error,
// for tests; "0": none; else those of less than 64 stages.
inline constexpr std::string_view kVerifyStrictly = "strict";
std::optional<Verifier> verifier_for(size_t stages, std::string_view setting);

// Whether stages that run in the order of their groups (within a group in their own) read what they
// read in their own order, and overwrite what was read by then. group_of: by stage. False: `*why`
// names two stages. What a kernel writes when it is loaded is there before all others.
bool verify_order(const Kernel& program, const std::vector<size_t>& group_of, std::string* why);

// Of known sizes, however large. False: `*why` names the stage and the fact. What the pool cannot
// decide is left to the trace. shared: as Verifier::kernel.
bool verify_accesses(const Kernel& kernel, const std::vector<bool>& shared, std::string* why);

}  // namespace tenon::kernelgen
#endif
