// One device as the host sees it: the plugin's tables, its record and, once something runs there,
// the open handle. Shared by the whole process. Claiming and compiling need no open device.
//
// Threads: safe. Calls into a plugin that requests it (TENON_THREADING_SERIAL) are serialised here.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/compile.h>
#include <tenon/abi/device.h>
#include <tenon/abi/exchange.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/queue.h>

#include "core/base/errors/status.h"
#include "core/base/process/memory.h"
#include "core/runtime/device/pinned.h"
#include "core/runtime/device/use.h"

namespace tenon::runtime {

// Kernels that another plugin has for this kind of device, as a compile interface of core/dispatch.
// They run on the same buffers.
struct KernelSet {
  std::string plugin;
  const tenon_compile_api_t* compile = nullptr;
  const void* table = nullptr;  // the plugin's own: identifies the set
  bool in_force = true;         // false: replaced or taken back; programs that use it keep it
  uint64_t registration = 0;    // of a plugin that the program registered
  bool on_queue = false;        // its kernels go to the device's queue
  std::string version = {};     // of the plugin
};

// The kernel sets of a kind of device. The list only grows, and programs refer to them by index.
// Threads: safe.
class KernelSets {
 public:
  void add(KernelSet set) {
    std::lock_guard lock(mutex_);
    sets_.push_back(std::move(set));
  }
  void withdraw(size_t index) {
    std::lock_guard lock(mutex_);
    sets_.at(index).in_force = false;
  }
  KernelSet at(size_t index) const {
    std::lock_guard lock(mutex_);
    return sets_.at(index);
  }
  std::vector<KernelSet> all() const {
    std::lock_guard lock(mutex_);
    return sets_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<KernelSet> sets_;
};

// Full-size tables that live as long as the process. `compile` is never null: a device that only
// has kernels gets the adapter of core/dispatch.
struct DeviceApis {
  std::string plugin;
  const tenon_device_api_t* device = nullptr;
  const tenon_compile_api_t* compile = nullptr;
  const tenon_queue_api_t* queue = nullptr;        // null: everything completes before it returns
  const tenon_exchange_api_t* exchange = nullptr;  // may be null
  std::shared_ptr<KernelSets> kernel_sets = std::make_shared<KernelSets>();
  // The compiler numbered `by`: 0 is the device itself, i is kernel set i - 1.
  const tenon_compile_api_t* compiler(uint32_t by) const {
    return by == 0 ? compile : kernel_sets->at(by - 1).compile;
  }
  // Whether what it compiles goes to a queue. If not, it is complete when it returns.
  bool on_queue(uint32_t by) const {
    return queue != nullptr && (by == 0 || kernel_sets->at(by - 1).on_queue);
  }
  // The version of a set's plugin; empty for the device itself.
  std::string compiler_version(uint32_t by) const {
    return by == 0 ? "" : kernel_sets->at(by - 1).version;
  }
  // The plugin that it is of.
  std::string compiler_plugin(uint32_t by) const {
    return by == 0 ? plugin : kernel_sets->at(by - 1).plugin;
  }
};

class BufferPool;

// Pools of a device whose Runners have no call at the moment.
struct IdlePools {
  std::mutex mutex;  // of the list, and of the pools in it
  std::vector<BufferPool*> pools;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  // Reads the record of one ordinal; opens nothing. T0503 if the plugin refuses or its record makes
  // no sense.
  static Result<std::shared_ptr<Device>> create(const DeviceApis& apis, uint32_t ordinal) {
    return create(apis, ordinal, ordinal);
  }
  // number: the index in the device's name, counted within its kind. It differs from the ordinal if
  // one table lists several kinds.
  static Result<std::shared_ptr<Device>> create(const DeviceApis& apis, uint32_t ordinal,
                                                uint32_t number);
  // One to compile for only, which need not be in this machine: `kind` with this target, and with
  // `number` in its name. The rest is as the plugin says of device 0, if it has one here. Never
  // opened.
  static Result<std::shared_ptr<Device>> create_for_target(const DeviceApis& apis,
                                                           std::string_view kind, uint32_t number,
                                                           std::string_view target);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }                // "cpu", "sim:1"
  const std::string& tensor_text() const { return tensor_text_; }  // "a tensor on device `cpu`"
  const DeviceApis& apis() const { return apis_; }
  const tenon_device_info_t& info() const { return info_; }
  tenon_str_t target() const { return info_.target; }
  bool host_visible() const { return apis_.device->map != nullptr; }
  bool has_queue() const { return apis_.queue != nullptr; }
  bool same_plugin(const Device& other) const {
    return apis_.device == other.apis_.device && apis_.queue == other.apis_.queue;
  }

