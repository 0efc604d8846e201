// What the program set instead of the environment: values that env() returns ahead of it.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon {

// By the name of the variable. An empty value: as if the variable were unset.
using Settings = std::map<std::string, std::string, std::less<>>;

// P0910 unless `name` can be a variable of Tenon and, if core knows it, `value` suits it. Names
// that core does not know may be a plugin's.
Status check_setting(std::string_view name, std::string_view value);
// P0910 for a variable of the environment whose value core does not understand. Those in `settings`
// do not count, since they are not read.
Status check_environment(const Settings& settings);
// True if core reads this variable.
bool is_known_variable(std::string_view name);

// Replaces all settings, and reads again what was kept of the old ones (TENON_LOGS, limits). Called
// before the host starts. Threads: safe; what env() returned before stays readable.
void set_settings(Settings settings);
const Settings& current_settings();

}  // namespace tenon
