#include "frontends/python/native/device_memory.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <map>
#include <memory>

#include "frontends/python/native/arrays.h"
#include "frontends/python/native/host.h"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

// DLPack's numbers of CUDA's and ROCm's default streams differ.
constexpr Vendor kVendors[] = {{2, "cuda", "cuda.pointer", "cuda.stream", 1},
                               {10, "rocm", "rocm.pointer", "rocm.stream", 0}};

[[noreturn]] void refuse(const std::string& what) {
  raise_usage(TENON_INVALID_ARGUMENT, "T0624", "the value: the array " + what + ".");
}

// Devices of a vendor's plugin by the vendor's numbers; empty if the machine has none. With the
// GIL.
const std::map<int64_t, std::string>& numbers_of(const Vendor& vendor) {
  static auto* all = new std::map<std::string, std::map<int64_t, std::string>>();
  const auto known = all->find(vendor.device);
  if (known != all->end()) return known->second;
  std::map<int64_t, std::string> numbers;
  const nb::object rows = nb::module_::import_("tenon._host").attr("devices")();
  for (nb::handle row : rows) {
    const auto name = nb::cast<std::string>(nb::object(row["name"]));
    const nb::object number = row["native_ordinal"];
    if (name.substr(0, name.find(':')) == vendor.device && !number.is_none())
      numbers.emplace(nb::cast<int64_t>(number), name);
  }
  return all->emplace(vendor.device, std::move(numbers)).first->second;
}

