// Finding and opening devices; the rest of tenon.device/1 is tenon/stream.
#include "device.h"

#include <algorithm>
#include <deque>

#include "runtime.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/uuid.hpp"
#include "tenon/stream/machine.h"

namespace tenon::rocm {
namespace {

constexpr std::string_view kPrefix = "rocm ";
constexpr stream::ExchangeKinds kKinds = {"rocm.pointer", "rocm.stream", "rocm.event"};

// What the toolchain compiles for. Code runs on its own architecture alone.
struct Architecture {
  std::string_view name;
  uint32_t warp;
};
constexpr Architecture kArchitectures[] = {
    {"gfx906", 64},  {"gfx908", 64},  {"gfx90a", 64},  {"gfx942", 64},  {"gfx1030", 32},
    {"gfx1100", 32}, {"gfx1101", 32}, {"gfx1102", 32}, {"gfx1200", 32}, {"gfx1201", 32}};

const Architecture* architecture(std::string_view target) {
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  target = stream::without_limits(target);
  for (const Architecture& a : kArchitectures) {
    if (a.name == target) return &a;
  }
  return nullptr;
}

std::string architecture_names() {
  std::string out;
  for (const Architecture& a : kArchitectures) out += cat(out.empty() ? "" : ", ", a.name);
  return out;
}

// Looked up once for each device of the machine.
struct Found : stream::FoundDevice {
  hipDevice_t id = 0;
  std::string architecture;  // as the runtime says: also one that is not compiled for
};

// "gfx942" of "gfx942:sramecc+:xnack-": code that says nothing of these runs with either. The
// record of a device's properties has another layout in each release of ROCm, and the architecture
// is its only text, after the name, that begins like this.
std::string architecture_in(std::string_view properties) {
  constexpr size_t kNameBytes = 256;
  const size_t at = properties.find(std::string_view("\0gfx", 4), kNameBytes - 1);
  if (at == std::string_view::npos) return {};
  std::string_view text = properties.substr(at + 1);
  text = text.substr(0, text.find('\0'));
  return std::string(text.substr(0, text.find(':')));
}

// A device is kept also if its runtime gives none.
std::string uuid_of(const Driver& d, hipDevice_t device) {
  Uuid uuid = {};
  return d.device_uuid != nullptr && d.device_uuid(&uuid, device) == kSuccess
             ? uuid_text(uuid.bytes)
             : std::string();
}

Status look_at(const Driver& d, int ordinal, Found* out) {
  constexpr size_t kMoreThanAnyRecord = 8192;
  out->id = ordinal;
  out->native_ordinal = static_cast<uint32_t>(ordinal);
  out->uuid = uuid_of(d, ordinal);
  char name[256] = "";
  TENON_TRY(check(d, d.device_name(name, sizeof name - 1, ordinal), "asking for a device's name"));
  size_t bytes = 0;
  TENON_TRY(check(d, d.device_memory(&bytes, ordinal), "asking for a device's memory"));
  std::string record(kMoreThanAnyRecord, '\0');
  TENON_TRY(check(d, d.properties(record.data(), ordinal), "asking for a device's properties"));
  out->memory_bytes = bytes;
  out->architecture = architecture_in(record);
  int threads = 0, shared = 0;
  TENON_TRY(check(d, d.device_attribute(&threads, kAttributeMaxThreads, ordinal),
                  "asking for a device's properties"));
  TENON_TRY(check(d, d.device_attribute(&shared, kAttributeMaxShared, ordinal),
                  "asking for a device's properties"));
  if (const Architecture* a = architecture(out->architecture))
    out->target =
        cat(kPrefix, a->name,
            stream::limits_text({static_cast<uint32_t>(threads), static_cast<uint32_t>(shared)},
                                kLimits));
  out->description = cat(name[0] == '\0' ? "AMD GPU" : name, ", ", out->architecture);
  return {};
}

Status look_at_all(std::deque<Found>* out) {
  std::string why;
  const Driver* d = driver(&why);
  if (d == nullptr) return fail(TENON_UNAVAILABLE, cat("rocm: ", why));
  int count = 0;
  TENON_TRY(check(*d, d->device_count(&count), "counting devices"));
  constexpr int kMost = 64;
  std::string other;
  for (int i = 0; i < std::min(count, kMost); ++i) {
    Found found;
    TENON_TRY(look_at(*d, i, &found));
    if (!found.target.empty()) {
      out->push_back(std::move(found));
    } else {
      other = std::move(found.description);
    }
  }
  if (out->empty() && !other.empty())
    return fail(TENON_UNAVAILABLE, cat("rocm: ", other,
                                       " is none of the architectures that code is "
                                       "made for: ",
                                       architecture_names()));
  return out->empty() ? fail(TENON_UNAVAILABLE, "rocm: the runtime finds no GPU") : Status();
}

struct Amd {
  static constexpr std::string_view kName = "rocm";
  using Found = rocm::Found;
  static Status look(std::deque<Found>* out) { return look_at_all(out); }
  static Status make_runtime(const Found& found, std::unique_ptr<stream::Runtime>* out) {
    std::string why;
    std::unique_ptr<Runtime> made;
    TENON_TRY(Runtime::make(*driver(&why), found.id, &made));
    *out = std::move(made);
    return {};
  }
};

}  // namespace

Status full_target(std::string_view text, std::string* out) {
  if (const Architecture* a = architecture(text)) {
    *out = cat(kPrefix, a->name);
    return stream::check_limits("rocm", text);
  }
  return fail(TENON_INVALID_ARGUMENT,
              cat("rocm: the target ", quoted(text), " is none of ", architecture_names()));
}

uint32_t warp_of(std::string_view target) {
  const Architecture* a = architecture(target);
  return a == nullptr ? 64 : a->warp;
}

const tenon_device_api_t kDeviceTable = stream::Machine<Amd>::table();
const tenon_exchange_api_t kExchangeTable = stream::exchange_table(&kKinds);

}  // namespace tenon::rocm
