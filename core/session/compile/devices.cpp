#include "core/session/compile/devices.h"

#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <map>
#include <mutex>

#include "core/base/errors/failure.h"
#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/dispatch/kernels/kernel_device.h"
#include "core/op/registry.h"
#include "core/session/compile/plugins.h"

namespace tenon::session {
namespace {

std::mutex g_mutex;
std::map<std::string, std::shared_ptr<runtime::Device>, std::less<>>& cache() {
  // Never destroyed: at exit, plugins may be gone before it.
  static auto* devices = new std::map<std::string, std::shared_ptr<runtime::Device>, std::less<>>();
  return *devices;
}

Result<uint32_t> count_of(const runtime::DeviceApis& apis, std::string_view kind) {
  uint32_t count = 0;
  clear_failure();
  TENON_RETURN_IF_ERROR(from_abi(apis.device->count(apis.device->self, &count),
                                 fmt::format("device {}: count", quoted(kind))));
  return count;
}

Result<tenon_device_info_t> info_of(const runtime::DeviceApis& apis, std::string_view kind,
                                    uint32_t index) {
  auto info = sized<tenon_device_info_t>();
  clear_failure();
  TENON_RETURN_IF_ERROR(from_abi(apis.device->info(apis.device->self, index, &info),
                                 fmt::format("device {}: info", quoted(kind))));
  return info;
}

// The ordinal of the device to which the vendor gives this number. Plugins leave out devices that
// they have no use for, so the two may differ; where a plugin gives no numbers, they are the same.
Result<uint32_t> ordinal_of_number(std::string_view kind, uint32_t number) {
  TENON_ASSIGN_OR_RETURN(const runtime::DeviceApis apis, device_apis(kind));
  TENON_ASSIGN_OR_RETURN(const uint32_t count, count_of(apis, kind));
  uint32_t ordinal = 0;
  std::string known;
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_device_info_t info, info_of(apis, kind, i));
    if (info.kind.data == nullptr || from_abi_str(info.kind) != kind) continue;
    if ((info.flags & TENON_DEVICE_NUMBERED) != 0) {
      if (info.native_ordinal == number) return ordinal;
      known += fmt::format("{}{}:{} is number {}", known.empty() ? "" : ", ", kind, ordinal,
                           info.native_ordinal);
    }
    ++ordinal;
  }
  if (known.empty()) return number;
  return error(TENON_NOT_FOUND, "T0502",
               "plugin {} has no code for the vendor's device {} of kind {} ({})",
               quoted(apis.plugin), number, quoted(kind), known);
}

Result<std::shared_ptr<runtime::Device>> make_device(std::string_view kind, uint32_t ordinal) {
  TENON_ASSIGN_OR_RETURN(runtime::DeviceApis apis, device_apis(kind));
  TENON_ASSIGN_OR_RETURN(const uint32_t count, count_of(apis, kind));
  if (count == 0) {
    // Asked about one all the same, a plugin says why: a driver that is not installed.
    auto info = sized<tenon_device_info_t>();
    Status why = from_abi(apis.device->info(apis.device->self, 0, &info), "info");
    return error(TENON_UNAVAILABLE, "T0503", "plugin {} finds no device {} on this machine{}",
                 quoted(apis.plugin), quoted(kind),
                 why.ok() ? std::string() : fmt::format(" ({})", why.message()));
  }
  // A table may list devices of several kinds; the ordinal in a name counts within its kind.
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_device_info_t info, info_of(apis, kind, i));
    if (info.kind.data == nullptr || from_abi_str(info.kind) != kind) continue;
    if (found++ == ordinal) return runtime::Device::create(apis, i, ordinal);
  }
  if (found == 0) {
    return error(TENON_UNAVAILABLE, "T0503", "plugin {} lists {} devices but none of kind {}",
                 quoted(apis.plugin), count, quoted(kind));
  }
  return error(TENON_NOT_FOUND, "T0502", "there is no device {}:{}; {} has the ordinals 0 to {}",
               printable(kind), ordinal, quoted(kind), found - 1);
}

struct DeviceName {
  std::string_view kind;
  uint32_t ordinal = 0;
  bool of_vendor = false;  // the ordinal is the vendor's number
};
Result<DeviceName> parse_name(std::string_view name) {
  const size_t mark = name.find_last_of(":#");
  if (mark == std::string_view::npos) return DeviceName{name, 0};
  const std::string_view kind = name.substr(0, mark);
  uint64_t ordinal = 0;
  if (!parse_u64(name.substr(mark + 1), &ordinal) || ordinal > UINT32_MAX) {
    return error(TENON_INVALID_ARGUMENT, "T0502",
                 "{} is not a device name: the {} must be followed by a number, as in {}",
                 quoted(name), name[mark] == ':' ? "colon" : "#",
                 quoted(fmt::format("{}{}1", kind, name[mark])));
  }
  return DeviceName{kind, static_cast<uint32_t>(ordinal), name[mark] == '#'};
}

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  for (std::string_view name : split(list, ',')) names.emplace_back(name);
  return names;
}

