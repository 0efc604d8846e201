// The layer `faults`: makes the n-th call of a kind fail, as a device might. Deterministic: calls
// are counted per plugin, in order of arrival. A failing call is not forwarded, except by `late`,
// where the work is done and then reported as failed. README.md lists the options.
#include <array>
#include <atomic>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>

#include "tenon/abi/compile.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/queue.h"
#include "tenon/cpp/layer.hpp"

namespace {

using tenon::cat;
using tenon::layer_slot;
using tenon::quoted;
using tenon::sized;
using tenon::Status;
using tenon::view;

enum Site {
  kOpen,
  kAlloc,
  kImport,
  kCopy,
  kCopyAsync,
  kQueue,
  kFence,
  kTimeout,
  kCompile,
  kFits,
  kLoad,
  kExecute,
  kLate,
  kLost,
  kSites
};
struct SiteInfo {
  std::string_view option;
  tenon_code_t code;
};
constexpr std::array<SiteInfo, kSites> kInfo = {{{"open", TENON_UNAVAILABLE},
                                                 {"alloc", TENON_RESOURCE_EXHAUSTED},
                                                 {"import", TENON_RESOURCE_EXHAUSTED},
                                                 {"copy", TENON_ABORTED},
                                                 {"copy_async", TENON_ABORTED},
                                                 {"queue", TENON_RESOURCE_EXHAUSTED},
                                                 {"fence", TENON_RESOURCE_EXHAUSTED},
                                                 {"timeout", TENON_DEADLINE_EXCEEDED},
                                                 {"compile", TENON_ABORTED},
                                                 {"fits", TENON_RESOURCE_EXHAUSTED},
                                                 {"load", TENON_ABORTED},
                                                 {"execute", TENON_ABORTED},
                                                 {"late", TENON_ABORTED},
                                                 {"lost", TENON_DEVICE_LOST}}};

// Which calls fail, counted from 1, and how many calls there were.
struct Fault {
  uint64_t first = 0, last = 0;  // 0: none
  std::atomic<uint64_t> calls = 0;
  std::atomic<bool> fired = false;

  // Counts a call. Returns its number if it is to fail, else 0.
  uint64_t next() {
    const uint64_t n = ++calls;
    const bool hit = first != 0 && n >= first && n <= last;
    if (hit) fired = true;
    return hit ? n : 0;
  }
};

// "3", "3+" or "3-5".
bool parse_range(std::string_view text, Fault* out) {
  const char *at = text.data(), *end = at + text.size();
  auto number = [&](uint64_t* value) {
    const auto [rest, problem] = std::from_chars(at, end, *value);
    at = rest;
    return problem == std::errc();
  };
  if (!number(&out->first) || out->first == 0) return false;
  out->last = out->first;
  if (at == end) return true;
  if (*at == '+') return out->last = UINT64_MAX, at + 1 == end;
  return *at++ == '-' && number(&out->last) && at == end && out->last >= out->first;
}

struct Device {
  bool chosen = true;  // the options select this device
  std::atomic<bool> lost = false;
};

// The faults of one plugin.
class Faults {
 public:
  Status attach(tenon::LayerSubject& subject);
  static Status shutdown();

