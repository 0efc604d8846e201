// Finding and opening devices; the rest of tenon.device/1 is tenon/stream.
#include "device.h"

#include <algorithm>
#include <charconv>

#include "runtime.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/timeline.hpp"
#include "tenon/stream/device.h"

namespace tenon::cuda {
namespace {

constexpr std::string_view kPrefix = "cuda ";
constexpr std::string_view kPointerKind = "cuda.pointer";

// What the toolchain compiles for, oldest first. A device gets the newest that runs on it.
struct Architecture {
  std::string_view name;
  int capability;
  bool only;  // runs on that capability alone
};
constexpr Architecture kArchitectures[] = {
    {"sm_70", 70, false}, {"sm_72", 72, false}, {"sm_75", 75, false},
    {"sm_80", 80, false}, {"sm_86", 86, false}, {"sm_87", 87, false},
    {"sm_89", 89, false}, {"sm_90", 90, false}, {"sm_90a", 90, true}};

const Architecture* architecture(std::string_view target) {
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  for (const Architecture& a : kArchitectures) {
    if (a.name == target) return &a;
  }
  return nullptr;
}

// Looked up once for each device of the machine.
struct Found {
  CUdevice id = 0;
  int capability = 0;
  bool pools = false, prohibited = false;
  uint64_t memory_bytes = 0;
  std::string description, target;
};

Status look_at(const Driver& d, int ordinal, Found* out) {
  TENON_TRY(check(d, d.device_get(&out->id, ordinal), "finding a device"));
  int major = 0, minor = 0, pools = 0, mode = 0;
  const auto ask = [&](int which, int* value) {
    return check(d, d.device_attribute(value, which, out->id), "asking for a device's properties");
  };
  TENON_TRY(ask(kAttributeMajor, &major));
  TENON_TRY(ask(kAttributeMinor, &minor));
  TENON_TRY(ask(kAttributeComputeMode, &mode));
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
  for (const Architecture& a : kArchitectures) {
    constexpr int kFirstWithLetters = 12000;  // CUDA 12.0 has PTX 8.0
    const bool runs = a.only ? a.capability == out->capability && d.version >= kFirstWithLetters
                             : a.capability <= out->capability;
    if (runs) out->target = cat(kPrefix, a.name);
  }
  return {};
}

struct Machine {
  std::deque<Found> devices;
  Fault fault;  // why there are no more
};

Status look_at_all(Machine* out) {
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
      out->devices.push_back(std::move(found));
    } else {
      too_old = std::move(found.description);
    }
  }
  if (out->devices.empty() && !too_old.empty()) {
    return fail(TENON_UNAVAILABLE, cat("cuda: ", too_old, " is older than ", kArchitectures[0].name,
                                       ", the oldest that works"));
  }
  return out->devices.empty() ? fail(TENON_UNAVAILABLE, "cuda: the driver finds no GPU") : Status();
}

const Machine& machine() {
  static const Machine instance = [] {
    Machine made;
    made.fault = fault_of(look_at_all(&made).code());
    return made;
  }();
  return instance;
}

Status at(uint32_t ordinal, const Found** out) {
  const Machine& m = machine();
  if (ordinal < m.devices.size()) {
    *out = &m.devices[ordinal];
    return {};
  }
  TENON_TRY(m.fault.tell());
  return fail(TENON_OUT_OF_RANGE, cat("cuda: there are ", m.devices.size(), " devices"));
}

Status count(void*, uint32_t* out) {
  *out = static_cast<uint32_t>(machine().devices.size());
  return {};
}

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  const Found* f = nullptr;
  TENON_TRY(at(ordinal, &f));
  tenon_device_info_t made = {};
  made.threading = TENON_THREADING_FREE;
  made.kind = str("cuda");
  made.description = str(f->description);
  made.target = str(f->target);
  made.memory_bytes = f->memory_bytes;
  made.alignment_bytes = stream::kAlignmentBytes;
  made.copy_gigabytes_per_second = 20;
  made.copy_latency_ns = 10000;
  return give_record(out, made);
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  const Found* f = nullptr;
  TENON_TRY(at(ordinal, &f));
  std::string why;
  if (f->prohibited) {
    return fail(TENON_UNAVAILABLE,
                cat("cuda: the compute mode of ", f->description,
                    " is prohibited; `nvidia-smi -c 0` allows programs to use it"));
  }
  std::unique_ptr<Runtime> runtime;
  TENON_TRY(Runtime::make(*driver(&why), f->id, f->pools, &runtime));
  auto device = std::make_unique<stream::Device>();
  device->name = "cuda";
  device->memory_bytes = f->memory_bytes;
  device->runtime = std::move(runtime);
  const stream::Current current(*device->runtime);
  TENON_TRY(current.status());
  TENON_TRY(stream::start_device(*device));
  *out = reinterpret_cast<tenon_device_t*>(device.release());
  return {};
}

}  // namespace

Status full_target(std::string_view text, std::string* out) {
  if (const Architecture* a = architecture(text)) {
    *out = cat(kPrefix, a->name);
    return {};
  }
  std::string names;
  for (const Architecture& a : kArchitectures) names += cat(names.empty() ? "" : ", ", a.name);
  return fail(TENON_INVALID_ARGUMENT, cat("cuda: the target ", quoted(text), " is none of ", names,
                                          ". Newer devices run the code for sm_90"));
}

bool runs_on(std::string_view made_for, std::string_view device) {
  const Architecture *a = architecture(made_for), *b = architecture(device);
  if (a == nullptr || b == nullptr) return false;
  return a == b || (!a->only && a->capability <= b->capability);
}

const tenon_device_api_t kDeviceTable =
    stream::device_table(entry<count>, entry<info>, entry<open>);
const tenon_exchange_api_t kExchangeTable = stream::exchange_table(&kPointerKind);

}  // namespace tenon::cuda