// The user did not name this device. Hardware that this machine lacks is not worth a warning.
void leave_out(std::string_view kind, const Status& why) {
  if (why.code() == TENON_UNAVAILABLE) {
    log_info("dispatch", "device {} is left out: {}", kind, why.text());
  } else {
    log_warning("dispatch", "device {} is left out: {}", kind, why.text());
  }
}

// Devices that need not be named take the remaining nodes, best first; then the last resorts.
void add_fallbacks(std::span<const DeviceKind> kinds, bool automatic, dispatch::Candidates* out) {
  for (const DeviceKind& kind : kinds) {
    if ((automatic && kind.priority >= 0) || kind.priority <= kLastResort) {
      out->fallbacks.emplace_back(kind.name, [name = kind.name] { return find_device(name); });
    }
  }
}

// A call may name its device so each time, and the vendor's numbers do not change: they are looked
// up once.
Result<std::shared_ptr<runtime::Device>> find_numbered(std::string_view kind, uint32_t number) {
  const std::string key = fmt::format("{}#{}", kind, number);
  {
    std::lock_guard lock(g_mutex);
    if (auto it = cache().find(key); it != cache().end()) return it->second;
  }
  TENON_ASSIGN_OR_RETURN(const uint32_t ordinal, ordinal_of_number(kind, number));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Device> device,
                         find_device(fmt::format("{}:{}", kind, ordinal)));
  std::lock_guard lock(g_mutex);
  cache().emplace(key, device);
  return device;
}

// The names of the candidates, or their kinds and those of the fallbacks.
std::vector<std::string> taking_part(const dispatch::Candidates& candidates, bool kinds) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  for (const auto& device : candidates.devices)
    add(kinds ? from_abi_str(device->info().kind) : device->name());
  for (const auto& [kind, find] : candidates.fallbacks) {
    if (kinds) add(kind);
  }
  return names;
}

// The option NAME.ops, which the host itself reads.
Status check_offer(std::string_view key, std::string_view globs, std::string_view device,
                   const dispatch::Candidates& candidates) {
  const std::vector<std::string> names = taking_part(candidates, false);
  if (std::ranges::find(names, device) == names.end()) {
    return error(TENON_INVALID_ARGUMENT, "T0513",
                 "the option {} is of no device that the model is compiled for (these are: {})",
                 quoted(key), names.empty() ? "none" : join_names(names));
  }
  for (std::string_view glob : split(globs, ',')) {
    const auto matches = [&](const op::OpRecord* op) {
      return glob_match(glob, from_abi_str(op->def.name));
    };
    if (std::ranges::any_of(op::Registry::instance().all_records(), matches)) continue;
    return error(TENON_INVALID_ARGUMENT, "T0513",
                 "the option {} names {}, which matches no operator", quoted(key), quoted(glob));
  }
  return {};
}

Status check_option(std::string_view key, std::string_view value,
                    std::span<const std::string> enabled, const dispatch::Candidates& candidates) {
  const size_t dot = key.find('.');
  const std::string_view device = key.substr(0, dot);
  const std::string_view kind = device.substr(0, device.find(':'));
  if (dot == std::string_view::npos || dot + 1 == key.size() ||
      std::ranges::find(enabled, kind) == enabled.end()) {
    return error(TENON_INVALID_ARGUMENT, "T0513",
                 "the option {} is of no device{}; options are DEVICE.KEY=VALUE (devices: {})",
                 quoted(key), did_you_mean(kind, enabled),
                 join_names({enabled.begin(), enabled.end()}));
  }
  if (key.substr(dot) == ".ops") return check_offer(key, value, device, candidates);
  if (device != kind) {
    return error(TENON_INVALID_ARGUMENT, "T0513",
                 "the option {} names a single device, and is one of all devices of a kind: {}{}",
                 quoted(key), printable(kind), printable(key.substr(dot)));
  }
  const std::vector<std::string> kinds = taking_part(candidates, true);
  if (std::ranges::find(kinds, kind) != kinds.end()) return {};
  return error(TENON_INVALID_ARGUMENT, "T0513",
               "the option {} is of a device that takes no part (those that may: {})", quoted(key),
               join_names(kinds));
}

}  // namespace

