#include "plugins/sim/device/device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include "tenon/cpp/copy.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

constexpr uint32_t kDeviceCount = 2;
// The ordinal is part of the target only for claim: TENON_SIM_OPS may differ between devices.
constexpr std::string_view kTargets[kDeviceCount] = {"sim ordinal=0 dialect=opencl-c fp64=1",
                                                     "sim ordinal=1 dialect=opencl-c fp64=1"};
constexpr uint64_t kMemoryBytes = uint64_t{4} << 30;

Status count(void*, uint32_t* out) {
  *out = kDeviceCount;
  return {};
}

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  if (ordinal >= kDeviceCount)
    return fail(TENON_OUT_OF_RANGE, cat("sim: there are ", kDeviceCount, " devices"));
  tenon_device_info_t made = {};
  made.threading = TENON_THREADING_FREE;
  made.kind = str("sim");
  made.description =
      str("simulated accelerator: own memory, asynchronous queues, a fiber for each work item");
  made.target = str(kTargets[ordinal]);
  made.memory_bytes = kMemoryBytes;
  made.alignment_bytes = kAlignmentBytes;
  made.copy_gigabytes_per_second = 8;
  made.copy_latency_ns = 10000;
  return give_record(out, made);
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  if (ordinal >= kDeviceCount)
    return fail(TENON_OUT_OF_RANGE, cat("sim: there are ", kDeviceCount, " devices"));
  auto device = std::make_unique<Device>(ordinal, kMemoryBytes);
  TENON_TRY(device->injection.check());
  TENON_TRY(device->memory.reserve());
  *out = reinterpret_cast<tenon_device_t*>(device.release());
  return {};
}

Status close(void*, tenon_device_t* device) {
  delete device_of(device);
  return {};
}

Status alloc(void*, tenon_device_t* device, uint64_t size_bytes, tenon_buffer_t** out) {
  uint64_t handle = 0;
  TENON_TRY(device_of(device)->alloc(size_bytes, &handle));
  *out = buffer_of(handle);
  return {};
}

Status free(void*, tenon_device_t* device, tenon_buffer_t* buffer) {
  return device_of(device)->memory.free(handle_of(buffer));
}

// The fence that is reached last lets go of the buffer.
Status free_behind(void*, tenon_device_t* d, tenon_buffer_t* buffer,
                   const tenon_fence_point_t* points, uint32_t count) {
  const std::shared_ptr<void> kept(buffer, [device = device_of(d)](void* b) {
    (void)device->memory.free(handle_of(static_cast<tenon_buffer_t*>(b)));
  });
  for (const FencePoint& point : points_of(points, count)) {
    if (point.fence != nullptr) point.fence->when(point.value, [kept](const Fault&) {});
  }
  return {};
}

// For a length of 0 the addresses may be null.
void move(void* to, const void* from, uint64_t length) {
  if (length != 0) std::memcpy(to, from, length);
}

Status perform_copy(Device& device, const tenon_copy_t& c, Queue& queue) {
  const Status begun = device.begin_command(Event::kCopy, queue);
  // A copy that fails with DATA_LOSS has moved half of the bytes.
  if (!begun.ok() && begun.code() != TENON_DATA_LOSS) return begun;
  const Running running(device.ordinal);
  const std::shared_lock touching(device.touching);
  TENON_TRY(device.alive());
  if (device.is_pinned(c.host_from, c.length_bytes) || device.is_pinned(c.host_to, c.length_bytes))
    device.pinned_copies.fetch_add(1);
  const uint64_t length = begun.ok() ? c.length_bytes : c.length_bytes / 2;
  Device& source = c.from_device == nullptr ? device : *device_of(c.from_device);
  // A device that is lost fails what its own queues run; its memory is there until it is closed.
  const DeviceMemory::Access access(device.memory), source_access(source.memory);
  void *from = nullptr, *to = nullptr;
  if (tenon_copy_reads(&c)) {
    TENON_TRY(
        source.memory.translate(handle_of(c.from), c.from_offset_bytes, c.length_bytes, &from));
  }
  if (tenon_copy_writes(&c)) {
    TENON_TRY(device.memory.translate(handle_of(c.to), c.to_offset_bytes, c.length_bytes, &to));
  }
  switch (c.direction) {
    case TENON_COPY_HOST_TO_DEVICE:
      move(to, c.host_from, length);
      return begun;
    case TENON_COPY_DEVICE_TO_HOST:
      move(c.host_to, from, length);
      return begun;
    case TENON_COPY_DEVICE_TO_DEVICE:
      move(to, from, length);
      return begun;
    default:
      tenon_copy_fill(&c, to, length / c.pattern_bytes * c.pattern_bytes);
      return begun;
  }
}

// Commands running in this process, for statistics.
struct Activity {
  std::mutex mutex;
  uint64_t running[kDeviceCount] = {}, most = 0, overlap_ns = 0, both_since_ns = 0;

  uint64_t all() const { return running[0] + running[1]; }
  bool both() const { return running[0] != 0 && running[1] != 0; }
};
Activity& activity() {
  static Activity one;
  return one;
}
uint64_t steady_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

