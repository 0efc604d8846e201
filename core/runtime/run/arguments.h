// What a run is given, and what it gives.
#pragma once
#include <string_view>
#include <vector>

#include "core/runtime/values/tensor.h"

namespace tenon::runtime {

// An input: the caller's array or a tensor.
struct Argument {
  const tenon_array_t* array = nullptr;  // for a tensor its type and dims, and no data
  Tensor* tensor = nullptr;              // null: `array` has the data
  bool donated = false;  // the run may have the tensor's memory: gone once the run has succeeded,
                         // or an output was written to it
};

// The value of a symbolic size, which may follow from no input.
struct GivenSize {
  std::string_view name;
  int64_t value = 0;
};

// Memory of the caller that an output may be made in. Nothing else of the run lies in it, but for
// one input.
struct Home {
  void* data = nullptr;  // null: the output has none
  uint64_t size_bytes = 0;
  // An array of the run that has exactly this memory: the output may replace it while it is read.
  uint32_t input = UINT32_MAX;
};

struct OutputArray {
  const void* data = nullptr;  // null: it stays on its device
  std::vector<int64_t> dims;
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::shared_ptr<Tensor> tensor;  // once it was detached, if it stays
};

struct RunStatistics {
  uint64_t arena_bytes = 0;              // that this run used: workspaces and outputs
  uint64_t arena_lower_bound_bytes = 0;  // peak of live bytes, as far as devices report it
  uint64_t transferred_bytes = 0;
  uint64_t direct_bytes = 0;    // between devices of one plugin, without the host
  uint64_t filled_bytes = 0;    // one element repeated: made by the device, not transferred
  uint64_t copied_bytes = 0;    // outputs that are inputs, into memory of their own
  uint64_t repacked_bytes = 0;  // strided inputs that were made dense
  double run_ms = 0;
};

}  // namespace tenon::runtime
