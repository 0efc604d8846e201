// The layer `jitter`: delays copies and work on queues, in another way in each run of a seed. A
// correct device gives the same results; one that ignores waits, or signals too early, is seen by
// rule and by its results. README.md lists the options.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gates.h"
#include "tenon/abi/compile.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/record.h"
#include "tenon/cpp/layer.hpp"

namespace tenon::jitter {
namespace {

// A queue, with the fences that hold its work back. Values are those of its n-th piece of work.
struct Lane {
  tenon_device_t* device = nullptr;
  tenon_fence_t* gate = nullptr;
  // Of every second queue: another queue and fence of the layer's own. A copy of no bytes there
  // opens the gate.
  tenon_queue_t* other = nullptr;
  tenon_fence_t* other_gate = nullptr;
  uint64_t submitted = 0;
};

class Jitter {
 public:
  Status attach(LayerSubject& subject);
  static Status shutdown();

 private:
  tenon_code_t copy(tenon_device_t* device, const tenon_copy_t* copy);
  tenon_code_t queue_create(tenon_device_t* device, tenon_queue_t** out);
  tenon_code_t queue_destroy(tenon_queue_t* queue);
  tenon_code_t copy_async(tenon_queue_t* queue, const tenon_copy_t* copy,
                          const tenon_fence_point_t* waits, uint32_t wait_count,
                          tenon_fence_point_t signal);
  tenon_code_t fence_destroy(tenon_fence_t* fence);
  tenon_code_t fence_query(tenon_fence_t* fence, uint64_t* out);
  tenon_code_t fence_wait(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns);
  tenon_code_t execute(tenon_executable_t* executable, const tenon_call_t* call);
  tenon_code_t run(tenon_kernel_t* kernel, const tenon_kernel_args_t* args);

  // Submits with one wait more. any: a buffer of the device, which is not touched.
  using Submit = std::function<tenon_code_t(const std::vector<tenon_fence_point_t>& waits)>;
  tenon_code_t held_back(std::string_view slot, tenon_queue_t* queue, tenon_buffer_t* any,
                         const tenon_fence_point_t* waits, uint32_t wait_count,
                         tenon_fence_point_t signal, const Submit& submit);
  bool make_gate(tenon_queue_t* queue, tenon_buffer_t* any, Held* out);
  Status make_lane(Lane* lane);
  void destroy_lane(const Lane& lane) const;
  void breach(const Held& held);

