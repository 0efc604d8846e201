// Group C: devices and their memory. Each check runs on at most two devices of the plugin.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/tools/conform/checks/abi/boundary.h"

#include "sdk/tools/conform/checks/device/device_check.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/exercise.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr uint32_t kDevicesMax = 64;

// ---- Enumeration ----

Outcome device_count(Session& s) {
  CONFORM_TRY(s.load());
  const auto* api = static_cast<const tenon_device_api_t*>(s.table(TENON_DEVICE_ID));
  if (api == nullptr) return not_offered(TENON_DEVICE_ID);
  if (api->count == nullptr) return skipped("count is null, as B.required-slots reports");
  uint32_t first = 0;
  for (int i = 0; i < 10; ++i) {
    uint32_t count = 0xdead;
    const tenon_code_t code = api->count(api->self, &count);
    CONFORM_EXPECT(code == TENON_OK, "count gives {}", code_text(code));
    CONFORM_EXPECT(count <= kDevicesMax, "it counts {} devices", count);
    CONFORM_EXPECT(i == 0 || count == first, "it counts {} devices, and {} before", count, first);
    first = count;
  }
  return pass();
}

Outcome info_of(const tenon_device_api_t* api, uint32_t ordinal, tenon_device_info_t* info) {
  *info = {};
  info->size_bytes = sizeof(*info);
  const tenon_code_t code = api->info(api->self, ordinal, info);
  CONFORM_EXPECT(code == TENON_OK, "info of device {} gives {}", ordinal, code_text(code));
  return pass();
}

template <typename Visit>
Outcome each_info(Session& s, Visit visit) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  for (uint32_t ordinal = 0; ordinal < std::min(count, kDevicesMax); ++ordinal) {
    tenon_device_info_t info;
    CONFORM_TRY(info_of(api, ordinal, &info));
    CONFORM_TRY(visit(api, ordinal, info));
  }
  return pass();
}

Outcome device_info(Session& s) {
  return each_info(
      s,
      [&s](const tenon_device_api_t*, uint32_t ordinal,
           const tenon_device_info_t& info) -> Outcome {
        const std::string_view kind = view(info.kind);
        const bool fine = !kind.empty() && std::all_of(kind.begin(), kind.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        });
        CONFORM_EXPECT(fine, "the kind of device {} is {}", ordinal, quoted(kind));
        CONFORM_EXPECT(info.description.size != 0, "device {} has no description", ordinal);
        CONFORM_EXPECT(info.target.size != 0, "device {} has no target", ordinal);
        s.note(fmt::format("device {} {}: {}, target {}", ordinal, kind, view(info.description),
                           view(info.target)));
        return pass();
      });
}

bool is_uuid_or_none(std::string_view text) {
  if (text.empty()) return true;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const bool digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !digit) return false;
  }
  return text.size() == 36;
}

// Two devices are not one.
Outcome different(std::string_view uuid, uint32_t ordinal, std::vector<std::string>* before) {
  CONFORM_EXPECT(uuid.empty() || std::ranges::find(*before, uuid) == before->end(),
                 "device {} has the uuid of another one, {}", ordinal, uuid);
  before->emplace_back(uuid);
  return pass();
}

Outcome info_values(Session& s) {
  std::vector<std::string> uuids;
  return each_info(
      s,
      [&](const tenon_device_api_t*, uint32_t ordinal, const tenon_device_info_t& info) -> Outcome {
        CONFORM_TRY(different(view(info.uuid), ordinal, &uuids));
        const uint64_t a = info.alignment_bytes;
        CONFORM_EXPECT(a >= 8 && (a & (a - 1)) == 0, "the alignment of device {} is {}", ordinal,
                       a);
        CONFORM_EXPECT(info.threading <= TENON_THREADING_FREE, "the threading of device {} is {}",
                       ordinal, info.threading);
        CONFORM_EXPECT(is_uuid_or_none(view(info.uuid)), "the uuid of device {} is {}", ordinal,
                       quoted(view(info.uuid)));
        CONFORM_EXPECT((info.flags & ~TENON_DEVICE_NUMBERED) == 0,
                       "info of device {} has flags that the header lacks, {:#x}", ordinal,
                       info.flags);
        const double speed = info.copy_gigabytes_per_second, latency = info.copy_latency_ns;
        CONFORM_EXPECT(std::isfinite(speed) && speed >= 0 && std::isfinite(latency) && latency >= 0,
                       "device {} copies {} GB/s after {} ns", ordinal, speed, latency);
        return pass();
      });
}

