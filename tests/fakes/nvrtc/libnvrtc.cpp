// NVRTC's functions, as far as plugins/cuda calls them. clang makes the PTX, under the names that
// NVRTC would give it. What NVRTC would let pass is an error here: unknown options, programs that
// are used when they are gone, and those that are left at the end.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/cuda/text.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum : int {
  kSuccess = 0,
  kOutOfMemory = 1,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kInvalidOption = 5,
  kCompilation = 6,
};

struct Program {
  std::string text, ptx, log;
};
std::mutex mutex;
std::set<Program*> programs;

struct Leaks {
  ~Leaks() {
    if (!programs.empty())
      std::fprintf(stderr, "fake nvrtc: %zu programs are left\n", programs.size());
  }
} leaks;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}
// That of libnvrtc.so.13 is 13.0; the other is 12.9 unless FAKE_NVRTC_VERSION says otherwise.
std::string own_version() {
  return FAKE_NVRTC_MAJOR == 13 ? "13.0" : variable("FAKE_NVRTC_VERSION", "12.9");
}
void version(int* major, int* minor) {
  std::sscanf(own_version().c_str(), "%d.%d", major, minor);
}
std::vector<int> architectures() {
  if (FAKE_NVRTC_MAJOR == 13) return {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
  return {75, 80, 86, 87, 89, 90, 100, 103, 120, 121};
}

// FAKE_NVRTC_FAIL=NAME:CODE
int wanted(std::string_view name) {
  const std::string fail = variable("FAKE_NVRTC_FAIL", "");
  const size_t colon = fail.find(':');
  return colon != std::string::npos && fail.substr(0, colon) == name
             ? std::atoi(fail.c_str() + colon + 1)
             : kSuccess;
}

Program* find(void* handle) {
  auto* program = static_cast<Program*>(handle);
  const std::lock_guard lock(mutex);
  return programs.contains(program) ? program : nullptr;
}

int give(const std::string& text, char* out) {
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

void rename(std::string* ptx, std::string_view word, const std::string& value) {
  const size_t at = ptx->find(word);
  if (at == std::string::npos) return;
  const size_t begin = at + word.size();
  ptx->replace(begin, ptx->find('\n', begin) - begin, value);
}

int compile(Program& p, const std::vector<std::string_view>& options) {
  constexpr std::string_view kVirtual = "--gpu-architecture=compute_";
  std::string architecture, contract = "fast";
  for (const std::string_view option : options) {
    if (option.starts_with(kVirtual)) {
      architecture = option.substr(kVirtual.size());
    } else if (option == "--fmad=false") {
      contract = "off";
    } else if (option != "--std=c++17" && option != "--disable-warnings") {
      p.log = "nvrtc: error: unrecognized option " + std::string(option);
      return kInvalidOption;
    }
  }
  const auto all = architectures();
  if (std::find(all.begin(), all.end(), std::atoi(architecture.c_str())) == all.end()) {
    p.log = "nvrtc: error: invalid value for --gpu-architecture (-arch)";
    return kInvalidOption;
  }
  int major = 0, minor = 0;
  version(&major, &minor);
  const bool done = fake_cuda::to_ptx(
      p.text,
      {"-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib",
       "-std=c++17", "-Wno-unknown-cuda-version", "-D__CUDACC_VER_MAJOR__=" + std::to_string(major),
       "-ffp-contract=" + contract, "-include", FAKE_NVRTC_AS_CLANG},
      &p.ptx, &p.log);
  if (!done) return kCompilation;
  rename(&p.ptx, ".target ", "sm_" + architecture);
  // PTX 8.7 and 8.8 came with CUDA 12.8 and 12.9; the tests' driver counts from 8.0 with 12.0.
  rename(&p.ptx, ".version ", std::to_string(major - 4) + "." + std::to_string(minor));
  p.ptx = "// by the tests' NVRTC " + own_version() + "\n" + p.ptx;
  return kSuccess;
}

}  // namespace

EXPORT int nvrtcVersion(int* major, int* minor) {
  version(major, minor);
  return wanted(__func__);
}
EXPORT const char* nvrtcGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "NVRTC_SUCCESS";
    case kOutOfMemory:
      return "NVRTC_ERROR_OUT_OF_MEMORY";
    case kInvalidInput:
      return "NVRTC_ERROR_INVALID_INPUT";
    case kInvalidProgram:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case kInvalidOption:
      return "NVRTC_ERROR_INVALID_OPTION";
    case kCompilation:
      return "NVRTC_ERROR_COMPILATION";
    case 7:
      return "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    default:
      return "NVRTC_ERROR unknown";
  }
}
EXPORT int nvrtcGetNumSupportedArchs(int* out) {
  *out = static_cast<int>(architectures().size());
  return wanted(__func__);
}
EXPORT int nvrtcGetSupportedArchs(int* out) {
  for (const int a : architectures()) *out++ = a;
  return wanted(__func__);
}
EXPORT int nvrtcCreateProgram(void** out, const char* text, const char*, int headers,
                              const char* const*, const char* const*) {
  if (const int code = wanted(__func__); code != kSuccess) return code;
  if (text == nullptr || headers != 0) return kInvalidInput;
  auto* made = new Program{text, "", ""};
  const std::lock_guard lock(mutex);
  programs.insert(made);
  *out = made;
  return kSuccess;
}
EXPORT int nvrtcDestroyProgram(void** handle) {
  Program* const program = find(*handle);
  if (program == nullptr) return kInvalidProgram;
  const std::lock_guard lock(mutex);
  programs.erase(program);
  delete program;
  *handle = nullptr;
  return kSuccess;
}
EXPORT int nvrtcCompileProgram(void* handle, int count, const char* const* options) {
  Program* const program = find(handle);
  if (program == nullptr) return kInvalidProgram;
  if (const int code = wanted(__func__); code != kSuccess) {
    program->log = "kernel(1): error: a text of the tests' NVRTC";
    return code;
  }
  return compile(*program, {options, options + count});
}
EXPORT int nvrtcGetProgramLogSize(void* handle, size_t* out) {
  Program* const program = find(handle);
  if (program == nullptr) return kInvalidProgram;
  *out = program->log.size() + 1;
  return wanted(__func__);
}
EXPORT int nvrtcGetProgramLog(void* handle, char* out) {
  Program* const program = find(handle);
  return program == nullptr ? static_cast<int>(kInvalidProgram) : give(program->log, out);
}
EXPORT int nvrtcGetPTXSize(void* handle, size_t* out) {
  Program* const program = find(handle);
  if (program == nullptr) return kInvalidProgram;
  *out = program->ptx.size() + 1;
  return wanted(__func__);
}
EXPORT int nvrtcGetPTX(void* handle, char* out) {
  Program* const program = find(handle);
  if (program == nullptr) return kInvalidProgram;
  if (const int code = wanted(__func__); code != kSuccess) return code;
  return give(program->ptx, out);
}
