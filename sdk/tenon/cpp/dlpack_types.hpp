// DLPack 1.3 in Tenon's terms: its structs, element types and devices, and managed tensors over
// memory that an owner keeps. Written from the specification
// (https://dmlc.github.io/dlpack/latest); the layouts are those of its header, so a pointer to a
// struct of dlpack.h may be cast to one to the struct of this header, and back.
//
// For programs that exchange tensors, dlpack.hpp has the functions.
#ifndef TENON_CPP_DLPACK_TYPES_HPP_
#define TENON_CPP_DLPACK_TYPES_HPP_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/abi/base.h"
#include "tenon/abi/exchange.h"
#include "tenon/cpp/elements.hpp"
#include "tenon/cpp/record.hpp"
#include "tenon/cpp/status.hpp"

namespace tenon::inline sdk::dlpack {

inline constexpr uint32_t kMajor = 1;
inline constexpr uint32_t kMinor = 3;

// Kinds of devices whose memory the host reads as its own.
inline constexpr int32_t kCpu = 1;
inline constexpr int32_t kCudaHost = 3;
inline constexpr int32_t kRocmHost = 11;
// Others.
inline constexpr int32_t kCuda = 2;
inline constexpr int32_t kRocm = 10;
inline constexpr int32_t kMetal = 8;  // data is an MTLBuffer

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

// Before version 1.
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);  // null: nothing is to be done
};

struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned* self);  // null: nothing is to be done
  uint64_t flags;
  Tensor tensor;
};

static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, byte_offset) == 40);
static_assert(sizeof(ManagedTensor) == 64 && offsetof(ManagedTensor, deleter) == 56);
static_assert(sizeof(ManagedTensorVersioned) == 80 &&
              offsetof(ManagedTensorVersioned, tensor) == 32);

// ---- What both kinds of managed tensors hold ----

// False: of another major version, of which nothing but the deleter may be used.
inline bool readable(const ManagedTensor&) {
  return true;
}
inline bool readable(const ManagedTensorVersioned& managed) {
  return managed.version.major == kMajor;
}

// The old kind cannot say it.
inline bool read_only(const ManagedTensor&) {
  return false;
}
inline bool read_only(const ManagedTensorVersioned& managed) {
  return (managed.flags & kReadOnly) != 0;
}

