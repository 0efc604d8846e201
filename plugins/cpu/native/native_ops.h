// Ops that loop nests cannot express: results of data-dependent length, searches, positions
// computed from coordinates. Each is a C++ function that a control program calls as a part of its
// own. The sizes of its results become known during the call.
#ifndef TENON_PLUGINS_CPU_NATIVE_NATIVE_OPS_H_
#define TENON_PLUGINS_CPU_NATIVE_NATIVE_OPS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/status.hpp"

namespace tenon::cpu {

struct NativeType {
  tenon_dtype_t dtype = 0;
  uint32_t rank = 0;
};

// What is known before a run. Parameters are the op's attributes as integers, floats by their bits.
struct NativeSignature {
  std::vector<NativeType> inputs, outputs;
  std::vector<int64_t> parameters;
};

// A dense array in row-major order.
struct NativeArray {
  tenon_dtype_t dtype = 0;
  std::span<const int64_t> dims;
  const char* data = nullptr;
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

// One call. Relations between the sizes of inputs that the function relies on have been checked.
class NativeCall {
 public:
  virtual ~NativeCall() = default;
  // Allocates a result once its dims are known. The function calls it once per result before it
  // returns.
  virtual Status make(size_t output, std::span<const int64_t> dims, char** data) = 0;
  // The same with a typed pointer, for dims written as a list.
  template <class T>
  Status make(size_t output, std::initializer_list<int64_t> dims, T** out) {
    char* data = nullptr;
    TENON_TRY(make(output, std::span<const int64_t>(dims.begin(), dims.size()), &data));
    *out = reinterpret_cast<T*>(data);
    return {};
  }
  std::vector<NativeArray> inputs;
  std::span<const int64_t> parameters;
  std::string_view place;  // The user's node, for errors.
};

struct NativeOp {
  std::string_view name;
  std::vector<int64_t> (*parameters)(const Node&);
  // Whether the function supports these types. Called for nodes, and for records that were read.
  bool (*takes)(const NativeSignature&);
  Status (*run)(NativeCall&);
};

// Null where there is none. Pointers stay valid.
const NativeOp* find_native(std::string_view name);
NativeSignature native_signature(const NativeOp& op, const Node& node);

// body(begin, end) over [0, n) on the host's threads, in chunks of at least `grain`. CANCELLED when
// the run is cancelled. Inside a parallel region, or without a pool, it runs on the calling thread.
Status native_parallel(int64_t n, int64_t grain,
                       const std::function<Status(int64_t, int64_t)>& body);

// Copies the slices of x at the positions `chosen` along `dim`, one after another.
Status native_take(const NativeArray& x, size_t dim, std::span<const int64_t> chosen, char* out);

// Calls body with a value of the C++ type of `dtype` (bool as uint8_t, 16-bit floats as Half and
// Brain); false for types without one.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
float number(Half h);
float number(Brain b);
template <class T>
constexpr T number(T v) {
  return v;
}
template <class Body>
bool with_native_type(tenon_dtype_t dtype, Body&& body) {
  switch (dtype) {
    case TENON_PRED:
      return body(uint8_t{}), true;
    case TENON_I8:
      return body(int8_t{}), true;
    case TENON_I16:
      return body(int16_t{}), true;
    case TENON_I32:
      return body(int32_t{}), true;
    case TENON_I64:
      return body(int64_t{}), true;
    case TENON_U8:
      return body(uint8_t{}), true;
    case TENON_U16:
      return body(uint16_t{}), true;
    case TENON_U32:
      return body(uint32_t{}), true;
    case TENON_U64:
      return body(uint64_t{}), true;
    case TENON_F16:
      return body(Half{}), true;
    case TENON_BF16:
      return body(Brain{}), true;
    case TENON_F32:
      return body(float{}), true;
    case TENON_F64:
      return body(double{}), true;
    default:
      return false;
  }
}

// The tables of the files that implement them.
std::span<const NativeOp> native_choosing();  // dim_from_scalar, nonzero, compress
std::span<const NativeOp> native_unique();
std::span<const NativeOp> native_regions();  // nms, roi_align

}  // namespace tenon::cpu
#endif
