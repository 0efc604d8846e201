// Tensors in memory of other libraries: tensor_adopt and tensor_native of tenon.host.call/1.
#include "core/base/errors/failure.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/session/api/host_tensor.h"
#include "core/session/call/call.h"
#include "core/session/compile/devices.h"

namespace tenon::session {
namespace {

// A buffer of memory that the caller lends, which is given back once the buffer is freed.
Result<std::shared_ptr<runtime::Buffer>> adopt(std::shared_ptr<runtime::Device> device,
                                               const tenon_native_memory_t& memory,
                                               const std::shared_ptr<Lent>& lent) {
  TENON_ASSIGN_OR_RETURN(runtime::Buffer made, runtime::Buffer::adopt(std::move(device), memory));
  auto* const buffer = new runtime::Buffer(std::move(made));
  return std::shared_ptr<runtime::Buffer>(buffer, [lent](runtime::Buffer* adopted) {
    const bool in_use = adopted->device().abandoned();  // its work may still read the memory
    delete adopted;
    if (in_use) runtime::keep_for_good(lent);
  });
}

Result<tenon_native_memory_t> read_memory(const tenon_native_memory_t* record, uint64_t bytes) {
  TENON_REQUIRE(record, "memory");
  TENON_ASSIGN_OR_RETURN(tenon_native_memory_t memory, prefix_of(record));
  if (memory.kind.size != 0) TENON_REQUIRE(memory.kind.data, "kind of memory");
  if (memory.length_bytes != bytes) {
    return error(TENON_INVALID_ARGUMENT, "T0613", "the array has {} bytes, and the memory {}",
                 bytes, memory.length_bytes);
  }
  memory.size_bytes = sizeof memory;
  return memory;
}

tenon_code_t tensor_adopt(void*, const tenon_array_t* record, tenon_str_t device,
                          const tenon_native_memory_t* memory, void* context,
                          void (*release)(void* context), tenon_tensor_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE(out, "output");
    TENON_REQUIRE(device.data, "device");
    tenon_array_t array{};
    std::vector<int64_t> dims;
    uint64_t bytes = 0;
    TENON_RETURN_IF_ERROR(read_type(record, &array, &dims, &bytes));
    if (array.data != nullptr || array.strides_bytes != nullptr) {
      return error(TENON_INVALID_ARGUMENT, "T0613",
                   "memory of another library is dense, and has no data for the host");
    }
    TENON_ASSIGN_OR_RETURN(const tenon_native_memory_t native, read_memory(memory, bytes));
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Device> owner,
                           find_device(from_abi_str(device)));
    HandlePtr<tenon_tensor_t> handle = new_handle<tenon_tensor_t>();
    auto lent = std::make_shared<Lent>(context, release);
    TENON_ASSIGN_OR_RETURN(auto buffer, adopt(std::move(owner), native, lent));
    auto tensor = std::make_shared<runtime::Tensor>(array.dtype, std::move(dims), bytes,
                                                    std::move(buffer), true);
    lent->taken = true;
    give_handle(std::move(tensor), std::move(handle), out);
    return {};
  });
}

// The tensor's memory on a device, copied there if it is elsewhere.
Result<runtime::Buffer*> bring(runtime::Tensor& tensor,
                               const std::shared_ptr<runtime::Device>& device) {
  TENON_RETURN_IF_ERROR(tensor.check_there());
  if (runtime::Buffer* const there = tensor.on(*device); there != nullptr) return there;
  TENON_ASSIGN_OR_RETURN(const void* const data, tensor.fetch());
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Buffer> buffer,
                         runtime::upload(device, data, tensor.size_bytes()));
  tensor.remember(std::move(buffer));
  runtime::Buffer* const there = tensor.on(*device);
  TENON_CHECK(there != nullptr, "a tensor does not remember a copy");  // or is donated meanwhile
  return there;
}

tenon_code_t tensor_native(void*, tenon_tensor_t* handle, tenon_str_t device, tenon_str_t kind,
                           tenon_native_memory_t* out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(handle);
    TENON_REQUIRE(out, "record");
    TENON_REQUIRE(device.data, "device");
    TENON_REQUIRE(kind.data, "kind of memory");
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Device> owner,
                           find_device(from_abi_str(device)));
    TENON_RETURN_IF_ERROR(owner->open());
    TENON_RETURN_IF_ERROR(owner->exchanges());
    TENON_ASSIGN_OR_RETURN(runtime::Buffer* const buffer, bring(*handle->tensor, owner));
    tenon_native_memory_t memory{};
    memory.size_bytes = sizeof memory;
    {
      auto guard = owner->serialise();
      clear_failure();
      const tenon_exchange_api_t* api = owner->apis().exchange;
      TENON_RETURN_IF_ERROR(owner->check_native(
          api->export_memory(api->self, owner->handle(), buffer->handle(), kind, &memory),
          "export of a handle", runtime::Device::Native::kMemory, kind));
    }
    memory.length_bytes = handle->tensor->size_bytes();
    return give_record(out, memory);
  });
}

tenon_code_t tensor_use(void*, tenon_tensor_t* handle, const tenon_call_native_t* record) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(handle);
    TENON_REQUIRE(record, "stream");
    TENON_ASSIGN_OR_RETURN(const tenon_call_native_t native, prefix_of(record));
    TENON_REQUIRE(native.device.data, "device");
    TENON_REQUIRE(native.handle, "handle of a stream");
    TENON_ASSIGN_OR_RETURN(tenon_native_handle_t stream, prefix_of(native.handle));
    TENON_REQUIRE(stream.kind.data, "kind of a stream");
    stream.size_bytes = sizeof stream;
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Device> owner,
                           find_device(from_abi_str(native.device)));
    Status status = handle->tensor->use_on(*owner, stream);
    if (!status.ok()) {
      log_warning(
          "runtime",
          "{} bytes on device {} are kept until the process ends, because the work that may "
          "still use them cannot be followed: {}",
          handle->tensor->size_bytes(), owner->name(), status.text());
    }
    return status;
  });
}

}  // namespace

void add_exchange_slots(tenon_host_call_t* table) {
  table->tensor_adopt = tensor_adopt;
  table->tensor_native = tensor_native;
  table->tensor_use = tensor_use;
}

}  // namespace tenon::session
