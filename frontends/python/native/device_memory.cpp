#include "frontends/python/native/device_memory.h"

#include <nanobind/stl/string.h>

#include "frontends/python/native/arrays.h"
#include "frontends/python/native/capsules.h"
#include "frontends/python/native/host.h"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  raise_usage(TENON_INVALID_ARGUMENT, "T0624", "the value: the array " + what + ".");
}

nb::object ask_for_capsule(const nb::object& array, const dlpack::Vendor& vendor) {
  const nb::object stream =
      vendor.has_streams() ? nb::object(nb::int_(vendor.default_stream)) : nb::none();
  const nb::object method = array.attr("__dlpack__");
  try {
    return method("stream"_a = stream,
                  "max_version"_a = nb::make_tuple(dlpack::kMajor, dlpack::kMinor));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
    return method("stream"_a = stream);
  }
}

uint64_t current_stream(const nb::object& array, const dlpack::Vendor& vendor, int32_t id) {
  const ExchangeTable* table = exchange_of(Py_TYPE(array.ptr()));
  if (!vendor.has_streams() || table == nullptr || table->current_stream == nullptr) return 0;
  void* stream = nullptr;
  if (table->current_stream(vendor.device_type, id, &stream) != 0) throw nb::python_error();
  return reinterpret_cast<uint64_t>(stream);
}

}  // namespace

const dlpack::Vendor* vendor_of_array(nb::handle array) {
  if (PyType_Check(array.ptr()) || !nb::hasattr(array, "__dlpack_device__")) return nullptr;
  try {
    return dlpack::vendor_of(nb::cast<int32_t>(nb::object(array.attr("__dlpack_device__")())[0]));
  } catch (nb::python_error&) {  // who reads it as memory of the host says why it cannot be read
    return nullptr;
  }
}

Taken take_device_array(nb::object array, const dlpack::Vendor& vendor) {
  nb::object capsule = ask_for_capsule(array, vendor);
  const dlpack::Tensor* const in = in_capsule(capsule).tensor;
  if (in == nullptr) refuse("comes in another DLPack version");
  const dlpack::Tensor& t = *in;
  if (t.device.type != vendor.device_type) refuse("is not where it says");
  tenon_array_t of;
  if (const std::string why = dlpack::read_type(t, &of); !why.empty()) refuse(why);
  if (!dlpack::is_dense(t)) refuse("has strides: make it contiguous first");
  const tenon_native_memory_t memory = dlpack::native_memory(t, of, vendor);
  const uint64_t stream = current_stream(array, vendor, t.device.id);
  Taken out{nullptr, {dlpack::device_name(vendor, t.device.id), vendor.stream, stream}};
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

nb::object device_capsule(nb::handle self, const dlpack::Vendor& vendor, int32_t id,
                          bool versioned) {
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  const std::string device = dlpack::device_name(vendor, id);
  auto memory = sized<tenon_native_memory_t>();
  ask([&] {
    return g_tables.call->tensor_native(g_tables.call->self, tensor.get(), text(device),
                                        text(vendor.memory), &memory);
  });
  const dlpack::Memory at{
      reinterpret_cast<void*>(memory.handle), memory.offset_bytes, {vendor.device_type, id}};
  return capsule_over(self, at, versioned);
}

}  // namespace tenon::python
