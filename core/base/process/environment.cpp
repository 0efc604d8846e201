#include "core/base/process/environment.h"

#include <sys/auxv.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "core/base/limits.h"
#include "core/base/process/log.h"
#include "core/base/process/settings.h"
#include "core/base/str.h"

extern char** environ;

namespace tenon {
namespace {
constexpr VariableInfo kVariables[] = {
#define TENON_VARIABLE(name, what) {name, what},
#include "core/base/process/environment.def"
#undef TENON_VARIABLE
};
}  // namespace

bool is_privileged_process() {
  static const bool privileged = getauxval(AT_SECURE) != 0;
  return privileged;
}

std::optional<std::string_view> env(std::string_view name) {
  if (const Settings& settings = current_settings(); !settings.empty()) {
    if (const auto found = settings.find(name); found != settings.end()) {
      if (found->second.empty()) return std::nullopt;
      return std::string_view(found->second);
    }
  }
  if (is_privileged_process()) return std::nullopt;
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string_view(value);
}

bool env_flag(std::string_view name, bool otherwise) {
  auto value = env(name);
  if (!value) return otherwise;
  for (std::string_view yes : {"1", "true", "yes", "on"}) {
    if (equals_ignoring_case(*value, yes)) return true;
  }
  for (std::string_view no : {"0", "false", "no", "off"}) {
    if (equals_ignoring_case(*value, no)) return false;
  }
  log_warning("base", "{}={} is neither 0 nor 1; {} is used", name, quoted(*value),
              otherwise ? 1 : 0);
  return otherwise;
}

std::vector<VariableInfo> known_variables() {
  std::vector<VariableInfo> all(std::begin(kVariables), std::end(kVariables));
  for (uint32_t i = 0; i < static_cast<uint32_t>(Limit::kCount); ++i) {
    const LimitInfo& info = limit_info(static_cast<Limit>(i));
    all.push_back({info.variable, info.what});
  }
  return all;
}

Settings variables_that_are_set() {
  Settings found;
  if (is_privileged_process()) return found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "TENON_", 6) != 0) continue;
    const std::string_view text(*entry);
    const size_t end = text.find('=');
    if (end != std::string_view::npos) found.emplace(text.substr(0, end), text.substr(end + 1));
  }
  return found;
}

std::vector<std::string> unknown_variables(std::span<const std::string> more) {
  std::vector<std::string> unknown;
  std::vector<VariableInfo> known = known_variables();
  for (const auto& [name, value] : variables_that_are_set()) {
    bool found = false;
    for (const VariableInfo& info : known) found |= info.name == name;
    for (const std::string& other : more) found |= other == name;
    if (!found) unknown.emplace_back(name);
  }
  return unknown;
}

void warn_unknown_variables(std::span<const std::string> more) {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  std::vector<std::string_view> names;
  std::vector<VariableInfo> known = known_variables();
  for (const VariableInfo& info : known) names.push_back(info.name);
  for (const std::string& other : more) names.push_back(other);
  for (const std::string& name : unknown_variables(more)) {
    log_warning("base", "Tenon does not know the variable {}; it is ignored{}", quoted(name),
                did_you_mean(name, std::span<const std::string_view>(names)));
  }
}

}  // namespace tenon
