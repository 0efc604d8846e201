#include "nvrtc.h"

#include <algorithm>
#include <iterator>

#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/kernelgen/print/nvrtc.h"

namespace tenon::cuda {
namespace {

using Result = int;
using ProgramHandle = struct _nvrtcProgram*;

enum : Result { kSuccess = 0, kOutOfMemory = 1, kCompilation = 6, kBuiltinFailure = 7 };

// X(name here, symbol, result, parameters). The last of them came with CUDA 11.2.
#define TENON_NVRTC_FUNCTIONS(X)                                                             \
  X(version, nvrtcVersion, Result, (int*, int*))                                             \
  X(error_string, nvrtcGetErrorString, const char*, (Result))                                \
  X(create, nvrtcCreateProgram, Result,                                                      \
    (ProgramHandle*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(destroy, nvrtcDestroyProgram, Result, (ProgramHandle*))                                  \
  X(compile, nvrtcCompileProgram, Result, (ProgramHandle, int, const char* const*))          \
  X(log_size, nvrtcGetProgramLogSize, Result, (ProgramHandle, size_t*))                      \
  X(log, nvrtcGetProgramLog, Result, (ProgramHandle, char*))                                 \
  X(ptx_size, nvrtcGetPTXSize, Result, (ProgramHandle, size_t*))                             \
  X(ptx, nvrtcGetPTX, Result, (ProgramHandle, char*))                                        \
  X(architecture_count, nvrtcGetNumSupportedArchs, Result, (int*))                           \
  X(architectures, nvrtcGetSupportedArchs, Result, (int*))

struct Library : Nvrtc {
#define TENON_NVRTC_SLOT(name, symbol, result, parameters) result(*name##_) parameters = nullptr;
  TENON_NVRTC_FUNCTIONS(TENON_NVRTC_SLOT)
#undef TENON_NVRTC_SLOT
};

// A product and a sum are rounded once where the text says so, and nowhere else.
constexpr const char* kOptions[] = {"--std=c++17", "--disable-warnings", "--fmad=false"};

std::string error_text(const Library& l, Result result) {
  const char* name = l.error_string_(result);
  return cat(name == nullptr ? std::string_view("an unknown error") : std::string_view(name), " (",
             result, ")");
}

std::string ask(Library* l) {
  int major = 0, minor = 0, count = 0;
  Result result = l->version_(&major, &minor);
  if (result == kSuccess) result = l->architecture_count_(&count);
  if (result == kSuccess && count > 0) {
    l->capabilities.resize(static_cast<size_t>(count));
    result = l->architectures_(l->capabilities.data());
  }
  if (result != kSuccess || l->capabilities.empty())
    return cat("NVRTC does not say what it compiles for: ", error_text(*l, result));
  l->version = major * 1000 + minor * 10;
  l->name = cat("NVRTC ", major, ".", minor);
  return "";
}

// Newest first.
constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};
constexpr size_t kReleases = std::size(kNames);
constexpr const char* kMissing =
    "NVRTC is not there: install CUDA's libnvrtc.so.13, 12 or 11.2, or add its folder to "
    "LD_LIBRARY_PATH (pip's nvidia-cuda-nvrtc has it in site-packages/nvidia)";

template <size_t kRelease>
std::string load(Library* l) {
  const ProcessGuard guard;
  const OpenedLibrary opened = open_library({kNames[kRelease]});
  if (opened.handle == nullptr) return opened.missing ? kMissing : opened.why;
#define TENON_NVRTC_REQUIRE(name, symbol, result, parameters) \
  if (!find_function(opened.handle, #symbol, &l->name##_))    \
    return "libnvrtc has no " #symbol ": that of CUDA 11.2 is the oldest that works";
  TENON_NVRTC_FUNCTIONS(TENON_NVRTC_REQUIRE)
#undef TENON_NVRTC_REQUIRE
  std::string why = ask(l);
  l->identity = cat(l->name, " ", library_identity(opened.handle));
  for (const char* option : kOptions) l->identity += cat(" ", option);
  return why;
}

template <size_t kRelease>
const Library* library(std::string* why) {
  return loaded_once<Library, load<kRelease>>(why);
}
constexpr const Library* (*kLibraries[])(std::string*) = {library<0>, library<1>, library<2>};
static_assert(std::size(kLibraries) == kReleases);

class Program {
 public:
  explicit Program(const Library& l) : l_(l) {}
  ~Program() {
    if (handle_ != nullptr) (void)l_.destroy_(&handle_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Status compile(std::string_view architecture, std::string_view text, std::string* out) {
    const std::string source(text);
    TENON_TRY(check(l_.create_(&handle_, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
                    "making a program"));
    constexpr std::string_view kReal = "sm_";
    const std::string target =
        cat("--gpu-architecture=compute_", architecture.substr(kReal.size()));
    std::vector<const char*> options = {target.c_str()};
    options.insert(options.end(), std::begin(kOptions), std::end(kOptions));
    const Result result = l_.compile_(handle_, static_cast<int>(options.size()), options.data());
    if (result != kSuccess) return refused(result, architecture);
    size_t bytes = 0;
    TENON_TRY(check(l_.ptx_size_(handle_, &bytes), "asking for PTX"));
    out->assign(bytes, '\0');
    TENON_TRY(check(l_.ptx_(handle_, out->data()), "asking for PTX"));
    out->resize(std::min(out->find('\0'), out->size()));
    return {};
  }

 private:
  Status check(Result result, std::string_view doing) const {
    if (result == kSuccess) return {};
    return fail(result == kOutOfMemory ? TENON_RESOURCE_EXHAUSTED : TENON_INTERNAL,
                cat("cuda: ", l_.name, ": ", doing, ": ", error_text(l_, result)));
  }

  std::string words() const {
    size_t bytes = 0;
    if (l_.log_size_(handle_, &bytes) != kSuccess || bytes == 0) return {};
    std::string log(bytes, '\0');
    if (l_.log_(handle_, log.data()) != kSuccess) return {};
    constexpr size_t kMost = 4000;
    return log.substr(0, std::min(log.find('\0'), kMost));
  }

  Status refused(Result result, std::string_view architecture) const {
    if (result == kBuiltinFailure)
      return fail(TENON_UNAVAILABLE, cat("cuda: ", l_.name,
                                         " does not find libnvrtc-builtins, which belongs next to "
                                         "its libnvrtc: ",
                                         error_text(l_, result)));
    return fail(result == kOutOfMemory ? TENON_RESOURCE_EXHAUSTED : TENON_INVALID_ARGUMENT,
                cat("cuda: ", l_.name, " does not compile the text for ", architecture, ": ",
                    error_text(l_, result), ": ", words()));
  }

  const Library& l_;
  ProgramHandle handle_ = nullptr;
};

}  // namespace

bool Nvrtc::knows(int capability) const {
  return std::find(capabilities.begin(), capabilities.end(), capability) != capabilities.end();
}

std::string Nvrtc::unknown(std::string_view target) const {
  std::string all;
  for (int c : capabilities) all += cat(all.empty() ? "sm_" : ", sm_", c);
  return cat(name, " compiles for ", all, ", not for ", quoted(target));
}

const Nvrtc* nvrtc(int capability, int driver_version, std::string* why) {
  const Nvrtc *newest = nullptr, *oldest_that_knows = nullptr;
  *why = kMissing;
  for (const auto library_of : kLibraries) {
    std::string not_this;
    const Nvrtc* const here = library_of(&not_this);
    if (here == nullptr) {
      if (*why == kMissing) *why = not_this;  // a damaged one is reported before a missing one
      continue;
    }
    if (newest == nullptr) newest = here;
    if (capability != 0 && !here->knows(capability)) continue;
    if (driver_version == 0 || here->version <= driver_version) return here;
    oldest_that_knows = here;
  }
  return oldest_that_knows != nullptr ? oldest_that_knows : newest;
}

Status compile_by_nvrtc(const Nvrtc& compiler, std::string_view architecture, std::string_view text,
                        std::string* out) {
  const auto& l = static_cast<const Library&>(compiler);
  const ProcessGuard guard;  // one at a time, and its threads get no signals
  return Program(l).compile(architecture, cat(kernelgen::kNvrtcWords, text), out);
}

}  // namespace tenon::cuda
