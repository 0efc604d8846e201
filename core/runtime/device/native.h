// Streams and fences of other libraries that take part in one run: see ADR 0040.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include <tenon/abi/exchange.h>

#include "core/runtime/device/device.h"

namespace tenon::runtime {

// A native handle on the device of this name. Borrowed for the run.
struct Native {
  std::string_view device;
  tenon_native_handle_t handle;
};

struct Natives {
  std::span<const Native> streams, waits, signals;
  bool empty() const { return streams.empty() && waits.empty() && signals.empty(); }
};

// A fence of a device that stands for a native one.
class NativeFence {
 public:
  // to_signal: the device will signal it; else it is waited for. T0635 if the device takes none.
  static Result<std::unique_ptr<NativeFence>> import(std::shared_ptr<Device> device,
                                                     tenon_native_handle_t handle, bool to_signal);
  ~NativeFence();
  NativeFence(const NativeFence&) = delete;

  tenon_fence_point_t point() const { return point_; }
  // Blocks the calling thread. T0001 if its operation is cancelled; T0636 if the fence fails, or
  // does not come within Limit::kDeviceWaitSeconds.
  Status wait() const;

 private:
  explicit NativeFence(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::shared_ptr<Device> device_;
  tenon_fence_point_t point_{};
};

}  // namespace tenon::runtime
