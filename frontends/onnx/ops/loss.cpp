// Losses, Einsum, and the optimiser steps of the training domain.
#include <array>
#include <string>

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {
namespace {

bool loss(NodeContext& n) {
  const bool entropy = n.op() == "SoftmaxCrossEntropyLoss";
  if (!n.arity(2, 3, entropy ? 2 : 1)) return false;
  const std::string_view reduction = n.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return n.fail("T0708", "attribute 'reduction' must be none, sum or mean");
  const int64_t ignore = n.has_attribute("ignore_index") ? n.integer("ignore_index", 0) : INT64_MIN;
  std::vector<Value> operands = {n.value(0), n.value(1)};
  if (n.has(2)) operands.push_back(n.value(2));
  if (!n.ok()) return false;
  const std::vector<Attr> attrs = {Attr("reduction", reduction), Attr("ignore", ignore)};
  const Node node =
      n.builder().build_node(entropy ? "softmax_cross_entropy" : "nll_loss", operands, attrs);
  if (!entropy) return n.set(0, node.result(0));
  return n.set(0, node.result(0)) && n.set(1, node.result(1));
}

bool einsum(NodeContext& n) {
  if (!n.has_attribute("equation")) return n.fail("T0708", "attribute 'equation' is missing");
  const std::string_view equation = n.text("equation", "");
  std::vector<Value> operands;
  for (size_t i = 0; i < n.input_count(); ++i) operands.push_back(n.value(i));
  return n.ok() && n.set(0, n.build("einsum", operands, {{"equation", equation}}));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"NegativeLogLikelihoodLoss", 12, loss},
    {"SoftmaxCrossEntropyLoss", 12, loss},
    {"Einsum", 12, einsum},
});

}  // namespace

std::span<const OpImporter> loss_importers() {
  return kTable;
}

}  // namespace tenon::onnx
