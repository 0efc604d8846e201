// A value that outlives runs: its type, its dims, and its bytes in host memory, on devices, or in
// several places at once. What it holds does not change, so that calls read it where it is and
// remember the copies they made (docs/adr/0029).
//
// Threads: safe. take() only while nothing else uses the tensor.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/runtime/device/device.h"

namespace tenon::runtime {

class Tensor : public std::enable_shared_from_this<Tensor> {
 public:
  // Dense memory that the host can read. of_caller: it is not ours, and never written.
  Tensor(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t size_bytes,
         std::shared_ptr<void> memory, bool of_caller = false);
  Tensor(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t size_bytes,
         std::shared_ptr<Buffer> buffer, bool of_caller = false);
  ~Tensor();
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  tenon_dtype_t dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  uint64_t size_bytes() const { return size_bytes_; }
  // The number of this value, which no other tensor of the process has or gets; 0 once it was given
  // up. Who knows the number knows the type, and where it lies as far as it lay there.
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

  // Its bytes for the host; null if none are there yet, or if it was given up.
  const void* host() const { return host_.load(std::memory_order_acquire); }
  // The same, copied from a device first if necessary. T0621 if it was given up; what copies fail
  // with.
  Result<const void*> fetch();
  // Its memory on a device; null if there is none. Lives as long as the tensor, or until take().
  Buffer* on(const Device& device) const;
  // What is in the stream now may use its memory on the device, which was handed out. If that
  // cannot be followed, the memory is kept for good. Nothing if there is none.
  Status use_on(const Device& device, const tenon_native_handle_t& stream);
  // Its buffer on another device of this device's plugin, which its queues may reach.
  Buffer* in_reach_of(const Device& device) const;
  // Keeps a complete copy on a device or on the host, unless there is one.
  void remember(std::shared_ptr<Buffer> buffer);
  void remember_host(std::shared_ptr<void> memory);

  bool of_caller() const { return of_caller_; }
  // T0621 if it was given up.
  Status check_there() const;
  // What it holds, moved out of it. Afterwards it has no value.
  struct Taken {
    std::vector<std::shared_ptr<Buffer>> buffers;  // some may be imports of the host's memory
    std::shared_ptr<void> host;                    // null: there are only the buffers
  };
  Taken take();
  // A tensor of the same type that was given up.
  static std::shared_ptr<Tensor> gone_like(const Tensor& tensor);
  bool given_up() const { return given_up_.load(std::memory_order_acquire); }
  std::string places() const;  // "host", "sim:1,host"

 private:
  // In a list that only grows at its front, so that reading it takes no lock.
  struct Place {
    std::shared_ptr<Buffer> buffer;
    std::unique_ptr<Place> next;
  };

  const tenon_dtype_t dtype_;
  const std::vector<int64_t> dims_;
  const uint64_t size_bytes_;
  const bool of_caller_;
  std::atomic<uint64_t> value_;
  std::shared_ptr<void> host_owner_;  // null: the memory of a place
  std::atomic<const void*> host_{nullptr};
  std::atomic<bool> given_up_{false};
  std::unique_ptr<Place> places_;
  std::atomic<const Place*> first_{nullptr};
  std::mutex mutex_;  // held to change it
};

// Dense bytes in new memory of a device, which is opened. As Buffer::allocate and copies fail.
Result<std::shared_ptr<Buffer>> upload(std::shared_ptr<Device> device, const void* data,
                                       uint64_t size_bytes);
// Memory that a device may access although it was given up: it is never freed.
void keep_for_good(std::shared_ptr<void> memory);

// Dense host memory that counts against TENON_MEMORY_LIMIT. T0111, T0609. zeroed: all of it.
Result<std::shared_ptr<std::byte>> host_memory(uint64_t size_bytes, bool zeroed);

}  // namespace tenon::runtime
