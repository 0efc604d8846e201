// The tensors of tenon.host.call/1.
#include <cstring>

#include "core/base/checked.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/runtime/values/arrays.h"
#include "core/session/api/handles.h"
#include "core/session/api/host_tensor.h"
#include "core/session/call/call.h"
#include "core/session/compile/devices.h"

namespace tenon::session {

tenon_array_t array_of(const runtime::Tensor& tensor, const void* data) {
  tenon_array_t array{};
  array.dtype = tensor.dtype();
  array.rank = static_cast<uint32_t>(tensor.dims().size());
  array.data = const_cast<void*>(data);
  array.dims = tensor.dims().data();
  return array;
}

Status read_type(const tenon_array_t* record, tenon_array_t* out, std::vector<int64_t>* dims,
                 uint64_t* bytes) {
  TENON_REQUIRE(record, "array");
  TENON_ASSIGN_OR_RETURN(*out, prefix_of(record));
  if (ir::dtype_bits(out->dtype) == 0 || out->rank > TENON_RANK_MAX) {
    return error(TENON_INVALID_ARGUMENT, "T0603", "a tensor has no element type {} or rank {}",
                 out->dtype, out->rank);
  }
  if (out->rank != 0) TENON_REQUIRE(out->dims, "array's dims");
  dims->assign(out->dims, out->dims + out->rank);
  TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count(*dims));
  TENON_RETURN_IF_ERROR(check_limit(Limit::kElements, count, "a tensor"));
  TENON_ASSIGN_OR_RETURN(*bytes, packed_bytes(count, ir::dtype_bits(out->dtype)));
  return {};
}

namespace {

// A checked array's dims and size.
Status read_array(const tenon_array_t* record, tenon_array_t* out, std::vector<int64_t>* dims,
                  uint64_t* bytes) {
  TENON_RETURN_IF_ERROR(read_type(record, out, dims, bytes));
  if (*bytes != 0 && out->data == nullptr)
    return error(TENON_INVALID_ARGUMENT, "T0613", "the array has dims and no data");
  if (out->strides_bytes != nullptr && ir::dtype_bits(out->dtype) < 8) {
    return error(TENON_INVALID_ARGUMENT, "T0613", "elements of {} share bytes and take no strides",
                 ir::dtype_name(out->dtype));
  }
  if (!runtime::has_addresses(*out)) {
    return error(TENON_INVALID_ARGUMENT, "T0613",
                 "the strides of the array lead out of the address space");
  }
  return {};
}

tenon_code_t tensor_wrap(void*, const tenon_array_t* record, void* context,
                         void (*release)(void* context), tenon_tensor_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE(out, "output");
    tenon_array_t array{};
    std::vector<int64_t> dims;
    uint64_t bytes = 0;
    TENON_RETURN_IF_ERROR(read_array(record, &array, &dims, &bytes));
    if (!runtime::is_dense(array)) {
      return error(TENON_INVALID_ARGUMENT, "T0613",
                   "only a dense array can become a tensor where it lies; copy this one");
    }
    HandlePtr<tenon_tensor_t> handle = new_handle<tenon_tensor_t>();
    auto lent = std::make_shared<Lent>(context, release);
    auto tensor = std::make_shared<runtime::Tensor>(array.dtype, std::move(dims), bytes,
                                                    std::shared_ptr<void>(lent, array.data), true);
    lent->taken = true;
    give_handle(std::move(tensor), std::move(handle), out);
    return {};
  });
}

// The array's elements as dense bytes: its own, or packed into *out_packed.
Result<const void*> dense(const tenon_array_t& array, uint64_t bytes,
                          std::shared_ptr<std::byte>* out_packed) {
  if (bytes == 0 || runtime::is_dense(array)) return static_cast<const void*>(array.data);
  TENON_ASSIGN_OR_RETURN(*out_packed, runtime::host_memory(bytes, false));
  runtime::pack(array, out_packed->get());
  return static_cast<const void*>(out_packed->get());
}

tenon_code_t tensor_copy(void*, const tenon_array_t* record, tenon_str_t device,
                         tenon_tensor_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE(out, "output");
    tenon_array_t array{};
    std::vector<int64_t> dims;
    uint64_t bytes = 0;
    TENON_RETURN_IF_ERROR(read_array(record, &array, &dims, &bytes));
    HandlePtr<tenon_tensor_t> handle = new_handle<tenon_tensor_t>();
    std::shared_ptr<std::byte> packed;
    TENON_ASSIGN_OR_RETURN(const void* const data, dense(array, bytes, &packed));
    if (device.size != 0) {
      TENON_REQUIRE(device.data, "device");
      TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Device> owner,
                             find_device(from_abi_str(device)));
      TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Buffer> buffer,
                             runtime::upload(std::move(owner), data, bytes));
      give_handle(
          std::make_shared<runtime::Tensor>(array.dtype, std::move(dims), bytes, std::move(buffer)),
          std::move(handle), out);
      return {};
    }
    if (packed == nullptr) {
      TENON_ASSIGN_OR_RETURN(packed, runtime::host_memory(bytes, false));
      if (bytes != 0) std::memcpy(packed.get(), data, bytes);
    }
    give_handle(std::make_shared<runtime::Tensor>(array.dtype, std::move(dims), bytes,
                                                  std::shared_ptr<void>(std::move(packed))),
                std::move(handle), out);
    return {};
  });
}

tenon_code_t tensor_info(void*, tenon_tensor_t* handle, tenon_tensor_info_t* out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(handle);
    TENON_REQUIRE(out, "record");
    thread_local std::string places;  // borrowed until the thread asks again
    const runtime::Tensor& tensor = *handle->tensor;
    places = tensor.places();
    tenon_tensor_info_t info{};
    info.dtype = tensor.dtype();
    info.rank = static_cast<uint32_t>(tensor.dims().size());
    info.dims = tensor.dims().data();
    info.bytes = tensor.size_bytes();
    info.places = to_abi_str(places);
    return give_record(out, info);
  });
}

tenon_code_t tensor_array(void*, tenon_tensor_t* handle, tenon_array_t* out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(handle);
    TENON_REQUIRE(out, "array");
    TENON_ASSIGN_OR_RETURN(const void* const data, handle->tensor->fetch());
    return give_record(out, array_of(*handle->tensor, data));
  });
}

void tensor_release(void*, tenon_tensor_t* handle) {
  release_handle(handle);
}

}  // namespace

void add_tensor_slots(tenon_host_call_t* table) {
  table->tensor_wrap = tensor_wrap;
  table->tensor_copy = tensor_copy;
  table->tensor_info = tensor_info;
  table->tensor_array = tensor_array;
  table->tensor_release = tensor_release;
  add_exchange_slots(table);
}

}  // namespace tenon::session
