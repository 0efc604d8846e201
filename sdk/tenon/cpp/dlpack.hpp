// Tensors of other libraries in programs, by DLPack and without a copy, in both directions.
//
//     namespace dl = tenon::dlpack;
//     tenon::Tensor x;                                             theirs becomes ours
//     TENON_TRY(dl::take(reinterpret_cast<dl::ManagedTensorVersioned*>(theirs), &x));
//
//     dl::ManagedTensorVersioned* managed;                         and ours theirs
//     TENON_TRY(dl::give(std::move(y), {dl::kCpu, 0}, &managed));
//
// Managed is ManagedTensorVersioned, or ManagedTensor of libraries from before version 1.
// Failures have their reason as any of Tenon: failure_text().
#ifndef TENON_CPP_DLPACK_HPP_
#define TENON_CPP_DLPACK_HPP_

#include <memory>
#include <type_traits>
#include <utility>

#include "tenon/cpp/dlpack_types.hpp"
#include "tenon/cpp/session.hpp"

namespace tenon::inline sdk::dlpack {

namespace detail {

inline Status refuse(std::string_view why) {
  return fail(TENON_INVALID_ARGUMENT, cat("T0624: the tensor of DLPack ", why, "."));
}

// What both directions require of another library's tensor.
template <class Managed>
Status read(const Managed& managed, tenon_array_t* out) {
  if (!readable(managed)) return refuse("comes in another major version");
  const Tensor& t = managed.tensor;
  if (const std::string why = read_type(t, out); !why.empty()) return refuse(why);
  if (!is_dense(t)) return refuse("has strides: make it contiguous first");
  if (host_reads(t.device.type)) out->data = static_cast<char*>(t.data) + t.byte_offset;
  return {};
}

}  // namespace detail

// Makes a tensor of the memory of a managed one, where it is: in the host's memory, or on a device
// whose plugin takes the vendor's pointers ("cuda", "rocm"). Takes `managed`: its deleter is called
// once, when nothing uses the memory any more, on any thread, and must not call Tenon but to
// release tensors. It is not called if this fails, when the tensor is still there at the end of the
// process, nor once a device was given up. The memory stays as it is until then; Tenon does not
// write to it. On a device, work that writes it is done, or in the stream that calls get: work_on.
// T0624 for elements and devices that Tenon does not have and for strides; else as tensor_wrap and
// tensor_adopt fail.
template <class Managed>
Status take(Managed* managed, sdk::Tensor* out) {
  const tenon_host_call_t* calls = sdk::detail::g_call;
  if (calls == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
  tenon_array_t array;
  TENON_TRY(detail::read(*managed, &array));
  const auto release = [](void* context) { call_deleter(static_cast<Managed*>(context)); };
  const Tensor& t = managed->tensor;
  if (host_reads(t.device.type))
    return calls->tensor_wrap(calls->self, &array, managed, release, out->out());
  const Vendor* vendor = vendor_of(t.device.type);
  if (vendor == nullptr) {
    return detail::refuse(cat("is in memory of another device (DLPack's kind ", t.device.type,
                              "), which no plugin takes by pointer"));
  }
  const tenon_native_memory_t memory = native_memory(t, array, *vendor);
  return calls->tensor_adopt(calls->self, &array, str(device_name(*vendor, t.device.id)), &memory,
                             managed, release, out->out());
}

namespace detail {

// A tensor that was handed out on a device, to a library that works on a stream. When that lets go
// of it, its work may still be there.
class OnStream {
 public:
  OnStream(std::shared_ptr<const sdk::Tensor> tensor, const Vendor& vendor, int32_t device,
           uint64_t stream)
      : tensor_(std::move(tensor)), vendor_(&vendor), device_(device), stream_(stream) {}
  OnStream(OnStream&&) = default;
  ~OnStream() {
    if (tensor_ == nullptr || !vendor_->has_streams()) return;
    auto stream = sized<tenon_native_handle_t>();
    stream.kind = str(vendor_->stream);
    stream.handle = stream_;
    (void)tensor_->use(device_name(*vendor_, device_), stream);
  }

 private:
  std::shared_ptr<const sdk::Tensor> tensor_;
  const Vendor* vendor_;
  int32_t device_;
  uint64_t stream_;
};

}  // namespace detail

// Hands out a tensor's elements as a managed tensor: on the host ({kCpu, 0}), or on a vendor's
// device, dense, brought there first if they are elsewhere. It keeps the tensor until its deleter
// is called. A tensor is immutable, so it is read-only; the old kind cannot say so, and its
// receiver must not write. flags: 0 for an OWNED output that may still be written (call.h).
// stream: of the library that gets it, on the device: cudaStream_t or hipStream_t as a number; 0 is
// the default one. What is there when the deleter is called may still use the memory.
// UNIMPLEMENTED, T0624, for elements that DLPack does not have and for other devices; else as
// tensor_array and tensor_native fail.
template <class Managed>
Status give(std::shared_ptr<const sdk::Tensor> tensor, Device device, Managed** out,
            uint64_t flags = kReadOnly, uint64_t stream = 0) {
  if (tensor == nullptr) return TENON_INVALID_ARGUMENT;
  tenon_tensor_info_t info;
  TENON_TRY(tensor->info(&info));
  if (type_of(info.dtype).lanes == 0) {
    return fail(TENON_UNIMPLEMENTED,
                cat("T0624: DLPack has no elements of ", elements::dtype_name(info.dtype), "."));
  }
  Memory memory{nullptr, 0, device};
  if (device.type == kCpu) {
    ArrayView view;
    TENON_TRY(tensor->array(&view));
    memory.data = const_cast<void*>(view.data);
  } else if (const Vendor* vendor = vendor_of(device.type)) {
    tenon_native_memory_t native;
    TENON_TRY(tensor->native(device_name(*vendor, device.id), vendor->memory, &native));
    memory.data = reinterpret_cast<void*>(native.handle);
    memory.byte_offset = native.offset_bytes;
    *out = manage<Managed>(memory, info.dtype, {info.dims, info.rank}, flags,
                           detail::OnStream(std::move(tensor), *vendor, device.id, stream));
    return {};
  } else {
    return fail(TENON_UNIMPLEMENTED,
                cat("T0624: a tensor is handed out on the host and on devices of vendors whose "
                    "pointers Tenon knows, and not in memory of DLPack's kind ",
                    device.type, "."));
  }
  *out = manage<Managed>(memory, info.dtype, {info.dims, info.rank}, flags, std::move(tensor));
  return {};
}

// The same for a tensor of which nothing else is needed. On a failure it is where it was.
template <class Managed>
Status give(sdk::Tensor&& tensor, Device device, Managed** out, uint64_t flags = kReadOnly,
            uint64_t stream = 0) {
  const auto shared = std::make_shared<sdk::Tensor>(std::move(tensor));
  const Status status =
      give<Managed>(std::shared_ptr<const sdk::Tensor>(shared), device, out, flags, stream);
  if (!status.ok()) tensor = std::move(*shared);
  return status;
}

// Memory of another library for a call to write an output to: on the host, dense, and not
// read-only. Borrowed, as any memory of an Output.
template <class Managed>
Status write_to(const Managed& managed, Output* out) {
  tenon_array_t array;
  TENON_TRY(detail::read(managed, &array));
  if (read_only(managed))
    return detail::refuse("is read-only, and an output would be written to it");
  if (!host_reads(managed.tensor.device.type))
    return detail::refuse("is not in the host's memory: take the result by give()");
  *out = Output(array.dtype, {array.dims, array.dims + array.rank}, array.data);
  return {};
}

// The call's work on the device of a tensor goes to a stream of its library, after what is there.
// stream: cudaStream_t or hipStream_t as a number; 0 is the default one. Of several, the work goes
// to the first, and begins after what is in each.
inline Status work_on(Call* call, Device device, uint64_t stream) {
  const Vendor* vendor = vendor_of(device.type);
  if (vendor == nullptr || !vendor->has_streams()) {
    return fail(
        TENON_UNIMPLEMENTED,
        cat("T0635: no plugin takes streams of devices of DLPack's kind ", device.type, "."));
  }
  auto handle = sized<tenon_native_handle_t>();
  handle.kind = str(vendor->stream);
  handle.handle = stream;
  call->stream(device_name(*vendor, device.id), handle);
  return {};
}

}  // namespace tenon::inline sdk::dlpack

#endif
