// Libraries as the operating system opens them: all that the loader of plugins needs of a platform.
// One file for each: platform_linux.cpp, platform_macos.cpp, platform_windows.cpp; the build takes
// the one for its target, and platform_posix.cpp for the first two. Libraries stay open for the
// life of the process.
//
// Threads: safe.
#pragma once
#include <string>
#include <string_view>

namespace tenon::host::platform {

// As manifests and `read_binary` say them.
std::string_view os_name();
std::string_view arch_name();

// The version of the C library that `platform.libc_min` of a manifest is compared with; empty where
// there is no such thing.
std::string_view libc_version();

struct Opened {
  void* library = nullptr;  // null: `why` is the system's reason
  std::string why;
};

// Opens a plugin's library (absolute path) with all its symbols bound now, and visible to no other
// library.
Opened open_plugin_library(const std::string& path);

// Opens a library that a plugin requires, by the name under which the system's loader finds it.
Opened open_named_library(const std::string& name);

// The address of an exported symbol; null if there is none.
void* find_symbol(void* library, const char* name);

// Whether an address that find_symbol returned is that of a function. path: of its library.
bool is_function(const std::string& path, const char* name, void* address);

// Where the system's loader would find a library of this name, judged by folders alone; empty if
// nowhere. Opens nothing.
std::string library_file(std::string_view name);

}  // namespace tenon::host::platform
