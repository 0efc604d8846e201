// A loaded piece of a program on a device, and its memory needs for given sizes.
//
// Threads: safe.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/runtime/device/device.h"

namespace tenon::runtime {

struct Needs {
  struct Output {
    uint64_t size_bytes = 0;
    std::vector<int64_t> dims;
    uint32_t alias_input = TENON_NO_ALIAS;  // its memory may be that of this input
  };
  uint64_t workspace_bytes = 0, lower_bound_bytes = 0;
  std::vector<Output> outputs;
};

// Needs for recent shapes: one entry per tuple of symbol values; the oldest is dropped.
class NeedsCache {
 public:
  static constexpr size_t kEntriesMax = 64;
  std::shared_ptr<const Needs> find(std::span<const int64_t> symbols);
  void put(std::span<const int64_t> symbols, std::shared_ptr<const Needs> needs);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::vector<int64_t> symbols;
    std::shared_ptr<const Needs> needs;
  };
  std::list<Entry> entries_;  // newest first
};

class Executable {
 public:
  struct Source {
    // In order of value index of the subgraph; or, if they are packed, what `pack` gave.
    std::span<tenon_blob_t* const> constants;
    std::vector<uint32_t> output_ranks;  // one per output
    uint32_t by = 0;                     // its compiler, numbered as in DeviceApis::compiler
    bool packed = false;                 // only for a compiler that has load_packed
  };
  // Loads `bytes`; opens the device. All is borrowed for the call.
  static Result<std::unique_ptr<Executable>> load(std::shared_ptr<Device> device,
                                                  std::span<const std::byte> bytes, Source source);
  ~Executable();
  Executable(const Executable&) = delete;

  const tenon_executable_info_t& info() const { return info_; }
  // Whether its work goes to the device's queue. If not, it is complete when it returns, and what
  // the queue holds must be done first.
  bool on_queue() const { return on_queue_; }
  // Cached. T0612 if the plugin returns sizes that make no sense.
  Result<std::shared_ptr<const Needs>> needs(std::span<const int64_t> symbols);
  Status execute(const tenon_call_t& call);

 private:
  Executable(std::shared_ptr<Device> device, uint32_t by)
      : device_(std::move(device)),
        api_(device_->apis().compiler(by)),
        on_queue_(device_->apis().on_queue(by)) {}
  std::shared_ptr<Device> device_;
  const tenon_compile_api_t* api_;
  bool on_queue_;
  tenon_executable_t* handle_ = nullptr;
  tenon_executable_info_t info_{};
  std::vector<uint32_t> output_ranks_;
  std::mutex mutex_;
  NeedsCache cache_;
};

}  // namespace tenon::runtime
