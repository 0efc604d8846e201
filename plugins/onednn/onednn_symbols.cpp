#include "onednn_symbols.h"

#include <tenon/cpp/library.hpp>

namespace tenon::onednn {
namespace {

constexpr const char* kLibrary = "libdnnl.so.2";

std::string load(Library* out) {
  const OpenedLibrary opened = open_library({kLibrary});
  void* const handle = opened.handle;
  if (handle == nullptr)
    return cat("oneDNN is not there (Debian: libdnnl2): ",
               opened.missing ? cat("there is no ", kLibrary) : opened.why);
#define TENON_ONEDNN_LOAD(name)                  \
  if (!find_function(handle, #name, &out->name)) \
    return cat(kLibrary, " has no " #name ": oneDNN 2.6 or later is needed");
  TENON_ONEDNN_FUNCTIONS(TENON_ONEDNN_LOAD)
#undef TENON_ONEDNN_LOAD
  const dnnl_version_t& version = *out->dnnl_version();
  if (version.cpu_runtime == DNNL_RUNTIME_OMP) {
    // Found through the library, so that it is the runtime that the library itself uses.
    if (!find_function(handle, "omp_set_num_threads", &out->omp_set_num_threads) ||
        !find_function(handle, "omp_get_max_threads", &out->omp_get_max_threads))
      return cat(kLibrary, " uses OpenMP, which cannot be limited to one thread");
  } else if (version.cpu_runtime != DNNL_RUNTIME_SEQ) {
    return cat(kLibrary, " has threads of its own, which would compete with the host's");
  }
  if (out->dnnl_engine_create(&out->engine, dnnl_cpu, 0) != dnnl_success)
    return cat(kLibrary, " has no engine for the processor");
  return "";
}

}  // namespace

const Library* library(std::string* why) {
  return loaded_once<Library, load>(why);
}

}  // namespace tenon::onednn