  std::string plugin_;
  std::unique_ptr<Gates> gates_;
  std::atomic<uint64_t> copies_ = 0, breaches_ = 0;
  std::mutex mutex_;
  std::map<const tenon_queue_t*, Lane> lanes_;
  uint64_t lanes_made_ = 0;
  const tenon_device_api_t* device_ = nullptr;
  const tenon_queue_api_t* queue_ = nullptr;
  const tenon_compile_api_t* compile_ = nullptr;
  const tenon_kernels_api_t* kernels_ = nullptr;
  tenon_device_api_t device_table_ = {};
  tenon_queue_api_t queue_table_ = {};
  tenon_compile_api_t compile_table_ = {};
  tenon_kernels_api_t kernels_table_ = {};
};

// Never destroyed: destructors of libraries run before the host's shutdown.
std::vector<Jitter*>& all() {
  static auto* instance = new std::vector<Jitter*>;
  return *instance;
}

Status Jitter::attach(LayerSubject& subject) {
  uint64_t seed = 1, most = 2000;
  TENON_TRY(subject.number("seed", &seed));
  TENON_TRY(subject.number("most", &most));
  TENON_TRY(subject.options_done());
  if (most > 1000000) return subject.refuse("the option most is at most 1000000 microseconds");
  plugin_ = subject.plugin();
  gates_ = std::make_unique<Gates>(seed, most, [this](const Held& held) { breach(held); });
  device_ = subject.next<tenon_device_api_t>(TENON_DEVICE_ID);
  queue_ = subject.next<tenon_queue_api_t>(TENON_QUEUE_ID);
  compile_ = subject.next<tenon_compile_api_t>(TENON_COMPILE_ID);
  kernels_ = subject.next<tenon_kernels_api_t>(TENON_KERNELS_ID);
  if (device_ == nullptr) return {};  // a frontend, or kernels for another plugin's device
  device_table_.copy = layer_slot<&Jitter::copy>;
  subject.put(TENON_DEVICE_ID, &device_table_, this);
  all().push_back(this);
  if (queue_ == nullptr) return {};
  queue_table_.queue_create = layer_slot<&Jitter::queue_create>;
  queue_table_.queue_destroy = layer_slot<&Jitter::queue_destroy>;
  queue_table_.copy_async = layer_slot<&Jitter::copy_async>;
  queue_table_.fence_destroy = layer_slot<&Jitter::fence_destroy>;
  queue_table_.fence_query = layer_slot<&Jitter::fence_query>;
  queue_table_.fence_wait = layer_slot<&Jitter::fence_wait>;
  subject.put(TENON_QUEUE_ID, &queue_table_, this);
  compile_table_.execute = layer_slot<&Jitter::execute>;
  if (compile_ != nullptr) subject.put(TENON_COMPILE_ID, &compile_table_, this);
  kernels_table_.run = layer_slot<&Jitter::run>;
  if (kernels_ != nullptr) subject.put(TENON_KERNELS_ID, &kernels_table_, this);
  return {};
}

// No thread of the layer lives on, and no work waits for it.
Status Jitter::shutdown() {
  for (Jitter* jitter : all()) {
    jitter->gates_->end();
    log("jitter", jitter->breaches_ != 0 ? TENON_LOG_ERROR : TENON_LOG_INFO, "plugin ",
        quoted(jitter->plugin_), ": ", jitter->copies_.load(), " copies delayed, ",
        jitter->gates_->count(), " pieces of work held back, ", jitter->breaches_.load(),
        " signalled too early");
  }
  return {};
}

void Jitter::breach(const Held& held) {
  if (++breaches_ > 10) return;  // all are counted
  const std::string what = held.signal.fence == nullptr
                               ? "it was over"
                               : cat("its signal ", held.signal.value, " was made");
  log("jitter", TENON_LOG_ERROR, "R-D03 is broken by the plugin: ", held.slot, " of ",
      quoted(plugin_), ": ", what, ", and a fence that it waits for was not reached");
}

// ---- Slots ----

tenon_code_t Jitter::copy(tenon_device_t* device, const tenon_copy_t* copy) {
  std::this_thread::sleep_for(std::chrono::microseconds(gates_->draw() / 4));
  ++copies_;
  return device_->copy(device_->self, device, copy);
}

Status Jitter::make_lane(Lane* lane) {
  TENON_TRY(queue_->fence_create(queue_->self, lane->device, 0, &lane->gate));
  if (++lanes_made_ % 2 != 0) return {};
  TENON_TRY(queue_->fence_create(queue_->self, lane->device, 0, &lane->other_gate));
  return queue_->queue_create(queue_->self, lane->device, &lane->other);
}

void Jitter::destroy_lane(const Lane& lane) const {
  if (lane.other != nullptr) (void)queue_->queue_destroy(queue_->self, lane.other);
  for (tenon_fence_t* fence : {lane.gate, lane.other_gate}) {
    if (fence != nullptr) (void)queue_->fence_destroy(queue_->self, fence);
  }
}

tenon_code_t Jitter::queue_create(tenon_device_t* device, tenon_queue_t** out) {
  const tenon_code_t code = queue_->queue_create(queue_->self, device, out);
  const std::lock_guard lock(mutex_);
  if (code == TENON_OK) lanes_[*out] = {.device = device};
  return code;
}

tenon_code_t Jitter::queue_destroy(tenon_queue_t* queue) {
  const tenon_code_t code = queue_->queue_destroy(queue_->self, queue);
  Lane lane;
  gates_->forget(queue);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = lanes_.find(queue); found != lanes_.end()) {
      lane = found->second;
      lanes_.erase(found);
    }
  }
  destroy_lane(lane);
  return code;
}