std::string info_text(const tenon_device_info_t& info) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}", info.threading, view(info.kind),
                     view(info.description), view(info.target), info.memory_bytes,
                     info.alignment_bytes, info.copy_gigabytes_per_second, info.copy_latency_ns,
                     view(info.uuid), info.flags, info.native_ordinal);
}

// Calls often enough for texts in a ring buffer to be overwritten.
Outcome info_still(const tenon_device_api_t* api, uint32_t ordinal,
                   const tenon_device_info_t& first, const std::string& before,
                   std::string_view when) {
  for (int time = 0; time < 64; ++time) {
    tenon_device_info_t again;
    CONFORM_TRY(info_of(api, ordinal, &again));
    CONFORM_EXPECT(info_text(again) == before, "{} info of device {} says {}, and {} before", when,
                   ordinal, printable(info_text(again)), printable(before));
    CONFORM_EXPECT(info_text(first) == before,
                   "{} the texts of the first info of device {} changed", when, ordinal);
  }
  return pass();
}

Outcome info_stays(Session& s) {
  return each_info(s,
                   [&](const tenon_device_api_t* api, uint32_t ordinal,
                       const tenon_device_info_t& first) -> Outcome {
                     const std::string before = info_text(first);
                     s.step(fmt::format("asking for info of device {} again and again", ordinal));
                     CONFORM_TRY(info_still(api, ordinal, first, before, "at once"));
                     if (ordinal >= kDevicesTried) return pass();
                     OpenDevice device(api, ordinal);
                     tenon_buffer_t* buffer = nullptr;
                     CONFORM_TRY(device.open());
                     CONFORM_TRY(info_still(api, ordinal, first, before, "while it is open"));
                     CONFORM_TRY(alloc_filled(device, pattern_bytes(size_t{1} << 20, 21), &buffer));
                     CONFORM_TRY(info_still(api, ordinal, first, before, "with a buffer of 1 MiB"));
                     CONFORM_TRY(device.close());
                     (void)exercise(s);  // queues, kernels and a compilation, if there are any
                     return info_still(api, ordinal, first, before, "after use");
                   });
}

Outcome beyond_the_last(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  for (uint32_t ordinal : {count, count + 1, UINT32_MAX}) {
    s.step(fmt::format("info and open of device {} of {}", ordinal, count));
    auto info = sized<tenon_device_info_t>();
    CONFORM_EXPECT(api->info(api->self, ordinal, &info) != TENON_OK,
                   "info of device {} of {} gives OK", ordinal, count);
    tenon_device_t* device = nullptr;
    CONFORM_EXPECT(api->open(api->self, ordinal, &device) != TENON_OK,
                   "open of device {} of {} gives OK", ordinal, count);
  }
  return pass();
}

// ---- Opening ----

Outcome open_again(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  for (int round = 0; round < 5; ++round) {
    s.step(fmt::format("opening for the {}. time", round + 1));
    CONFORM_TRY(exercise_memory(s, api, count));
  }
  return pass();
}

Outcome open_twice(Session& s, OpenDevice& first) {
  const Bytes bytes = pattern_bytes(kBufferBytes, 1);
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(alloc_filled(first, bytes, &buffer));
  s.step("opening an open device");
  OpenDevice second(&first.api(), first.ordinal());
  if (second.open().verdict == Verdict::kPass) {
    tenon_buffer_t* other = nullptr;
    const Bytes others = pattern_bytes(kBufferBytes, 2);
    CONFORM_TRY(alloc_filled(second, others, &other));
    CONFORM_TRY(second.holds(other, others, "a buffer of the second device"));
    CONFORM_TRY(second.close());
  }
  return first.holds(buffer, bytes, "a buffer of the first device, after a second open");
}

// ---- Allocation ----

Outcome empty_buffers(Session& s, OpenDevice& d) {
  s.step("alloc of 0 bytes");
  for (int i = 0; i < 3; ++i) {
    tenon_buffer_t* buffer = nullptr;
    CONFORM_TRY(d.alloc(0, &buffer));
    if (i != 1) CONFORM_TRY(d.free(buffer));
  }
  return pass();
}