 private:
  // ---- tenon.device/1
  tenon_code_t open(uint32_t ordinal, tenon_device_t** out);
  tenon_code_t close(tenon_device_t* device);
  tenon_code_t alloc(tenon_device_t* device, uint64_t size, tenon_buffer_t** out);
  tenon_code_t copy(tenon_device_t* device, const tenon_copy_t* copy);
  tenon_code_t map(tenon_device_t* device, tenon_buffer_t* buffer, void** out);
  tenon_code_t import(tenon_device_t* device, const tenon_memory_import_t* memory,
                      tenon_buffer_t** out);
  tenon_code_t memory(tenon_device_t* device, uint64_t* used, uint64_t* peak);
  // ---- tenon.queue/1
  tenon_code_t queue_create(tenon_device_t* device, tenon_queue_t** out);
  tenon_code_t queue_destroy(tenon_queue_t* queue);
  tenon_code_t copy_async(tenon_queue_t* queue, const tenon_copy_t* copy,
                          const tenon_fence_point_t* waits, uint32_t wait_count,
                          tenon_fence_point_t signal);
  tenon_code_t fence_create(tenon_device_t* device, uint64_t initial, tenon_fence_t** out);
  tenon_code_t fence_destroy(tenon_fence_t* fence);
  tenon_code_t fence_query(tenon_fence_t* fence, uint64_t* out);
  tenon_code_t fence_signal(tenon_fence_t* fence, uint64_t value);
  tenon_code_t fence_wait(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns);
  // ---- tenon.compile/1
  tenon_code_t compile(tenon_str_t target, tenon_graph_t* graph,
                       const tenon_compile_options_t* options, tenon_artifact_t** out);
  tenon_code_t fits(tenon_str_t target, const void* bytes, uint64_t size);
  tenon_code_t load(tenon_device_t* device, const void* bytes, uint64_t size,
                    tenon_blob_t* const* constants, uint32_t count, tenon_executable_t** out);
  tenon_code_t load_packed(tenon_device_t* device, const void* bytes, uint64_t size,
                           tenon_blob_t* const* packed, uint32_t count, tenon_executable_t** out);
  void executable_release(tenon_executable_t* executable);
  tenon_code_t execute(tenon_executable_t* executable, const tenon_call_t* call);
  // ---- tenon.kernels/1
  tenon_code_t create(tenon_device_t* device, const tenon_kernel_call_t* call,
                      tenon_kernel_t** out);
  tenon_code_t restore(tenon_device_t* device, const void* bytes, uint64_t size,
                       tenon_kernel_t** out);
  void destroy(tenon_kernel_t* kernel);
  tenon_code_t run(tenon_kernel_t* kernel, const tenon_kernel_args_t* args);

  // Handles of different kinds may have the same value.
  using Key = std::pair<const void*, const void*>;
  template <class Handle>
  static Key key(const Handle* handle) {
    static constexpr char kKind = 0;
    return {&kKind, handle};
  }
  // The device that a handle belongs to.
  template <class Handle>
  std::shared_ptr<Device> device_of(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Device>& device = owners_[key(handle)];
    if (device == nullptr) device = std::make_shared<Device>();  // an invalid handle
    return device;
  }
  template <class Handle>
  void remember(const Handle* handle, std::shared_ptr<Device> device) {
    const std::lock_guard lock(mutex_);
    owners_[key(handle)] = std::move(device);
  }
  template <class Handle>
  void forget(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    owners_.erase(key(handle));
  }
  bool is_chosen(uint32_t ordinal);
  bool is_chosen_target(std::string_view target);
  Status device_name(uint32_t ordinal, std::string* out);
  // Fails when the device is lost, when this call loses it, or when this call is chosen to fail.
  // Work of a lost device ends unseen: a caller that frees its memory has destroyed its queue,
  // which waits for it.
  Status hit(Device& device, Site site);
  Status fail_now(Site site, uint64_t n);
  // Submits work. If the work is to fail late, or waits for work that did, its signal is marked as
  // failed before anyone can wait for it.
  template <class Submit>
  tenon_code_t submit(const Device& device, const tenon_fence_point_t* waits, uint32_t count,
                      tenon_fence_point_t signal, Submit submit);
  Status failed_by(tenon_fence_t* fence, uint64_t value);

