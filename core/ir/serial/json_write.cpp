// Graphs as JSON for viewers (TENON_FORMAT_JSON). Bounded by the graph: constants are left out.
#include "core/base/checked.h"
#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/ir/serial/serial.h"

namespace tenon::ir {
namespace {

class JsonWriter {
 public:
  explicit JsonWriter(const Graph& graph) : g_(graph) {}

  Result<std::string> run() {
    const RegionData& main = g_.region(g_.main());
    out_ = fmt::format("{{\"schema\":1,\"name\":{},\"inputs\":", json_quoted(g_.name()));
    values(main.arguments);
    out_ += ",\"outputs\":[";
    for (size_t i = 0; i < main.yields.size(); ++i) {
      const std::string_view name =
          i < main.output_names.size() ? sym_text(main.output_names[i]) : "";
      out_ += fmt::format("{}{{\"name\":{},\"value\":{}}}", i == 0 ? "" : ",", json_quoted(name),
                          number(main.yields[i]));
    }
    out_ += "],\"values\":[";
    for (Value v = 0; v < g_.value_limit(); ++v) value(v);
    out_ += "],\"nodes\":[";
    for (Node n : g_.nodes(g_.main())) TENON_RETURN_IF_ERROR(node(n));
    return out_ + "\n]}";
  }

 private:
  static std::string number(Value v) { return v == kNone ? "-1" : std::to_string(v); }

  void values(std::span<const Value> list) {
    out_ += '[';
    for (size_t i = 0; i < list.size(); ++i) out_ += (i == 0 ? "" : ",") + number(list[i]);
    out_ += ']';
  }

  // Those of the main region: arguments, constants, and results of its nodes.
  bool shown(Value v) const {
    if (!g_.value_live(v)) return false;
    const ValueData& d = g_.value(v);
    if (d.kind == TENON_VALUE_CONSTANT) return !d.uses.empty();
    return d.node != kNone ? g_.node(d.node).parent == g_.main() : d.region == g_.main();
  }

  void value(Value v) {
    if (!shown(v)) return;
    const ValueData& d = g_.value(v);
    const tenon_type_t& type = g_.type(v);
    out_ += fmt::format("{}\n{{\"value\":{},\"name\":{},\"type\":{}", first_ ? "" : ",", v,
                        json_quoted(sym_text(d.name)), json_quoted(g_.type_text(type)));
    first_ = false;
    uint64_t bits = dtype_bits(type.dtype);
    bool known = type.kind == TENON_KIND_TENSOR;
    for (uint32_t i = 0; i < type.rank && known; ++i)
      known = type.dims[i] >= 0 && checked_mul(bits, static_cast<uint64_t>(type.dims[i]), &bits);
    if (known) out_ += fmt::format(",\"bytes\":{}", bits / 8 + (bits % 8 != 0 ? 1 : 0));
    out_ += d.kind == TENON_VALUE_CONSTANT ? ",\"constant\":true}" : "}";
  }

  uint64_t nodes_inside(Node n) const {
    uint64_t count = 0;
    for (Region r : g_.regions(n)) {
      for (Node inner : g_.nodes(r)) count += 1 + nodes_inside(inner);
    }
    return count;
  }

  Status node(Node n) {
    out_ += fmt::format("{}\n{{\"node\":{},\"op\":{},\"operands\":", out_.back() == '[' ? "" : ",",
                        n, json_quoted(g_.op_name(n)));
    values(g_.operands(n));
    out_ += ",\"results\":";
    values(g_.results(n));
    TENON_ASSIGN_OR_RETURN(const std::string attributes, attributes_text(g_, n));
    if (!attributes.empty())
      out_ +=
          fmt::format(",\"attributes\":{}", json_quoted(std::string_view(attributes).substr(1)));
    const std::span<const Origin> origins = g_.origins(g_.node(n).loc);
    if (!origins.empty()) {
      out_ += fmt::format(",\"source\":{},\"name\":{},\"line\":{}",
                          json_quoted(sym_text(origins[0].source)),
                          json_quoted(sym_text(origins[0].name)), origins[0].line);
    }
    if (const uint64_t inside = nodes_inside(n); inside != 0)
      out_ += fmt::format(",\"body\":{}", inside);
    out_ += '}';
    return {};
  }

  const Graph& g_;
  std::string out_;
  bool first_ = true;  // no value was written yet
};

}  // namespace

Result<std::string> write_json(const Graph& graph) {
  return JsonWriter(graph).run();
}

}  // namespace tenon::ir
