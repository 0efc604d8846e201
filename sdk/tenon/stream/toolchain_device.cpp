#include "tenon/stream/toolchain_device.h"

#include "tenon/abi/host.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::stream {
namespace {

Status toolchain(std::string_view device, std::string_view dialect,
                 const tenon_toolchain_api_t** out) {
  const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  if (registry == nullptr)
    return fail(TENON_FAILED_PRECONDITION, cat(device, ": this host has no registry"));
  return registry->plugin_interface(registry->self, str("toolchain"), str(dialect),
                                    str(TENON_TOOLCHAIN_ID), reinterpret_cast<const void**>(out));
}

}  // namespace

std::string_view ToolchainDevice::compiler(std::string_view) const {
  const tenon_toolchain_api_t* tools = nullptr;
  if (!toolchain(name(), dialect_, &tools).ok()) return {};
  return view(tools->version);
}

Status ToolchainDevice::check_target(std::string_view text) const {
  std::string full;
  return full_target(text, &full);
}

Status ToolchainDevice::compile(std::string_view target, std::string_view text,
                                std::string* out_binary) const {
  std::string full, diagnostics;
  TENON_TRY(full_target(target, &full));
  const tenon_toolchain_api_t* tools = nullptr;
  TENON_TRY(toolchain(name(), dialect_, &tools));
  auto options = sized<tenon_toolchain_options_t>();
  options.optimise = 3;
  const tenon_sink_t object = sink_to(out_binary), notes = sink_to(&diagnostics);
  return tools->build(tools->self, str(full), str(dialect_), str(text), &options, &object, &notes);
}

}  // namespace tenon::stream