  std::string plugin_, only_;
  std::array<Fault, kSites> faults_;
  const tenon_device_api_t* device_ = nullptr;
  const tenon_queue_api_t* queue_ = nullptr;
  const tenon_compile_api_t* compile_ = nullptr;
  const tenon_kernels_api_t* kernels_ = nullptr;
  tenon_device_api_t device_table_ = {};
  tenon_queue_api_t queue_table_ = {};
  tenon_compile_api_t compile_table_ = {};
  tenon_kernels_api_t kernels_table_ = {};
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Device>>
      owners_;  // of devices, queues, fences, executables and kernels
  std::map<const tenon_fence_t*, uint64_t> fences_;  // the value from which on each has failed

  // Never destroyed: destructors of libraries run before the host's shutdown.
  struct All {
    std::mutex mutex;
    std::vector<Faults*> faults;
  };
  static All& all() {
    static auto* instance = new All;
    return *instance;
  }
};

Status Faults::attach(tenon::LayerSubject& subject) {
  plugin_ = subject.plugin();
  for (int site = 0; site < kSites; ++site) {
    TENON_TRY(subject.each_option(kInfo[site].option, [&](std::string_view text) -> Status {
      if (parse_range(text, &faults_[site])) return {};
      return subject.refuse(cat("the option ", kInfo[site].option,
                                " is N, N+ or N-M with N from 1 on, and not ", quoted(text)));
    }));
  }
  only_ = subject.option("device");
  TENON_TRY(subject.options_done());
  if ((device_ = subject.next<tenon_device_api_t>(TENON_DEVICE_ID)) != nullptr) {
    tenon_device_api_t& t = device_table_;
    t.open = layer_slot<&Faults::open>;
    t.close = layer_slot<&Faults::close>;
    t.alloc = layer_slot<&Faults::alloc>;
    t.copy = layer_slot<&Faults::copy>;
    t.map = layer_slot<&Faults::map>;
    t.import = layer_slot<&Faults::import>;
    t.memory = layer_slot<&Faults::memory>;
    subject.put(TENON_DEVICE_ID, &t, this);
  }
  if ((queue_ = subject.next<tenon_queue_api_t>(TENON_QUEUE_ID)) != nullptr) {
    tenon_queue_api_t& t = queue_table_;
    t.queue_create = layer_slot<&Faults::queue_create>;
    t.queue_destroy = layer_slot<&Faults::queue_destroy>;
    t.copy_async = layer_slot<&Faults::copy_async>;
    t.fence_create = layer_slot<&Faults::fence_create>;
    t.fence_destroy = layer_slot<&Faults::fence_destroy>;
    t.fence_query = layer_slot<&Faults::fence_query>;
    t.fence_signal = layer_slot<&Faults::fence_signal>;
    t.fence_wait = layer_slot<&Faults::fence_wait>;
    subject.put(TENON_QUEUE_ID, &t, this);
  }
  if ((compile_ = subject.next<tenon_compile_api_t>(TENON_COMPILE_ID)) != nullptr) {
    tenon_compile_api_t& t = compile_table_;
    t.compile = layer_slot<&Faults::compile>;
    t.fits = layer_slot<&Faults::fits>;
    t.load = layer_slot<&Faults::load>;
    t.load_packed = layer_slot<&Faults::load_packed>;
    t.executable_release = layer_slot<&Faults::executable_release>;
    t.execute = layer_slot<&Faults::execute>;
    subject.put(TENON_COMPILE_ID, &t, this);
  }
  if ((kernels_ = subject.next<tenon_kernels_api_t>(TENON_KERNELS_ID)) != nullptr) {
    tenon_kernels_api_t& t = kernels_table_;
    t.create = layer_slot<&Faults::create>;
    t.restore = layer_slot<&Faults::restore>;
    t.destroy = layer_slot<&Faults::destroy>;
    t.run = layer_slot<&Faults::run>;
    subject.put(TENON_KERNELS_ID, &t, this);
  }
  const std::lock_guard lock(all().mutex);
  if (device_ != nullptr) all().faults.push_back(this);
  return {};
}

// Warns about requested faults that never fired, so that a sweep over n can stop, and a wrong n
// does not pass unnoticed.
Status Faults::shutdown() {
  const std::lock_guard lock(all().mutex);
  for (int site = 0; site < kSites; ++site) {
    uint64_t asked = 0, calls = 0;
    bool fired = false;
    for (Faults* f : all().faults) {
      asked = std::max(asked, f->faults_[site].first);
      calls += f->faults_[site].calls;
      fired = fired || f->faults_[site].fired;
    }
    if (asked == 0 || fired) continue;
    tenon::log("faults", TENON_LOG_WARN, "faults: ", kInfo[site].option, "=", asked,
               " never fired: there were ", calls, " such calls");
  }
  return {};
}

// ---- Which device, and whether this call fails ----

// "sim:1": the ordinal counts the devices of one kind.
Status Faults::device_name(uint32_t ordinal, std::string* out) {
  auto info = sized<tenon_device_info_t>();
  TENON_TRY(device_->info(device_->self, ordinal, &info));
  const std::string kind(view(info.kind));
  uint32_t number = 0;
  for (uint32_t i = 0; i < ordinal; ++i) {
    if (device_->info(device_->self, i, &info) == TENON_OK && view(info.kind) == kind) ++number;
  }
  *out = cat(kind, ":", number);
  return {};
}
bool Faults::is_chosen(uint32_t ordinal) {
  std::string name;
  if (only_.empty() || !device_name(ordinal, &name).ok()) return true;
  return name == only_ || name.substr(0, name.find(':')) == only_;
}
// Code is compiled for a target, not for a device, so devices with the same target share the fault.
bool Faults::is_chosen_target(std::string_view target) {
  uint32_t count = 0;
  if (only_.empty() || device_ == nullptr || device_->count(device_->self, &count) != TENON_OK)
    return true;
  for (uint32_t i = 0; i < count; ++i) {
    auto info = sized<tenon_device_info_t>();
    if (device_->info(device_->self, i, &info) == TENON_OK && view(info.target) == target &&
        is_chosen(i))
      return true;
  }
  return false;
}

Status Faults::fail_now(Site site, uint64_t n) {
  return tenon::fail(kInfo[site].code, cat("faults: ", kInfo[site].option, " ", n, " of ",
                                           quoted(plugin_), " fails, as TENON_LAYERS says"));
}

Status Faults::hit(Device& device, Site site) {
  if (!device.chosen) return {};
  if (device.lost || faults_[kLost].next() != 0) {
    device.lost = true;
    return tenon::fail(TENON_DEVICE_LOST, cat("faults: the device of ", quoted(plugin_),
                                              " is lost, as TENON_LAYERS says"));
  }
  if (site == kLost) return {};  // a call without a fault of its own
  const uint64_t n = faults_[site].next();
  return n == 0 ? Status() : fail_now(site, n);
}

// ---- tenon.device/1 ----

tenon_code_t Faults::open(uint32_t ordinal, tenon_device_t** out) {
  auto device = std::make_shared<Device>();
  device->chosen = is_chosen(ordinal);
  if (device->chosen) {
    if (const uint64_t n = faults_[kOpen].next(); n != 0) return fail_now(kOpen, n).code();
  }
  TENON_TRY(device_->open(device_->self, ordinal, out));
  const std::lock_guard lock(mutex_);
  // A second open may return the same device.
  if (std::shared_ptr<Device>& known = owners_[key(*out)]; known == nullptr)
    known = std::move(device);
  return TENON_OK;
}
tenon_code_t Faults::close(tenon_device_t* device) {
  forget(device);
  return device_->close(device_->self, device);
}
tenon_code_t Faults::alloc(tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  TENON_TRY(hit(*device_of(device), kAlloc));
  return device_->alloc(device_->self, device, size, out);
}
tenon_code_t Faults::copy(tenon_device_t* device, const tenon_copy_t* c) {
  TENON_TRY(hit(*device_of(device), kCopy));
  return device_->copy(device_->self, device, c);
}
tenon_code_t Faults::map(tenon_device_t* device, tenon_buffer_t* buffer, void** out) {
  TENON_TRY(hit(*device_of(device), kLost));
  return device_->map(device_->self, device, buffer, out);
}
tenon_code_t Faults::import(tenon_device_t* device, const tenon_memory_import_t* memory,
                            tenon_buffer_t** out) {
  TENON_TRY(hit(*device_of(device), kImport));
  return device_->import(device_->self, device, memory, out);
}
tenon_code_t Faults::memory(tenon_device_t* device, uint64_t* used, uint64_t* peak) {
  TENON_TRY(hit(*device_of(device), kLost));
  return device_->memory(device_->self, device, used, peak);
}

// ---- tenon.queue/1 ----

tenon_code_t Faults::queue_create(tenon_device_t* device, tenon_queue_t** out) {
  const auto d = device_of(device);
  TENON_TRY(hit(*d, kQueue));
  TENON_TRY(queue_->queue_create(queue_->self, device, out));
  remember(*out, d);
  return TENON_OK;
}
tenon_code_t Faults::queue_destroy(tenon_queue_t* queue) {
  forget(queue);
  return queue_->queue_destroy(queue_->self, queue);
}

template <class Submit>
tenon_code_t Faults::submit(const Device& device, const tenon_fence_point_t* waits, uint32_t count,
                            tenon_fence_point_t signal, Submit submit) {
  bool fails = device.chosen && faults_[kLate].next() != 0;
  uint64_t before = UINT64_MAX;
  {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = 0; i < count; ++i) {
      const auto known = fences_.find(waits[i].fence);
      fails = fails || (known != fences_.end() && waits[i].value >= known->second);
    }
    if (const auto known = fences_.find(signal.fence); fails && known != fences_.end()) {
      before = known->second;
      known->second = std::min(before, signal.value);
    }
  }
  const tenon_code_t code = submit();
  if (!fails || code == TENON_OK) return code;
  const std::lock_guard lock(mutex_);
  if (const auto known = fences_.find(signal.fence); known != fences_.end()) known->second = before;
  return code;
}
Status Faults::failed_by(tenon_fence_t* fence, uint64_t value) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = fences_.find(fence);
    if (known == fences_.end() || value < known->second) return {};
  }
  return fail_now(kLate, faults_[kLate].first);
}

