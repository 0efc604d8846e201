#include "plugins/sim/kernels/kernel_module.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>

#include "plugins/sim/kernels/group.h"
#include "plugins/sim/kernels/watch.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

constexpr uint64_t kLocalAlignment = 128;

struct FreeMemory {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

Memory local_memory(uint64_t size_bytes) {
  const uint64_t rounded = (size_bytes / kLocalAlignment + 1) * kLocalAlignment;
  Memory memory(size_bytes > (uint64_t{1} << 40) ? nullptr
                                                 : std::aligned_alloc(kLocalAlignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void add_variable(void* context, const char* name, void* address, uint64_t size_bytes,
                  uint32_t local) {
  WatchedRange range;
  range.name = cat(local != 0 ? "local `" : "`", name, "`");
  range.begin = address;
  range.size_bytes = size_bytes;
  range.place = reinterpret_cast<uint64_t>(address);
  range.local = local != 0;
  static_cast<std::vector<WatchedRange>*>(context)->push_back(std::move(range));
}

Status append_text(const std::string& file, const std::string& text) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::ofstream out(file, std::ios::app);
  out << text;
  if (out.flush()) return {};
  return fail(TENON_INVALID_ARGUMENT,
              cat("sim: TENON_SIM_TRAFFIC: cannot write to ", tenon::quoted(file)));
}

// Sets a variable of a module. The toolchain may return the same module twice for the same code,
// and then it may be running: a variable that already has the value is not written.
void give(void* variable, const void* value, size_t size_bytes) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (std::memcmp(variable, value, size_bytes) != 0) std::memcpy(variable, value, size_bytes);
}

}  // namespace

KernelModule::~KernelModule() {
  if (module_ != nullptr) toolchain_->release(toolchain_->self, module_);
}

Status KernelModule::build(const tenon_toolchain_api_t& toolchain, std::string_view text,
                           bool watched, std::string* code) {
  return build_unit(toolchain, TENON_DIALECT_OPENCL_C, cat(kDialectPrelude, text), watched, code);
}

Status KernelModule::build_unit(const tenon_toolchain_api_t& toolchain, std::string_view dialect,
                                std::string_view unit, bool watched, std::string* code) {
  const tenon_key_value_t watch{str(TENON_TOOLCHAIN_WATCH), str("1")};
  auto options = sized<tenon_toolchain_options_t>();
  options.optimise = 1;
  options.options = &watch;
  options.option_count = watched ? 1 : 0;
  std::string diagnostics;
  const tenon_sink_t object = sink_to(code), notes = sink_to(&diagnostics);
  // The toolchain builds for the machine that plays the device.
  return toolchain.build(toolchain.self, str(""), str(dialect), str(unit), &options, &object,
                         &notes);
}

Status KernelModule::load(const tenon_toolchain_api_t& toolchain, std::string_view code) {
  toolchain_ = &toolchain;
  TENON_TRY(toolchain.load(toolchain.self, code.data(), code.size(), &module_));
  void* address = nullptr;
  TENON_TRY(toolchain.symbol(toolchain.self, module_, str(kHooksName), &address));
  give(address, kHooks, sizeof kHooks);
  if (toolchain.symbol(toolchain.self, module_, str("tenon_opencl_access"), &address) != TENON_OK)
    return {};
  watched_ = true;
  const tenon_opencl_access_t access = watch_access;
  give(address, &access, sizeof access);
  TENON_TRY(toolchain.symbol(toolchain.self, module_, str("tenon_opencl_variables"), &address));
  variables_ = reinterpret_cast<tenon_opencl_variables_t>(address);
  return {};
}

Status KernelModule::find(std::string_view kernel, tenon_opencl_run_t* out) const {
  void* address = nullptr;
  TENON_TRY(toolchain_->symbol(toolchain_->self, module_, str(cat(kernel, "__run")), &address));
  *out = reinterpret_cast<tenon_opencl_run_t>(address);
  return {};
}

Status KernelModule::run(const Launch& launch) const {
  std::vector<void*> args;
  std::vector<Memory> locals;
  std::vector<WatchedRange> ranges;
  for (const KernelArg& arg : launch.args) {
    void* data = arg.data;
    if (arg.kind == KernelArg::Kind::kLocal) {
      locals.push_back(local_memory(arg.size_bytes));
      data = locals.back().get();
    }
    args.push_back(data);
    if (!watched_ || arg.kind == KernelArg::Kind::kValue) continue;
    const bool local = arg.kind == KernelArg::Kind::kLocal;
    ranges.push_back({arg.name, data, arg.size_bytes,
                      local ? reinterpret_cast<uint64_t>(data) : arg.place, arg.element_bytes,
                      arg.written || local, local});
  }
  std::unique_ptr<Watch> watch;
  if (watched_) {
    variables_(add_variable, &ranges);
    watch = std::make_unique<Watch>(std::move(ranges),
                                    launch.local[0] * launch.local[1] * launch.local[2]);
  }
  const std::string file(watch == nullptr ? "" : setting("TENON_SIM_TRAFFIC"));
  if (!file.empty()) watch->count_traffic();
  TENON_TRY(GroupRunner(launch, std::move(args), watch.get()).run());
  return file.empty() ? Status() : append_text(file, watch->traffic(launch.title));
}

}  // namespace tenon::sim
