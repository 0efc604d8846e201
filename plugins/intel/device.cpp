// Finding and opening devices; the rest of tenon.device/1 is tenon/stream.
#include "device.h"

#include <cstdio>
#include <deque>
#include <vector>

#include "runtime.h"
#include "target.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/uuid.hpp"
#include "tenon/stream/machine.h"

namespace tenon::intel {
namespace {

constexpr stream::ExchangeKinds kKinds = {"intel.pointer", ""};

struct Found : stream::FoundDevice {
  Place place;
};

Status memory_of(const Driver& d, ze_device_handle_t device, uint64_t* out) {
  uint32_t count = 0;
  TENON_TRY(check(d.zeDeviceGetMemoryProperties(device, &count, nullptr), "asking for memory"));
  std::vector<ze_device_memory_properties_t> all(count);
  for (auto& m : all) m.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
  TENON_TRY(check(d.zeDeviceGetMemoryProperties(device, &count, all.data()), "asking for memory"));
  for (const auto& m : all) *out += m.totalSize;
  return {};
}

// As lspci writes it.
std::string pci_text(uint32_t device) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%04x", device);
  return text;
}

// gpus: how many came before, as other libraries count them.
Status look_at(const Driver& d, ze_driver_handle_t driver, ze_device_handle_t device,
               uint32_t* gpus, std::deque<Found>* out, std::string* other) {
  ze_device_properties_t p = {};
  p.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
  TENON_TRY(check(d.zeDeviceGetProperties(device, &p), "asking for a device's properties"));
  if (p.type != ZE_DEVICE_TYPE_GPU) return {};
  const uint32_t native_ordinal = (*gpus)++;
  const std::string_view name(p.name, ::strnlen(p.name, sizeof p.name));
  const Architecture* a = architecture_of_device(p.deviceId);
  if (a == nullptr) {
    *other = cat(name, " (PCI device ", pci_text(p.deviceId), ")");
    return {};
  }
  Found found;
  found.native_ordinal = native_ordinal;
  found.uuid = uuid_text(p.uuid.id);
  found.description = cat(name, ", ", a->name);
  TENON_TRY(full_target(a->name, &found.target));
  ze_device_compute_properties_t groups = {};
  groups.stype = ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES;
  TENON_TRY(
      check(d.zeDeviceGetComputeProperties(device, &groups), "asking for the size of groups"));
  found.target +=
      stream::limits_text({groups.maxTotalGroupSize, groups.maxSharedLocalMemory}, a->limits);
  TENON_TRY(memory_of(d, device, &found.memory_bytes));
  found.place = {driver,
                 device,
                 p.timerResolution,
                 p.timestampValidBits,
                 found.memory_bytes,
                 (p.flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED) != 0};
  out->push_back(std::move(found));
  return {};
}

Status look_at_all(std::deque<Found>* out) {
  std::string why, other;
  const Driver* d = driver(&why);
  if (d == nullptr) return fail(TENON_UNAVAILABLE, cat("intel: ", why));
  uint32_t driver_count = 0, gpus = 0;
  TENON_TRY(check(d->zeDriverGet(&driver_count, nullptr), "counting drivers"));
  std::vector<ze_driver_handle_t> drivers(driver_count);
  TENON_TRY(check(d->zeDriverGet(&driver_count, drivers.data()), "finding drivers"));
  for (ze_driver_handle_t driver : drivers) {
    uint32_t count = 0;
    TENON_TRY(check(d->zeDeviceGet(driver, &count, nullptr), "counting devices"));
    std::vector<ze_device_handle_t> devices(count);
    TENON_TRY(check(d->zeDeviceGet(driver, &count, devices.data()), "finding devices"));
    for (ze_device_handle_t device : devices)
      TENON_TRY(look_at(*d, driver, device, &gpus, out, &other));
  }
  if (!out->empty()) return {};
  return fail(TENON_UNAVAILABLE, other.empty() ? "intel: the driver finds no GPU"
                                               : cat("intel: ", other,
                                                     " is none of the architectures that code is "
                                                     "made for: ",
                                                     architecture_names()));
}

struct Intel {
  static constexpr std::string_view kName = "intel";
  using Found = intel::Found;
  static Status look(std::deque<Found>* out) { return look_at_all(out); }
  static Status make_runtime(const Found& found, std::unique_ptr<stream::Runtime>* out) {
    std::string why;
    std::unique_ptr<Runtime> made;
    TENON_TRY(Runtime::make(*driver(&why), found.place, &made));
    *out = std::move(made);
    return {};
  }
};

}  // namespace

const tenon_device_api_t kDeviceTable = stream::Machine<Intel>::table();
const tenon_exchange_api_t kExchangeTable = stream::exchange_table(&kKinds);

}  // namespace tenon::intel
