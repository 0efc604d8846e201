// A device program with concrete sizes: the size of every buffer, the place of temps in the
// workspace, the size of every launch. A negative or overflowing size is an error that names the
// buffer, never an allocation.
//
// Users: plugins/sim, samples/opencl (plugins/cpu keeps layouts per shape beside its flat plans,
// and uses check_found).
#ifndef TENON_KERNELGEN_DEVICE_PROGRAM_LAYOUT_H_
#define TENON_KERNELGEN_DEVICE_PROGRAM_LAYOUT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/kernelgen/device/device_program.h"

namespace tenon::kernelgen {

struct ProgramLayout {
  std::vector<uint64_t> bytes;         // per DeviceProgram::buffers
  std::vector<uint64_t> temp_offsets;  // per buffer, in the workspace; other kinds 0
  struct Launch {
    int64_t range = 0;
    uint64_t scratch_bytes = 0;  // of one range item
    std::vector<int64_t> extents;
  };
  std::vector<Launch> launches;  // per step
  struct Check {
    uint32_t index = 0;  // of the program's checks
    uint64_t limit = 0;
  };
  // The checks that can fail at these sizes, for after the last step.
  std::vector<Check> checks;
  std::vector<uint32_t> alias_inputs;  // as of that function
  uint64_t workspace_bytes = 0, lower_bound_bytes = 0;
  uint64_t scratch_offset = 0;  // of scratch shared by all steps, inside the workspace
};

// How a device provides scratch: range * scratch_bytes for work items that run at once, or
// scratch_bytes once.
enum class ScratchPer : uint8_t { kItem, kWorker };

struct LayoutOptions {
  ScratchPer scratch = ScratchPer::kItem;
  uint64_t alignment_bytes = 64;  // of temps in the workspace; a power of two, at least 64
};

// symbols: the values of the program's symbols. False: `*why` names what does not fit.
bool layout_program(const DeviceProgram& program, std::span<const int64_t> symbols,
                    const LayoutOptions& options, ProgramLayout* out, std::string* why);

// By output: the input whose memory may become the output's, because the only step that accesses
// the input is the first that accesses the output, writes it in the input's place, and both have as
// many bytes; TENON_NO_ALIAS if there is none. bytes: by buffer; 0 for what needs no memory.
std::vector<uint32_t> alias_inputs(const DeviceProgram& program, std::span<const uint64_t> bytes);

// A layout of the load steps: sizes of constants and persistent buffers, launches, and a workspace
// that is scratch only.
bool layout_load_steps(const DeviceProgram& program, const LayoutOptions& options,
                       ProgramLayout* out, std::string* why);

// The result of a check after the last step; `found` is the u64 in the check's buffer. TENON_OK, or
// the code and text to fail with; the run's outputs must then not be used.
tenon_code_t check_found(const DeviceProgram& program, const ProgramLayout::Check& check,
                         uint64_t found, std::string* text);

// Fills the answer of tenon_compile_api_t::needs from a layout. False: the caller's record has
// another number of outputs.
bool fill_needs(const DeviceProgram& program, const ProgramLayout& layout,
                std::span<const int64_t> symbols, tenon_needs_t* needs);

}  // namespace tenon::kernelgen
#endif