Outcome buffers_apart(Session& s, OpenDevice& d) {
  struct Live {
    tenon_buffer_t* buffer;
    Bytes bytes;
  };
  std::vector<Live> live;
  for (uint32_t i = 0; i < 200; ++i) {
    if (i % 3 == 2) {
      s.step("freeing a buffer among others");
      Live& gone = live[(i * 7) % live.size()];
      CONFORM_TRY(d.free(gone.buffer));
      std::swap(gone, live.back());
      live.pop_back();
    }
    Live made{nullptr, pattern_bytes(1 + (i * 37) % 700, i)};
    CONFORM_TRY(alloc_filled(d, made.bytes, &made.buffer));
    live.push_back(std::move(made));
  }
  s.step("many buffers of one size");
  for (uint32_t i = 0; i < 64; ++i) {
    Live made{nullptr, pattern_bytes(256, 1000 + i)};
    CONFORM_TRY(alloc_filled(d, made.bytes, &made.buffer));
    live.push_back(std::move(made));
  }
  for (const Live& l : live)
    CONFORM_TRY(d.holds(l.buffer, l.bytes,
                        fmt::format("a buffer of {} bytes among {}", l.bytes.size(), live.size())));
  return pass();
}

Outcome too_much(Session& s, OpenDevice& d) {
  tenon_device_info_t info;
  CONFORM_TRY(info_of(&d.api(), d.ordinal(), &info));
  std::vector<uint64_t> sizes = {UINT64_MAX,        UINT64_MAX - 1,    UINT64_MAX - 62,
                                 UINT64_MAX - 4096, uint64_t{1} << 63, uint64_t{1} << 62};
  if (info.memory_bytes != 0 && info.memory_bytes < (uint64_t{1} << 60))
    sizes.push_back(info.memory_bytes * 2);
  const Bytes bytes = pattern_bytes(kBufferBytes, 3);
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(alloc_filled(d, bytes, &buffer));
  for (uint64_t size : sizes) {
    s.step(fmt::format("alloc of {} bytes", size));
    tenon_buffer_t* out = nullptr;
    const tenon_code_t code = d.api().alloc(d.api().self, d.device(), size, &out);
    CONFORM_EXPECT(code == TENON_RESOURCE_EXHAUSTED, "alloc of {} bytes gives {}", size,
                   code_text(code));
  }
  CONFORM_TRY(d.holds(buffer, bytes, "a buffer, after allocations that failed"));
  return alloc_filled(d, bytes, &buffer);
}

Outcome memory_comes_back(Session& s, OpenDevice& d) {
  constexpr size_t kBlock = size_t{1} << 20, kWarm = 64, kRounds = 512;
  uint64_t before = 0;
  const Bytes bytes = pattern_bytes(kBlock, 4);
  for (size_t round = 0; round < kWarm + kRounds; ++round) {
    if (round == kWarm) before = resident_bytes();
    if (round % 64 == 0)
      s.step(fmt::format("allocating and freeing 1 MiB for the {}. time", round + 1));
    tenon_buffer_t* buffer = nullptr;
    CONFORM_TRY(alloc_filled(d, bytes, &buffer));
    CONFORM_TRY(d.free(buffer));
  }
  const uint64_t after = resident_bytes();
  CONFORM_EXPECT(after < before + kRounds * kBlock / 4,
                 "after {} times 1 MiB allocated and freed the process holds {} MiB more", kRounds,
                 (after - before) >> 20);
  return pass();
}

// ---- Optional slots ----

// The address; not offered if there is none.
Outcome map_buffer(OpenDevice& d, tenon_buffer_t* buffer, unsigned char** out) {
  if (d.api().map == nullptr) return not_offered("map");
  void* address = nullptr;
  const tenon_code_t code = d.api().map(d.api().self, d.device(), buffer, &address);
  if (code == TENON_UNIMPLEMENTED) return not_offered("map of its buffers");
  CONFORM_EXPECT(code == TENON_OK, "map gives {}", code_text(code));
  CONFORM_EXPECT(address != nullptr, "map gives OK and null");
  *out = static_cast<unsigned char*>(address);
  return pass();
}

