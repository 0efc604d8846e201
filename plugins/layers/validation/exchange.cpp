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

// Checks the arguments of an import, makes it, and notes what it made. Null without an object; then
// *code has the reason. `out`: the caller's record or place, which `handle` is in.
template <class Handle, class Call>
ObjectRef Validator::imported(const Import& of, tenon_device_t* device, const void* record,
                              const void* out, Handle** handle, tenon_code_t* code, Call call) {
  const ObjectRef d = need(of.slot, Kind::kDevice, device);
  if (d == nullptr || !need_pointer(of.slot, out, of.output) ||
      !need_pointer(of.slot, record, "the record")) {
    *code = refuse(of.slot);
    return nullptr;
  }
  const Inside inside = enter(d, of.slot);
  *code = ask_for(of.slot, handle, call);
  note_lost(*d, of.slot, *code);
  if (*code != TENON_OK) return nullptr;
  return made(of.slot, of.requirement, of.kind, *handle, device);
}

tenon_code_t Validator::import_memory(tenon_device_t* device, const tenon_native_memory_t* memory,
                                      tenon_buffer_t** out) {
  tenon_code_t code = TENON_OK;
  const ObjectRef buffer =
      imported({"import_memory", "R-C36", "out_buffer", Kind::kBuffer}, device, memory, out, out,
               &code, [&](tenon_buffer_t** o) {
                 return exchange_->import_memory(exchange_->self, device, memory, o);
               });
  if (buffer == nullptr) return code;
  const std::lock_guard lock(objects_.mutex);
  buffer->size_bytes = memory->length_bytes;
  buffer->foreign = true;
  return code;
}

tenon_code_t Validator::import_queue(tenon_device_t* device, const tenon_native_handle_t* stream,
                                     tenon_queue_t** out) {
  tenon_code_t code = TENON_OK;
  imported({"import_queue", "R-D28", "out_queue", Kind::kQueue}, device, stream, out, out, &code,
           [&](tenon_queue_t** o) {
             return exchange_->import_queue(exchange_->self, device, stream, o);
           });
  return code;
}

tenon_code_t Validator::import_fence(tenon_device_t* device, const tenon_native_handle_t* native,
                                     tenon_fence_point_t* out) {
  tenon_code_t code = TENON_OK;
  tenon_fence_point_t point{};
  imported({"import_fence", "R-B30", "out_point", Kind::kFence}, device, native, out,
           out == nullptr ? nullptr : &out->fence, &code, [&](tenon_fence_t** o) {
             point.fence = *o;
             const tenon_code_t given =
                 exchange_->import_fence(exchange_->self, device, native, &point);
             *o = point.fence;
             return given;
           });
  if (code == TENON_OK) out->value = point.value;
  return code;
}

}  // namespace tenon::validation
