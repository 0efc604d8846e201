// The options with which a program opens the host (tenon_host_options_t): given once, and compared
// when the host is opened again.
#pragma once
#include <string>
#include <vector>

#include <tenon/abi/session.h>

#include "core/base/errors/status.h"
#include "core/base/file.h"
#include "core/base/process/settings.h"

namespace tenon::session {

struct HostOptions {
  bool only_plugin_paths = false;
  std::vector<std::string> plugin_paths;
  std::vector<FileIdentity> plugin_files;  // which files or folders these were
  Settings settings;
  Settings environment;  // the variables when the host was started
  void* log_self = nullptr;
  void (*log)(void*, uint32_t, tenon_str_t, tenon_str_t) = nullptr;
};

// Copies a record; null gives none. P0910 for what is malformed, missing or unsuitable.
Result<HostOptions> read_host_options(const tenon_host_options_t* options);

// P0911 with what `wanted` asks for and `open` does not have.
Status check_same_options(const HostOptions& wanted, const HostOptions& open);

// Puts settings and the sink in force, for the whole process. `options` lives as long as they are.
void apply_host_options(const HostOptions& options);

}  // namespace tenon::session