Result<std::shared_ptr<runtime::Device>> find_device(std::string_view name) {
  TENON_ASSIGN_OR_RETURN(const DeviceName parsed, parse_name(name));
  const auto& [kind, ordinal, of_vendor] = parsed;
  if (of_vendor) return find_numbered(kind, ordinal);
  const std::string key = fmt::format("{}:{}", kind, ordinal);
  std::lock_guard lock(g_mutex);
  if (auto it = cache().find(key); it != cache().end()) return it->second;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Device> device, make_device(kind, ordinal));
  cache().emplace(key, device);
  return device;
}

std::vector<std::shared_ptr<runtime::Device>> all_devices() {
  std::vector<std::shared_ptr<runtime::Device>> devices;
  for (const auto& [kind, priority] : device_kinds()) {
    for (uint32_t ordinal = 0; ordinal < dispatch::kDevicesMax; ++ordinal) {
      Result<std::shared_ptr<runtime::Device>> device =
          find_device(fmt::format("{}:{}", kind, ordinal));
      if (device.ok()) {
        devices.push_back(*device);
        continue;
      }
      if (ordinal == 0) leave_out(kind, device.status());
      break;
    }
  }
  return devices;
}

std::vector<AbsentDevice> absent_devices() {
  std::vector<AbsentDevice> out;
  for (const DeviceKind& kind : device_kinds()) {
    const Result<std::shared_ptr<runtime::Device>> device = find_device(kind.name);
    if (!device.ok()) out.push_back({kind.name, device.status().text()});
  }
  return out;
}

Result<dispatch::Candidates> candidates_for(std::string_view device, bool no_fallback) {
  const std::vector<DeviceKind> kinds = device_kinds();
  dispatch::Candidates out;
  out.no_fallback = no_fallback;
  const bool is_variable = device.empty();
  if (is_variable) device = env("TENON_DEVICE").value_or("");
  if (!trim(device).empty()) {
    out.by_preference = true;
    for (const std::string& name : names_in(device)) {
      Result<std::shared_ptr<runtime::Device>> asked = find_device(name);
      if (!asked.ok() && is_variable)
        return std::move(asked).status().with_context(
            fmt::format("choosing by TENON_DEVICE={}", device));
      TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Device> found, std::move(asked));
      out.devices.push_back(std::move(found));
    }
    add_fallbacks(kinds, true, &out);
    return out;
  }
  for (const DeviceKind& kind : kinds) {
    if (kind.priority < 0) continue;
    Result<std::shared_ptr<runtime::Device>> found = find_device(kind.name);
    if (found.ok()) {
      out.devices.push_back(std::move(*found));
    } else {
      leave_out(kind.name, found.status());
    }
  }
  add_fallbacks(kinds, false, &out);
  if (out.devices.empty() && out.fallbacks.empty()) {
    return error(TENON_NOT_FOUND, "T0502", "no device is enabled that could run a model:{}",
                 devices_left_out());
  }
  out.no_fallback = no_fallback && !out.devices.empty();
  return out;
}

Result<dispatch::Candidates> candidates_for_target(std::string_view device,
                                                   std::string_view target) {
  const std::vector<std::string> names = names_in(device);
  if (names.size() != 1 || trim(names[0]).empty()) {
    return error(TENON_INVALID_ARGUMENT, "T0502",
                 "the target {} needs the one device that it is of, as in --device NAME",
                 quoted(target));
  }
  TENON_ASSIGN_OR_RETURN(const DeviceName name, parse_name(names[0]));
  TENON_ASSIGN_OR_RETURN(const runtime::DeviceApis apis, device_apis(name.kind));
  dispatch::Candidates out;
  out.by_preference = true;
  out.no_fallback = true;  // others would compile for this machine
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Device> made,
                         runtime::Device::create_for_target(apis, name.kind, name.ordinal, target));
  out.devices.push_back(std::move(made));
  return out;
}

Status check_options(std::span<const std::pair<std::string, std::string>> options,
                     const dispatch::Candidates& candidates) {
  std::vector<std::string> enabled;
  for (const DeviceKind& kind : device_kinds()) enabled.push_back(kind.name);
  for (size_t i = 0; i < options.size(); ++i) {
    const auto& [key, value] = options[i];
    TENON_RETURN_IF_ERROR(check_option(key, value, enabled, candidates));
    const auto same = [&](const auto& other) { return other.first == key; };
    if (std::ranges::any_of(options.first(i), same))
      return error(TENON_INVALID_ARGUMENT, "T0513", "the option {} is given twice", quoted(key));
  }
  return {};
}

}  // namespace tenon::session
