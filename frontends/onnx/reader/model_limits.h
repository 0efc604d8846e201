// Limits of models. An error names the limit that it exceeds and the variable that raises it.
// Limits bound work and memory before either is spent; real models stay far below.
#ifndef FRONTENDS_ONNX_READER_MODEL_LIMITS_H_
#define FRONTENDS_ONNX_READER_MODEL_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace tenon::onnx {

// Variables and defaults are shared by the whole project; model_limits.cpp reads them.
struct Limits {
  uint64_t nodes = 2'000'000;  // TENON_LIMIT_NODES, functions inlined
  uint64_t operands =
      100'000;  // TENON_LIMIT_OPERANDS, of one node; also its results and the model's inputs
  uint64_t depth = 64;  // TENON_LIMIT_DEPTH, graphs in attributes, functions in functions
  uint64_t name_bytes = 64 << 10;         // TENON_LIMIT_NAME_BYTES
  uint64_t elements = uint64_t{1} << 36;  // TENON_LIMIT_ELEMENTS, of one tensor
};
// Read once from the host's settings. Threads: safe.
const Limits& limits();

inline constexpr size_t kMaxAttributes = 256;          // of one node
inline constexpr size_t kMaxAttributeItems = 1 << 20;  // numbers in one attribute
inline constexpr size_t kMaxKnownElements =
    4'096;                                  // of a tensor whose values shape arithmetic follows
inline constexpr size_t kMaxProblems = 20;  // listed in one error
inline constexpr size_t kMaxListed = 8;     // node names listed for one unknown op
// Opset versions of ai.onnx that the importers were written for.
inline constexpr int64_t kOldestOpset = 1;
inline constexpr int64_t kNewestOpset = 28;

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_READER_MODEL_LIMITS_H_
