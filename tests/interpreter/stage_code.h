// Expressions of a stage as straight-line code: each shared expression once, each instruction in
// the outermost loop that knows all it needs. The loops themselves are the interpreter's.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tenon/kernelgen/ir/ir.h>

#include "tests/interpreter/operation.h"

namespace tenon::interpreter {

using kernelgen::ExprId;
using kernelgen::kNone;

// Where code runs: before all loops, once for each point of the lead axes, or in loop d of a nest.
inline constexpr uint32_t kOnce = 0, kPerPoint = 1;
inline constexpr uint32_t level_of_loop(size_t d) {
  return 2 + static_cast<uint32_t>(d);
}

using R = uint32_t;  // a register of one piece of code
inline constexpr R kNoReg = ~0u;

struct Load {
  uint32_t buffer = 0;
  R guard = kNoReg, other = kNoReg;
  std::vector<R> index;
};

struct Instruction {
  Operation operation;
  bool load = false;
  R dst = 0, a = 0, b = 0, c = 0;  // of a load: a is its ordinal
};

struct CodeView {
  uint32_t buffer = 0;
  R guard = kNoReg;
  std::vector<R> index;
};

// What a piece of code is asked to compute, and its registers.
struct StageCode {
  std::vector<Instruction> instructions;  // by level, then in order
  std::vector<uint32_t> levels;           // where each level begins; one more than there are levels
  std::vector<Load> loads;
  std::vector<Reg> registers;  // constants have their values
  std::vector<R> lead, loops;  // registers of the axes
  std::vector<std::pair<uint32_t, R>> extents, states;
  std::vector<R> results;  // in the order they were asked for
  std::vector<CodeView> views;
};

struct CodeRequest {
  std::span<const uint32_t> lead, loops;  // axes, outermost first
  std::vector<ExprId> results;
  std::vector<const kernelgen::View*> views;
  // Buffers that the loops store to: what is loaded from them is loaded where it is used.
  const std::vector<bool>* stored = nullptr;
};

// False: `*why` names what the code cannot mean (an axis that no loop binds, an op without a
// meaning in its type).
bool make_code(const kernelgen::Kernel& kernel, const CodeRequest& request, StageCode* out,
               std::string* why);

}  // namespace tenon::interpreter