void read_counts(void*, uint32_t ordinal, tenon_sim_counts_t* out) {
  *out = {};
  const std::lock_guard lock(Device::all_mutex());
  for (Device* device : Device::all()) {
    if (device->ordinal != ordinal) continue;
    const std::lock_guard objects(device->objects_mutex);
    out->buffers += device->memory.count();
    out->bytes += device->memory.used_bytes();
    out->queues += device->queues.size() - 1;
    out->fences += device->fences.size();
    out->copies += device->copies.load();
    out->launches += device->launches.load();
    out->pinned += device->pinned.size();
    out->pinned_copies += device->pinned_copies.load();
  }
}

uint64_t read_at_once(void*) {
  const std::lock_guard lock(activity().mutex);
  return std::exchange(activity().most, activity().all());
}

uint64_t read_overlap(void*) {
  const std::lock_guard lock(activity().mutex);
  return std::exchange(activity().overlap_ns, 0);
}

Status copy(void*, tenon_device_t* d, const tenon_copy_t* c) {
  Device& device = *device_of(d);
  TENON_TRY(device.alive());
  tenon_copy_t own;
  TENON_TRY(take_copy(c, &own));
  TENON_TRY(check_copy_kind(own));
  if (own.from_device != nullptr)
    return fail(TENON_INVALID_ARGUMENT, "sim: only a queue copies from another device");
  Fence done(0);
  device.default_queue->submit({}, {&done, 1},
                               [&](Queue& queue) { return perform_copy(device, own, queue); });
  return done.wait(1, UINT64_MAX);
}

Status memory(void*, tenon_device_t* device, uint64_t* out_used, uint64_t* out_peak) {
  *out_used = device_of(device)->memory.used_bytes();
  *out_peak = device_of(device)->memory.peak_bytes();
  return {};
}

Status alloc_pinned(void*, tenon_device_t* d, uint64_t size_bytes, void** out) {
  Device& device = *device_of(d);
  TENON_TRY(device.alive());
  const uint64_t rounded = size_bytes / kAlignmentBytes * kAlignmentBytes + kAlignmentBytes;
  void* const data = device.injection.strikes(Event::kAlloc) || rounded < size_bytes
                         ? nullptr
                         : std::aligned_alloc(kAlignmentBytes, rounded);
  if (data == nullptr)
    return fail(TENON_RESOURCE_EXHAUSTED, cat("sim: no ", size_bytes, " bytes of pinned memory"));
  const std::lock_guard lock(device.objects_mutex);
  device.pinned[static_cast<char*>(data)] = rounded;
  *out = data;
  return {};
}

Status free_pinned(void*, tenon_device_t* d, void* data) {
  Device& device = *device_of(d);
  const std::lock_guard lock(device.objects_mutex);
  if (device.pinned.erase(static_cast<char*>(data)) == 0)
    return fail(TENON_INVALID_ARGUMENT, "sim: this address is not one of pinned memory");
  std::free(data);
  return {};
}

Status queue_create(void*, tenon_device_t* d, tenon_queue_t** out) {
  Device* device = device_of(d);
  TENON_TRY(device->alive());
  auto queue = std::make_unique<HostQueue>(device, std::make_shared<Queue>());
  queue->stream = device->add_stream(queue->queue);
  *out = reinterpret_cast<tenon_queue_t*>(queue.release());
  return {};
}

Status queue_destroy(void*, tenon_queue_t* q) {
  const std::unique_ptr<HostQueue> queue(queue_of(q));
  if (queue->stream == 0) {
    queue->queue->wait_for_own();
    return {};
  }
  queue->queue->finish();
  queue->device->drop_stream(queue->stream);
  return {};
}

Status copy_async(void*, tenon_queue_t* q, const tenon_copy_t* c, const tenon_fence_point_t* waits,
                  uint32_t wait_count, tenon_fence_point_t signal) {
  Device* device = queue_of(q)->device;
  TENON_TRY(device->alive());
  tenon_copy_t own;
  TENON_TRY(take_copy(c, &own));
  TENON_TRY(check_copy_kind(own));
  queue_of(q)->queue->submit(
      points_of(waits, wait_count), point_of(signal),
      [device, own](Queue& queue) { return perform_copy(*device, own, queue); }, holds_back());
  return {};
}

// The devices of one machine, whose memory any of them reads.
Status reaches(void*, tenon_queue_t* q, tenon_device_t* from, uint32_t* out) {
  TENON_TRY(queue_of(q)->device->alive());
  (void)from;
  *out = setting("TENON_SIM_APART") != "1";
  return {};
}

Status fence_create(void*, tenon_device_t* d, uint64_t initial, tenon_fence_t** out) {
  Device* device = device_of(d);
  TENON_TRY(device->alive());
  *out = reinterpret_cast<tenon_fence_t*>(device->make_fence(initial).get());
  return {};
}

Status fence_destroy(void*, tenon_fence_t* f) {
  Device& device = *fence_of(f)->device;
  const std::lock_guard lock(device.objects_mutex);
  device.fences.erase(fence_of(f)->number);
  return {};
}

