// The launches of a program for viewers: tenon_compile_api_t::dump, "kernels".
#include <tenon/cpp/text.hpp>

#include "tenon/kernelgen/device/device_program.h"

namespace tenon::kernelgen {
namespace {

std::string list(const std::vector<uint32_t>& numbers) {
  std::string out = "[";
  for (uint32_t n : numbers) out += (out.size() == 1 ? "" : ",") + std::to_string(n);
  return out + "]";
}

std::string buffers_json(const DeviceProgram& program) {
  constexpr std::string_view kKinds[] = {"input", "output", "constant", "temp", "persistent"};
  const std::vector<bool> used = used_by_steps(program);
  std::string out;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const ProgramBuffer& b = program.buffers[i];
    const bool inside = b.kind == BufferKind::kTemp && !used[i];
    out += std::string(i == 0 ? "" : ",") + "{\"kind\":" +
           text::json_quoted(inside ? "inside" : kKinds[static_cast<size_t>(b.kind)]);
    if (b.bytes.extent_limit() == 0) out += ",\"bytes\":" + std::to_string(b.bytes.evaluate({}));
    out += "}";
  }
  return out;
}

std::string steps_json(const DeviceProgram& program, const std::vector<ProgramStep>& steps) {
  std::string out;
  for (const ProgramStep& step : steps) {
    std::vector<uint32_t> written;
    for (size_t i = 0; i < step.buffers.size() && i < step.written.size(); ++i) {
      if (step.written[i]) written.push_back(step.buffers[i]);
    }
    out += std::string(out.empty() ? "" : ",") +
           "{\"kernel\":" + text::json_quoted(program.kernels[step.kernel].entry) +
           ",\"name\":" + text::json_quoted(step.name) + ",\"nodes\":" + list(step.nodes) +
           ",\"buffers\":" + list(step.buffers) + ",\"written\":" + list(written) + "}";
  }
  return out;
}

}  // namespace

std::string kernels_json(const DeviceProgram& program) {
  return "{\"buffers\":[" + buffers_json(program) + "],\"load_steps\":[" +
         steps_json(program, program.load_steps) + "],\"steps\":[" +
         steps_json(program, program.steps) + "]}\n";
}

}  // namespace tenon::kernelgen
