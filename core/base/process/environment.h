// Safe access to the environment: a privileged process (AT_SECURE) ignores variables, and every
// variable that core/ reads is in one list.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/process/settings.h"

namespace tenon {

struct VariableInfo {
  std::string_view name, what;
};

// True if the process runs with more rights than its user (setuid, setgid, capabilities).
bool is_privileged_process();

// The program's setting of this name (settings.h), else the value of the variable. Nothing if it is
// unset or empty; a privileged process ignores variables. The view is good until the environment
// changes. Threads: safe while no thread changes the environment.
std::optional<std::string_view> env(std::string_view name);

// True for 1, true, yes, on; false for 0, false, no, off and for other text (which warns once).
bool env_flag(std::string_view name, bool otherwise);

// The known variables, limits included, in the order of the tables.
std::vector<VariableInfo> known_variables();

// The TENON_* variables that env() reads from the environment now, with their values.
Settings variables_that_are_set();

// The TENON_* variables that are set but in no list (`more` holds those that plugins declare).
std::vector<std::string> unknown_variables(std::span<const std::string> more);

// Warns, once per process, of each of unknown_variables(more), with did-you-mean. Call it once
// plugins are known.
void warn_unknown_variables(std::span<const std::string> more);

}  // namespace tenon
