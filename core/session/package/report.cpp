// What a package holds, as JSON.
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/session/package/package.h"

namespace tenon::session {
namespace {

using package::DimRef;
using package::ProgramRecord;

// Dims as text. Parts that are shared are written out each time, so long ones are cut.
class DimTexts {
 public:
  explicit DimTexts(const ProgramRecord& record) : p_(record) {
    for (const package::DimRecord& d : p_.dims) texts_.push_back(text_of(d));
  }
  std::string of(DimRef d) const {
    return d >= 0 ? std::to_string(d) : texts_[static_cast<size_t>(~d)];
  }

 private:
  static constexpr size_t kLongest = 200;
  std::string text_of(const package::DimRecord& d) const {
    if (d.op == TENON_DIM_CONSTANT) return std::to_string(d.a);
    if (d.op == TENON_DIM_SYMBOL) return p_.symbols[static_cast<size_t>(d.a)].name;
    const std::string a = of(d.a), b = of(d.b);
    std::string out;
    switch (d.op) {
      case TENON_DIM_ADD:
        out = a + " + " + b;
        break;
      case TENON_DIM_SUB:
        out = a + " - (" + b + ")";
        break;
      case TENON_DIM_MUL:
        out = "(" + a + ")*(" + b + ")";
        break;
      default:
        out = std::string(function(d.op)) + "(" + a + ", " + b + ")";
    }
    return out.size() <= kLongest ? out : out.substr(0, kLongest) + "...";
  }
  static std::string_view function(uint32_t op) {
    return op == TENON_DIM_FLOORDIV ? "floordiv"
           : op == TENON_DIM_MOD    ? "mod"
           : op == TENON_DIM_MIN    ? "min"
                                    : "max";
  }
  const ProgramRecord& p_;
  std::vector<std::string> texts_;
};

std::string ports(const std::vector<package::PortRecord>& from, const DimTexts& texts) {
  return json_list(from, [&](const package::PortRecord& port) {
    const auto dtype = static_cast<tenon_dtype_t>(port.dtype);
    return fmt::format("{{\"name\":{},\"type\":{},\"dims\":{}}}", json_quoted(port.name),
                       json_quoted(ir::dtype_name(dtype)),
                       json_list(port.dims, [&](DimRef d) { return json_quoted(texts.of(d)); }));
  });
}

std::string symbol(const package::SymbolRecord& s) {
  const std::string hi = s.hi == INT64_MAX ? "" : fmt::format(",\"hi\":{}", s.hi);
  return fmt::format("{{\"name\":{},\"lo\":{}{},\"multiple_of\":{}}}", json_quoted(s.name), s.lo,
                     hi, s.multiple_of);
}

std::string segment(const package::SegmentRecord& s, const ProgramRecord& p) {
  uint64_t constants = 0;
  for (uint32_t b : s.blobs) constants += p.blobs[b].size;
  return fmt::format(
      "{{\"device\":{},\"by\":{},\"code_bytes\":{},\"constants_bytes\":{},\"packed\":{}}}",
      json_quoted(p.devices[s.device].name), json_quoted(s.by), s.size, constants, s.packed);
}

std::string sections(const package::Extents& extents) {
  std::string out;
  for (size_t i = 0; i < package::kSections; ++i) {
    const auto kind = static_cast<package::Section>(i);
    out += fmt::format("{}{{\"kind\":{},\"offset\":{},\"size_bytes\":{},\"alignment\":{}}}",
                       i == 0 ? "" : ",", json_quoted(package::section_name(kind)),
                       extents[i].offset, extents[i].size, package::section_alignment(kind));
  }
  return "[" + out + "]";
}

}  // namespace

Result<std::string> describe_package(std::string_view path) {
  TENON_ASSIGN_OR_RETURN(const OpenPackage package, open_package(path, true));
  const ProgramRecord& p = package.record;
  const DimTexts texts(p);
  std::vector<package::SymbolRecord> of_inputs;
  for (uint32_t s : p.of_inputs) of_inputs.push_back(p.symbols[s]);
  const std::string plugins = json_list(p.plugins, [](const package::PluginRecord& plugin) {
    return fmt::format("{{\"name\":{},\"version\":{},\"sha256\":{}}}", json_quoted(plugin.name),
                       json_quoted(plugin.version), json_quoted(plugin.sha256));
  });
  const std::string devices = json_list(p.devices, [&](const package::DeviceRecord& device) {
    return fmt::format("{{\"device\":{},\"plugin\":{},\"target\":{}}}", json_quoted(device.name),
                       json_quoted(p.plugins[device.plugin].name), json_quoted(device.target));
  });
  return fmt::format(
      "{{\"schema\":1,\"format\":{},\"abi\":\"{}.{}\",\"size_bytes\":{},\n"
      "\"inputs\":{},\n\"outputs\":{},\n\"symbols\":{},\n\"plugins\":{},\n\"devices\":{},\n"
      "\"segments\":{},\n\"nodes\":{},\"steps\":{},\"copies\":{},\n\"sections\":{}}}\n",
      package::kVersion, p.abi >> 16, p.abi & 0xffff, package.bytes->bytes().size(),
      ports(p.inputs, texts), ports(p.outputs, texts), json_list(of_inputs, symbol), plugins,
      devices,
      json_list(p.segments, [&](const package::SegmentRecord& s) { return segment(s, p); }),
      p.node_count, p.steps.size(), p.copy_count, sections(package.extents));
}

}  // namespace tenon::session
