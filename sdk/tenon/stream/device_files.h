// The device files of a machine's GPUs. What is missing or closed there explains a driver that does
// not start.
#ifndef TENON_STREAM_DEVICE_FILES_H_
#define TENON_STREAM_DEVICE_FILES_H_

#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "tenon/cpp/plugin.hpp"

namespace tenon::stream {

// The path of a device file: "/dev/kfd". The setting TENON_DEVICE_FILES names another folder, for
// tests, and for containers that mount devices elsewhere.
inline std::string device_file(std::string_view name) {
  const std::string_view folder = setting("TENON_DEVICE_FILES");
  return cat(folder.empty() ? "/dev" : folder, "/", name);
}
inline bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}
// Whether this user may not open it.
inline bool is_closed(const std::string& path) {
  return ::access(path.c_str(), R_OK | W_OK) != 0 && errno == EACCES;
}

}  // namespace tenon::stream
#endif
