#include <unordered_map>

#include "common.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("nodes"), str("constants")};

bool is_narrow_float(tenon_dtype_t type) {
  return type == TENON_F32 || type == TENON_F16 || type == TENON_BF16;
}

// Rebuilds every node on f64, then the yields, then erases the old nodes.
class Widening {
 public:
  Widening(tenon_graph_t* graph, const PassContext& context)
      : graph_(graph), context_(context), main_(main_region(graph)) {}

  Status run() {
    const std::vector<Node> old = main_.nodes();
    std::vector<tenon_value_t> yields;
    for (const Node& node : old) TENON_TRY(widen(node));
    Builder builder(graph_, main_.id());
    for (const Value v : main_.yields()) yields.push_back(wide(builder, v).id());
    TENON_TRY(builder.status());
    TENON_TRY(set_yields(yields));
    for (auto node = old.rbegin(); node != old.rend(); ++node) TENON_TRY(erase(*node));
    return {};
  }

 private:
  Status set_yields(const std::vector<tenon_value_t>& yields) {
    std::vector<std::string> texts;
    const tenon_region_view_t view = main_.view();
    for (uint32_t i = 0; i < view.yield_count; ++i) {
      texts.emplace_back(view.output_names == nullptr ? std::string_view()
                                                      : sym_text(view.output_names[i]));
    }
    std::vector<tenon_str_t> names;
    for (const std::string& text : texts) names.push_back(str(text));
    return graph_api().region_yield(graph_api().self, graph_, main_.id(), yields.data(),
                                    static_cast<uint32_t>(yields.size()), names.data());
  }

  // The value in f64 if it is a narrower float.
  Value wide(Builder& builder, Value v) {
    if (!v.valid() || v.view().type.kind != TENON_KIND_TENSOR) return v;
    if (const auto at = wide_.find(v.id()); at != wide_.end()) return at->second;
    if (!is_narrow_float(v.dtype())) return v;
    return wide_[v.id()] = v.is_constant() ? constant(builder, v) : builder.convert(v, TENON_F64);
  }

  Value constant(Builder& builder, Value v) {
    context_.count("constants");
    const tenon_dtype_t type = v.dtype();
    const auto bytes = blob_bytes(v.blob());
    const size_t width = dtype_bytes(type);
    std::vector<double> data(bytes.size() / width);
    for (size_t i = 0; i < data.size(); ++i) data[i] = load_double(type, &bytes[i * width]);
    std::vector<int64_t> dims;
    for (const Dim d : v.dims()) dims.push_back(d.constant());
    return builder.constant(TENON_F64, dims, data.data(), data.size() * sizeof(double));
  }

  Status widen(const Node& node) {
    const tenon_node_view_t view = node.view();
    if (view.region_count != 0 || view.symbol_count != 0 || node.is("bitcast")) {
      return fail(TENON_UNIMPLEMENTED,
                  cat("T0405: widen-floats cannot rewrite a node of ", node.op(),
                      ": it has regions, defines symbols or depends on the bits of its operand"));
    }
    Builder builder = Builder::before(node);
    std::vector<Value> operands;
    for (const Value v : node.operands()) operands.push_back(wide(builder, v));
    if (node.is("convert") && node.result().dtype() != TENON_F64 &&
        is_narrow_float(node.result().dtype()) && operands[0].dtype() == TENON_F64) {
      wide_[node.result().id()] = operands[0];  // this pass removes the rounding
      return {};
    }
    std::vector<Attr> attrs;
    for (uint32_t i = 0; i < view.attr_count; ++i) {
      tenon_attr_t attr = node.view().attrs[i];
      if (attr.kind == TENON_ATTR_DTYPE && is_narrow_float(static_cast<tenon_dtype_t>(attr.u.i)))
        attr.u.i = TENON_F64;
      attrs.push_back(Attr(attr));
    }
    const Node made = builder.build_node(node.op(), operands, attrs);
    TENON_TRY(builder.status());
    for (uint32_t i = 0; i < node.result_count(); ++i) wide_[node.result(i).id()] = made.result(i);
    context_.count("nodes");
    return {};
  }

  tenon_graph_t* graph_;
  const PassContext& context_;
  Region main_;
  std::unordered_map<tenon_value_t, Value> wide_;
};

Status run(tenon_graph_t* graph, const PassContext& context) {
  return Widening(graph, context).run();
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = const f32[2] [0.5, 1]
  %1 = mul(%x, %0) : f32[2]
  yield %1
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f64[2]) {
  %0 = const f64[2] [0.5, 1]
  %1 = convert(%x) {dtype = f64} : f64[2]
  %2 = mul(%1, %0) : f64[2]
  yield %2
}
)";

constexpr auto kPass =
    pass("widen-floats", "Computes in f64 instead of narrower floats.")
        .describe(
            "Inputs keep their types and are converted; constants, nodes and outputs "
            "of f16, bf16 and f32 become f64. The errors of other devices are "
            "measured against the result on the reference device. Nodes with regions, "
            "nodes that define symbols, and bitcast are refused.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(widen_floats, tenon::passes::kPass)