tenon_code_t Faults::copy_async(tenon_queue_t* queue, const tenon_copy_t* c,
                                const tenon_fence_point_t* waits, uint32_t wait_count,
                                tenon_fence_point_t signal) {
  const auto d = device_of(queue);
  TENON_TRY(hit(*d, kCopyAsync));
  return submit(*d, waits, wait_count, signal, [&] {
    return queue_->copy_async(queue_->self, queue, c, waits, wait_count, signal);
  });
}
tenon_code_t Faults::fence_create(tenon_device_t* device, uint64_t initial, tenon_fence_t** out) {
  const auto d = device_of(device);
  TENON_TRY(hit(*d, kFence));
  TENON_TRY(queue_->fence_create(queue_->self, device, initial, out));
  remember(*out, d);
  const std::lock_guard lock(mutex_);
  fences_[*out] = UINT64_MAX;
  return TENON_OK;
}
tenon_code_t Faults::fence_destroy(tenon_fence_t* fence) {
  {
    const std::lock_guard lock(mutex_);
    fences_.erase(fence);
  }
  forget(fence);
  return queue_->fence_destroy(queue_->self, fence);
}
tenon_code_t Faults::fence_query(tenon_fence_t* fence, uint64_t* out) {
  TENON_TRY(hit(*device_of(fence), kLost));
  uint64_t value = 0;
  TENON_TRY(queue_->fence_query(queue_->self, fence, &value));
  TENON_TRY(failed_by(fence, value));
  *out = value;
  return TENON_OK;
}
// Always forwarded: submitted work may wait for this signal, and has to end before its memory is
// freed.
tenon_code_t Faults::fence_signal(tenon_fence_t* fence, uint64_t value) {
  const tenon_code_t code = queue_->fence_signal(queue_->self, fence, value);
  TENON_TRY(hit(*device_of(fence), kLost));
  return code;
}
tenon_code_t Faults::fence_wait(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  TENON_TRY(hit(*device_of(fence), kTimeout));
  TENON_TRY(queue_->fence_wait(queue_->self, fence, value, timeout_ns));
  return failed_by(fence, value).code();
}

