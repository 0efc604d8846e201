// The plugin's declarations are those of the vendor's headers. Compiled, never run.
#include <cublasLt.h>

#include "declarations.h"

namespace tenon::cublaslt {

#define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
SAME(kSuccess, CUBLAS_STATUS_SUCCESS);
SAME(kNotInitialised, CUBLAS_STATUS_NOT_INITIALIZED);
SAME(kAllocFailed, CUBLAS_STATUS_ALLOC_FAILED);
SAME(kInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
SAME(kArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH);
SAME(kMappingError, CUBLAS_STATUS_MAPPING_ERROR);
SAME(kExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED);
SAME(kInternalError, CUBLAS_STATUS_INTERNAL_ERROR);
SAME(kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(kF32, CUDA_R_32F);
SAME(kF16, CUDA_R_16F);
SAME(kBf16, CUDA_R_16BF);
SAME(kCompute32, CUBLAS_COMPUTE_32F);
SAME(kComputeTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(kPlain, CUBLAS_OP_N);
SAME(kTransposed, CUBLAS_OP_T);
SAME(kDescTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(kDescTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(kDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(kDescBias, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(kLayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(kLayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(kPreferenceWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(kPreferenceReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(kReductionInSumType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(kPreferenceAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(kPreferenceAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(kPreferenceAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(kPreferenceAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(kEpilogueNone, CUBLASLT_EPILOGUE_DEFAULT);
SAME(kEpilogueRelu, CUBLASLT_EPILOGUE_RELU);
SAME(kEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
SAME(kEpilogueRelu | kEpilogueBias, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(kEpilogueGelu, CUBLASLT_EPILOGUE_GELU);
SAME(kEpilogueGelu | kEpilogueBias, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME(sizeof(Algorithm), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(Heuristic), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(Heuristic, workspace_bytes),
     offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(Heuristic, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
SAME(offsetof(Heuristic, waves), offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

// Handles are pointers and enumerations are integers to a caller; so many parameters of such sizes.
template <class... All>
constexpr size_t fold(size_t seed) {
  ((seed = seed * 31 + sizeof(All)), ...);
  return seed;
}
template <class Result, class... Args>
constexpr size_t shape(Result (*)(Args...)) {
  return fold<Result, Args...>(sizeof...(Args));
}
struct Ours {
#define SLOT(name, symbol, parameters) int(*name) parameters;
  TENON_CUBLASLT_FUNCTIONS(SLOT)
};
#define SAME_SHAPE(name, symbol, parameters) \
  static_assert(shape(decltype(Ours::name){}) == shape(decltype(&::symbol){}));
TENON_CUBLASLT_FUNCTIONS(SAME_SHAPE)
static_assert(shape(VersionFunction{}) == shape(decltype(&::TENON_CUBLASLT_VERSION_FUNCTION){}));

}  // namespace tenon::cublaslt