bool Jitter::make_gate(tenon_queue_t* queue, tenon_buffer_t* any, Held* out) {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(queue);
  if (found == lanes_.end()) return false;  // imported: its order is another library's
  Lane& lane = found->second;
  if (lane.gate == nullptr && !make_lane(&lane).ok()) {
    // Without memory for fences the work is not held back.
    destroy_lane(lane);
    lane = {.device = lane.device};
    return false;
  }
  const uint64_t number = ++lane.submitted;
  out->gate = out->opens = {lane.gate, number};
  if (lane.other == nullptr || any == nullptr) return true;
  static constexpr char kNothing = 0;
  auto nothing = sized<tenon_copy_t>();
  nothing.direction = TENON_COPY_HOST_TO_DEVICE;
  nothing.to = any;
  nothing.host_from = &kNothing;
  const tenon_fence_point_t wait = {lane.other_gate, number};
  if (queue_->copy_async(queue_->self, lane.other, &nothing, &wait, 1, out->gate) == TENON_OK)
    out->opens = wait;
  return true;
}

tenon_code_t Jitter::held_back(std::string_view slot, tenon_queue_t* queue, tenon_buffer_t* any,
                               const tenon_fence_point_t* waits, uint32_t wait_count,
                               tenon_fence_point_t signal, const Submit& submit) {
  std::vector<tenon_fence_point_t> more;
  if (wait_count != 0) more.assign(waits, waits + wait_count);
  Held held;
  if (!make_gate(queue, any, &held)) return submit(more);
  more.push_back(held.gate);
  held.api = queue_;
  held.queue = queue;
  held.slot = slot;
  const tenon_code_t code = submit(more);
  held.submitted = code == TENON_OK;
  if (held.submitted) held.signal = signal;
  gates_->hold(held);  // also after a failure: later values of the gate come after this one
  return code;
}

tenon_code_t Jitter::copy_async(tenon_queue_t* queue, const tenon_copy_t* copy,
                                const tenon_fence_point_t* waits, uint32_t wait_count,
                                tenon_fence_point_t signal) {
  return held_back("copy_async", queue, copy->to, waits, wait_count, signal, [&](const auto& more) {
    return queue_->copy_async(queue_->self, queue, copy, more.data(),
                              static_cast<uint32_t>(more.size()), signal);
  });
}

tenon_code_t Jitter::execute(tenon_executable_t* executable, const tenon_call_t* call) {
  if (call->queue == nullptr) return compile_->execute(compile_->self, executable, call);
  return held_back("execute", call->queue, any_buffer(*call), call->waits, call->wait_count,
                   call->signal, [&](const auto& more) {
                     tenon_call_t own = {};
                     TENON_TRY(tenon_record_take(&own, sizeof own, call));
                     own.waits = more.data();
                     own.wait_count = static_cast<uint32_t>(more.size());
                     return compile_->execute(compile_->self, executable, &own);
                   });
}

tenon_code_t Jitter::run(tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  tenon_kernel_args_t own = {};
  if (tenon_record_take(&own, sizeof own, args) != TENON_OK || own.queue == nullptr)
    return kernels_->run(kernels_->self, kernel, args);
  tenon_buffer_t* any = own.output_count != 0 ? own.outputs[0] : nullptr;
  return held_back("run", own.queue, any, own.waits, own.wait_count, own.signal,
                   [&](const auto& more) {
                     own.waits = more.data();
                     own.wait_count = static_cast<uint32_t>(more.size());
                     return kernels_->run(kernels_->self, kernel, &own);
                   });
}

tenon_code_t Jitter::fence_destroy(tenon_fence_t* fence) {
  gates_->forget(fence);
  return queue_->fence_destroy(queue_->self, fence);
}

tenon_code_t Jitter::fence_query(tenon_fence_t* fence, uint64_t* out) {
  const tenon_code_t code = queue_->fence_query(queue_->self, fence, out);
  if (code == TENON_OK) gates_->seen(fence, *out);
  return code;
}

tenon_code_t Jitter::fence_wait(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  const tenon_code_t code = queue_->fence_wait(queue_->self, fence, value, timeout_ns);
  if (code == TENON_OK) gates_->seen(fence, value);
  return code;
}

}  // namespace
}  // namespace tenon::jitter

TENON_LAYER("jitter", "0.1.0", tenon::jitter::Jitter)