// The tensor in a capsule of either version.
const dlpack::Tensor& tensor_in(const nb::object& capsule) {
  if (auto* versioned = static_cast<dlpack::ManagedTensorVersioned*>(
          PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"))) {
    if (versioned->version.major != dlpack::kMajor) refuse("comes in another DLPack version");
    return versioned->tensor;
  }
  PyErr_Clear();
  auto* old = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (old == nullptr) throw nb::python_error();
  return old->tensor;
}

nb::object capsule_of(const nb::object& array, int stream) {
  const nb::object method = array.attr("__dlpack__");
  try {
    return method("stream"_a = stream,
                  "max_version"_a = nb::make_tuple(dlpack::kMajor, dlpack::kMinor));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
    return method("stream"_a = stream);
  }
}

uint64_t current_stream(const nb::object& array, const Vendor& vendor, int32_t id) {
  const dlpack::ExchangeTable* table = exchange_of(Py_TYPE(array.ptr()));
  if (table == nullptr || table->current_stream == nullptr) return 0;
  void* stream = nullptr;
  if (table->current_stream(vendor.dlpack, id, &stream) != 0) throw nb::python_error();
  return reinterpret_cast<uint64_t>(stream);
}

uint64_t dense_bytes(const dlpack::Tensor& t, tenon_dtype_t dtype) {
  uint64_t count = 1;
  for (int32_t i = t.rank; i-- > 0;) {
    const bool dense =
        t.strides == nullptr || t.shape[i] == 1 || t.strides[i] == static_cast<int64_t>(count);
    count *= static_cast<uint64_t>(t.shape[i]);
    if (!dense && count != 0) refuse("has strides: make it contiguous first");
  }
  return count * dtype_bits(dtype) / 8;
}

struct Handed {
  dlpack::ManagedTensorVersioned versioned{};
  dlpack::ManagedTensor old{};
  std::vector<int64_t> dims, strides;
  PyObject* object = nullptr;
};

template <class Managed>
nb::object handed(std::unique_ptr<Handed> all, Managed Handed::* which, const char* name) {
  Managed* managed = &(all.get()->*which);
  managed->context = all.get();
  managed->deleter = [](Managed* self) {
    const std::unique_ptr<Handed> owned(static_cast<Handed*>(self->context));
    drop_later(owned->object);
  };
  (void)all.release();
  // Who takes the tensor renames the capsule; else its end is the tensor's.
  PyObject* capsule = PyCapsule_New(managed, name, [](PyObject* c) {
    const char* now = PyCapsule_GetName(c);
    if (now == nullptr || std::strncmp(now, "used", 4) == 0) return;
    auto* left = static_cast<Managed*>(PyCapsule_GetPointer(c, now));
    left->deleter(left);
  });
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

}  // namespace

const Vendor* vendor_of(int32_t dlpack) {
  for (const Vendor& v : kVendors) {
    if (v.dlpack == dlpack) return &v;
  }
  return nullptr;
}

std::string device_name(const Vendor& vendor, int32_t id) {
  const auto& numbers = numbers_of(vendor);
  const auto at = numbers.find(id);
  if (at != numbers.end()) return at->second;
  // The host says why there is none of the kind.
  if (numbers.empty()) return vendor.device + (id == 0 ? "" : ":" + std::to_string(id));
  std::string known;
  for (const auto& [number, name] : numbers)
    known += (known.empty() ? "" : ", ") + name + " is number " + std::to_string(number);
  refuse("is of the vendor's device " + std::to_string(id) + ", for which " + vendor.device +
         " has no code (" + known + ")");
}

const Vendor* vendor_of_array(nb::handle array) {
  if (PyType_Check(array.ptr()) || !nb::hasattr(array, "__dlpack_device__")) return nullptr;
  try {
    return vendor_of(nb::cast<int32_t>(nb::object(array.attr("__dlpack_device__")())[0]));
  } catch (nb::python_error&) {  // who reads it as memory of the host says why it cannot be read
    return nullptr;
  }
}

Taken take_device_array(nb::object array, const Vendor& vendor) {
  nb::object capsule = capsule_of(array, vendor.default_stream);
  const dlpack::Tensor& t = tensor_in(capsule);
  if (t.device.type != vendor.dlpack) refuse("is not where it says");
  if (t.rank < 0 || t.rank > static_cast<int32_t>(TENON_RANK_MAX)) refuse("has too many axes");
  auto of = sized<tenon_array_t>();
  of.dtype = dtype_of(t.dtype);
  if (of.dtype == TENON_DTYPE_NONE) refuse("has elements of a type that Tenon does not have");
  of.rank = static_cast<uint32_t>(t.rank);
  of.dims = t.shape;
  auto memory = sized<tenon_native_memory_t>();
  memory.kind = text(vendor.memory);
  memory.handle = reinterpret_cast<uint64_t>(t.data);
  memory.offset_bytes = t.byte_offset;
  memory.length_bytes = dense_bytes(t, of.dtype);
  const uint64_t stream = current_stream(array, vendor, t.device.id);
  Taken out{nullptr, {device_name(vendor, t.device.id), vendor.stream, stream}};
  // The capsule is kept and not consumed: it owns the memory until the host needs it no more.
  PyObject* kept = capsule.release().ptr();
  const auto give_back = [](void* context) { drop_later(static_cast<PyObject*>(context)); };
  const tenon_code_t code = without_gil([&] {
    return g_tables.call->tensor_adopt(g_tables.call->self, &of, text(out.stream.device), &memory,
                                       kept, give_back, &out.tensor);
  });
  if (code != TENON_OK) {
    Py_DECREF(kept);
    raise_failure(code);
  }
  return out;
}

nb::object device_capsule(nb::handle self, const Vendor& vendor, int32_t id, bool versioned) {
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  const std::string device = device_name(vendor, id);
  auto memory = sized<tenon_native_memory_t>();
  ask([&] {
    return g_tables.call->tensor_native(g_tables.call->self, tensor.get(), text(device),
                                        text(vendor.memory), &memory);
  });
  auto all = std::make_unique<Handed>();
  all->dims = tensor.dims();
  all->strides.resize(all->dims.size());
  int64_t count = 1;
  for (size_t i = all->dims.size(); i-- > 0; count *= all->dims[i]) all->strides[i] = count;
  dlpack::Tensor& t = versioned ? all->versioned.tensor : all->old.tensor;
  t.data = reinterpret_cast<void*>(memory.handle);
  t.byte_offset = memory.offset_bytes;
  t.device = {vendor.dlpack, id};
  t.rank = static_cast<int32_t>(all->dims.size());
  t.dtype = dlpack_of(tensor.dtype());
  t.shape = all->dims.data();
  t.strides = all->strides.data();
  all->versioned.version = {dlpack::kMajor, dlpack::kMinor};
  all->versioned.flags = dlpack::kReadOnly;
  all->object = self.inc_ref().ptr();
  return versioned ? handed(std::move(all), &Handed::versioned, "dltensor_versioned")
                   : handed(std::move(all), &Handed::old, "dltensor");
}

}  // namespace tenon::python
