// An executable made of single kernel calls: the kernels of a segment in order, with a plan of
// their memory.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <tenon/abi/compile.h>

#include "core/dispatch/kernels/kernel_call.h"
#include "core/dispatch/kernels/own_buffer.h"
#include "core/ir/form.h"
#include "core/runtime/values/shapes.h"

namespace tenon::dispatch {

// What is compiled: the graph in binary form, and what its kernels were queried for. The target is
// stored because the ordinals of a plugin may differ, and an open device does not say which ordinal
// it has.
struct KernelArtifact {
  std::string_view graph, target;
  bool deterministic = false;
  static Result<std::string> pack(std::string graph, std::string_view target, bool deterministic);
  // Borrows `bytes`. T0210 if they are damaged.
  static Result<KernelArtifact> unpack(std::string_view bytes);
  Result<ir::Ref<ir::Graph>> read_graph() const;
};

// Threads: safe; executions share nothing that they write.
class KernelProgram {
 public:
  // Creates the kernels on an open device, and packs and uploads the constants.
  static Result<std::unique_ptr<KernelProgram>> load(const KernelsOfPlugin& set,
                                                     tenon_device_t* device,
                                                     std::string_view bytes);
  ~KernelProgram();
  KernelProgram(const KernelProgram&) = delete;

  void info(tenon_executable_info_t* out) const;
  Status needs(std::span<const int64_t> symbols, tenon_needs_t* out) const;
  Status execute(const tenon_call_t& call) const;

 private:
  struct Launch {
    std::vector<ir::Node> nodes;  // the anchor, then its epilogue
    std::vector<ir::Value> operands;
    std::unordered_map<size_t, OwnBuffer> packed;  // by operand
    tenon_kernel_t* kernel = nullptr;
    uint32_t part_count = 1;
    uint64_t workspace_bytes = 0;
    std::string name;
  };
  using Places = std::unordered_map<ir::Value, tenon_span_t>;
  struct Run;
  explicit KernelProgram(const KernelsOfPlugin& set) : set_(set) {}

  Status find_calls(std::string_view target, bool deterministic, std::vector<TakenCall>* out) const;
  Status create_kernel(tenon_device_t* device, const KernelArtifact& artifact,
                       const TakenCall& taken);
  Result<tenon_kernel_t*> make(tenon_device_t* device, const KernelArtifact& artifact,
                               const KernelCall& call) const;
  Status pack_operands(tenon_device_t* device, uint32_t mask, Launch* launch);
  Status upload_constants(tenon_device_t* device);

  Status dims_of(ir::Value v, std::span<const int64_t> symbols, std::vector<int64_t>* out) const;
  Status bytes_of(ir::Value v, std::span<const int64_t> dims, uint64_t* out) const;
  bool is_output(ir::Value v) const;
  // Offsets of the values kept in the workspace, one after the other; UINT64_MAX for other values.
  // After them, at `scratch`, the kernels' own workspace.
  Status layout(std::span<const int64_t> symbols, std::vector<uint64_t>* offsets, uint64_t* scratch,
                uint64_t* total) const;
  Status places_of(const tenon_call_t& call, Places* places, uint64_t* scratch) const;
  struct Submission {
    const tenon_call_t& call;
    const Places& places;
    uint64_t scratch = 0;
    const tenon_native_handle_t* stream = nullptr;  // of kernels that submit to a native one
    bool begun = false;                             // something was submitted
  };
  Status run_all(Submission& all) const;
  Status run_native(Submission& all) const;
  Status run(const Launch& launch, Submission& all, uint32_t order) const;
  Status run_parts(const Launch& launch, const tenon_kernel_args_t& args, bool* submitted) const;
  Status signal_alone(const tenon_call_t& call) const;

  const KernelsOfPlugin& set_;
  tenon_device_t* device_ = nullptr;
  bool parts_at_once_ = false;
  ir::Ref<ir::Graph> graph_;
  ir::Digest form_{};  // of kernels that are kept in the cache
  runtime::Shapes shapes_;
  std::unordered_map<ir::Value, OwnBuffer> constants_;
  std::vector<Launch> launches_;
  uint64_t scratch_bytes_ = 0, constant_bytes_ = 0, alignment_ = 1;
};

}  // namespace tenon::dispatch
