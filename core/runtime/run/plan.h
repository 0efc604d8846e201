// A program ready to run: executables on devices, and the steps between inputs and outputs. Made by
// core/session from a placement, immutable afterwards.
#pragma once
#include <memory>
#include <vector>

#include <tenon/abi/graph.h>

#include "core/runtime/device/device.h"
#include "core/runtime/device/executable.h"
#include "core/runtime/values/shapes.h"

namespace tenon::runtime {

inline constexpr uint32_t kHostPlace = 0xffffffffu;  // host memory as a place, like the devices

// A value that crosses a boundary: an input, a segment's output, or a constant that is an output.
struct Slot {
  enum class Source : uint8_t { kInput, kSegment, kConstant };
  Source source = Source::kSegment;
  uint32_t input = 0;                // kInput: its index
  tenon_blob_t* constant = nullptr;  // kConstant; the graph keeps it
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<tenon_dim_t> dims;  // of the program's graph
  uint32_t last_step = 0;  // last step that reads the value; UINT32_MAX: an output of the program
};

struct Step {
  enum class Kind : uint8_t { kCopy, kExecute };
  Kind kind = Kind::kExecute;
  uint32_t device = 0;                    // index into Plan::devices; kCopy: target, or kHostPlace
  uint32_t slot = 0;                      // kCopy
  uint32_t executable = 0;                // kExecute
  std::vector<uint32_t> inputs, outputs;  // kExecute: slots
  std::vector<tenon_symbol_t> symbols;    // of the program's graph, in the order of the subgraph's
  std::vector<tenon_symbol_t> out_symbols;  // of the program's graph, set by this step
};

struct Plan {
  const tenon_host_graph_t* api = nullptr;
  Shapes shapes;
  std::vector<std::shared_ptr<Device>> devices;
  // Null: loaded when a call brings its constants, into a copy of the plan
  // (core/session/compile/loading.h).
  std::vector<std::shared_ptr<Executable>> executables;
  std::vector<Slot> slots;
  std::vector<Step> steps;
  std::vector<uint32_t> output_slots;  // one per output; a slot may occur twice
  std::vector<tenon_symbol_t> needed;  // symbols of inputs that a type or an attribute mentions
};

}  // namespace tenon::runtime
