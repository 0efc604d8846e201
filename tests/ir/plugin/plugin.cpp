// Ops for tests/ir/symbols.test whose results have data-dependent sizes, one of them with a body;
// and an op for tests/passes/legalize_sizes.tir whose declared size is right for some sizes only.
#include <tenon/cpp/op.hpp>

namespace {

using namespace tenon;

// find(x): the indices of the nonzero elements.
Status infer_find(const InferQuery& q) {
  const auto& api = graph_api();
  tenon_symbol_t symbol;
  TENON_TRY(api.symbol_fresh(api.self, q.raw().graph, 0, INT64_MAX, 1, &symbol));
  tenon_symbol_view_t view = {};
  view.size_bytes = sizeof view;
  TENON_TRY(api.symbol_view(api.self, q.raw().graph, symbol, &view));
  // At most the number of elements of x.
  TENON_TRY(api.symbol_assert(api.self, q.raw().graph, TENON_REL_LE, view.dim, q.dim(0, 0).raw()));
  return q.result(TENON_I64, {Dim(q.raw().graph, view.dim)});
}
Status reference_find(const Eval&) {
  return fail(TENON_UNIMPLEMENTED, "find is for tests of graphs only");
}

constexpr OpDraft find() {
  OpDraft draft = op("find", kPure | TENON_TRAIT_DEFINES_SYMBOL);
  draft.summary("The indices of the elements of x that are not 0.")
      .operand("x", "the elements", TENON_DTYPES_ANY & ~1u, 0, 1, 1)
      .result("indices", "as many as there are")
      .none_example("the size of the result is not known before it runs")
      .infer<infer_find>()
      .reference<reference_find>();
  return draft;
}

// twice(x) with a body of one argument: applies the body to its own result.
Status infer_twice(const InferQuery& q) {
  return q.result(q.raw().operands[0].dtype, {q.dim(0, 0)});
}
Status decompose_twice(Builder& b, const Node& node, tenon_value_t* out) {
  const auto& api = graph_api();
  const tenon_node_view_t view = node.view();
  tenon_value_t value = view.operands[0];
  for (int i = 0; i < 2; ++i) {
    std::vector<tenon_value_t> values = {value};
    const tenon_region_view_t now = Region(node.graph(), view.regions[0]).view();
    values.insert(values.end(), now.captures, now.captures + now.capture_count);
    TENON_TRY(api.region_clone(api.self, &b.raw(), node.graph(), view.regions[0], values.data(),
                               static_cast<uint32_t>(values.size()), &value));
  }

  *out = value;
  return {};
}

constexpr OpDraft twice() {
  OpDraft draft = op("twice", kComposite);
  draft.summary("Applies its body to x, and to what comes out.")
      .operand("x", "given to the body", TENON_DTYPES_ANY & ~1u, 0, 1, 1)
      .result("y", "of the type of x")
      .none_example("a body has no form in one line")
      .infer<infer_twice>()
      .decompose<decompose_twice>();
  return draft;
}

// evened(x): x, cut to an even number of elements. The declared size ignores this, so it is right
// for even sizes only.
Status decompose_evened(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0);
  const Dims start = {b.dim(0)}, limit = {x.dim(0) / b.dim(2) * b.dim(2)};
  return b.finish(out, {b.build("slice", {x}, {{"start", start}, {"limit", limit}})});
}

constexpr OpDraft evened() {
  OpDraft draft = op("evened", kComposite);
  draft.summary("x, of an even number of elements.")
      .operand("x", "the elements", TENON_DTYPES_ANY & ~1u, 0, 1, 1)
      .result("y", "of the type of x")
      .example("evened(f32[2] [1, 2]) -> f32[2] [1, 2]")
      .infer<infer_same>()
      .decompose<decompose_evened>();
  return draft;
}

// A declaration that the host refuses: it accepts no element type.
constexpr OpDraft untaken() {
  return op("untaken", kCompositeElementwise)
      .summary("Takes nothing.")
      .operand("x", "the input", 0)
      .result("y", "the same")
      .none_example("it takes nothing")
      .infer<infer_elementwise>()
      .scalar(scalar::arg(0))
      .decompose_scalar();
}

constexpr auto& kOps = kOpPointers<find, twice, evened, untaken>;
constexpr tenon_ops_t kTable = {sizeof(tenon_ops_t), nullptr, kOps.data(), kOps.size()};
constexpr tenon_interface_t kInterfaces[] = {offer(TENON_OPS_ID, kTable)};

}  // namespace

TENON_PLUGIN("symbol-ops", "0.1.0", kInterfaces)