template <class Managed>
void call_deleter(Managed* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

// ---- Element types ----

// Lanes 0: DLPack has no such type.
constexpr DataType type_of(tenon_dtype_t dtype) {
  const auto of = [dtype](uint8_t code) {
    return DataType{code, static_cast<uint8_t>(elements::dtype_bits(dtype)), 1};
  };
  switch (dtype) {
    case TENON_PRED:
      return of(kBool);
    case TENON_I8:
    case TENON_I16:
    case TENON_I32:
    case TENON_I64:
      return of(kInt);
    case TENON_U8:
    case TENON_U16:
    case TENON_U32:
    case TENON_U64:
      return of(kUInt);
    case TENON_F16:
    case TENON_F32:
    case TENON_F64:
      return of(kFloat);
    case TENON_BF16:
      return of(kBfloat);
    case TENON_F8E4M3FN:
      return of(kFloat8E4m3fn);
    case TENON_F8E5M2:
      return of(kFloat8E5m2);
    case TENON_C64:
    case TENON_C128:
      return of(kComplex);
    default:
      return {};
  }
}

// By element type, for each array of a call.
inline constexpr auto kTypes = [] {
  std::array<DataType, elements::kDtypeEnd> types{};
  for (tenon_dtype_t d = 1; d < elements::kDtypeEnd; ++d) types[d] = type_of(d);
  return types;
}();

// TENON_DTYPE_NONE if there is none.
constexpr tenon_dtype_t dtype_of(DataType type) {
  for (tenon_dtype_t d = 1; type.lanes == 1 && d < elements::kDtypeEnd; ++d) {
    if (kTypes[d].lanes == 1 && kTypes[d].code == type.code && kTypes[d].bits == type.bits)
      return d;
  }
  return TENON_DTYPE_NONE;
}

// ---- Devices ----

constexpr bool host_reads(int32_t device_type) {
  return device_type == kCpu || device_type == kCudaHost || device_type == kRocmHost;
}

// A vendor whose memory has a kind in DLPack, and a plugin that takes its pointers.
struct Vendor {
  int32_t device_type;
  // "cuda", "cuda.pointer", "cuda.stream". Empty: DLPack has no streams of this vendor, so who
  // gives memory ends its work first.
  const char *device, *memory, *stream;
  constexpr bool has_streams() const { return *stream != 0; }
  // What Python's `__dlpack__` calls the default stream, on which a consumer's work then goes.
  int default_stream;
};
// DLPack's numbers of CUDA's and ROCm's default streams differ.
inline constexpr Vendor kVendors[] = {{kCuda, "cuda", "cuda.pointer", "cuda.stream", 1},
                                      {kRocm, "rocm", "rocm.pointer", "rocm.stream", 0},
                                      {kMetal, "mps", "mps.buffer", "", 0}};

// Null if there is none of this kind.
constexpr const Vendor* vendor_of(int32_t device_type) {
  for (const Vendor& vendor : kVendors) {
    if (vendor.device_type == device_type) return &vendor;
  }
  return nullptr;
}

// "cuda#1", the device to which the vendor gives this number: Tenon's own may be another, because
// plugins leave out devices that they have no code for.
inline std::string device_name(const Vendor& vendor, int32_t id) {
  return cat(vendor.device, "#", id);
}

// ---- Memory ----

// True if the elements lie row-major without gaps.
inline bool is_dense(const Tensor& t) {
  uint64_t step = 1;
  bool dense = true;
  for (int32_t i = t.rank; i-- > 0;) {
    if (t.shape[i] == 0) return true;
    dense = dense && (t.strides == nullptr || t.shape[i] == 1 ||
                      static_cast<uint64_t>(t.strides[i]) == step);
    step *= static_cast<uint64_t>(t.shape[i]);
  }
  return dense;
}

// Type and dims, which the tensor lends, as a record without data. Empty; or why it cannot be, as
// in "the tensor " + why.
inline std::string read_type(const Tensor& t, tenon_array_t* out) {
  *out = sized<tenon_array_t>();
  out->dtype = dtype_of(t.dtype);
  if (out->dtype == TENON_DTYPE_NONE) {
    return cat("has elements of DLPack's type (code ", uint32_t{t.dtype.code}, ", bits ",
               uint32_t{t.dtype.bits}, ", lanes ", t.dtype.lanes, "), which Tenon does not have");
  }
  if (t.rank < 0 || t.rank > static_cast<int32_t>(TENON_RANK_MAX)) return "has too many axes";
  out->rank = static_cast<uint32_t>(t.rank);
  out->dims = t.shape;
  return {};
}

// Where a dense tensor is on a vendor's device, as the device's plugin takes it. `type`: as
// read_type fills it.
inline tenon_native_memory_t native_memory(const Tensor& t, const tenon_array_t& type,
                                           const Vendor& vendor) {
  auto memory = sized<tenon_native_memory_t>();
  memory.kind = str(vendor.memory);
  memory.handle = reinterpret_cast<uint64_t>(t.data);
  memory.offset_bytes = t.byte_offset;
  memory.length_bytes = elements::dtype_bits(type.dtype) / 8;
  for (uint32_t i = 0; i < type.rank; ++i)
    memory.length_bytes *= static_cast<uint64_t>(type.dims[i]);
  return memory;
}

// Memory to be handed out: dense elements from data + byte_offset on.
struct Memory {
  void* data;
  uint64_t byte_offset;
  Device device;
};

// A managed tensor of such memory. `owner` keeps the memory, and is destroyed by the deleter, on
// whatever thread calls it. type_of(dtype) exists.
template <class Managed, class Owner>
Managed* manage(const Memory& memory, tenon_dtype_t dtype, std::span<const int64_t> dims,
                uint64_t flags, Owner owner) {
  struct Kept {
    Managed managed{};
    std::vector<int64_t> dims;  // then strides
    Owner owner;
  };
  auto kept =
      std::make_unique<Kept>(Kept{{}, std::vector<int64_t>(2 * dims.size()), std::move(owner)});
  int64_t* const strides = std::copy(dims.begin(), dims.end(), kept->dims.data());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i] == 0 ? 1 : dims[i]) strides[i] = step;
  kept->managed.tensor = {memory.data,       memory.device,     static_cast<int32_t>(dims.size()),
                          type_of(dtype),    kept->dims.data(), strides,
                          memory.byte_offset};
  if constexpr (std::is_same_v<Managed, ManagedTensorVersioned>) {
    kept->managed.version = {kMajor, kMinor};
    kept->managed.flags = flags;
  }
  kept->managed.context = kept.get();
  kept->managed.deleter = [](Managed* self) { delete static_cast<Kept*>(self->context); };
  return &kept.release()->managed;
}

}  // namespace tenon::inline sdk::dlpack

#endif
