// What Linux and macOS share: dlopen and its kin.
#include <dlfcn.h>

#include "core/host/platform/platform.h"

namespace tenon::host::platform {
namespace {

Opened open_library(const std::string& name, int flags) {
  Opened opened;
  opened.library = ::dlopen(name.c_str(), flags);
  if (opened.library != nullptr) return opened;
  const char* why = ::dlerror();
  opened.why = why == nullptr ? "no reason given" : why;
  return opened;
}

}  // namespace

std::string_view arch_name() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

Opened open_plugin_library(const std::string& path) {
  return open_library(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

Opened open_named_library(const std::string& name) {
  return open_library(name, RTLD_LAZY | RTLD_LOCAL);
}

void* find_symbol(void* library, const char* name) {
  return ::dlsym(library, name);
}

}  // namespace tenon::host::platform
