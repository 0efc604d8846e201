#include "frontends/python/native/arrays/device_memory.h"

#include <nanobind/stl/string.h>

#include "frontends/python/native/arrays/arrays.h"
#include "frontends/python/native/arrays/capsules.h"
#include "frontends/python/native/host/host.h"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  raise_usage(TENON_INVALID_ARGUMENT, "T0624", "the value: the array " + what + ".");
}

// Who works on that stream himself need not wait for anything.
nb::object ask_for_capsule(const nb::object& array, const dlpack::Vendor& vendor,
                           uint64_t stream_handle) {
  const nb::object stream = !vendor.has_streams() ? nb::none()
                            : stream_handle == 0  ? nb::object(nb::int_(vendor.default_stream))
                                                  : nb::object(nb::int_(stream_handle));
  const nb::object method = array.attr("__dlpack__");
  try {
    return method("stream"_a = stream,
                  "max_version"_a = nb::make_tuple(dlpack::kMajor, dlpack::kMinor));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
    return method("stream"_a = stream);
  }
}

dlpack::Device place_of(const nb::object& array) {
  const nb::object place = array.attr("__dlpack_device__")();
  return {nb::cast<int32_t>(place[0]), nb::cast<int32_t>(place[1])};
}

// The array type's exchange table, if it names streams; else null.
const ExchangeTable* stream_source_of(const nb::object& array, const dlpack::Vendor& vendor) {
  const ExchangeTable* table = exchange_of(Py_TYPE(array.ptr()));
  return vendor.has_streams() && table != nullptr && table->current_stream != nullptr ? table
                                                                                      : nullptr;
}

}  // namespace

uint64_t current_stream(const ExchangeTable& library, const dlpack::Device& place) {
  void* stream = nullptr;
  if (library.current_stream(place.type, place.id, &stream) != 0) throw nb::python_error();
  return reinterpret_cast<uint64_t>(stream);
}

const dlpack::Vendor* vendor_of_array(nb::handle array) {
  if (PyType_Check(array.ptr()) || !nb::hasattr(array, "__dlpack_device__")) return nullptr;
  try {
    return dlpack::vendor_of(nb::cast<int32_t>(nb::object(array.attr("__dlpack_device__")())[0]));
  } catch (nb::python_error&) {  // reading it as memory of the host reports why it cannot be read
    return nullptr;
  }
}

Taken take_device_array(nb::object array, const dlpack::Vendor& vendor) {
  const dlpack::Device place = place_of(array);
  const ExchangeTable* const library = stream_source_of(array, vendor);
  const uint64_t stream = library == nullptr ? 0 : current_stream(*library, place);
  nb::object capsule = ask_for_capsule(array, vendor, stream);
  const dlpack::Tensor* const in = in_capsule(capsule).tensor;
  if (in == nullptr) refuse("comes in another DLPack version");
  const dlpack::Tensor& t = *in;
  if (t.device.type != place.type || t.device.id != place.id) refuse("is not where it says");
  tenon_array_t of;
  if (const std::string why = dlpack::read_type(t, &of); !why.empty()) refuse(why);
  if (!dlpack::is_dense(t)) refuse("has strides: make it contiguous first");
  const tenon_native_memory_t memory = dlpack::native_memory(t, of, vendor);
  Taken out{nullptr,
            {dlpack::device_name(vendor, t.device.id), vendor.stream, stream, library, place}};
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

namespace {

// A tensor that was handed out on a device. It is released on any thread, with or without the GIL,
// when work of its last user may still be on the stream.
class OnStream {
 public:
  OnStream(nb::handle self, std::string device, const char* kind, uint64_t stream)
      : object_(self.inc_ref().ptr()),
        tensor_(nb::inst_ptr<Tensor>(self)),
        device_(std::move(device)),
        kind_(kind),
        stream_(stream) {}
  OnStream(OnStream&&) = default;
  ~OnStream() {
    if (object_ == nullptr || interpreter_ended() || *kind_ == 0 || tensor_->get() == nullptr)
      return;
    auto handle = sized<tenon_native_handle_t>();
    handle.kind = text(kind_);
    handle.handle = stream_;
    auto stream = sized<tenon_call_native_t>();
    stream.device = text(device_);
    stream.handle = &handle;
    const auto use = [&] {
      return g_tables.call->tensor_use(g_tables.call->self, tensor_->get(), &stream);
    };
    (void)(PyGILState_Check() != 0 ? without_gil(use) : use());
  }

 private:
  Keeper object_;
  const Tensor* tensor_;
  std::string device_;
  const char* kind_;
  uint64_t stream_;
};

// DLPack's numbers of streams: of CUDA, 1 is the default stream, which what is on the default
// streams of threads (2) is ordered with; -1 names none.
uint64_t stream_of(nb::handle stream) {
  const auto number = stream.is_none() ? 0 : nb::cast<int64_t>(stream);
  return number <= 2 ? 0 : static_cast<uint64_t>(number);
}

}  // namespace

nb::object device_capsule(nb::handle self, const dlpack::Vendor& vendor, int32_t id, bool versioned,
                          nb::handle stream) {
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  const std::string device = dlpack::device_name(vendor, id);
  const uint64_t on = stream_of(stream);
  auto memory = sized<tenon_native_memory_t>();
  ask([&] {
    return g_tables.call->tensor_native(g_tables.call->self, tensor.get(), text(device),
                                        text(vendor.memory), &memory);
  });
  const dlpack::Memory at{
      reinterpret_cast<void*>(memory.handle), memory.offset_bytes, {vendor.device_type, id}};
  return capsule_over(tensor, at, versioned, OnStream(self, device, vendor.stream, on));
}

}  // namespace tenon::python