Outcome map_address(Session& s, OpenDevice& d) {
  tenon_device_info_t info;
  CONFORM_TRY(info_of(&d.api(), d.ordinal(), &info));
  for (size_t size : {size_t{1}, size_t{8}, size_t{100}, size_t{4096}, size_t{100000}}) {
    s.step(fmt::format("mapping a buffer of {} bytes", size));
    tenon_buffer_t* buffer = nullptr;
    unsigned char *first = nullptr, *again = nullptr;
    CONFORM_TRY(d.alloc(size, &buffer));
    CONFORM_TRY(map_buffer(d, buffer, &first));
    const auto address = reinterpret_cast<uintptr_t>(first);
    CONFORM_EXPECT(info.alignment_bytes == 0 || address % info.alignment_bytes == 0,
                   "{} bytes are at {}, and the alignment is {}", size,
                   static_cast<const void*>(first), info.alignment_bytes);
    CONFORM_TRY(d.write(buffer, pattern_bytes(size, 15)));
    CONFORM_TRY(map_buffer(d, buffer, &again));
    CONFORM_EXPECT(first == again, "a second map gives another address");
  }
  return pass();
}

Outcome map_coherent(Session& s, OpenDevice& d) {
  Bytes bytes = pattern_bytes(kBufferBytes, 16);
  tenon_buffer_t* buffer = nullptr;
  unsigned char* address = nullptr;
  CONFORM_TRY(alloc_filled(d, bytes, &buffer));
  CONFORM_TRY(map_buffer(d, buffer, &address));
  s.step("reading and writing a mapped buffer");
  const std::string seen = first_difference(Bytes(address, address + kBufferBytes), bytes);
  CONFORM_EXPECT(seen.empty(), "what was copied is not seen at the mapped address: {}", seen);
  bytes = pattern_bytes(kBufferBytes, 17);
  std::copy(bytes.begin(), bytes.end(), address);
  return d.holds(buffer, bytes, "what was written at the mapped address");
}

// The device's counters; not offered if it has none.
struct Counted {
  uint64_t used = 0, peak = 0;
};
Outcome ask_memory(Session& s, OpenDevice& d, Counted* out) {
  if (d.api().memory == nullptr) return not_offered("memory");
  s.step("asking for the memory in use");
  const tenon_code_t code = d.api().memory(d.api().self, d.device(), &out->used, &out->peak);
  if (code == TENON_UNIMPLEMENTED) return not_offered("memory");
  CONFORM_EXPECT(code == TENON_OK, "memory gives {}", code_text(code));
  CONFORM_EXPECT(out->peak >= out->used, "{} bytes are in use, and the peak is {}", out->used,
                 out->peak);
  return pass();
}

// The counters before and after allocating a buffer of this size.
Outcome counts_buffer(Session& s, OpenDevice& d, uint64_t size) {
  Counted before, with, after;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(ask_memory(s, d, &before));
  CONFORM_TRY(d.alloc(size, &buffer));
  CONFORM_TRY(ask_memory(s, d, &with));
  CONFORM_EXPECT(with.used >= before.used + size, "{} bytes in use became {} with {} more",
                 before.used, with.used, size);
  CONFORM_TRY(d.free(buffer));
  CONFORM_TRY(ask_memory(s, d, &after));
  CONFORM_EXPECT(after.used == before.used,
                 "{} bytes were in use before, and {} after all was freed", before.used,
                 after.used);
  CONFORM_EXPECT(after.peak >= with.used, "{} bytes were in use, and the peak is {}", with.used,
                 after.peak);
  return pass();
}

Outcome memory_counts(Session& s, OpenDevice& d) {
  for (uint64_t size : {uint64_t{3} << 20, uint64_t{4000}, uint64_t{100}})
    CONFORM_TRY(counts_buffer(s, d, size));
  Counted before, after;
  CONFORM_TRY(ask_memory(s, d, &before));
  s.step("an allocation that fails, between two questions");
  tenon_buffer_t* none = nullptr;
  if (d.api().alloc(d.api().self, d.device(), UINT64_MAX - 4096, &none) == TENON_OK)
    return skipped("alloc of nearly 2^64 bytes gives OK, as C.alloc-too-much reports");
  CONFORM_TRY(ask_memory(s, d, &after));
  CONFORM_EXPECT(after.used == before.used && after.peak == before.peak,
                 "{} bytes in use, {} at most, became {} and {} by an allocation that failed",
                 before.used, before.peak, after.used, after.peak);
  return pass();
}

