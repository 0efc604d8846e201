// What another library's work may still do with memory that was handed out to it: a point after
// what was in one of its streams. Memory is neither freed nor reused before all its uses are over.
#pragma once
#include <memory>
#include <vector>

#include <tenon/abi/exchange.h>
#include <tenon/abi/queue.h>

#include "core/base/errors/status.h"

namespace tenon::runtime {

class Device;

class Use {
 public:
  // Of what is in the stream now, on an open device. any: a buffer of the device, which is not
  // touched. As Queue::import fails.
  static Result<std::unique_ptr<Use>> begin(Device& device, const tenon_native_handle_t& stream,
                                            tenon_buffer_t* any);
  ~Use();  // waits until it is over
  Use(const Use&) = delete;

  tenon_fence_point_t point() const { return {fence_, 1}; }
  // Whether that work is done, at once. Work that failed is done, too.
  bool over() const;

 private:
  explicit Use(Device& device) : device_(device) {}
  Status import(const tenon_native_handle_t& stream);
  Status mark(tenon_buffer_t* any);
  Device& device_;
  tenon_queue_t* queue_ = nullptr;
  tenon_fence_t* fence_ = nullptr;
};

using Uses = std::vector<std::unique_ptr<Use>>;

}  // namespace tenon::runtime
