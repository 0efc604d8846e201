#include "toolchain/compiler_client.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "tenon/cpp/status.hpp"
#include "toolchain/compiler_process.h"

namespace tenon::cpu {
namespace {

std::atomic<bool> opened{false};

struct Library {
  const tenon_clang_t* table = nullptr;
  std::string why;
};

Library open_library() {
  const std::string path = library_folder() + "/libtenon-clang.so";
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char* reason = dlerror();
    return {nullptr, cat("The compiler library cannot be opened: ", reason ? reason : path,
                         ". Install it (of wheels: pip install tenon-codegen), or disable the cpu "
                         "plugin (TENON_PLUGINS_DISABLE=cpu).")};
  }
  opened = true;
  auto query = reinterpret_cast<tenon_clang_query_fn>(dlsym(handle, TENON_CLANG_QUERY_NAME));
  const tenon_clang_t* table = query ? query(TENON_CLANG_ABI) : nullptr;
  if (!table) {
    return {nullptr, cat("The compiler library ", path, " is of another version than the plugin.")};
  }
  return {table, {}};
}

const Library& library() {
  static const Library instance = open_library();
  return instance;
}

constexpr std::string_view kOlder = "libtenon-clang.so is older than this plugin, build it again: ";

tenon_clang_str_t clang_str(std::string_view text) {
  return {text.data(), text.size()};
}

void append(void* context, const char* data, uint64_t size) {
  static_cast<std::string*>(context)->append(data, size);
}

}  // namespace

const std::string& library_folder() {
#ifdef TENON_CPU_FOLDER  // Unit tests do not run as a plugin in a folder.
  static const std::string folder = TENON_CPU_FOLDER;
#else
  static const std::string folder = [] {
    Dl_info info;
    std::string path;
    if (dladdr(reinterpret_cast<const void*>(&library_folder), &info) && info.dli_fname) {
      path = info.dli_fname;
    }
    for (int up = 0; up < 2; ++up) {  // The plugin is in FOLDER/plugins.d/cpu.so.
      const size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
    return path.empty() ? std::string("..") : path;
  }();
#endif
  return folder;
}

bool compiler_was_opened() {
  return opened;
}

BuildResult build_unit(const BuildRequest& request) {
  if (request.isolated) {
    return build_in_process_of_its_own(library_folder(), request);
  }
  BuildResult result;
  const Library& clang = library();
  if (!clang.table) {
    return {TENON_UNAVAILABLE, {}, clang.why};
  }
  auto options = sized<tenon_clang_options_t>();
  options.dialect = request.dialect;
  options.opt_level = request.opt_level;
  options.output = request.output;
  const GpuArchitecture* gpu = request.gpu;
  options.cpu = clang_str(gpu ? gpu->name : clang_cpu(request.isa));
  options.features = clang_str(gpu ? gpu->features : clang_features(request.isa));
  options.machine = clang_machine(gpu ? detected_isa() : request.isa);
  const int32_t code = clang.table->build(clang_str(request.text), &options, &append, &result.bytes,
                                          &append, &result.messages);
  result.code = code == TENON_CLANG_OK ? TENON_OK : TENON_INVALID_ARGUMENT;
  if (code == TENON_CLANG_BAD_ARGUMENT) {
    result.code = TENON_FAILED_PRECONDITION;
    result.messages = cat(kOlder, result.messages);
  }
  return result;
}

BuildResult link_units(std::span<const std::string> objects) {
  BuildResult result;
  const Library& clang = library();
  if (!clang.table) {
    return {TENON_UNAVAILABLE, {}, clang.why};
  }
  std::vector<tenon_clang_str_t> spans;
  for (const std::string& object : objects) {
    spans.push_back(clang_str(object));
  }
  const int32_t code = clang.table->link(spans.data(), spans.size(), &append, &result.bytes,
                                         &append, &result.messages);
  if (code != TENON_CLANG_OK) {
    result.code = code == TENON_CLANG_BAD_ARGUMENT ? TENON_RESOURCE_EXHAUSTED : TENON_INTERNAL;
  }
  return result;
}

BuildResult link_code_object(const std::string& object) {
  BuildResult result;
  const Library& clang = library();
  if (!clang.table) return {TENON_UNAVAILABLE, {}, clang.why};
  const size_t has_slot = offsetof(tenon_clang_t, link_code_object) + sizeof(void*);
  if (clang.table->size_bytes < has_slot)
    return {TENON_FAILED_PRECONDITION, {}, cat(kOlder, "it does not link code objects")};
  const int32_t code = clang.table->link_code_object(clang_str(object), &append, &result.bytes,
                                                     &append, &result.messages);
  if (code != TENON_CLANG_OK)
    result.code = code == TENON_CLANG_BAD_ARGUMENT ? TENON_RESOURCE_EXHAUSTED : TENON_INTERNAL;
  return result;
}

}  // namespace tenon::cpu
