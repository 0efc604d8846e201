#include "batch.h"

#include <algorithm>
#include <charconv>

#include "loops.h"
#include "transform.h"

namespace tenon::passes {
namespace {

constexpr tenon_pass_option_def_t kOptions[] = {
    {str("of"),
     str("names of the inputs that have samples, separated by spaces; empty: all"),
     TENON_ATTR_STRING,
     0,
     {}},
    {str("size"), str("the number of samples, or the name of a symbol"), TENON_ATTR_STRING, 0,
     str("samples")}};
constexpr tenon_str_t kStatistics[] = {str("looped")};

// The symbol of this name, new if there is none.
Status symbol(tenon_graph_t* graph, std::string_view name, Dim* out) {
  const tenon_region_view_t main = main_region(graph).view();
  auto view_of = sized<tenon_symbol_view_t>();
  for (uint32_t i = 0; i < main.symbol_count; ++i) {
    TENON_TRY(graph_api().symbol_view(graph_api().self, graph, main.symbols[i], &view_of));
    if (sym_text(view_of.name) != name) continue;
    *out = Dim(graph, view_of.dim);
    return {};
  }
  tenon_symbol_t made = 0;
  TENON_TRY(graph_api().symbol_define(graph_api().self, graph, main_region(graph).id(), str(name),
                                      0, INT64_MAX, 1, -1, &made));
  TENON_TRY(graph_api().symbol_view(graph_api().self, graph, made, &view_of));
  *out = Dim(graph, view_of.dim);
  return {};
}

Status size_of(tenon_graph_t* graph, std::string_view text, Dim* out) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || number < 0) {
    return fail(TENON_INVALID_ARGUMENT,
                "T0404: batch: size is the number of samples, or the name of a symbol");
  }
  if (code == std::errc() && end == text.data() + text.size()) {
    *out = Dim(graph, number);
    return {};
  }
  return symbol(graph, text, out);
}

// Adds the arguments of the new body. Those of the inputs in `of` have the new dim.
Status add_arguments(Body& body, const Ports& ports, const std::vector<Value>& of, Dim size,
                     std::vector<Sampled>* out) {
  for (const Value v : ports.main().arguments()) {
    const bool chosen = std::find(of.begin(), of.end(), v) != of.end();
    Dims dims = v.dims();
    if (chosen) dims.insert(dims.begin(), size);
    Value now;
    TENON_TRY(argument(body.region(), {v.dtype(), dims}, sym_text(v.view().name), &now));
    out->push_back({now, chosen});
  }
  return {};
}

Status all_at_once(Body& body, const Ports& ports, const std::vector<Sampled>& arguments,
                   Batching* batching, std::vector<Value>* yields) {
  const std::vector<Value> old = ports.main().arguments();
  for (size_t i = 0; i < old.size(); ++i) batching->set(old[i], arguments[i]);
  TENON_TRY(batching->nodes(body.builder(), ports.nodes()));
  for (const Value v : ports.main().yields())
    yields->push_back(batching->batched(body.builder(), v));
  return {};
}

// Whether a size of an output is known only at run time.
bool has_open_size(const Ports& ports) {
  for (const Value v : ports.main().yields()) {
    for (const tenon_symbol_t symbol : v.type().symbols()) {
      auto view = sized<tenon_symbol_view_t>();
      (void)graph_api().symbol_view(graph_api().self, v.graph(), symbol, &view);
      if (view.node != TENON_NONE) return true;
    }
  }
  return false;
}

// A scan over the samples, whose body is the whole graph.
Status one_by_one(Body& body, const Ports& ports, const std::vector<Sampled>& arguments, Dim size,
                  const PassContext& context, std::vector<Value>* yields) {
  Body one(body.builder());
  Batching copies(size, context);
  std::vector<Value> slices, made;
  const std::vector<Value> old = ports.main().arguments();
  for (size_t i = 0; i < old.size(); ++i) {
    const Value v = arguments[i].value;
    if (arguments[i].is_batched) slices.push_back(v);
    copies.set(old[i], {arguments[i].is_batched ? one.argument_of_slice(v) : v, false});
  }
  TENON_TRY(copies.nodes(one.builder(), ports.nodes()));
  for (const Value v : ports.main().yields()) made.push_back(copies.at(v).value);
  TENON_TRY(one.yield(made));
  const Node scan =
      body.builder().build_node("scan", slices, {}, std::vector<Region>{one.region()});
  for (uint32_t r = 0; r < made.size() && body.builder().status().ok(); ++r)
    yields->push_back(scan.result(r));
  return body.builder().status();
}

Status run(tenon_graph_t* graph, const PassContext& context) {
  Ports ports(graph);
  Dim size;
  std::vector<Value> of;
  if (context.text(0).empty())
    of = ports.main().arguments();
  else
    TENON_TRY(ports.inputs(context.text(0), "of", &of));
  TENON_TRY(size_of(graph, context.text(1), &size));
  const Builder old(graph, ports.main().id());
  Batching batching(size, context);
  std::vector<Sampled> arguments;
  std::vector<Value> yields;
  Body body(old);
  TENON_TRY(add_arguments(body, ports, of, size, &arguments));
  const Status failed = all_at_once(body, ports, arguments, &batching, &yields);
  if (!failed.ok()) {
    if (!batching.sizes_differ() || has_open_size(ports)) return failed;
    context.count("looped");
    arguments.clear();
    yields.clear();
    body = Body(old);
    TENON_TRY(add_arguments(body, ports, of, size, &arguments));
    TENON_TRY(one_by_one(body, ports, arguments, size, context, &yields));
  }
  TENON_TRY(body.yield(yields));
  std::vector<tenon_str_t> names;
  for (size_t i = 0; i < yields.size(); ++i) names.push_back(str(ports.name(i)));
  return graph_api().main_set(graph_api().self, graph, body.region().id(), names.data());
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2], %y: f32[2]) -> (z: f32[]) {
  %0 = mul(%x, %y) : f32[2]
  %1 = reduce_sum(%0) {dims = [0]} : f32[]
  yield %1
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g<samples>(%x: f32[samples, 2], %y: f32[samples, 2]) -> (z: f32[samples]) {
  %0 = mul(%x, %y) : f32[samples, 2]
  %1 = reduce_sum(%0) {dims = [1]} : f32[samples]
  yield %1
}
)";

constexpr auto kPass =
    pass("batch", "Makes a graph of one sample work on several at once.")
        .describe(
            "The inputs in `of` get a new dim 0 with one entry for each of `size` samples, and all "
            "outputs have it. Other inputs are shared by the samples. A loop whose samples end at "
            "different iterations runs until the last one has ended. An expensive branch that "
            "differs between samples, and an op without a rule for samples, become a loop over the "
            "samples; so does the whole graph where a size inside differs between samples. "
            "`batch{of=x, size=8}` makes eight samples of x.")
        .example(kBefore, kAfter)
        .options(kOptions)
        .statistics(kStatistics)
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(batch, tenon::passes::kPass)
