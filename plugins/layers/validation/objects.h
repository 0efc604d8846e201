// The live objects of one plugin, by kind and address. Buffers of two devices may have the same
// address, so their key includes the device.
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

// What an execution needs, as the plugin last reported for these symbols.
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
  tenon_device_t* device = nullptr;  // the device that it was made on; null for artifacts

  // devices
  uint32_t ordinal = 0;
  uint32_t opens = 0;
  uint64_t alignment = 1, memory_bytes = 0;
  uint32_t threading = TENON_THREADING_FREE;
  std::atomic<bool> lost = false;
  std::atomic<uint32_t> inside = 0;  // calls in progress, of devices and queues
  // buffers
  uint64_t size_bytes = 0;
  bool foreign = false;  // memory of another library
  const void* imported = nullptr;
  bool imported_to_write = false;
  uint64_t imported_digest = 0;
  const void* mapped = nullptr;
  // fences: the highest value seen, and the highest that a submission or a call will signal
  std::vector<const tenon_device_t*> reached;  // a queue: it said that it reads their memory
  uint64_t seen = 0, promised = 0;
  std::atomic<bool> failed = false;
  // artifacts
  std::string target;
  // executables
  std::map<std::vector<int64_t>, KnownNeeds> needs;
  uint32_t again = 0;  // how often the layer executed it again
  std::atomic<uint32_t> running = 0;
};
using ObjectRef = std::shared_ptr<Object>;

// Threads: safe. `mutex` of Objects guards the fields of an Object that are not atomic.
class Objects {
 public:
  // Adds an object. *out_twin is the live object with the same address, or null; a device opened
  // again counts its opens.
  ObjectRef add(Kind kind, const void* handle, tenon_device_t* device, ObjectRef* out_twin);
  // The live object, or null; then `why` says what is wrong with the handle.
  ObjectRef find(Kind kind, const void* handle, tenon_device_t* device, std::string* why) const;
  void remove(const Object& object);
  // The live objects of a device, or of all devices.
  std::vector<ObjectRef> living(tenon_device_t* device) const;
  std::vector<ObjectRef> living_of(Kind kind, tenon_device_t* device) const;
  mutable std::mutex mutex;  // guards fields of objects

 private:
  using Key = std::tuple<Kind, const void*, const void*>;
  static Key key(Kind kind, const void* handle, tenon_device_t* device) {
    return {kind, handle, kind == Kind::kBuffer ? device : nullptr};
  }
  mutable std::mutex map_mutex_;
  std::map<Key, ObjectRef> living_;
  std::map<Key, bool> gone_;  // no longer alive
};

// "3 buffers and 1 queue".
std::string summary(const std::vector<ObjectRef>& objects);

}  // namespace tenon::validation

#endif
