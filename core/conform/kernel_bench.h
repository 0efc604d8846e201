// Kernels of tenon.kernels/1, worked by hand: one op of a graph, asked for, made and run between
// guards.
#pragma once
#include <memory>
#include <vector>

#include <tenon/abi/kernels.h>

#include "core/conform/compile_bench.h"
#include "core/conform/op_cases.h"

namespace tenon::conform {

// One call: an op with the nodes behind it, as far as they are given.
class KernelCall {
 public:
  // The first node of the graph is the anchor; the next `epilogue` nodes are offered with it.
  KernelCall(const Part& part, uint32_t epilogue);
  const tenon_kernel_call_t& call() const { return call_; }
  const Part& part() const { return part_; }

 private:
  const Part& part_;
  std::vector<tenon_kernel_operand_t> operands_;
  std::vector<tenon_type_t> results_;
  tenon_kernel_call_t call_ = {};
};

class KernelBench {
 public:
  explicit KernelBench(Session& session) : session_(session) {}
  // Finds the tables and opens device 0. Not offered or skipped where the kernels are of no device
  // of this plugin.
  Outcome open();
  Session& session() { return session_; }
  const Api& api() const { return api_; }
  const tenon_kernels_api_t& kernels() const { return *kernels_; }
  OpenDevice& device() { return *device_; }
  tenon_code_t query(const KernelCall& call, tenon_kernel_candidate_t* out);
  uint64_t alignment() const { return info_.alignment_bytes; }

 private:
  Session& session_;
  Api api_;
  const tenon_kernels_api_t* kernels_ = nullptr;
  tenon_device_info_t info_ = {};
  std::unique_ptr<OpenDevice> device_;
};

// Buffers of one call, with guards.
class KernelRun {
 public:
  KernelRun(KernelBench& bench, const Part& part) : bench_(bench), part_(part) {}
  KernelRun(const KernelRun&) = delete;
  ~KernelRun();
  Outcome prepare(const std::vector<Named>& inputs, const tenon_kernel_candidate_t& candidate,
                  unsigned char filler);
  // Part `index` of `count`.
  tenon_code_t run(tenon_kernel_t* kernel, uint32_t index, uint32_t count);
  Outcome outputs(std::vector<Named>* out);
  Outcome kept_all();

 private:
  struct Room {
    tenon_buffer_t* buffer = nullptr;
    uint64_t size_bytes = 0;
  };
  Outcome make_room(uint64_t size_bytes, Room* out);
  Outcome guarded(const Room& room, std::string_view what, Bytes* inside);

  KernelBench& bench_;
  const Part& part_;
  std::vector<Named> input_values_;
  unsigned char filler_ = 0;
  uint64_t guard_ = 0;
  std::vector<Room> inputs_, outputs_;
  Room workspace_;
  std::vector<std::vector<int64_t>> input_dims_, output_dims_;
  std::vector<tenon_buffer_t*> buffers_;
};

}  // namespace tenon::conform
