// A subgraph with control flow, or with ops of native_ops.h, as data: regions of parts. A part is
// compiled kernels or one node. Values and symbols are the subgraph's, by index. Regions do not
// recurse, so each has at most one live instance, and one table of values serves all nesting.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_PROGRAM_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_PROGRAM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/cpp/status.hpp"
#include "tenon/kernelgen/ir/ir.h"

namespace tenon::cpu {

struct ControlValue {
  enum class Kind : uint8_t { kUnused, kInput, kConstant, kLocal };
  Kind kind = Kind::kUnused;
  // Its size mentions a data-dependent symbol.
  bool data_dependent = false;
  // It does so in a dim that is more than the symbol: the largest symbols need not give the largest
  // size.
  bool mixed = false;
  uint32_t index = 0;  // Which input or constant.
  uint64_t element_bytes = 0;
  uint32_t dtype = 0;
  std::vector<kernelgen::SizeProgram> dims;  // Over the subgraph's symbols.
};

// A data-dependent symbol: a dim of a region's argument, or of a node's result.
struct ControlSize {
  uint32_t symbol = 0, index = 0, dim = 0;
};

struct ControlPart {
  enum class Kind : uint8_t { kKernels, kSwitch, kWhile, kScan, kNative, kBarrier };
  Kind kind = Kind::kKernels;
  // kKernels: an artifact; its inputs and outputs as values, its symbols and constants as indices
  // of the subgraph's.
  uint32_t artifact = 0;
  std::vector<uint32_t> inputs, outputs, symbols, constants;
  // Other kinds: operands are `inputs`, results are `outputs`. The results of kBarrier are its
  // operands, without code: it keeps kernels apart.
  std::vector<uint32_t> regions;
  std::vector<ControlSize> defines;
  uint32_t carried = 0;             // kScan
  bool reverse = false;             // kScan
  int64_t max_trip = -1;            // kWhile
  kernelgen::SizeProgram length;    // kScan
  std::string native;               // kNative: the op
  std::vector<int64_t> parameters;  // kNative
  std::string place;                // The user's node, for errors.
};

struct ControlRegion {
  std::vector<uint32_t> arguments, yields;
  std::vector<ControlSize> opens;  // Dims of arguments that an iteration may change.
  std::vector<ControlSize>
      checks;  // Dims of carried yields that may differ from the argument's; `symbol` is not used.
  std::vector<ControlPart> parts;
};

// A relation between sizes that kernels rely on. Checked as soon as a run knows all of its symbols.
struct ControlFact {
  uint32_t rel = 0;  // TENON_REL_*
  kernelgen::SizeProgram a, b;
  std::vector<uint32_t> symbols;  // Data-dependent symbols of both sides; at least one.
  std::string place;              // The user's node that needs it, for errors.
};

struct ControlProgram {
  uint32_t symbol_count = 0, input_count = 0, constant_count = 0;
  std::vector<uint32_t> main_symbols;    // Set by a call, in its order.
  std::vector<uint32_t> out_symbols;     // Returned to a call, in its order.
  std::vector<int64_t> bounds;           // By symbol: an upper bound, or INT64_MAX.
  std::vector<int64_t> lows, multiples;  // By symbol: the least value, and a divisor.
  std::vector<ControlValue> values;
  std::vector<ControlRegion> regions;  // 0: the subgraph's main region.
  std::vector<ControlFact> facts;
  std::vector<std::string> artifacts;

  std::string bytes() const;
  // DATA_LOSS for bytes that are not a valid program. On success every index is in range and
  // regions form a tree.
  static Status read(std::string_view bytes, ControlProgram& out);
};

}  // namespace tenon::cpu
#endif
