#include "core/host/selection.h"

#include <nlohmann/json.hpp>

#include "core/base/environment.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/str.h"

namespace tenon::host {
namespace {

constexpr uint64_t kLockBytesMax = 1 << 20;

std::vector<std::string> patterns(std::string_view variable) {
  std::vector<std::string> out;
  for (std::string_view part : split(env(variable).value_or(""), ',')) out.emplace_back(part);
  return out;
}

bool matches_any(const std::vector<std::string>& globs, std::string_view name) {
  for (const std::string& glob : globs) {
    if (glob_match(glob, name)) return true;
  }
  return false;
}

// {"schema": 1, "plugins": [{"name": "...", "version": "...", "sha256": "...", "manifest_sha256": "..."}]}, the digests optional
Result<std::vector<LockedPlugin>> read_lock(std::string_view path) {
  TENON_ASSIGN_OR_RETURN(File file, open_user_file(path));
  TENON_ASSIGN_OR_RETURN(std::string text, read_all(file, kLockBytesMax, "a lock file"));
  std::vector<LockedPlugin> out;
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    for (const auto& entry : json.at("plugins")) {
      out.push_back({entry.at("name").get<std::string>(), entry.at("version").get<std::string>(), entry.value("sha256", ""),
                     entry.value("manifest_sha256", "")});
    }
  } catch (const std::exception& problem) {
    return error(TENON_INVALID_ARGUMENT, "P0407", "{}", printable(problem.what()));
  }
  return out;
}

}  // namespace

Selection read_selection() {
  Selection selection;
  selection.select = patterns("TENON_PLUGINS_SELECT");
  selection.disable = patterns("TENON_PLUGINS_DISABLE");
  selection.autoload = env_flag("TENON_PLUGIN_AUTOLOAD", true);
  if (auto path = env("TENON_PLUGIN_LOCK")) {
    Result<std::vector<LockedPlugin>> lock = read_lock(*path);
    if (lock.ok()) {
      selection.lock = std::move(lock).value();
    } else {
      selection.lock_status = error(lock.status().code(), "P0407", "the lock file {} cannot be read: {}", quoted(*path),
                                    lock.status().message());
      log_warning("plugins", "{}", selection.lock_status.text());
    }
  }
  return selection;
}

const LockedPlugin* locked_as(const Selection& s, const Candidate& c) {
  if (!s.lock) return nullptr;
  for (const LockedPlugin& locked : *s.lock) {
    if (locked.name == c.name()) return &locked;
  }
  return nullptr;
}

Status is_selected(const Selection& s, const Candidate& c) {
  if (!s.select.empty() && !matches_any(s.select, c.name())) {
    return error(TENON_UNAVAILABLE, "P0402", "TENON_PLUGINS_SELECT={} does not match it", env("TENON_PLUGINS_SELECT").value_or(""));
  }
  if (matches_any(s.disable, c.name())) {
    return error(TENON_UNAVAILABLE, "P0401", "TENON_PLUGINS_DISABLE={} matches it",
                 env("TENON_PLUGINS_DISABLE").value_or(""));
  }
  if (!s.autoload && !c.named_explicitly) {
    return error(TENON_UNAVAILABLE, "P0403", "TENON_PLUGIN_AUTOLOAD=0, and nothing names it");
  }
  TENON_RETURN_IF_ERROR(s.lock_status);
  if (!s.lock) return Status();
  const LockedPlugin* locked = locked_as(s, c);
  if (locked == nullptr) return error(TENON_UNAVAILABLE, "P0405", "the lock file does not name it");
  if (locked->version == c.manifest.version) return Status();
  return error(TENON_UNAVAILABLE, "P0405", "its version is {}, and the lock file wants {}", quoted(c.manifest.version),
               quoted(locked->version));
}

void warn_unmatched(const Selection& selection, const std::vector<std::string>& names) {
  auto look = [&](std::string_view variable, const std::vector<std::string>& globs) {
    for (const std::string& glob : globs) {
      bool matched = false;
      for (const std::string& name : names) matched |= glob_match(glob, name);
      if (matched) continue;
      log_warning("plugins", "P0404: {} in {} matches no plugin{}; there are {}", quoted(glob), variable,
                  did_you_mean(glob, std::span<const std::string>(names)), names.empty() ? "none" : join_names(names));
    }
  };
  look("TENON_PLUGINS_SELECT", selection.select);
  look("TENON_PLUGINS_DISABLE", selection.disable);
}

}  // namespace tenon::host
