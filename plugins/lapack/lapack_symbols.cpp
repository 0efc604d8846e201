#include "lapack_symbols.h"

#include <dlfcn.h>

#include <tenon/cpp/library.hpp>

namespace tenon::lapack {
namespace {

// liblapack.so.3 has no BLAS of its own, but is linked with one, which dlsym finds through it.
constexpr const char* kLibraries[] = {"libopenblas.so.0", "liblapack.so.3"};

template <class T>
void load_type(void* handle, const std::string& letter, Functions<T>* f, std::string* missing) {
  const auto get = [&](const char* name, auto* out) {
    const std::string symbol = letter + name + "_";
    if (!find_function(handle, symbol.c_str(), out) && missing->empty()) *missing = symbol;
  };
  get("potrf", &f->potrf);
  get("trsm", &f->trsm);
  get("getrf", &f->getrf);
  get("geqrf", &f->geqrf);
  if constexpr (kIsComplex<T>) {
    get("ungqr", &f->form_q);
    get("heevd", &f->heevd);
    get("gesdd", &f->gesdd_complex);
    get("geev", &f->geev_complex);
  } else {
    get("orgqr", &f->form_q);
    get("syevd", &f->syevd);
    get("gesdd", &f->gesdd);
    get("geev", &f->geev);
  }
}

// Threads of its own would compete with the host's. A library that the program has loaded already
// is the program's to set.
void use_one_thread(void* handle) {
  void (*set_threads)(int) = nullptr;
  if (find_function(handle, "openblas_set_num_threads", &set_threads)) set_threads(1);
}

std::string load(Library* out) {
  std::string why;
  for (const char* name : kLibraries) {
    const bool in_use = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
    const OpenedLibrary opened = open_library({name});
    void* const handle = opened.handle;
    if (handle == nullptr) {
      if (why.empty())
        why = cat("LAPACK is not there (Debian: libopenblas0 or liblapack3): ",
                  opened.missing ? cat("there is no ", name) : opened.why);
      continue;
    }
    std::string missing;
    load_type(handle, "s", &out->s, &missing);
    load_type(handle, "d", &out->d, &missing);
    load_type(handle, "c", &out->c, &missing);
    load_type(handle, "z", &out->z, &missing);
    if (!missing.empty()) {
      why = cat(name, " has no ", missing);
      continue;
    }
    if (!in_use) use_one_thread(handle);
    return "";
  }
  return why;
}

}  // namespace

const Library* library(std::string* why) {
  return loaded_once<Library, load>(why);
}

}  // namespace tenon::lapack
