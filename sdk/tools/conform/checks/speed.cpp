// Group L: speed, reported but never judged: machines differ, and a slow device is not a wrong one.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>

#include <tenon/abi/queue.h>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/fixtures/device/open_queue.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr uint64_t kSmall = 64, kPage = 4096, kLarge = uint64_t{16} << 20;
constexpr int kSmallRounds = 200, kLargeRounds = 2;

double seconds_of(const std::function<bool()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  if (!call()) return -1;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The best of several rounds; negative if one fails.
double best_of(int rounds, const std::function<bool()>& call) {
  double best = -1;
  for (int i = 0; i < rounds; ++i) {
    const double seconds = seconds_of(call);
    if (seconds < 0) return -1;
    best = best < 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

std::string microseconds(double seconds) {
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string rate(double seconds) {
  return fmt::format("{:.1f} GB/s", static_cast<double>(kLarge) / std::max(seconds, 1e-9) / 1e9);
}

Outcome measured(std::string text) {
  return {Verdict::kPass, std::move(text)};
}

Outcome load_time(Session& s) {
  Outcome loaded = pass();
  const std::clock_t begin = std::clock();
  const double seconds = seconds_of([&] {
    loaded = s.load();
    return loaded.verdict == Verdict::kPass;
  });
  CONFORM_TRY(std::move(loaded));
  return measured(fmt::format(
      "opened and asked in {:.1f} ms, {:.1f} ms of them computing, the host's start among them",
      seconds * 1e3, 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC));
}

// An open device with two buffers. The speed of a device that does not work is not measured.
Outcome prepare(Session& s, uint64_t size, std::unique_ptr<OpenDevice>* device,
                tenon_buffer_t* buffers[2]) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  *device = std::make_unique<OpenDevice>(api, 0);
  if ((*device)->open().verdict != Verdict::kPass ||
      (*device)->alloc(size, &buffers[0]).verdict != Verdict::kPass ||
      (*device)->alloc(size, &buffers[1]).verdict != Verdict::kPass)
    return skipped("its memory does not work, as group C reports");
  return pass();
}

Outcome alloc_time(Session& s) {
  std::unique_ptr<OpenDevice> device;
  tenon_buffer_t* buffers[2] = {};
  CONFORM_TRY(prepare(s, kPage, &device, buffers));
  const tenon_device_api_t& api = device->api();
  const auto once = [&](uint64_t size) {
    tenon_buffer_t* buffer = nullptr;
    return api.alloc(api.self, device->device(), size, &buffer) == TENON_OK &&
           api.free(api.self, device->device(), buffer) == TENON_OK;
  };
  const double small = best_of(kSmallRounds, [&] { return once(kPage); });
  const double large = best_of(kLargeRounds, [&] { return once(kLarge); });
  if (small < 0 || large < 0) return skipped("its memory does not work, as group C reports");
  return measured(fmt::format("4 KiB in {}, 16 MiB in {}, allocated and freed", microseconds(small),
                              microseconds(large)));
}

Outcome copy_latency(Session& s) {
  std::unique_ptr<OpenDevice> device;
  tenon_buffer_t* buffers[2] = {};
  CONFORM_TRY(prepare(s, kPage, &device, buffers));
  unsigned char bytes[kSmall] = {};
  const double there = best_of(
      kSmallRounds, [&] { return device->to_device(buffers[0], 0, bytes, kSmall) == TENON_OK; });
  const double back = best_of(
      kSmallRounds, [&] { return device->to_host(bytes, buffers[0], 0, kSmall) == TENON_OK; });
  if (there < 0 || back < 0) return skipped("its copies do not work, as group C reports");
  return measured(fmt::format("64 bytes to the device in {}, back in {}", microseconds(there),
                              microseconds(back)));
}

Outcome copy_bandwidth(Session& s) {
  std::unique_ptr<OpenDevice> device;
  tenon_buffer_t* buffers[2] = {};
  CONFORM_TRY(prepare(s, kLarge, &device, buffers));
  Bytes bytes(kLarge, 1);
  const double there = best_of(kLargeRounds, [&] {
    return device->to_device(buffers[0], 0, bytes.data(), kLarge) == TENON_OK;
  });
  const double within = best_of(kLargeRounds, [&] {
    return device->between(buffers[1], 0, buffers[0], 0, kLarge) == TENON_OK;
  });
  const double filled =
      best_of(kLargeRounds, [&] { return device->fill(buffers[1], 0, kLarge, 7, 4) == TENON_OK; });
  const double back = best_of(kLargeRounds, [&] {
    return device->to_host(bytes.data(), buffers[0], 0, kLarge) == TENON_OK;
  });
  if (there < 0 || within < 0 || filled < 0 || back < 0)
    return skipped("its copies do not work, as group C reports");
  return measured(fmt::format("16 MiB: {} to the device, {} back, {} within it, {} filled",
                              rate(there), rate(back), rate(within), rate(filled)));
}

Outcome queue_latency(Session& s) {
  const tenon_queue_api_t* api = nullptr;
  CONFORM_TRY(find_queues(s, &api));
  const tenon_device_api_t* device = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &device, &count));
  OpenQueues queues(device, api, 0);
  tenon_queue_t* queue = nullptr;
  tenon_fence_t* fence = nullptr;
  tenon_buffer_t* buffer = nullptr;
  if (queues.open().verdict != Verdict::kPass || queues.queue(&queue).verdict != Verdict::kPass ||
      queues.fence(0, &fence).verdict != Verdict::kPass ||
      queues.memory().alloc(kPage, &buffer).verdict != Verdict::kPass)
    return skipped("its queues do not work, as group D reports");
  const Bytes& bytes = queues.keep(Bytes(kSmall));
  uint64_t value = 0;
  const double round = best_of(kSmallRounds, [&] {
    ++value;
    return queues.submit_code(queue, async_write(buffer, 0, bytes.data(), kSmall), {},
                              {fence, value}) == TENON_OK &&
           queues.wait_code(fence, value, kPatienceNs) == TENON_OK;
  });
  if (round < 0) return skipped("its queues do not work, as group D reports");
  return measured(
      fmt::format("a copy of 64 bytes submitted and waited for in {}", microseconds(round)));
}

constexpr Check kChecks[] = {
    {"R-L01", "load-time", load_time},         {"R-L02", "alloc-time", alloc_time},
    {"R-L03", "copy-latency", copy_latency},   {"R-L04", "copy-bandwidth", copy_bandwidth},
    {"R-L05", "queue-latency", queue_latency},
};

}  // namespace

std::span<const Check> speed_checks() {
  return kChecks;
}

}  // namespace tenon::conform