Status fence_query(void*, tenon_fence_t* fence, uint64_t* out) {
  return fence_of(fence)->query(out);
}

Status fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
  fence_of(fence)->signal(value);
  return {};
}

Status fence_wait(void*, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  if (fence_of(fence)->device->injection.strikes(Event::kFence)) {
    return fail(TENON_DEADLINE_EXCEEDED,
                cat("sim: the wait for value ", value, " of a fence was given up (injected)"));
  }
  return fence_of(fence)->wait(value, timeout_ns);
}

}  // namespace

bool holds_back() {
  return setting("TENON_SIM_HOLD") == "1";
}

Running::Running(uint32_t ordinal) : ordinal_(ordinal) {
  Activity& a = activity();
  const std::lock_guard lock(a.mutex);
  const bool before = a.both();
  ++a.running[ordinal_];
  if (!before && a.both()) a.both_since_ns = steady_ns();
  a.most = std::max(a.most, a.all());
}

Running::~Running() {
  Activity& a = activity();
  const std::lock_guard lock(a.mutex);
  const bool before = a.both();
  --a.running[ordinal_];
  if (before && !a.both()) a.overlap_ns += steady_ns() - a.both_since_ns;
}

const tenon_sim_statistics_t kStatisticsTable = {sizeof(tenon_sim_statistics_t), nullptr,
                                                 read_counts, read_at_once, read_overlap};

Status Device::alive() const {
  if (!lost.load(std::memory_order_acquire)) return {};
  return fail(TENON_DEVICE_LOST, cat("sim: device ", ordinal, " is lost"));
}

Status Device::begin_command(Event event, Queue& queue) {
  TENON_TRY(alive());
  (event == Event::kCopy ? copies : launches).fetch_add(1);
  const Running running(ordinal);
  if (const uint64_t us = injection.latency_us(event, queue.random_state()); us != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
  }
  if (injection.strikes(Event::kLost)) lose();
  TENON_TRY(alive());
  if (injection.strikes(Event::kStall)) TENON_TRY(queue.stall());
  if (!injection.strikes(event)) return {};
  if (event == Event::kCopy) return fail(TENON_DATA_LOSS, "sim: the copy failed (injected)");
  return fail(TENON_INTERNAL, "sim: the execution failed (injected)");
}

Status Device::alloc(uint64_t size_bytes, uint64_t* out_handle) {
  TENON_TRY(alive());
  if (injection.strikes(Event::kAlloc)) {
    return fail(TENON_RESOURCE_EXHAUSTED, cat("sim: no ", size_bytes, " bytes (injected)"));
  }
  return memory.alloc(size_bytes, out_handle);
}

std::mutex& Device::all_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::unordered_set<Device*>& Device::all() {
  static auto* devices = new std::unordered_set<Device*>();  // a process may end with devices open
  return *devices;
}

// Every wait, for a fence or in a stall, ends at once.
void Device::lose() {
  lost.store(true, std::memory_order_release);
  {
    const std::unique_lock others(touching);
  }  // waits for running commands; new ones see `lost`
  const Fault fault{TENON_DEVICE_LOST, cat("sim: device ", ordinal, " is lost")};
  const std::lock_guard lock(objects_mutex);
  for (const auto& [number, fence] : fences) fence->fail(0, fault);
  for (const std::shared_ptr<Queue>& queue : queues) queue->release();
}

bool Device::is_pinned(const void* data, uint64_t length_bytes) {
  const auto* const begin = static_cast<const char*>(data);
  const std::lock_guard lock(objects_mutex);
  auto at = pinned.upper_bound(begin);
  if (begin == nullptr || at == pinned.begin()) return false;
  --at;
  return begin + length_bytes <= at->first + at->second;
}

std::vector<FencePoint> points_of(const tenon_fence_point_t* points, uint32_t count) {
  std::vector<FencePoint> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(point_of(points[i]));
  return out;
}

bool is_target(std::string_view target) {
  return std::find(std::begin(kTargets), std::end(kTargets), target) != std::end(kTargets);
}

// No map and no import: the host cannot access this memory.
const tenon_device_api_t kDeviceTable = {sizeof(tenon_device_api_t),
                                         nullptr,
                                         entry<count>,
                                         entry<info>,
                                         entry<open>,
                                         entry<close>,
                                         entry<alloc>,
                                         entry<free>,
                                         entry<copy>,
                                         nullptr,
                                         nullptr,
                                         entry<memory>,
                                         entry<alloc_pinned>,
                                         entry<free_pinned>,
                                         entry<free_behind>};

const tenon_queue_api_t kQueueTable = {sizeof(tenon_queue_api_t),
                                       nullptr,
                                       entry<queue_create>,
                                       entry<queue_destroy>,
                                       entry<copy_async>,
                                       entry<fence_create>,
                                       entry<fence_destroy>,
                                       entry<fence_query>,
                                       entry<fence_signal>,
                                       entry<fence_wait>,
                                       entry<reaches>};

}  // namespace tenon::sim
