// What a call asks for, in the terms of cuBLASLt. Its matrices are column-major, so the product is
// turned over: the transposed result is the transposed weights times the transposed source.
#ifndef TENON_PLUGINS_CUBLASLT_PROBLEM_H_
#define TENON_PLUGINS_CUBLASLT_PROBLEM_H_

#include <tenon/cpp/kernel_call.hpp>

#include <vector>

#include "declarations.h"

namespace tenon::cublaslt {

// As the library sees an array.
struct Matrix {
  DataType type = kF32;
  Transpose transpose = kPlain;
  int64_t rows = 1, columns = 1, leading = 1, batch_stride = 0;
};

// Which dims of the operands are batches, and which are summed over: all that is needed to read the
// product for other sizes.
struct ProductDims {
  std::vector<int64_t> source_batch, source_sum, weights_batch, weights_sum;
  uint32_t source_rank = 0, weights_rank = 0;
};

struct Problem {
  Matrix weights, source, result;  // A, B, and both C and D
  ProductDims dims;
  bool any_size = false;  // a run decides some sizes; those here are likely ones
  int64_t batch = 1, depth = 1;
  ComputeType compute = kCompute32;
  Epilogue curve = kEpilogueNone;  // none, relu or gelu
  // Operands of the call; TENON_NONE: there is none.
  uint32_t bias = TENON_NONE, residual = TENON_NONE;
  uint32_t epilogue_taken = 0;  // nodes
  double flops = 0, bytes = 0, result_bytes = 0;

  uint32_t epilogue() const {
    const uint32_t bits = (bias != TENON_NONE ? kEpilogueBias : 0u) |
                          (curve != kEpilogueNone ? static_cast<uint32_t>(curve) : 0u);
    return bits == 0 ? static_cast<uint32_t>(kEpilogueNone) : bits;
  }
};

inline constexpr uint32_t kSource = 0, kWeights = 1;  // operands of every call here

// What the library may do less exactly than the op says: words of TENON_CUBLASLT_ALLOW.
struct Allowed {
  bool tf32 = false, relu = false;
};
Allowed allowed();

// Reads a call. UNIMPLEMENTED with a reason where the set has no kernel for it.
Status read_problem(const tenon_kernel_call_t& call, const Allowed& allowed, Problem* out);

// The same for the sizes of a run. Nothing is to be computed where out->result_bytes is 0.
Status resize_problem(const Problem& problem, const int64_t* source, const int64_t* weights,
                      Problem* out);

Status refuse(std::string_view reason);

}  // namespace tenon::cublaslt

#endif