// ---- Several devices, several threads ----

Outcome ordinals_apart(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  if (count < 2) return skipped("there is one device");
  OpenDevice first(api, 0), second(api, 1);
  CONFORM_TRY(first.open());
  CONFORM_TRY(second.open());
  const Bytes ones = pattern_bytes(kBufferBytes, 19), twos = pattern_bytes(kBufferBytes, 20);
  tenon_buffer_t *a = nullptr, *b = nullptr;
  Counted before, after;
  s.step("using two devices at once");
  CONFORM_TRY(alloc_filled(first, ones, &a));
  const bool counts = ask_memory(s, first, &before).verdict == Verdict::kPass;
  CONFORM_TRY(alloc_filled(second, twos, &b));
  if (counts) CONFORM_TRY(ask_memory(s, first, &after));
  CONFORM_EXPECT(before.used == after.used && before.peak == after.peak,
                 "device 0 has {} bytes in use, {} at most, and {} and {} after an allocation on "
                 "device 1",
                 before.used, before.peak, after.used, after.peak);
  CONFORM_TRY(first.holds(a, ones, "device 0"));
  CONFORM_TRY(second.holds(b, twos, "device 1"));
  CONFORM_TRY(second.close());
  return first.holds(a, ones, "device 0, after device 1 was closed");
}

Outcome one_thread_of_many(OpenDevice& d, uint32_t seed) {
  for (uint32_t round = 0; round < 100; ++round) {
    const Bytes bytes = pattern_bytes(500 + 700 * (round % 5), seed * 1000 + round);
    tenon_buffer_t* buffer = nullptr;
    CONFORM_EXPECT(d.api().alloc(d.api().self, d.device(), bytes.size(), &buffer) == TENON_OK,
                   "alloc fails in one of several threads");
    CONFORM_TRY(d.write(buffer, bytes));
    CONFORM_TRY(d.holds(buffer, bytes, "a buffer of one of several threads"));
    CONFORM_EXPECT(d.api().free(d.api().self, d.device(), buffer) == TENON_OK,
                   "free fails in one of several threads");
  }
  return pass();
}

Outcome several_threads(Session& s, OpenDevice& d) {
  tenon_device_info_t info;
  CONFORM_TRY(info_of(&d.api(), d.ordinal(), &info));
  if (info.threading == TENON_THREADING_SERIAL)
    return skipped("the device wants one call at a time");
  constexpr uint32_t kThreads = 4;
  Outcome outcomes[kThreads];
  s.step("allocating, copying and freeing in four threads");
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] { outcomes[i] = one_thread_of_many(d, i + 1); });
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

constexpr Check kChecks[] = {
    {"R-C01", "count", device_count},
    {"R-C02", "info", device_info},
    {"R-C03", "info-values", info_values},
    {"R-C04", "info-stays", info_stays},
    {"R-C05", "beyond-the-last", beyond_the_last},
    {"R-C06", "open-again", open_again},
    {"R-C07", "open-twice", on_each<open_twice>},
    {"R-C08", "alloc-empty", on_each<empty_buffers>},
    {"R-C09", "alloc-apart", on_each<buffers_apart>},
    {"R-C10", "alloc-too-much", on_each<too_much>},
    {"R-C11", "alloc-again", on_each<memory_comes_back>},
    {"R-C22", "map-address", on_each<map_address>},
    {"R-C23", "map-coherent", on_each<map_coherent>},
    {"R-C25", "memory", on_each<memory_counts>},
    {"R-C26", "two-devices", ordinals_apart},
    {"R-C27", "threads", on_each<several_threads>},
    {"R-C29", "unavailable", unavailable},
};

}  // namespace

std::span<const Check> device_checks() {
  static const auto* all = new std::vector<Check>(
      joined({kChecks, device_copy_checks(), device_others_memory_checks(), device_leak_checks()}));
  return *all;
}

}  // namespace tenon::conform
