// Ops about the order of elements, and those whose result is as large as the data says.
#include <array>

#include "importer.h"

namespace tenon::onnx {
namespace {

bool top_k_of(NodeContext& n, Dim k, bool largest) {
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  n.integer("sorted", 1);  // in order is right for both
  if (!n.ok() || !k.valid()) return n.fail("T0713", "its k must be one positive number");
  const Value x = n.value(0);
  if (!n.ok() || !x.valid()) return n.ok();
  const std::vector<Value> operands = {x};
  const Dims count = {k};
  const std::vector<Attr> attrs = {Attr("k", count), Attr("dim", axis),
                                   Attr("largest", largest ? 1 : 0)};
  const Node node = n.builder().build_node("top_k", operands, attrs);
  return n.set(0, node.result(0)) && n.set(1, node.result(1));
}

bool top_k_attribute(NodeContext& n) {
  if (!n.arity(1, 1, 2)) return false;
  const int64_t k = n.integer("k", 0);
  return top_k_of(n, k < 1 ? Dim() : n.dim(k), true);
}

bool top_k(NodeContext& n) {
  if (!n.arity(2, 2, 2)) return false;
  const Extents* k = n.need(1, "k");
  if (k == nullptr) return false;
  return top_k_of(n, k->size() == 1 ? (*k)[0].dim(n.graph()) : Dim(), n.integer("largest", 1) != 0);
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"TopK", 1, top_k_attribute},
    {"TopK", 10, top_k},
});

}  // namespace

std::span<const OpImporter> order_importers() {
  return kTable;
}

}  // namespace tenon::onnx
