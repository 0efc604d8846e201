// tenon.exchange/1: what is imported is an object of the plugin like any other.
#include "validation.h"

namespace tenon::validation {

void Validator::attach_exchange(LayerSubject& subject) {
  if ((exchange_ = subject.next<tenon_exchange_api_t>(TENON_EXCHANGE_ID)) == nullptr) return;
  tenon_exchange_api_t& t = exchange_table_;
  t.import_memory = layer_slot<&Validator::import_memory>;
  t.import_queue = layer_slot<&Validator::import_queue>;
  t.import_fence = layer_slot<&Validator::import_fence>;
  subject.put(TENON_EXCHANGE_ID, &t, this);
}

tenon_code_t Validator::import_memory(tenon_device_t* device, const tenon_native_memory_t* memory,
                                      tenon_buffer_t** out) {
  constexpr std::string_view kSlot = "import_memory";
  const ObjectRef d = need(kSlot, Kind::kDevice, device);
  if (d == nullptr || !need_pointer(kSlot, out, "out_buffer") ||
      !need_pointer(kSlot, memory, "the record"))
    return refuse(kSlot);
  const Inside inside = enter(d, kSlot);
  const tenon_code_t code = ask_for(kSlot, out, [&](tenon_buffer_t** o) {
    return exchange_->import_memory(exchange_->self, device, memory, o);
  });
  note_lost(*d, kSlot, code);
  if (code != TENON_OK) return code;
  if (const ObjectRef buffer = made(kSlot, "R-C36", Kind::kBuffer, *out, device)) {
    const std::lock_guard lock(objects_.mutex);
    buffer->size_bytes = memory->length_bytes;
    buffer->foreign = true;
  }
  return code;
}

tenon_code_t Validator::import_queue(tenon_device_t* device, const tenon_native_handle_t* stream,
                                     tenon_queue_t** out) {
  constexpr std::string_view kSlot = "import_queue";
  const ObjectRef d = need(kSlot, Kind::kDevice, device);
  if (d == nullptr || !need_pointer(kSlot, out, "out_queue") ||
      !need_pointer(kSlot, stream, "the record"))
    return refuse(kSlot);
  const Inside inside = enter(d, kSlot);
  const tenon_code_t code = ask_for(kSlot, out, [&](tenon_queue_t** o) {
    return exchange_->import_queue(exchange_->self, device, stream, o);
  });
  note_lost(*d, kSlot, code);
  if (code == TENON_OK) made(kSlot, "R-D28", Kind::kQueue, *out, device);
  return code;
}

tenon_code_t Validator::import_fence(tenon_device_t* device, const tenon_native_handle_t* native,
                                     tenon_fence_point_t* out) {
  constexpr std::string_view kSlot = "import_fence";
  const ObjectRef d = need(kSlot, Kind::kDevice, device);
  if (d == nullptr || !need_pointer(kSlot, out, "out_point") ||
      !need_pointer(kSlot, native, "the record"))
    return refuse(kSlot);
  const Inside inside = enter(d, kSlot);
  tenon_fence_point_t point{};
  const tenon_code_t code = ask_for(kSlot, &out->fence, [&](tenon_fence_t** o) {
    point.fence = *o;
    const tenon_code_t given = exchange_->import_fence(exchange_->self, device, native, &point);
    *o = point.fence;
    return given;
  });
  note_lost(*d, kSlot, code);
  if (code != TENON_OK) return code;
  out->value = point.value;
  made(kSlot, "R-D29", Kind::kFence, point.fence, device);
  return code;
}

}  // namespace tenon::validation
