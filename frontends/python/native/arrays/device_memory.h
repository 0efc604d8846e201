// Arrays of other libraries in a GPU's memory, by DLPack: taken where they are, and handed out
// where they are.
#ifndef FRONTENDS_PYTHON_NATIVE_ARRAYS_DEVICE_MEMORY_H_
#define FRONTENDS_PYTHON_NATIVE_ARRAYS_DEVICE_MEMORY_H_

#include <nanobind/nanobind.h>

#include <optional>

#include "frontends/python/native/arrays/tensor.h"

namespace tenon::python {

// The vendor whose memory the array says that it is in; null for the host's and for no array.
const dlpack::Vendor* vendor_of_array(nanobind::handle array);

// A tensor of that memory. If the array's type names its library's current stream (DLPack's
// exchange table), calls go to the stream that is current at the time of the call, and begin after
// the work in the stream that is current now. Otherwise they go to the default stream, for which
// the library is asked to make the tensor ready. Work of a vendor without streams in DLPack has
// ended. Raises.
struct Taken {
  tenon_tensor_t* tensor;
  WorkStream stream;
};
Taken take_device_array(nanobind::object array, const dlpack::Vendor& vendor);
// The stream on which the library works now; 0 is the default one. Raises.
uint64_t current_stream(const ExchangeTable& library, const dlpack::Device& place);

// A capsule of DLPack with the tensor's memory on the device, copied there first if it is not
// there. stream: the one on which the consumer works, as `__dlpack__` gives it; None is the default
// one. Work that is there when the capsule's tensor is released may still use the memory.
nanobind::object device_capsule(nanobind::handle self, const dlpack::Vendor& vendor, int32_t id,
                                bool versioned, nanobind::handle stream);

}  // namespace tenon::python
#endif
