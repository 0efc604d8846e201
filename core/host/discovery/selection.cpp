#include "core/host/discovery/selection.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include "core/base/file.h"
#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon::host {
namespace {

constexpr uint64_t kLockBytesMax = 1 << 20;
constexpr int kLockSchema = 1;

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

using Json = nlohmann::json;

bool is_digest(std::string_view text) {
  return text.size() == 64 &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

// Every key of a lock file must be understood: with a misspelt key, a digest would go unchecked.
Status check_keys(const Json& object, std::initializer_list<std::string_view> known,
                  std::string_view what) {
  if (!object.is_object())
    return error(TENON_INVALID_ARGUMENT, "P0407", "{} is {}, and must be an object", what,
                 object.type_name());
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return error(TENON_INVALID_ARGUMENT, "P0407",
                   "{} has the key {}, which this Tenon does not know{}", what, quoted(key),
                   did_you_mean(key, std::span(known.begin(), known.size())));
    }
  }
  for (std::string_view key : known) {
    if (!object.contains(key))
      return error(TENON_INVALID_ARGUMENT, "P0407", "{} lacks the key {}", what, quoted(key));
  }
  return Status();
}

Result<LockedPlugin> read_entry(const Json& entry) {
  TENON_RETURN_IF_ERROR(
      check_keys(entry, {"name", "version", "sha256", "manifest_sha256"}, "an entry"));
  LockedPlugin plugin;
  for (auto [key, out] : {std::pair("name", &plugin.name), std::pair("version", &plugin.version),
                          std::pair("sha256", &plugin.sha256),
                          std::pair("manifest_sha256", &plugin.manifest_sha256)}) {
    if (!entry[key].is_string())
      return error(TENON_INVALID_ARGUMENT, "P0407", "the key {} of an entry is not a text",
                   quoted(key));
    *out = entry[key].get<std::string>();
  }
  for (const std::string* digest : {&plugin.sha256, &plugin.manifest_sha256}) {
    if (is_digest(*digest)) continue;
    return error(TENON_INVALID_ARGUMENT, "P0407",
                 "{} of the plugin {} is not a sha256, which has 64 hexadecimal digits",
                 quoted(*digest), quoted(plugin.name));
  }
  return plugin;
}

// nlohmann's parser keeps the last of two equal keys, while a person may read the first.
Result<Json> parse_without_twins(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string twin;
  auto look = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() &&
        !keys.back().insert(value.get<std::string>()).second) {
      twin = value.get<std::string>();
    }
    return true;
  };
  try {
    Json json = Json::parse(text, look);
    if (!twin.empty())
      return error(TENON_INVALID_ARGUMENT, "P0407", "the key {} occurs twice in one object",
                   quoted(twin));
    return json;
  } catch (const std::exception& problem) {
    return error(TENON_INVALID_ARGUMENT, "P0407", "{}", printable(problem.what()));
  }
}

// {"schema": 1, "plugins": [{"name": "...", "version": "...", "sha256": "...", "manifest_sha256":
// "..."}]}
Result<std::vector<LockedPlugin>> read_lock(std::string_view path) {
  TENON_ASSIGN_OR_RETURN(File file, open_user_file(path));
  TENON_ASSIGN_OR_RETURN(std::string text, read_all(file, kLockBytesMax, "a lock file"));
  TENON_ASSIGN_OR_RETURN(const Json json, parse_without_twins(text));
  if (json.is_object() && json.contains("schema") && json["schema"] != kLockSchema) {
    return error(TENON_UNIMPLEMENTED, "P0407", "its schema is {}, and this Tenon reads schema {}",
                 printable(json["schema"].dump(-1, ' ', false, Json::error_handler_t::replace), 64),
                 kLockSchema);
  }
  TENON_RETURN_IF_ERROR(check_keys(json, {"schema", "plugins"}, "it"));
  if (!json["plugins"].is_array())
    return error(TENON_INVALID_ARGUMENT, "P0407", "the key `plugins` is not a list");
  std::vector<LockedPlugin> out;
  std::set<std::string> names;
  for (const Json& entry : json["plugins"]) {
    TENON_ASSIGN_OR_RETURN(LockedPlugin plugin, read_entry(entry));
    if (!names.insert(plugin.name).second) {
      return error(TENON_INVALID_ARGUMENT, "P0407", "it names the plugin {} twice",
                   quoted(plugin.name));
    }
    out.push_back(std::move(plugin));
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
      selection.lock_status =
          error(lock.status().code(), "P0407", "the lock file {} cannot be read: {}", quoted(*path),
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
    return error(TENON_UNAVAILABLE, "P0402", "TENON_PLUGINS_SELECT={} does not match it",
                 env("TENON_PLUGINS_SELECT").value_or(""));
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
  return error(TENON_UNAVAILABLE, "P0405", "its version is {}, and the lock file wants {}",
               quoted(c.manifest.version), quoted(locked->version));
}

void warn_unmatched(const Selection& selection, const std::vector<std::string>& names) {
  auto look = [&](std::string_view variable, const std::vector<std::string>& globs) {
    for (const std::string& glob : globs) {
      bool matched = false;
      for (const std::string& name : names) matched |= glob_match(glob, name);
      if (matched) continue;
      log_warning("plugins", "P0404: {} in {} matches no plugin{}; there are {}", quoted(glob),
                  variable, did_you_mean(glob, std::span<const std::string>(names)),
                  names.empty() ? "none" : join_names(names));
    }
  };
  look("TENON_PLUGINS_SELECT", selection.select);
  look("TENON_PLUGINS_DISABLE", selection.disable);
}

}  // namespace tenon::host
