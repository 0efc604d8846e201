// Memory rules that a stage program must satisfy whatever its values. Every step from graph to
// loops is checked against them, so that a mistake in a step is found here and not in a result:
//
//   - each axis of a stage is one loop;
//   - each element of a result is stored once, by writers whose elements are disjoint;
//   - a load reads what was stored before, in its own row, and has not been overwritten;
//   - no access is outside its buffer, unless a guard excludes it.
//
// Small sizes are traced point by point (memory_trace.h); for symbolic sizes small numbers are
// used. For large known sizes the pool decides bounds and counts, and the kernel's size-independent
// form (general.h) is traced.
#ifndef TENON_KERNELGEN_VERIFY_VERIFY_MEMORY_H_
#define TENON_KERNELGEN_VERIFY_VERIFY_MEMORY_H_

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// lay_out(), move_to_load() and split() call it after each of their steps. A step that breaks a
// rule is undone, or its kernel is replaced by kernels of single stages; `notes` says so, for a
// log. Threads: one at a time.
class Verifier {
 public:
  // How many accesses one check may trace. kThorough is enough for tests; kQuick costs little
  // beside compilation.
  static constexpr int64_t kThorough = int64_t{1} << 18, kQuick = int64_t{1} << 14;
  explicit Verifier(int64_t most_steps) : most_steps_(most_steps) {}
  virtual ~Verifier() = default;

  // Checks a whole program after `step`. False: the last of `notes` says what is wrong.
  virtual bool program(const Kernel& program, std::string_view step);
  // Checks a kernel that split() made, and the loops it becomes. shared: by buffer, whether other
  // kernels write it too.
  virtual bool kernel(const Kernel& kernel, const std::vector<bool>& shared = {});
  // Checks the order in which split() runs the stages of a program.
  virtual bool order(const Kernel& program, const std::vector<size_t>& group_of);

  std::vector<std::string> notes;  // findings, in order; empty: everything holds
  std::string error;  // a fault that undoing a step could not repair: the program must not run

 private:
  bool holds(const Kernel& kernel, bool prepared, const std::vector<bool>& shared,
             std::string* why) const;

  int64_t most_steps_;
  std::unordered_set<uint64_t> seen_;  // hashes of kernels that hold: layers repeat
};

// A verifier for a program of this many stages, by the value of TENON_VERIFY. "0": none. "1":
// thorough, for all programs. kVerifyStrictly: the same, but findings that would otherwise undo a
// step are errors, for tests. Else: quick, for programs of less than 64 stages.
inline constexpr std::string_view kVerifyStrictly = "strict";
std::optional<Verifier> verifier_for(size_t stages, std::string_view setting);

// Whether stages that run group by group (and in their own order within a group) still read the
// same values as in their own order, and overwrite only what has been read. group_of: by stage.
// False: `*why` names two stages. What a kernel writes at load precedes everything else.
bool verify_order(const Kernel& program, const std::vector<size_t>& group_of, std::string* why);

// Checks known sizes, however large. False: `*why` names the stage and the fault. What the pool
// cannot decide is left to the trace. shared: as in Verifier::kernel.
bool verify_accesses(const Kernel& kernel, const std::vector<bool>& shared, std::string* why);

}  // namespace tenon::kernelgen
#endif
