// The layer `@NAME@`: wraps devices and counts the host's allocations and copies. It fills only the
// slots that it intercepts; calls of other slots bypass it.
#include <atomic>

#include <tenon/abi/device.h>
#include <tenon/cpp/layer.hpp>

namespace {

using tenon::Status;

std::atomic<uint64_t> g_allocations, g_copies, g_copied_bytes;  // of all devices

// One instance wraps each plugin.
class Counter {
 public:
  Status attach(tenon::LayerSubject& subject) {
    TENON_TRY(subject.options_done());  // it has no options
    next_ = subject.next<tenon_device_api_t>(TENON_DEVICE_ID);
    if (next_ == nullptr) return {};
    table_.alloc = tenon::layer_slot<&Counter::alloc>;
    table_.copy = tenon::layer_slot<&Counter::copy>;
    subject.put(TENON_DEVICE_ID, &table_, this);
    return {};
  }
  // Called once, before the process ends.
  static Status shutdown() {
    tenon::log("@NAME@", TENON_LOG_INFO, g_allocations.load(), " allocations, ", g_copies.load(),
               " copies of ", g_copied_bytes.load(), " bytes");
    return {};
  }

 private:
  tenon_code_t alloc(tenon_device_t* device, uint64_t size_bytes, tenon_buffer_t** out) {
    ++g_allocations;
    return next_->alloc(next_->self, device, size_bytes, out);
  }
  tenon_code_t copy(tenon_device_t* device, const tenon_copy_t* copy) {
    ++g_copies;
    g_copied_bytes += copy->length_bytes;
    return next_->copy(next_->self, device, copy);
  }

  const tenon_device_api_t* next_ = nullptr;  // the table below: another layer's, or the device's
  tenon_device_api_t table_ = {};
};

}  // namespace

TENON_LAYER("@NAME@", "0.1.0", Counter)
