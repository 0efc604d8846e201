// The outputs of a run: knows where the caller wants each, brings it there when the steps are done,
// and hands out its memory.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/runtime/run/context.h"

namespace tenon::runtime {

// An output leaves in the buffer that the device asked for, unless that has more than twice as many
// bytes, and more than so many, as the output.
inline constexpr uint64_t kDetachedSlackBytes = 4096;

class Outputs {
 public:
  explicit Outputs(RunContext& run) : run_(run) {}
  // stays, homes: as Runner::run has them.
  void begin_run(std::span<const uint8_t> stays, std::span<const Home> homes);
  Status take();
  void drop();
  const std::vector<OutputArray>& arrays() const { return arrays_; }
  // As Runner::detach.
  Result<std::shared_ptr<Tensor>> detach(size_t output, uint64_t* out_copied_bytes);

 private:
  Status own_host(uint32_t slot);
  Result<std::shared_ptr<Tensor>> make_tensor(size_t output, uint64_t* out_copied_bytes);
  std::shared_ptr<Buffer> take_buffer(SlotState& value, uint64_t bytes);
  Result<std::shared_ptr<std::byte>> copy_host(const SlotState& value, uint64_t bytes);

  RunContext& run_;
  std::vector<OutputArray> arrays_, spare_;  // spare: their dims keep their memory for the next run
};

}  // namespace tenon::runtime
