// Expressions of a stage as straight-line code: each shared expression once, each instruction in
// the outermost loop in which its operands are known. The interpreter runs the loops.
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

// Levels of code: before all loops, once per lead point, or in loop d of a nest.
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
  R dst = 0, a = 0, b = 0, c = 0;  // for a load, a is its ordinal
};

struct CodeView {
  uint32_t buffer = 0;
  R guard = kNoReg;
  std::vector<R> index;
};

// The expressions that a piece of code computes, and its registers.
struct StageCode {
  std::vector<Instruction> instructions;  // by level, then in order
  std::vector<uint32_t> levels;           // start of each level; one more entry than levels
  std::vector<Load> loads;
  std::vector<Reg> registers;  // constants have their values
  std::vector<R> lead, loops;  // registers of the axes
  std::vector<std::pair<uint32_t, R>> extents, states;
  std::vector<R> results;  // in the order requested
  std::vector<CodeView> views;
};

struct CodeRequest {
  std::span<const uint32_t> lead, loops;  // axes, outermost first
  std::vector<ExprId> results;
  std::vector<const kernelgen::View*> views;
  // Buffers that the loops store to; loads from them stay where they are used.
  const std::vector<bool>* stored = nullptr;
};

// False: `*why` names what the code cannot express (an axis without a loop, an op that is not
// defined for its type).
bool make_code(const kernelgen::Kernel& kernel, const CodeRequest& request, StageCode* out,
               std::string* why);

}  // namespace tenon::interpreter
