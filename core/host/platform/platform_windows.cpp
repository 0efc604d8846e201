// Windows: PE. Compiled with mingw's headers in the tests, and never yet run on Windows. The other
// rooms of core still need POSIX, so nothing of core is included here but this interface.
#include <windows.h>

#include "core/host/platform/platform.h"

namespace tenon::host::platform {
namespace {

std::wstring wide(std::string_view text) {
  const int size = static_cast<int>(text.size());
  const int count =
      ::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, nullptr, 0);
  std::wstring out(static_cast<size_t>(count), L'\0');
  ::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, out.data(), count);
  return out;
}

std::string narrow(const wchar_t* text, int size) {
  const int count = ::WideCharToMultiByte(CP_UTF8, 0, text, size, nullptr, 0, nullptr, nullptr);
  std::string out(static_cast<size_t>(count), '\0');
  ::WideCharToMultiByte(CP_UTF8, 0, text, size, out.data(), count, nullptr, nullptr);
  return out;
}

std::string reason(DWORD code) {
  wchar_t text[512];
  const DWORD size =
      ::FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, nullptr, code, 0,
                       text, static_cast<DWORD>(sizeof text / sizeof text[0]), nullptr);
  std::string out = narrow(text, static_cast<int>(size));
  while (!out.empty() && (out.back() == '\n' || out.back() == '\r' || out.back() == '.'))
    out.pop_back();
  return out.empty() ? "error " + std::to_string(code) : out;
}

// No window for a library that is missing, in this thread alone.
Opened open_library(const std::string& name, DWORD flags) {
  DWORD before = 0;
  ::SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &before);
  Opened opened;
  opened.library = ::LoadLibraryExW(wide(name).c_str(), nullptr, flags);
  if (opened.library == nullptr) opened.why = reason(::GetLastError());
  ::SetThreadErrorMode(before, nullptr);
  return opened;
}

}  // namespace

std::string_view os_name() {
  return "windows";
}

std::string_view arch_name() {
#if defined(__x86_64__) || defined(_M_X64)
  return "x86_64";
#elif defined(__aarch64__) || defined(_M_ARM64)
  return "aarch64";
#else
  return "unknown";
#endif
}

std::string_view libc_version() {
  return {};
}

// Searches the folder of the library and the system's folders, never the current one.
Opened open_plugin_library(const std::string& path) {
  return open_library(path, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

Opened open_named_library(const std::string& name) {
  return open_library(name, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

void* find_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(library), name));
}

bool is_function(const std::string&, const char*, void* address) {
  MEMORY_BASIC_INFORMATION page = {};
  if (::VirtualQuery(address, &page, sizeof page) == 0) return false;
  constexpr DWORD kExecutable =
      PAGE_EXECUTE | PAGE_EXECUTE_READ | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
  return (page.Protect & kExecutable) != 0;
}

std::string library_file(std::string_view name) {
  wchar_t path[MAX_PATH];
  const DWORD size = ::SearchPathW(nullptr, wide(name).c_str(), nullptr, MAX_PATH, path, nullptr);
  return size == 0 || size >= MAX_PATH ? std::string() : narrow(path, static_cast<int>(size));
}

}  // namespace tenon::host::platform