  // Opens on first use. T0503 with the plugin's reason.
  Status open();
  // Null before open().
  tenon_device_t* handle() const { return handle_.load(std::memory_order_acquire); }

  // Turns a code of this device's plugin into a Status that names the device and `what`;
  // TENON_DEVICE_LOST marks it, and with T0618 it is abandoned.
  Status check(tenon_code_t code, std::string_view what);
  // " (it has 4096 in use)", of its bytes; empty if the device does not say. For messages.
  std::string use_text();
  // T0633 without tenon.exchange/1.
  Status exchanges() const;
  // T0635 where it takes no streams and fences of other libraries.
  Status exchanges_queues() const;
  // The kinds of handles of other libraries that it takes, as its plugin names them; empty where it
  // takes none. Needs no open device.
  struct ExchangeKinds {
    std::vector<std::string> memory, streams, fences;
  };
  ExchangeKinds exchange_kinds() const;
  // Turns the code of a call about a handle of this kind into a Status, as check() does. Where the
  // kind is none that the device takes, it is T0633 or T0635, and names those.
  enum class Native { kMemory, kStream, kFence };
  Status check_native(tenon_code_t code, std::string_view what, Native native, tenon_str_t kind);
  // T0611 once the device was lost: it gives no more results.
  Status alive() const;

  // Called when submitted work did not end in time. The device counts as lost. Its work may still
  // go on, so its buffers, queues and executables are never released.
  void abandon();
  void leave_behind(
      const void* handle);  // keeps a reference, so that leak checkers see that it is meant
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  // Held around calls that the plugin wants one at a time; empty if it allows concurrent calls.
  std::unique_lock<std::mutex> serialise();
  std::unique_lock<std::mutex> serialise_execution(bool on_queue);
  // For a serialised call that calls back into the host: what the host then calls on this thread
  // belongs to the same turn.
  class SameTurn {
   public:
    explicit SameTurn(const Device& device);
    ~SameTurn();
    SameTurn(const SameTurn&) = delete;
    SameTurn& operator=(const SameTurn&) = delete;

   private:
    const Device* before_;
  };

  // Counts bytes of tensors that are to be allocated on it: against TENON_DEVICE_MEMORY_LIMIT if
  // that names it, else against TENON_MEMORY_LIMIT with all others. T0609 if they are too many.
  Status reserve(uint64_t bytes);
  void give_back(uint64_t bytes);

  // Frees a buffer once all uses are over. Does not wait, unless the device cannot free after
  // fences.
  void free_after(tenon_buffer_t* buffer, Uses uses);
  // Ends what free_after has left: what is over; or all of it, waiting. False if there was
  // nothing.
  bool end_uses(bool all);
  std::mutex& uses_mutex() { return uses_mutex_; }  // of the uses of its buffers

