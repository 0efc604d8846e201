#include "tenon/stream/steady.h"

#include <algorithm>

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/timeline.hpp"

namespace tenon::stream {
namespace {

// A graph costs about as much as some launches.
constexpr size_t kFewestLaunches = 3;
// Programs whose outputs take turns, or that run on some queues at once, have so many forms of a
// run.
constexpr size_t kMostKnown = 4;

bool switched_off() {
  static const bool off = setting("TENON_GPU_GRAPHS") == "off";
  return off;
}

// What makes launches differ. The name does not.
std::vector<uint64_t> key_of(std::span<const OwnLaunch> launches) {
  std::vector<uint64_t> key;
  for (const OwnLaunch& launch : launches) {
    key.insert(key.end(), {launch.kernel, launch.groups, launch.group, launch.arguments.size()});
    key.insert(key.end(), launch.arguments.begin(), launch.arguments.end());
  }
  return key;
}

}  // namespace

GraphRef Steady::graph_of(std::string_view device, std::span<OwnLaunch> launches) {
  if (launches.size() < kFewestLaunches || switched_off()) return nullptr;
  std::vector<uint64_t> key = key_of(launches);
  Status status;
  {
    const std::lock_guard lock(mutex_);
    if (off_) return nullptr;
    const auto found =
        std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.key == key; });
    if (found == known_.end()) {
      known_.push_front({std::move(key), nullptr});
      if (known_.size() > kMostKnown) known_.pop_back();
      return nullptr;
    }
    known_.splice(known_.begin(), known_, found);
    if (found->graph == nullptr) status = record(launches, &found->graph);
    if (status.ok()) return found->graph;
  }
  give_up(device, status.code());
  return nullptr;
}

void Steady::give_up(std::string_view device, tenon_code_t code) {
  const Fault fault = fault_of(code);
  log(device, TENON_LOG_WARN, "kernels start one by one, as their graph failed: ", fault.text);
  const std::lock_guard lock(mutex_);
  off_ = true;
}

void Steady::forget() {
  const std::lock_guard lock(mutex_);
  known_.clear();
}

}  // namespace tenon::stream