// ---- tenon.compile/1 ----

tenon_code_t Faults::compile(tenon_str_t target, tenon_graph_t* graph,
                             const tenon_compile_options_t* options, tenon_artifact_t** out) {
  if (is_chosen_target(view(target))) {
    if (const uint64_t n = faults_[kCompile].next(); n != 0) return fail_now(kCompile, n).code();
  }
  return compile_->compile(compile_->self, target, graph, options, out);
}
tenon_code_t Faults::fits(tenon_str_t target, const void* bytes, uint64_t size) {
  if (is_chosen_target(view(target))) {
    if (const uint64_t n = faults_[kFits].next(); n != 0) return fail_now(kFits, n).code();
  }
  return compile_->fits(compile_->self, target, bytes, size);
}
tenon_code_t Faults::load(tenon_device_t* device, const void* bytes, uint64_t size,
                          tenon_blob_t* const* constants, uint32_t count,
                          tenon_executable_t** out) {
  const auto d = device_of(device);
  TENON_TRY(hit(*d, kLoad));
  TENON_TRY(compile_->load(compile_->self, device, bytes, size, constants, count, out));
  remember(*out, d);
  return TENON_OK;
}
tenon_code_t Faults::load_packed(tenon_device_t* device, const void* bytes, uint64_t size,
                                 tenon_blob_t* const* packed, uint32_t count,
                                 tenon_executable_t** out) {
  const auto d = device_of(device);
  TENON_TRY(hit(*d, kLoad));
  TENON_TRY(compile_->load_packed(compile_->self, device, bytes, size, packed, count, out));
  remember(*out, d);
  return TENON_OK;
}
void Faults::executable_release(tenon_executable_t* executable) {
  forget(executable);
  compile_->executable_release(compile_->self, executable);
}
tenon_code_t Faults::execute(tenon_executable_t* executable, const tenon_call_t* call) {
  const auto d = device_of(executable);
  TENON_TRY(hit(*d, kExecute));
  const auto pass_on = [&] { return compile_->execute(compile_->self, executable, call); };
  return call->queue == nullptr ? pass_on()
                                : submit(*d, call->waits, call->wait_count, call->signal, pass_on);
}

// ---- tenon.kernels/1: a kernel is an executable of one op ----

tenon_code_t Faults::create(tenon_device_t* device, const tenon_kernel_call_t* call,
                            tenon_kernel_t** out) {
  const auto d = device_of(device);
  TENON_TRY(hit(*d, kLoad));
  TENON_TRY(kernels_->create(kernels_->self, device, call, out));
  remember(*out, d);
  return TENON_OK;
}
tenon_code_t Faults::restore(tenon_device_t* device, const void* bytes, uint64_t size,
                             tenon_kernel_t** out) {
  const auto d = device_of(device);
  TENON_TRY(hit(*d, kLoad));
  TENON_TRY(kernels_->restore(kernels_->self, device, bytes, size, out));
  remember(*out, d);
  return TENON_OK;
}
void Faults::destroy(tenon_kernel_t* kernel) {
  forget(kernel);
  kernels_->destroy(kernels_->self, kernel);
}
tenon_code_t Faults::run(tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  TENON_TRY(hit(*device_of(kernel), kExecute));
  return kernels_->run(kernels_->self, kernel, args);
}

}  // namespace

TENON_LAYER("faults", "0.1.0", Faults)
