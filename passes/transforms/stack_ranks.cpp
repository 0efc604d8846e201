// stack-ranks: what the processes of a mesh compute together, in one process.
#include <algorithm>

#include "batch.h"
#include "loops.h"
#include "tenon/cpp/mesh.hpp"
#include "transform.h"

namespace tenon::passes {
namespace {

constexpr tenon_pass_option_def_t kOptions[] = {
    {str("mesh"),
     str("the mesh, as in \"data=2,model=2\"; empty: that of the graph's ops"),
     TENON_ATTR_STRING,
     0,
     {}},
    {str("shared"),
     str("names of the inputs that are equal in all processes, separated by spaces"),
     TENON_ATTR_STRING,
     0,
     {}}};

// The meshes that the ops of a region and of those inside it name.
Status collect_meshes(Region region, std::string* mesh) {
  for (const Node& node : region.nodes()) {
    for (const Region inner : regions_of(node)) TENON_TRY(collect_meshes(inner, mesh));
    const tenon_op_def_t* op = op_of(node);
    if (op == nullptr || op->stack == nullptr) continue;
    if (mesh->empty()) *mesh = node.text("mesh");
    if (*mesh == node.text("mesh")) continue;
    return refuse(
        node, "T0901",
        cat("it is of the mesh ", quoted(node.text("mesh")), ", and others of ", quoted(*mesh)));
  }
  return {};
}

Status mesh_of(Region main, std::string_view chosen, Dim* out) {
  std::string text;
  TENON_TRY(collect_meshes(main, &text));
  const std::string wanted(chosen);
  if (text.empty()) text = wanted;
  if (!wanted.empty() && wanted != text) {
    return fail(TENON_INVALID_ARGUMENT, cat("T0901: stack-ranks: the graph is for the mesh ",
                                            quoted(text), ", not for ", quoted(wanted)));
  }
  Mesh mesh;
  if (const std::string why = Mesh::parse(text, &mesh); !why.empty())
    return fail(TENON_INVALID_ARGUMENT, cat("T0901: stack-ranks: the mesh is refused: ", why));
  *out = Dim(main.graph(), mesh.rank_count());
  return {};
}

Status add_arguments(Body& body, const Ports& ports, const std::vector<Value>& shared, Dim ranks,
                     Batching* batching) {
  for (const Value v : ports.main().arguments()) {
    const bool is_own = std::find(shared.begin(), shared.end(), v) == shared.end();
    Dims dims = v.dims();
    if (is_own) dims.insert(dims.begin(), ranks);
    Value now;
    TENON_TRY(argument(body.region(), {v.dtype(), dims}, sym_text(v.view().name), &now));
    batching->set(v, {now, is_own});
  }
  return {};
}

Status run(tenon_graph_t* graph, const PassContext& context) {
  Ports ports(graph);
  Dim ranks;
  TENON_TRY(mesh_of(ports.main(), context.text(0), &ranks));
  std::vector<Value> shared;
  if (!context.text(1).empty()) TENON_TRY(ports.inputs(context.text(1), "shared", &shared));
  Batching batching(ranks, context);
  batching.stack_ranks();
  Body body(Builder(graph, ports.main().id()));
  TENON_TRY(add_arguments(body, ports, shared, ranks, &batching));
  TENON_TRY(batching.nodes(body.builder(), ports.nodes()));
  std::vector<Value> yields;
  for (const Value v : ports.main().yields()) yields.push_back(batching.batched(body.builder(), v));
  TENON_TRY(body.yield(yields));
  std::vector<tenon_str_t> names;
  for (size_t i = 0; i < yields.size(); ++i) names.push_back(str(ports.name(i)));
  return graph_api().main_set(graph_api().self, graph, body.region().id(), names.data());
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[4]) -> (y: f32[4]) {
  %0 = all_reduce(%x) {mesh = "data=2", axes = "data"} : f32[4]
  yield %0
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2, 4]) -> (y: f32[2, 4]) {
  %0 = reshape(%x) {shape = dims [1, 2, 4]} : f32[1, 2, 4]
  %1 = reduce_sum(%0) {dims = [1]} : f32[1, 4]
  %2 = broadcast(%1) {dims = [0, 2], shape = dims [1, 2, 4]} : f32[1, 2, 4]
  %3 = reshape(%2) {shape = dims [2, 4]} : f32[2, 4]
  yield %3
}
)";

constexpr auto kPass =
    pass("stack-ranks", "Makes a graph for several processes compute what all of them do, in one.")
        .describe(
            "All inputs but those in `shared`, and all outputs, get a new dim 0 with one entry for "
            "each process of the mesh, in order of rank. Ops that the processes compute together, "
            "as all_reduce, become ops along that dim; others treat processes as `batch` treats "
            "samples. The result is a graph that runs on every device, so it shows what a graph "
            "for several processes means.")
        .example(kBefore, kAfter)
        .options(kOptions)
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(stack_ranks, tenon::passes::kPass)
