// Finding and opening devices; the rest of tenon.device/1 is tenon/stream.
#include "device.h"

#include <algorithm>

#include "runtime.h"
#include "target.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/uuid.hpp"
#include "tenon/stream/machine.h"

namespace tenon::cuda {
namespace {

constexpr stream::ExchangeKinds kKinds = {"cuda.pointer", "cuda.stream", "cuda.event"};

// Looked up once for each device of the machine.
struct Found : stream::FoundDevice {
  CUdevice id = 0;
  int capability = 0;
  bool pools = false, prohibited = false;
};

// A device is kept also if its driver gives none.
std::string uuid_of(const Driver& d, CUdevice device) {
  Uuid uuid = {};
  const auto ask = d.device_uuid_of_part != nullptr ? d.device_uuid_of_part : d.device_uuid;
  return ask != nullptr && ask(&uuid, device) == kSuccess ? uuid_text(uuid.bytes) : std::string();
}

Status look_at(const Driver& d, int ordinal, Found* out) {
  TENON_TRY(check(d, d.device_get(&out->id, ordinal), "finding a device"));
  out->native_ordinal = static_cast<uint32_t>(ordinal);
  out->uuid = uuid_of(d, out->id);
  int major = 0, minor = 0, pools = 0, mode = 0, threads = 0, shared = 0;
  const auto ask = [&](int which, int* value) {
    return check(d, d.device_attribute(value, which, out->id), "asking for a device's properties");
  };
  TENON_TRY(ask(kAttributeMajor, &major));
  TENON_TRY(ask(kAttributeMinor, &minor));
  TENON_TRY(ask(kAttributeComputeMode, &mode));
  TENON_TRY(ask(kAttributeMaxThreads, &threads));
  TENON_TRY(ask(kAttributeMaxShared, &shared));
  if (d.has_pools()) TENON_TRY(ask(kAttributeMemoryPools, &pools));
  char name[128] = "";
  TENON_TRY(check(d, d.device_name(name, sizeof name - 1, out->id), "asking for a device's name"));
  size_t bytes = 0;
  TENON_TRY(check(d, d.device_memory(&bytes, out->id), "asking for a device's memory"));
  out->memory_bytes = bytes;
  out->capability = major * 10 + minor;
  out->pools = pools != 0;
  out->prohibited = mode == kComputeModeProhibited;
  out->description =
      cat(name, ", compute capability ", out->capability / 10, ".", out->capability % 10, ", CUDA ",
          d.version / 1000, ".", d.version % 1000 / 10);
  std::string note;
  out->target = target_of(out->capability, d.version, &note);
  if (!note.empty()) out->description += cat(", ", note);
  if (!out->target.empty())
    out->target += stream::limits_text(
        {static_cast<uint32_t>(threads), static_cast<uint32_t>(shared)}, kLimits);
  return {};
}

Status look_at_all(std::deque<Found>* out) {
  std::string why;
  const Driver* d = driver(&why);
  if (d == nullptr) return fail(TENON_UNAVAILABLE, cat("cuda: ", why));
  int count = 0;
  TENON_TRY(check(*d, d->device_count(&count), "counting devices"));
  constexpr int kMost = 64;
  std::string too_old;
  for (int i = 0; i < std::min(count, kMost); ++i) {
    Found found;
    TENON_TRY(look_at(*d, i, &found));
    if (!found.target.empty()) {
      out->push_back(std::move(found));
    } else {
      too_old = std::move(found.description);
    }
  }
  if (out->empty() && !too_old.empty()) {
    return fail(TENON_UNAVAILABLE, cat("cuda: ", too_old, " is older than sm_", kOldestCapability,
                                       ", the oldest that works"));
  }
  return out->empty() ? fail(TENON_UNAVAILABLE, "cuda: the driver finds no GPU") : Status();
}

struct Nvidia {
  static constexpr std::string_view kName = "cuda";
  using Found = cuda::Found;
  static Status look(std::deque<Found>* out) { return look_at_all(out); }
  static Status make_runtime(const Found& found, std::unique_ptr<stream::Runtime>* out) {
    if (found.prohibited) {
      return fail(TENON_UNAVAILABLE,
                  cat("cuda: the compute mode of ", found.description,
                      " is prohibited; `nvidia-smi -c 0` allows programs to use it"));
    }
    std::string why;
    std::unique_ptr<Runtime> made;
    TENON_TRY(Runtime::make(*driver(&why), found.id, found.pools, &made));
    *out = std::move(made);
    return {};
  }
};

}  // namespace

const tenon_device_api_t kDeviceTable = stream::Machine<Nvidia>::table();
const tenon_exchange_api_t kExchangeTable = stream::exchange_table(&kKinds);

}  // namespace tenon::cuda
