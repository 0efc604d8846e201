#include "onednn_symbols.h"

#include <dlfcn.h>

#include <tenon/cpp/status.hpp>

namespace tenon::onednn {
namespace {

constexpr const char* kLibrary = "libdnnl.so.2";

// Kept for the process, as its objects are.
std::string open_library(Library* out) {
  void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return cat("oneDNN is not there (Debian: libdnnl2): ", dlerror());
#define TENON_ONEDNN_LOAD(name)                                            \
  out->name = reinterpret_cast<decltype(out->name)>(dlsym(handle, #name)); \
  if (out->name == nullptr)                                                \
    return cat(kLibrary, " has no " #name ": oneDNN 2.6 or later is needed");
  TENON_ONEDNN_FUNCTIONS(TENON_ONEDNN_LOAD)
#undef TENON_ONEDNN_LOAD
  const dnnl_version_t& version = *out->dnnl_version();
  if (version.cpu_runtime == DNNL_RUNTIME_OMP) {
    // Found through the library, so that it is the runtime that the library itself uses.
    out->omp_set_num_threads =
        reinterpret_cast<void (*)(int)>(dlsym(handle, "omp_set_num_threads"));
    out->omp_get_max_threads = reinterpret_cast<int (*)()>(dlsym(handle, "omp_get_max_threads"));
    if (out->omp_set_num_threads == nullptr || out->omp_get_max_threads == nullptr)
      return cat(kLibrary, " uses OpenMP, which cannot be told to use one thread");
  } else if (version.cpu_runtime != DNNL_RUNTIME_SEQ) {
    return cat(kLibrary, " has threads of its own, which would compete with the host's");
  }
  if (out->dnnl_engine_create(&out->engine, dnnl_cpu, 0) != dnnl_success)
    return cat(kLibrary, " has no engine for the processor");
  return "";
}

}  // namespace

const Library* library(std::string* why) {
  static Library loaded;
  static const std::string failure = open_library(&loaded);
  if (failure.empty()) return &loaded;
  *why = failure;
  return nullptr;
}

}  // namespace tenon::onednn