  Status copy(const tenon_copy_t& copy);
  // Lets the device make the bytes of a new buffer if they repeat one element and it can; false if
  // they must be copied.
  Result<bool> fill(tenon_buffer_t* to, const void* data, uint64_t size_bytes);
  // Whether it takes fills, as far as is known.
  bool fills() const { return fills_.load(std::memory_order_relaxed); }
  void fills_not() { fills_.store(false, std::memory_order_relaxed); }
  // Whether the device itself says that it is lost, and not only work that waited for another one.
  bool says_lost();
  PinnedMemory& pinned() { return pinned_; }
  IdlePools& idle_pools() { return idle_pools_; }

 private:
  Device(const DeviceApis& apis, uint32_t ordinal) : apis_(apis), ordinal_(ordinal) {}
  void set_name(uint32_t number);  // from info_
  DeviceApis apis_;
  uint32_t ordinal_;
  std::string name_, tensor_text_;
  std::string kind_, target_;  // of create_for_target, for info_
  tenon_device_info_t info_{};
  std::mutex open_mutex_, serial_mutex_;
  std::atomic<tenon_device_t*> handle_{nullptr};
  std::atomic<bool> lost_{false}, abandoned_{false}, fills_{true};
  std::vector<const void*> left_behind_;
  std::optional<uint64_t> memory_limit_;  // its own
  std::atomic<uint64_t> memory_used_{0};  // counted where it has one
  PinnedMemory pinned_{*this};
  IdlePools idle_pools_;
  std::mutex uses_mutex_;
  Uses freed_after_;  // uses after which the device frees buffers; it needs their fences
  std::atomic<bool> has_freed_after_{false};
};

// Memory of one device. Movable; frees itself. Counts as Device::reserve
// says unless imported.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { reset(); }

  // T0609 if TENON_MEMORY_LIMIT or the device has too little memory. Opens the device.
  static Result<Buffer> allocate(std::shared_ptr<Device> device, uint64_t size_bytes);
  // Wraps host memory that outlives the buffer and is not written through it. Returns an empty
  // buffer if the device cannot do so or the address does not suit it; the caller then copies.
  static Result<Buffer> import(std::shared_ptr<Device> device, const void* data,
                               uint64_t size_bytes) {
    return import(std::move(device), const_cast<void*>(data), size_bytes, 0);
  }
  // The same, for memory that the device may write to.
  static Result<Buffer> import_to_write(std::shared_ptr<Device> device, void* data,
                                        uint64_t size_bytes) {
    return import(std::move(device), data, size_bytes, TENON_IMPORT_WRITE);
  }

  // Memory of another library, which outlives the buffer; UNIMPLEMENTED where the device exchanges
  // none.
  static Result<Buffer> adopt(std::shared_ptr<Device> device, const tenon_native_memory_t& memory);

  // What is in the stream now may use the memory, which was handed out.
  Status use_on(const tenon_native_handle_t& stream);
  // Whether other work may still use it.
  bool in_use();

  explicit operator bool() const { return handle_ != nullptr; }
  tenon_buffer_t* handle() const { return handle_; }
  uint64_t size_bytes() const { return size_bytes_; }
  void* host() const { return host_; }  // null: the host cannot access it
  bool imported() const { return imported_; }
  Device& device() const { return *device_; }
  void reset();

 private:
  static Result<Buffer> allocate_once(std::shared_ptr<Device> device, uint64_t size_bytes);
  static Result<Buffer> import(std::shared_ptr<Device> device, void* data, uint64_t size_bytes,
                               uint32_t flags);
  std::shared_ptr<Device> device_;
  tenon_buffer_t* handle_ = nullptr;
  void* host_ = nullptr;
  uint64_t size_bytes_ = 0, counted_bytes_ = 0;
  bool imported_ = false;  // memory of another owner
  Uses uses_;
};

// Called once plugins were shut down: no function of theirs is called any more, and remaining
// objects are leaked instead of released.
void set_plugins_shut_down();
bool plugins_shut_down();

// Counts are for the whole process.
using tenon::memory_in_use;
using tenon::memory_reserve;
using tenon::memory_return;

}  // namespace tenon::runtime
