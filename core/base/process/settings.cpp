#include "core/base/process/settings.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/limits.h"
#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon {
namespace {

// Null until the program sets something.
std::atomic<const Settings*> g_settings{nullptr};

constexpr size_t kNameBytesMax = 128, kValueBytesMax = 64 * 1024;

constexpr std::string_view kFlags[] = {"TENON_PLUGIN_AUTOLOAD", "TENON_PLUGIN_STRICT",
                                       "TENON_PLUGIN_NO_CACHE", "TENON_DETERMINISTIC"};
constexpr std::string_view kFolders[] = {"TENON_CACHE_DIR", "TENON_SEED_DIR", "TENON_LIBEXEC_DIR",
                                         "TENON_REPRODUCER_DIR"};

// Variables with few values.
struct Choice {
  std::string_view name, values;
};
constexpr Choice kChoices[] = {{"TENON_PLUGIN_PROBE", "inproc|child|off"},
                               {"TENON_VERIFY", "0|1|strict"}};

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_limit(std::string_view name) {
  for (uint32_t i = 0; i < static_cast<uint32_t>(Limit::kCount); ++i) {
    if (limit_info(static_cast<Limit>(i)).variable == name) return true;
  }
  return false;
}

bool is_flag_value(std::string_view value) {
  for (std::string_view word : {"1", "true", "yes", "on", "0", "false", "no", "off"}) {
    if (equals_ignoring_case(value, word)) return true;
  }
  return false;
}

// "sim:1=4096,cpu=2g"
bool is_list_of_sizes(std::string_view text) {
  uint64_t number = 0;
  for (std::string_view entry : split(text, ',')) {
    const size_t equals = entry.find('=');
    if (trim(entry).empty()) continue;
    if (equals == std::string_view::npos || trim(entry.substr(0, equals)).empty() ||
        !parse_u64(trim(entry.substr(equals + 1)), &number))
      return false;
  }
  return true;
}

// What a value must be, or empty if it is that.
std::string_view wrong_value(std::string_view name, std::string_view value) {
  uint64_t number = 0;
  if ((is_limit(name) || name == "TENON_KERNEL_STAGES") && !parse_u64(value, &number))
    return "a number from 0";
  if ((name == "TENON_NUM_THREADS" || name == "TENON_VARIANTS_KEPT") &&
      (!parse_u64(value, &number) || number == 0))
    return "a number from 1";
  if (is_in(kFlags, name) && !is_flag_value(value)) return "0 or 1";
  if (is_in(kFolders, name) && value[0] != '/') return "an absolute path";
  if (name == "TENON_DEVICE_MEMORY_LIMIT" && !is_list_of_sizes(value))
    return "DEVICE=BYTES, with commas between several";
  for (const Choice& choice : kChoices) {
    const std::vector<std::string_view> values = split(choice.values, '|');
    if (choice.name == name && !is_in(values, value)) return choice.values;
  }
  return {};
}

bool is_variable_name(std::string_view name) {
  if (!name.starts_with("TENON_") || name.size() > kNameBytesMax) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

bool is_known_variable(std::string_view name) {
  const std::vector<VariableInfo> known = known_variables();
  return std::any_of(known.begin(), known.end(),
                     [&](const VariableInfo& info) { return info.name == name; });
}

Status check_setting(std::string_view name, std::string_view value) {
  if (!is_variable_name(name)) {
    return error(TENON_INVALID_ARGUMENT, "P0910",
                 "{} is not a setting: names are those of the variables, as in TENON_NUM_THREADS",
                 quoted(name));
  }
  if (value.size() > kValueBytesMax || value.find('\0') != std::string_view::npos) {
    return error(TENON_INVALID_ARGUMENT, "P0910",
                 "the value of {} is not a text of at most {} bytes", name, kValueBytesMax);
  }
  const std::string_view wanted = value.empty() ? std::string_view() : wrong_value(name, value);
  if (wanted.empty()) return {};
  return error(TENON_INVALID_ARGUMENT, "P0910", "the setting {} must be {}, and is {}", name,
               wanted, quoted(value));
}

Status check_environment(const Settings& settings) {
  for (const auto& [name, value] : variables_that_are_set()) {
    const std::string_view wanted =
        value.empty() || settings.contains(name) ? std::string_view() : wrong_value(name, value);
    if (wanted.empty()) continue;
    return error(TENON_INVALID_ARGUMENT, "P0910", "the variable {} must be {}, and is {}", name,
                 wanted, quoted(value));
  }
  return {};
}

void set_settings(Settings settings) {
  static std::mutex mutex;
  static auto* all =
      new std::vector<std::unique_ptr<const Settings>>;  // views of old ones may live
  {
    std::lock_guard lock(mutex);
    all->push_back(std::make_unique<const Settings>(std::move(settings)));
    g_settings.store(all->back().get(), std::memory_order_release);
  }
  set_logs(env("TENON_LOGS").value_or(""));
  read_limits();
}

const Settings& current_settings() {
  static const Settings none;
  const Settings* settings = g_settings.load(std::memory_order_acquire);
  return settings == nullptr ? none : *settings;
}

}  // namespace tenon
