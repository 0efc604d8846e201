// Evaluates one node on arrays in host memory: executes the meaning of an op by its reference, its
// scalar program or its decomposition, the first it has in that order. Used by the host's registry
// interface (the reference device, constant folding, tests). Correctness comes before speed.
//
// Threads: safe on a frozen graph; else one thread per graph.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/base/errors/status.h"
#include "core/ir/graph.h"
#include "tenon/abi/ops.h"

namespace tenon::op {

// Elements count against TENON_MEMORY_LIMIT while they exist.
struct FreeCounted {
  uint64_t bytes = 0;
  void operator()(std::byte* data) const;
};

// A dense array that owns its elements and dims.
class HostArray {
 public:
  // Zeroed elements. T0110 if the size overflows, T0111 or T0609 if memory is short.
  static Result<HostArray> create(tenon_dtype_t dtype, std::span<const int64_t> dims);
  // Without elements; unknown dims are -1.
  static HostArray unknown(tenon_dtype_t dtype, std::span<const int64_t> dims);
  const tenon_array_t& view() const { return view_; }
  tenon_array_t& view() { return view_; }
  std::span<const int64_t> dims() const { return {view_.dims, view_.rank}; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  tenon_array_t view_ = {};
  uint64_t size_bytes_ = 0;
  std::unique_ptr<int64_t[]> shape_;  // dims, then strides
  std::unique_ptr<std::byte[], FreeCounted> data_;
};

enum class Meaning { kFirst, kReference, kScalar, kDecomposition };

// Everything that a node reads: its operands, then what its regions capture, region after region.
std::vector<ir::Value> values_read(const ir::Graph& graph, ir::Node node);

// Evaluates a node. `inputs`: one per operand, absent ones with dtype NONE, then one per value that
// a region of the node captures, in the order of values_read; an input without strides is dense.
// `symbols`: one value per symbol index of the graph, for dims. FAILED_PRECONDITION if the op does
// not have the requested meaning.
// The arrays that a plugin gives, whose records have the size of the first: as records of this
// host. T0671 if they do not say it.
Result<std::vector<tenon_array_t>> arrays_of(const tenon_array_t* first, uint32_t count,
                                             std::string_view what);
// Fills a plugin's record with as much of `array` as it has room for.
void give_array(const tenon_array_t& array, tenon_array_t* out);

Result<std::vector<HostArray>> evaluate(ir::Graph& graph, ir::Node node,
                                        std::span<const int64_t> symbols,
                                        std::span<const tenon_array_t> inputs,
                                        Meaning meaning = Meaning::kFirst);

// The elements of a constant as an array, with strides of 0 for a splat. Borrowed from the blob;
// `shape` receives dims and strides.
Result<tenon_array_t> constant_array(const ir::Graph& graph, ir::Value value,
                                     std::vector<int64_t>* shape);

// Runs a scalar program over equally shaped arrays (or rank-0 ones). `attrs`: in declared order.
Status run_scalar(const tenon_op_def_t& def, std::span<const tenon_attr_t> attrs,
                  std::span<const tenon_array_t> inputs, std::span<HostArray> outputs);

}  // namespace tenon::op
