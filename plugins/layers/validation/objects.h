// The objects of one plugin that are alive, by what the host holds of them: kind, and address.
// Buffers of two devices may have one address, so theirs has the device too.
#ifndef TENON_PLUGINS_LAYERS_VALIDATION_OBJECTS_H_
#define TENON_PLUGINS_LAYERS_VALIDATION_OBJECTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/queue.h"

namespace tenon::validation {

enum class Kind : uint8_t { kDevice, kBuffer, kQueue, kFence, kArtifact, kExecutable, kKernel };
inline constexpr std::array<std::string_view, 7> kKindNames = {
    "device", "buffer", "queue", "fence", "artifact", "executable", "kernel"};
inline std::string_view name_of(Kind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

// What an execution needs, as the plugin said last for these symbols.
struct KnownNeeds {
  struct Output {
    uint64_t size_bytes_max;
    uint32_t alias_input;
  };
  std::vector<Output> outputs;
  uint64_t workspace_bytes = 0;
};

struct Object {
  Kind kind = Kind::kDevice;
  const void* handle = nullptr;
  tenon_device_t* device = nullptr;  // that it was made on; null for artifacts

  // devices
  uint32_t ordinal = 0;
  uint32_t opens = 0;
  uint64_t alignment = 1, memory_bytes = 0;
  uint32_t threading = TENON_THREADING_FREE;
  std::atomic<bool> lost = false;
  std::atomic<uint32_t> inside = 0;  // calls now, of devices and queues
  // buffers
  uint64_t size_bytes = 0;
  const void* imported = nullptr;
  uint64_t imported_digest = 0;
  const void* mapped = nullptr;
  // fences: the highest that was seen, and that anybody signals
  uint64_t seen = 0, promised = 0;
  std::atomic<bool> failed = false;
  // artifacts
  std::string target;
  // executables
  std::map<std::vector<int64_t>, KnownNeeds> needs;
  std::atomic<uint32_t> running = 0;
};
using ObjectRef = std::shared_ptr<Object>;

// Threads: safe; what an Object holds beside its atomics is guarded by `mutex` of Objects.
class Objects {
 public:
  // A new object. The one with the same address that is alive already, or null: for devices that
  // one is counted again.
  ObjectRef add(Kind kind, const void* handle, tenon_device_t* device, ObjectRef* out_twin);
  // Alive, or null; then `why` says what is wrong with the handle.
  ObjectRef find(Kind kind, const void* handle, tenon_device_t* device, std::string* why) const;
  void remove(const Object& object);
  // What is alive of a device, or of all.
  std::vector<ObjectRef> living(tenon_device_t* device) const;
  std::vector<ObjectRef> living_of(Kind kind, tenon_device_t* device) const;
  mutable std::mutex mutex;  // of the fields of objects

 private:
  using Key = std::tuple<Kind, const void*, const void*>;
  static Key key(Kind kind, const void* handle, tenon_device_t* device) {
    return {kind, handle, kind == Kind::kBuffer ? device : nullptr};
  }
  mutable std::mutex map_mutex_;
  std::map<Key, ObjectRef> living_;
  std::map<Key, bool> gone_;  // was alive once
};

// "3 buffers and 1 queue".
std::string summary(const std::vector<ObjectRef>& objects);

}  // namespace tenon::validation

#endif
