// The types and numbers of cuBLASLt and of CUDA's driver that this plugin uses: declarations of our
// own, the same in the releases 11 to 13. tests/fakes/cublaslt compares them with the vendor's
// headers where these are installed.
#ifndef TENON_PLUGINS_CUBLASLT_DECLARATIONS_H_
#define TENON_PLUGINS_CUBLASLT_DECLARATIONS_H_

#include <cstddef>
#include <cstdint>

namespace tenon::cublaslt {

using Result = int;    // cublasStatus_t
using CUresult = int;  // of the driver
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
// Objects of the library, with names of our own: those of the vendor are not all of structs.
using Handle = struct OpaqueHandle*;
using ProductDesc = struct OpaqueProductDesc*;
using Layout = struct OpaqueLayout*;
using Preference = struct OpaquePreference*;

enum : Result {
  kSuccess = 0,
  kNotInitialised = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kArchMismatch = 8,
  kMappingError = 11,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15,
};
enum DataType : int { kF32 = 0, kF16 = 2, kBf16 = 14 };
enum ComputeType : int { kCompute32 = 68, kComputeTf32 = 77 };
enum Transpose : int { kPlain = 0, kTransposed = 1 };
enum DescAttribute : int {
  kDescTransposeA = 3,
  kDescTransposeB = 4,
  kDescEpilogue = 7,
  kDescBias = 8,
};
enum LayoutAttribute : int { kLayoutBatchCount = 5, kLayoutBatchStride = 6 };
enum PreferenceAttribute : int {
  kPreferenceWorkspace = 1,
  kPreferenceReductionSchemes = 3,
  kPreferenceAlignmentA = 5,
  kPreferenceAlignmentB = 6,
  kPreferenceAlignmentC = 7,
  kPreferenceAlignmentD = 8,
};
// A set of bits; 1 alone: none.
enum Epilogue : uint32_t {
  kEpilogueNone = 1,
  kEpilogueRelu = 2,
  kEpilogueBias = 4,
  kEpilogueGelu = 32,
};
// How partial sums of a product whose depth is split are added: in the type of the sum. Without a
// split there are none.
constexpr uint32_t kReductionInSumType = 2;
constexpr int kPointerDeviceOrdinal = 9;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  Result state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

// X(name here, symbol, parameters)
#define TENON_CUBLASLT_FUNCTIONS(X)                                                               \
  X(create, cublasLtCreate, (Handle*))                                                            \
  X(destroy, cublasLtDestroy, (Handle))                                                           \
  X(desc_create, cublasLtMatmulDescCreate, (ProductDesc*, int compute, int scale))                \
  X(desc_destroy, cublasLtMatmulDescDestroy, (ProductDesc))                                       \
  X(desc_set, cublasLtMatmulDescSetAttribute, (ProductDesc, int, const void*, size_t))            \
  X(layout_create, cublasLtMatrixLayoutCreate,                                                    \
    (Layout*, int type, uint64_t rows, uint64_t columns, int64_t leading))                        \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, (Layout))                                        \
  X(layout_set, cublasLtMatrixLayoutSetAttribute, (Layout, int, const void*, size_t))             \
  X(preference_create, cublasLtMatmulPreferenceCreate, (Preference*))                             \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy, (Preference))                            \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute, (Preference, int, const void*, size_t)) \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                    \
    (Handle, ProductDesc, Layout a, Layout b, Layout c, Layout d, Preference, int wanted,         \
     Heuristic*, int* found))                                                                     \
  X(product, cublasLtMatmul,                                                                      \
    (Handle, ProductDesc, const void* alpha, const void* a, Layout, const void* b, Layout,        \
     const void* beta, const void* c, Layout, void* d, Layout, const Algorithm*, void* workspace, \
     size_t workspace_bytes, CUstream))

// The CUDA that it was built with: 12020 is 12.2.
#define TENON_CUBLASLT_VERSION_FUNCTION cublasLtGetCudartVersion
using VersionFunction = size_t (*)();

// Of libcuda.so.1.
#define TENON_CUBLASLT_DRIVER_FUNCTIONS(X)                                      \
  X(driver_version, cuDriverGetVersion, (int*))                                 \
  X(pointer_attribute, cuPointerGetAttribute, (void*, int, unsigned long long)) \
  X(context_retain, cuDevicePrimaryCtxRetain, (CUcontext*, int device))         \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                \
  X(context_push, cuCtxPushCurrent_v2, (CUcontext))                             \
  X(context_pop, cuCtxPopCurrent_v2, (CUcontext*))                              \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int*))                    \
  X(stream_synchronize, cuStreamSynchronize, (CUstream))

}  // namespace tenon::cublaslt

#endif
