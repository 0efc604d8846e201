// DLPack 1.3, as far as this package uses it: tensors of other libraries in memory, and the table
// of C functions that a Python type may offer. Written from the specification
// (https://dmlc.github.io/dlpack/latest); the layouts are those of its header.
#ifndef FRONTENDS_PYTHON_NATIVE_DLPACK_H_
#define FRONTENDS_PYTHON_NATIVE_DLPACK_H_

#include <cstddef>
#include <cstdint>

namespace tenon::python::dlpack {

inline constexpr uint32_t kMajor = 1;
inline constexpr uint32_t kMinor = 3;

// Kinds of devices whose memory the host reads as its own.
inline constexpr int32_t kCpu = 1;
inline constexpr int32_t kCudaHost = 3;
inline constexpr int32_t kRocmHost = 11;

// Codes of element types.
inline constexpr uint8_t kInt = 0;
inline constexpr uint8_t kUInt = 1;
inline constexpr uint8_t kFloat = 2;
inline constexpr uint8_t kBfloat = 4;
inline constexpr uint8_t kComplex = 5;
inline constexpr uint8_t kBool = 6;
inline constexpr uint8_t kFloat8E4m3fn = 10;
inline constexpr uint8_t kFloat8E5m2 = 12;

// Flags of a managed tensor.
inline constexpr uint64_t kReadOnly = 1;

struct Version {
  uint32_t major, minor;
};

struct Device {
  int32_t type, id;
};

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

// Strides are in elements; null if it is dense and row-major.
struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

// Before version 1, in capsules named "dltensor".
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);
};

// In capsules named "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned* self);
  uint64_t flags;
  Tensor tensor;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous;  // an older table, or null
};

// What `__dlpack_c_exchange_api__` of a type holds, in a capsule named "dlpack_exchange_api". The
// functions return 0, or -1 with a Python exception. The GIL is held.
struct ExchangeTable {
  ExchangeHeader header;
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_of)(void* object, ManagedTensorVersioned** out);
  int (*object_of)(ManagedTensorVersioned* tensor, void** out_object);  // takes the tensor
  int (*view_of)(void* object, Tensor* out);  // may be null; borrows from the object
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out_stream);
};

static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, byte_offset) == 40);
static_assert(sizeof(ManagedTensorVersioned) == 80);

}  // namespace tenon::python::dlpack

#endif
