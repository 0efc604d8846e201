// Arrays of other libraries in a GPU's memory, by DLPack: taken where they are, and handed out
// where they are.
#ifndef FRONTENDS_PYTHON_NATIVE_DEVICE_MEMORY_H_
#define FRONTENDS_PYTHON_NATIVE_DEVICE_MEMORY_H_

#include <nanobind/nanobind.h>

#include <optional>

#include "frontends/python/native/tensor.h"

namespace tenon::python {

// A vendor whose memory has a kind in DLPack, and a plugin that takes its pointers.
struct Vendor {
  int32_t dlpack;
  const char *device, *memory, *stream;  // "cuda", "cuda.pointer", "cuda.stream"
  // What a consumer says for the default stream, on which its work then goes.
  int default_stream;
};
// Null if there is none of this kind.
const Vendor* vendor_of(int32_t dlpack);

// "cuda:1", of the device that the vendor gives this number: Tenon's own may be another, because
// plugins leave out devices that they have no code for. Raises if it is none of Tenon's.
std::string device_name(const Vendor& vendor, int32_t id);

// The vendor whose memory the array says that it is in; null for the host's and for no array.
const Vendor* vendor_of_array(nanobind::handle array);

// A tensor of that memory. Calls with it go to the stream on which the array's library works now,
// where its type tells (DLPack's exchange table). The library is asked to make it ready for the
// default stream too, for calls with tensors of several streams, and where no type tells. Raises.
struct Taken {
  tenon_tensor_t* tensor;
  WorkStream stream;
};
Taken take_device_array(nanobind::object array, const Vendor& vendor);

// A capsule of DLPack with the tensor's memory on the device, copied there first if it is not
// there.
nanobind::object device_capsule(nanobind::handle self, const Vendor& vendor, int32_t id,
                                bool versioned);

}  // namespace tenon::python
#endif
