// A loaded artifact: code, constants and a bounded set of plans, one per tuple of symbol values.
#ifndef TENON_PLUGINS_CPU_EXECUTABLE_H_
#define TENON_PLUGINS_CPU_EXECUTABLE_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "module.h"
#include "plan_cache.h"
#include "tenon/abi/compile.h"
#include "tenon/cpp/status.hpp"
#include "tenon/kernelgen/device/device_program.h"
#include "tenon/kernelgen/device/program_layout.h"
#include "tenon/plan/flat_plan.h"
#include "tenon/plan/memory_planner.h"
#include "tenon/plan/regions.h"

namespace tenon::cpu {

// Everything about one tuple of symbol values. Immutable.
struct ShapePlan {
  std::vector<int64_t> symbols;
  plan::Plan plan;
  std::vector<uint64_t> sizes_bytes;    // Of every buffer of the program.
  std::vector<uint64_t> arena_offsets;  // By buffer; meaningful for temps only.
  std::vector<std::vector<int64_t>> output_dims;
  std::vector<uint32_t> alias_inputs;  // By output: kernelgen::alias_inputs.
  // Checks that these sizes do not already decide.
  std::vector<kernelgen::ProgramLayout::Check> checks;
  uint64_t arena_bytes = 0, lower_bound_bytes = 0;
  uint64_t scratch_stride_bytes = 0;
  // Where an execution finds what it enters in the plan's table of addresses. `index`: of the input
  // or the output.
  struct OfCall {
    uint32_t at = 0, index = 0;
    uint64_t bytes = 0;
  };
  struct InArena {
    uint32_t at = 0;
    uint64_t offset_bytes = 0;
  };
  struct Fixed {
    uint32_t at = 0;
    void* data = nullptr;
  };
  std::vector<OfCall> inputs, outputs;
  std::vector<InArena> temps;
  std::vector<Fixed> constants;
  std::vector<uint32_t> checked_at;  // By check: where its buffer is; kNotInTable: nowhere.
  static constexpr uint32_t kNotInTable = UINT32_MAX;
};

// Blobs from a package, each taken once. They are hostile: their number and sizes are checked.
class PackedReader {
 public:
  explicit PackedReader(std::span<tenon_blob_t* const> blobs) : rest_(blobs) {}
  // The next blob, retained for the caller, and its bytes.
  Status next(tenon_blob_t*& out, const void*& data, uint64_t& size_bytes);
  Status at_end() const;

 private:
  std::span<tenon_blob_t* const> rest_;
};

class Executable {
 public:
  // Opens the code, retains the constants that the kernels read and runs the load steps. Constants
  // that no run reads are then released.
  static Status load(tenon_device_t* device, std::string_view artifact,
                     std::span<tenon_blob_t* const> constants, std::unique_ptr<Executable>& out);
  // The same with the blobs that pack gave for this artifact: reads them where they lie, and runs
  // no load steps.
  static Status load_packed(tenon_device_t* device, std::string_view artifact, PackedReader& packed,
                            std::unique_ptr<Executable>& out);
  // What load_packed needs of a loaded executable: the block of packed weights, then the constants
  // that runs read as they are.
  Status pack(const tenon_packed_sink_t& sink) const;
  ~Executable();

  void info(tenon_executable_info_t* out) const;
  Status needs(tenon_symbols_t symbols, tenon_needs_t* needs);
  Status execute(const tenon_call_t& call);  // Reentrant.

 private:
  Executable() = default;
  static Status open(tenon_device_t* device, std::string_view artifact,
                     std::unique_ptr<Executable>& out);
  void size_constants(size_t count);
  // By constant: the bytes that steps of a run read of it as it is; kNotOfRuns if there is none.
  std::vector<int64_t> constants_of_runs() const;
  // Fails if the constant is shorter than what kernels read of it.
  Status check_constant(uint32_t index, int64_t needed_bytes) const;
  Status adopt_constants(std::span<tenon_blob_t* const> constants);
  Status adopt_packed(PackedReader& packed);
  Status find_kernels();
  Status allocate_persistents();
  struct Block {
    std::vector<uint64_t> offsets;  // By buffer; kNotInBlock for others.
    uint64_t bytes = 0;
    bool empty = true;
  };
  Status lay_out_block(bool at_run, Block& out) const;
  Status allocate_block(bool at_run, tenon_buffer_t*& out);
  void free_block(tenon_buffer_t*& block);
  Status run_load_steps();
  Status load_plan(plan::Plan& out, std::vector<void*>& slots) const;
  void drop_inputs_of_load();
  void find_used_buffers();
  // Lives as long as `holder`.
  Status plan_for(tenon_symbols_t symbols, std::shared_ptr<const ShapePlan>& holder,
                  const ShapePlan*& out);
  Status make_plan(std::span<const int64_t> symbols, std::unique_ptr<const ShapePlan>& out) const;
  void find_places(ShapePlan& shape) const;
  Status size_buffers(ShapePlan& shape) const;
  Status size_steps(std::span<const int64_t> symbols, std::vector<plan::Step>& steps,
                    std::vector<std::vector<int64_t>>& all_extents) const;
  static double estimated_ns(const plan::Step& step);
  plan::Regions find_regions(const ShapePlan& shape, std::span<const plan::Step> steps) const;
  void share_places(const ShapePlan& shape, const plan::Regions& regions,
                    std::span<plan::Lifetime> lives) const;
  Status place_temps(ShapePlan& shape, const plan::Regions& regions) const;
  Status check_run(const ShapePlan& shape, void* const* table) const;
  static Status fill_table(const tenon_call_t& call, const ShapePlan& shape, void** table);

  kernelgen::DeviceProgram program_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<plan::KernelFn> kernels_;
  tenon_device_t* device_ = nullptr;
  // By buffer: a step of a run reads or writes it, or it is an output; then the same for load
  // steps.
  std::vector<bool> used_, used_at_load_;
  std::vector<char*> persistents_;  // By buffer: inside one of the blocks; null for other kinds.
  // One block for everything that runs read, so that it can use huge pages, and one for what only
  // the load steps need.
  tenon_buffer_t *kept_ = nullptr, *passing_ = nullptr;
  uint64_t persistent_bytes_ = 0;
  tenon_blob_t* packed_ = nullptr;    // In place of kept_, if a package has the block.
  std::vector<tenon_blob_t*> blobs_;  // Retained; null where no kernel reads the constant.
  std::vector<const void*> constant_data_;
  std::vector<uint64_t> constant_bytes_;
  std::vector<std::unique_ptr<char[]>> copies_;  // By constant: aligned copies, where needed.
  uint64_t copied_bytes_ = 0;

  PlanCache<ShapePlan> plans_;
};

}  // namespace tenon::cpu
#endif
