#include "core/host/discovery/requirements.h"

#include <algorithm>

#include <tenon/cpp/interfaces.hpp>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/host/discovery/places.h"
#include "core/host/platform/platform.h"

namespace tenon::host {
namespace {

// True if version a is at least b; both are numbers separated by dots.
bool at_least(std::string_view a, std::string_view b) {
  std::vector<std::string_view> left = split(a, '.'), right = split(b, '.');
  for (size_t i = 0; i < right.size(); ++i) {
    uint64_t x = 0, y = 0;
    if (i < left.size()) (void)parse_u64(left[i], &x);
    (void)parse_u64(right[i], &y);
    if (x != y) return x > y;
  }
  return true;
}

bool has_cpu_feature(std::string_view feature) {
  static const std::string* flags = [] {
    std::string text = read_system_file("/proc/cpuinfo").value_or("");
    size_t begin = text.find("flags");
    if (begin == std::string::npos) begin = text.find("Features");
    if (begin == std::string::npos) return new std::string;
    size_t end = text.find('\n', begin);
    return new std::string(text.substr(begin, end - begin) + " ");
  }();
  return flags->find(" " + std::string(feature) + " ") != std::string::npos;
}

// "10de:2330" of every device of /sys/bus/pci, read once.
const std::vector<std::string>& pci_devices() {
  static const auto* devices = [] {
    const std::string root = "/sys/bus/pci/devices";
    auto* found = new std::vector<std::string>;
    for (const std::string& name : list_folder(root).value_or({})) {
      auto id = [&](std::string_view file) {
        const std::string text =
            read_system_file(join_path(join_path(root, name), file), 32).value_or("");
        const std::string_view digits = trim(text);  // "0x10de\n"
        return std::string(digits.substr(std::min<size_t>(2, digits.size())));
      };
      found->push_back(id("vendor") + ":" + id("device"));
    }
    return found;
  }();
  return *devices;
}

// "10de:*" or "10de:2330".
bool has_pci_device(std::string_view pattern) {
  const std::vector<std::string>& devices = pci_devices();
  return std::any_of(devices.begin(), devices.end(),
                     [&](const std::string& id) { return glob_match(pattern, id); });
}

}  // namespace

std::string_view host_sanitizer() {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  return "address";
#elif __has_feature(thread_sanitizer)
  return "thread";
#elif __has_feature(memory_sanitizer)
  return "memory";
#endif
#endif
  return "";
}

Status check_platform(const Manifest& m) {
  if (!m.os.empty() && m.os != platform::os_name()) {
    return error(TENON_UNAVAILABLE, "P0301", "it is for {}, and this is {}", quoted(m.os),
                 platform::os_name());
  }
  if (!m.arch.empty() && m.arch != platform::arch_name()) {
    return error(TENON_UNAVAILABLE, "P0301", "it is for {} processors, and this is {}",
                 quoted(m.arch), platform::arch_name());
  }
  const std::string_view libc = platform::libc_version();
  if (!m.libc_min.empty() && !libc.empty() && !at_least(libc, m.libc_min)) {
    return error(TENON_UNAVAILABLE, "P0302", "it needs libc {}, and this is {}", quoted(m.libc_min),
                 libc);
  }
  if (!m.sanitizer.empty() && m.sanitizer != "none" && m.sanitizer != host_sanitizer()) {
    return error(TENON_FAILED_PRECONDITION, "P0303",
                 "it was built with the {} sanitizer, and this host {}", quoted(m.sanitizer),
                 host_sanitizer().empty() ? "without one" : host_sanitizer());
  }
  return Status();
}

Status check_abi(const Manifest& m) {
  if (!m.has_abi) return Status();  // adopt_plugin checks the record in any case
  if (m.abi_major > TENON_ABI_MAJOR ||
      (m.abi_major == TENON_ABI_MAJOR && m.abi_min_minor > TENON_ABI_MINOR)) {
    return error(TENON_FAILED_PRECONDITION, "P0305",
                 "it needs ABI {}.{} and this host speaks {}.{}: update Tenon", m.abi_major,
                 m.abi_min_minor, TENON_ABI_MAJOR, TENON_ABI_MINOR);
  }
  if (m.abi_major == TENON_ABI_MAJOR && m.abi_min_minor < (TENON_ABI_OLDEST & 0xffff)) {
    return error(TENON_FAILED_PRECONDITION, "P0304",
                 "it was made for ABI {}.{}, of the first edition, and this host speaks {}.{}: "
                 "rebuild the plugin",
                 m.abi_major, m.abi_min_minor, TENON_ABI_MAJOR, TENON_ABI_MINOR);
  }
  for (const InterfaceId& needed : m.interfaces) {
    for (const interfaces::InterfaceInfo& known : interfaces::known_interfaces()) {
      if (known.id == needed.id && needed.minor > known.minor)
        return error(TENON_FAILED_PRECONDITION, "P0305",
                     "it needs minor {} of {}, and this host has {}: update Tenon", needed.minor,
                     known.id, known.minor);
    }
  }
  if (m.abi_major < TENON_ABI_MAJOR) {
    return error(TENON_FAILED_PRECONDITION, "P0304",
                 "it was made for ABI {} and this host speaks {}: rebuild the plugin", m.abi_major,
                 TENON_ABI_MAJOR);
  }
  return Status();
}

Status check_requirements(const Manifest& m) {
  for (const std::string& feature : m.required_cpu_features) {
    if (!has_cpu_feature(feature)) {
      return error(TENON_UNAVAILABLE, "P0502", "this processor lacks {}", quoted(feature));
    }
  }
  for (const std::string& path : m.probe_paths) {
    if (!identify(path).ok())
      return error(TENON_UNAVAILABLE, "P0503", "{} is not there", quoted(path))
          .with("subject", path);
  }
  for (const std::string& pattern : m.probe_pci) {
    if (has_pci_device(pattern)) return Status();
  }
  if (!m.probe_pci.empty()) {
    return error(TENON_UNAVAILABLE, "P0504", "no PCI device matches {}", join_names(m.probe_pci));
  }
  return Status();
}

std::string library_file(std::string_view name) {
  const std::string found = platform::library_file(name);
  if (!found.empty() || own_folder().empty()) return found;
  const std::string own = join_path(own_folder(), name);
  return identify(own).ok() ? own : std::string();
}

Status check_required_libraries(std::span<const std::string> names) {
  for (const std::string& name : names) {
    // Kept open: the plugin that requires it is about to use it.
    const platform::Opened opened = platform::open_named_library(name);
    if (opened.library != nullptr) continue;
    return error(TENON_UNAVAILABLE, "P0505", "the library {} that it requires cannot be opened: {}",
                 quoted(name), printable(opened.why));
  }
  return Status();
}

}  // namespace tenon::host
