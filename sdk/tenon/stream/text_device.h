// tenon.compile/1 for devices on streams: submissions and memory of a TextDevice. The vendor adds
// names, targets, compiling and loading.
#ifndef TENON_STREAM_TEXT_DEVICE_H_
#define TENON_STREAM_TEXT_DEVICE_H_

#include <memory>

#include "tenon/kernelgen/device/text_executable.h"
#include "tenon/stream/device.h"

namespace tenon::stream {

class TextDevice : public kernelgen::TextDevice {
 public:
  // The table must live as long as the process.
  explicit TextDevice(const tenon_device_api_t& memory) : memory_(memory) {}
  const tenon_device_api_t& memory() const override { return memory_; }
  uint64_t alignment_bytes(tenon_device_t*) const override { return kAlignmentBytes; }
  Status submit(tenon_device_t* device, tenon_queue_t* queue,
                std::span<const tenon_fence_point_t> waits, bool timed,
                std::unique_ptr<kernelgen::Submission>* out) const override;

 private:
  const tenon_device_api_t& memory_;
};

}  // namespace tenon::stream
#endif
