#include "device.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "tenon/abi/copy.h"
#include "tenon/cpp/record.hpp"

namespace tenon::mesh {
namespace {

constexpr uint64_t kAlignmentBytes = 64;

// The open devices.
struct Devices {
  std::mutex mutex;
  std::vector<tenon_device_t*> list;
};
Devices& devices() {
  static auto* all = new Devices;  // the process ends after its statics
  return *all;
}

Status count(void*, uint32_t* out) {
  *out = simulated_ranks();
  return {};
}

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  if (ordinal >= simulated_ranks())
    return fail(TENON_NOT_FOUND, cat("mesh has no device ", ordinal));
  auto made = sized<tenon_device_info_t>();
  made.threading = TENON_THREADING_FREE;
  made.kind = str("mesh");
  made.description = str("transfers between processes");
  made.target = str("mesh");
  made.alignment_bytes = kAlignmentBytes;
  return give_record(out, made);
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  if (ordinal >= simulated_ranks())
    return fail(TENON_NOT_FOUND, cat("mesh has no device ", ordinal));
  *out = new tenon_device_t(ordinal);
  const std::lock_guard lock(devices().mutex);
  devices().list.push_back(*out);
  return {};
}

Status close(void*, tenon_device_t* device) {
  {
    const std::lock_guard lock(devices().mutex);
    std::erase(devices().list, device);
  }
  delete device;
  return {};
}

Status alloc(void*, tenon_device_t*, uint64_t size_bytes, tenon_buffer_t** out) {
  void* data = nullptr;
  if (size_bytes < UINT64_MAX - kAlignmentBytes)
    data =
        std::aligned_alloc(kAlignmentBytes, (size_bytes / kAlignmentBytes + 1) * kAlignmentBytes);
  if (data == nullptr) {
    return fail(TENON_RESOURCE_EXHAUSTED, cat("the host has no ", size_bytes, " bytes of memory"));
  }
  *out = new tenon_buffer_t{static_cast<std::byte*>(data), size_bytes, true};
  return {};
}

Status release(void*, tenon_device_t* device, tenon_buffer_t* buffer) {
  if (buffer->is_owned && !device->ranks.is_abandoned()) std::free(buffer->data);
  delete buffer;
  return {};
}

Status map(void*, tenon_device_t*, tenon_buffer_t* buffer, void** out) {
  *out = buffer->data;
  return {};
}

Status import(void*, tenon_device_t*, const tenon_memory_import_t* memory, tenon_buffer_t** out) {
  *out = new tenon_buffer_t{static_cast<std::byte*>(memory->data), memory->length_bytes, false};
  return {};
}

Status check(const tenon_copy_t& copy) {
  if (const char* fault = tenon_copy_kind_fault(&copy)) return fail(TENON_INVALID_ARGUMENT, fault);
  const char* fault =
      tenon_copy_range_fault(&copy, copy.from == nullptr ? 0 : copy.from->size_bytes,
                             copy.to == nullptr ? 0 : copy.to->size_bytes);
  return fault == nullptr ? Status() : fail(TENON_OUT_OF_RANGE, fault);
}

void perform(const tenon_copy_t& copy) {
  tenon_copy_perform(&copy, copy.from == nullptr ? nullptr : copy.from->data,
                     copy.to == nullptr ? nullptr : copy.to->data);
}

Status copy(void*, tenon_device_t*, const tenon_copy_t* copy) {
  TENON_TRY(check(*copy));
  perform(*copy);
  return {};
}

// ---- Queues ----

class CopyJob : public Job {
 public:
  explicit CopyJob(const tenon_copy_t& copy) : copy_(copy) {}
  Status advance(bool* out_done) override {
    perform(copy_);
    *out_done = true;
    return {};
  }
  bool may_start() const override { return false; }
  std::vector<Range> reads() const override {
    if (copy_.direction == TENON_COPY_FILL) return {};
    const void* from =
        copy_.from == nullptr ? copy_.host_from : copy_.from->data + copy_.from_offset_bytes;
    return {{from, copy_.length_bytes}};
  }
  std::vector<Range> writes() const override {
    const void* to = copy_.to == nullptr ? copy_.host_to : copy_.to->data + copy_.to_offset_bytes;
    return {{to, copy_.length_bytes}};
  }

 private:
  tenon_copy_t copy_;
};

Status queue_create(void*, tenon_device_t* device, tenon_queue_t** out) {
  *out = new tenon_queue_t{device, device->line.add_queue()};
  return {};
}
Status queue_destroy(void*, tenon_queue_t* queue) {
  const std::unique_ptr<tenon_queue_t> owned(queue);
  queue->device->line.remove(queue->queue);
  return {};
}
Status copy_async(void*, tenon_queue_t* queue, const tenon_copy_t* copy,
                  const tenon_fence_point_t* waits, uint32_t wait_count,
                  tenon_fence_point_t signal) {
  TENON_TRY(check(*copy));
  return queue->device->line.submit(queue->queue, std::make_unique<CopyJob>(*copy), waits,
                                    wait_count, signal);
}
Status fence_create(void*, tenon_device_t* device, uint64_t initial, tenon_fence_t** out) {
  *out = new tenon_fence_t;
  (*out)->value = initial;
  (*out)->device = device;
  return {};
}
Status fence_destroy(void*, tenon_fence_t* fence) {
  delete fence;
  return {};
}
Status fence_query(void*, tenon_fence_t* fence, uint64_t* out) {
  return fence->device->line.query(fence, out);
}
Status fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
  fence->device->line.signal(fence, value);
  return {};
}
Status fence_wait(void*, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  return fence->device->line.wait(fence, value, timeout_ns);
}

constexpr tenon_device_api_t make_device_table() {
  tenon_device_api_t table = {};
  table.size_bytes = sizeof table;
  table.count = entry<count>;
  table.info = entry<info>;
  table.open = entry<open>;
  table.close = entry<close>;
  table.alloc = entry<alloc>;
  table.free = entry<release>;
  table.copy = entry<copy>;
  table.map = entry<map>;
  table.import = entry<import>;
  return table;
}
constexpr tenon_queue_api_t make_queue_table() {
  tenon_queue_api_t table = {};
  table.size_bytes = sizeof table;
  table.queue_create = entry<queue_create>;
  table.queue_destroy = entry<queue_destroy>;
  table.copy_async = entry<copy_async>;
  table.fence_create = entry<fence_create>;
  table.fence_destroy = entry<fence_destroy>;
  table.fence_query = entry<fence_query>;
  table.fence_signal = entry<fence_signal>;
  table.fence_wait = entry<fence_wait>;
  return table;
}
}  // namespace

// Ranks in one process wait for each other, so they take turns.
Status end_devices(void*) {
  const std::lock_guard lock(devices().mutex);
  for (tenon_device_t* device : devices().list) TENON_TRY(device->ranks.begin_end());
  for (Patience patience;; patience.pause()) {
    bool all = true;
    for (tenon_device_t* device : devices().list) {
      bool ended = false;
      TENON_TRY(device->ranks.end(&ended));
      all = all && ended;
    }
    if (all) return {};
  }
}

const tenon_device_api_t kDeviceTable = make_device_table();
const tenon_queue_api_t kQueueTable = make_queue_table();

}  // namespace tenon::mesh
