#include "core/session/api/host_options.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/errors/failure.h"
#include "core/base/file.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon::session {
namespace {

constexpr uint64_t kEntriesMax = 4096;  // of a list; a higher count is a mistake

Status check_list(const void* data, uint64_t count, std::string_view what) {
  if (count <= kEntriesMax && (count == 0 || data != nullptr)) return {};
  return error(TENON_INVALID_ARGUMENT, "P0910", "the options have {} {} at {}", count, what, data);
}

Status check_text(tenon_str_t text, std::string_view what) {
  if (text.data != nullptr || text.size == 0) return {};
  return error(TENON_INVALID_ARGUMENT, "P0910", "{} has {} bytes at a null pointer", what,
               text.size);
}

Status read_path(tenon_str_t text, HostOptions* out) {
  TENON_RETURN_IF_ERROR(check_text(text, "a path of plugins"));
  const std::string path(from_abi_str(text));
  if (!path.starts_with('/') || path.find('\0') != std::string::npos) {
    return error(TENON_INVALID_ARGUMENT, "P0910", "the path of plugins {} is not absolute",
                 quoted(path));
  }
  Result<FileIdentity> there = identify(path);
  if (!there.ok()) {
    return error(TENON_INVALID_ARGUMENT, "P0910", "the path of plugins {} cannot be used: {}",
                 quoted(path), there.status().message());
  }
  out->plugin_paths.push_back(path);
  out->plugin_files.push_back(*there);
  return {};
}

Status read_setting(const tenon_key_value_t& pair, HostOptions* out) {
  TENON_RETURN_IF_ERROR(check_text(pair.key, "the name of a setting"));
  TENON_RETURN_IF_ERROR(check_text(pair.value, "the value of a setting"));
  const std::string name(from_abi_str(pair.key)), value(from_abi_str(pair.value));
  TENON_RETURN_IF_ERROR(check_setting(name, value));
  if (out->settings.emplace(name, value).second) return {};
  return error(TENON_INVALID_ARGUMENT, "P0910", "the setting {} is given twice", name);
}

void write_log(void* self, std::string_view component, LogLevel level, std::string_view text) {
  const auto& options = *static_cast<const HostOptions*>(self);
  options.log(options.log_self, static_cast<uint32_t>(level), to_abi_str(component),
              to_abi_str(text));
}

// Whether the host was started with this file or folder, by whatever path.
bool has_path(const HostOptions& open, const FileIdentity& wanted) {
  return std::any_of(open.plugin_files.begin(), open.plugin_files.end(), [&](const auto& file) {
    return file.device == wanted.device && file.inode == wanted.inode;
  });
}

// The value with which the host was started; empty for none.
std::string_view value_at_start(const HostOptions& open, const std::string& name) {
  for (const Settings* from : {&open.settings, &open.environment}) {
    if (const auto found = from->find(name); found != from->end()) return found->second;
  }
  return {};
}

Status differs(std::string_view what) {
  return error(TENON_FAILED_PRECONDITION, "P0911",
               "the host of this process is open already, with {}; give options when it is "
               "opened first, or none",
               what);
}

}  // namespace

Result<HostOptions> read_host_options(const tenon_host_options_t* given) {
  HostOptions out;
  if (given == nullptr) return out;
  if (given->size_bytes < sizeof given->size_bytes) {
    return error(TENON_INVALID_ARGUMENT, "P0910",
                 "the options of the host say that they have {} bytes", given->size_bytes);
  }
  tenon_host_options_t full{};
  std::memcpy(&full, given, std::min<size_t>(given->size_bytes, sizeof full));
  if (full.only_plugin_paths > 1) {
    return error(TENON_INVALID_ARGUMENT, "P0910", "only_plugin_paths is 0 or 1, and is {}",
                 full.only_plugin_paths);
  }
  TENON_RETURN_IF_ERROR(check_list(full.plugin_paths, full.plugin_path_count, "paths of plugins"));
  TENON_RETURN_IF_ERROR(check_list(full.settings, full.setting_count, "settings"));
  out.only_plugin_paths = full.only_plugin_paths == 1;
  for (uint64_t i = 0; i < full.plugin_path_count; ++i)
    TENON_RETURN_IF_ERROR(read_path(full.plugin_paths[i], &out));
  for (uint64_t i = 0; i < full.setting_count; ++i)
    TENON_RETURN_IF_ERROR(read_setting(full.settings[i], &out));
  out.log_self = full.log_self;
  out.log = full.log;
  return out;
}

Status check_same_options(const HostOptions& wanted, const HostOptions& open) {
  if (wanted.only_plugin_paths && !open.only_plugin_paths)
    return differs("the search path of the installation");
  for (const FileIdentity& file : wanted.plugin_files) {
    if (has_path(open, file)) continue;
    return differs(open.plugin_paths.empty()
                       ? std::string("no paths of plugins")
                       : "the paths of plugins " + join_names(open.plugin_paths));
  }
  for (const auto& [name, value] : wanted.settings) {
    const std::string_view now = value_at_start(open, name);
    if (now == value) continue;
    return differs(now.empty() ? fmt::format("no value for {}", name)
                               : fmt::format("{}={}", name, printable(now, 256)));
  }
  if (wanted.log != nullptr &&
      std::pair(wanted.log, wanted.log_self) != std::pair(open.log, open.log_self))
    return differs(open.log == nullptr ? "its messages on stderr"
                                       : "another receiver of its messages");
  return {};
}

void apply_host_options(const HostOptions& options) {
  set_log_receiver(options.log == nullptr ? nullptr : write_log,
                   const_cast<HostOptions*>(&options));
  set_settings(options.settings);
}

}  // namespace tenon::session
