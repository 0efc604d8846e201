#include "module.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "tenon/cpp/status.hpp"

namespace tenon::cpu {

// A path of the file that was never used before: the loader identifies libraries by the text of
// their path, and the number of a closed file is reused. The count is encoded in the path as "./"
// and ".//".
static std::string unique_path(int fd) {
  static std::atomic<uint64_t> opened{0};
  std::string path = "/proc/self/fd/";
  for (uint64_t count = opened.fetch_add(1) + 1; count != 0; count >>= 1) {
    path += (count & 1) != 0 ? ".//" : "./";
  }
  return cat(path, fd);
}

std::unique_ptr<Module> Module::open(std::string_view bytes, std::string& why) {
  // A file in memory: needs no disk and no folder without noexec, and debuggers still see a mapped
  // library.
  const int fd = memfd_create("tenon-kernels", MFD_CLOEXEC);
  if (fd < 0) {
    why = cat("cannot create a file in memory for generated code: ", strerror(errno));
    return nullptr;
  }
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t n = write(fd, rest.data(), rest.size());
    if (n <= 0) {
      why = "there is not enough memory for generated code";
      close(fd);
      return nullptr;
    }
    rest.remove_prefix(static_cast<size_t>(n));
  }
  const std::string path = unique_path(fd);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    why = reason ? reason : "the loader gave no reason";
    close(fd);
    return nullptr;
  }
  close(fd);  // The mapping stays. Large models would otherwise run out of descriptors.
  return std::unique_ptr<Module>(new Module(handle));
}

Module::~Module() {
  dlclose(handle_);
}

void* Module::symbol(const std::string& name) const {
  return dlsym(handle_, name.c_str());
}

}  // namespace tenon::cpu
