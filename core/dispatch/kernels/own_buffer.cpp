#include "core/dispatch/kernels/own_buffer.h"

#include <tenon/abi/copy.h>
#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/process/memory.h"
#include "core/base/record.h"

namespace tenon::dispatch {

OwnBuffer::~OwnBuffer() {
  if (handle_ != nullptr) (void)api_->free(api_->self, device_, handle_);
  memory_return(counted_bytes_);
}

Status OwnBuffer::fill(const void* data, uint64_t bytes, std::string_view what) {
  TENON_RETURN_IF_ERROR(memory_reserve(bytes, what));
  counted_bytes_ = bytes;
  tenon_buffer_t* made = nullptr;  // a local: a handle stored despite an error is not ours
  clear_failure();
  TENON_RETURN_IF_ERROR(from_abi(api_->alloc(api_->self, device_, bytes, &made), "alloc"));
  if (made == nullptr)
    return error(TENON_INTERNAL, "T0612", "the device gave no buffer for {} bytes", bytes);
  handle_ = made;
  if (bytes == 0) return {};
  auto copy = sized<tenon_copy_t>();
  if (tenon_copy_make_fill(&copy, handle_, data, bytes)) {
    const tenon_code_t filled = api_->copy(api_->self, device_, &copy);
    if (filled != TENON_UNIMPLEMENTED) return from_abi(filled, "fill");
    clear_failure();
    copy = sized<tenon_copy_t>();
  }
  copy.direction = TENON_COPY_HOST_TO_DEVICE;
  copy.to = handle_;
  copy.length_bytes = bytes;
  copy.host_from = data;
  return from_abi(api_->copy(api_->self, device_, &copy), "copy");
}

}  // namespace tenon::dispatch
