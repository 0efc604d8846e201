#include "ocloc.h"

#include <mutex>

#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"

namespace tenon::intel {
namespace {

// The two functions of libocloc. Sources, headers and outputs are parallel arrays.
using Invoke = int (*)(uint32_t argument_count, const char* arguments[], uint32_t source_count,
                       const uint8_t** sources, const uint64_t* source_bytes,
                       const char** source_names, uint32_t header_count, const uint8_t** headers,
                       const uint64_t* header_bytes, const char** header_names,
                       uint32_t* output_count, uint8_t*** outputs, uint64_t** output_bytes,
                       char*** output_names);
using FreeOutput = int (*)(uint32_t* output_count, uint8_t*** outputs, uint64_t** output_bytes,
                           char*** output_names);

struct Compiler {
  Invoke invoke = nullptr;
  FreeOutput free_output = nullptr;
  std::string identity;
};

std::string load(Compiler* out) {
  const ProcessGuard guard;
  const OpenedLibrary library = open_library({"libocloc.so", "libocloc.so.1"});
  if (library.missing)
    return "there is no libocloc.so, Intel's offline compiler; install it (in Debian it is part of "
           "intel-opencl-icd)";
  if (library.handle == nullptr) return library.why;
  if (!find_function(library.handle, "oclocInvoke", &out->invoke) ||
      !find_function(library.handle, "oclocFreeOutput", &out->free_output))
    return "libocloc.so has no oclocInvoke: it is too old";
  out->identity = cat("ocloc ", library_identity(library.handle));
  return "";
}

const Compiler* compiler(std::string* why) {
  return loaded_once<Compiler, load>(why);
}

// What the compiler gave; given back to it at the end.
struct Outputs {
  explicit Outputs(const Compiler& c) : compiler(c) {}
  ~Outputs() {
    if (bytes != nullptr) (void)compiler.free_output(&count, &bytes, &sizes, &names);
  }
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  std::string_view named(std::string_view end) const {
    for (uint32_t i = 0; i < count; ++i) {
      if (std::string_view(names[i]).ends_with(end))
        return {reinterpret_cast<const char*>(bytes[i]), sizes[i]};
    }
    return {};
  }

  const Compiler& compiler;
  uint32_t count = 0;
  uint8_t** bytes = nullptr;
  uint64_t* sizes = nullptr;
  char** names = nullptr;
};

}  // namespace

std::string_view compiler_identity() {
  std::string why;
  const Compiler* const c = compiler(&why);
  return c == nullptr ? std::string_view() : c->identity;
}

Status compile_native(std::string_view architecture, std::string_view text, std::string* out) {
  std::string why;
  const Compiler* const found = compiler(&why);
  if (found == nullptr) return fail(TENON_UNAVAILABLE, cat("intel: ", why));
  const Compiler& c = *found;
  static std::mutex one_at_a_time;  // it keeps state of its own
  const std::lock_guard lock(one_at_a_time);
  const ProcessGuard guard;
  const std::string device(architecture), source(text);
  const char* arguments[] = {
      "ocloc",        "compile",  "-q",
      "-file",        "text.cl",  "-device",
      device.c_str(), "-options", "-cl-std=CL2.0 -cl-fp32-correctly-rounded-divide-sqrt"};
  const auto* data = reinterpret_cast<const uint8_t*>(source.c_str());
  const uint64_t bytes = source.size() + 1;  // it expects the end of a string
  const char* name = "text.cl";
  Outputs made(c);
  const int code = c.invoke(std::size(arguments), arguments, 1, &data, &bytes, &name, 0, nullptr,
                            nullptr, nullptr, &made.count, &made.bytes, &made.sizes, &made.names);
  const std::string_view binary = made.named(".bin");
  if (code != 0 || binary.empty()) {
    const std::string_view words = made.named(".log");
    return fail(TENON_INVALID_ARGUMENT,
                cat("intel: ocloc does not compile the text for ", architecture, " (", code,
                    "): ", words.substr(0, 4000)));
  }
  out->assign(binary);
  return {};
}

}  // namespace tenon::intel
