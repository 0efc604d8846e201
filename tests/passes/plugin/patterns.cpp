#include "patterns.h"

#include <tenon/cpp/pass.hpp>
#include <tenon/cpp/patterns.hpp>

namespace {

using namespace tenon;

// Each rewrite replaces what it matches by its first value, so that a text shows what matched.

Status either(Builder&, const Node& node, std::vector<Value>* out) {
  Value x;
  const auto inner = any_of(match_op("exp", bind(&x)), match_op("log", bind(&x)));
  if (match(node, match_op("abs", inner))) *out = {x};
  return {};  // it ends: each takes an abs away
}
Status several_ops(Builder&, const Node& node, std::vector<Value>* out) {
  Value x;
  if (match(node, match_any({"add", "sub"}, bind(&x), splat(3.0)))) *out = {x};
  return {};  // it ends: each takes a node away
}
Status optional_operand(Builder&, const Node& node, std::vector<Value>* out) {
  Value x, scale, bias;
  Node norm;
  const auto pattern =
      match_any(&norm, {"layer_norm"}, bind(&x), maybe(bind(&scale)), maybe(bind(&bias)));
  if (match(node, pattern) && !scale && bias && norm.is("layer_norm")) *out = {x};
  return {};  // it ends: each takes a layer_norm away
}
Status predicate(Builder&, const Node& node, std::vector<Value>* out) {
  Value x;
  const auto vector = where(bind(&x), [](Value v) { return v.rank() == 1; });
  if (match(node, match_op("tanh", vector))) *out = {x};
  return {};  // it ends: each takes a tanh away
}
Status attributes(Builder&, const Node& node, std::vector<Value>* out) {
  Value x;
  const auto last = attr_where("dim", [](const tenon_attr_t& dim) { return dim.u.i > 0; });
  const auto noted = any_of(with(match_op("softmax", bind(&x)), last),
                            with(match_op("softmax", bind(&x)), note_is("user.drop", 1)));
  if (match(node, noted)) *out = {x};
  return {};  // it ends: each takes a softmax away
}
Status further_operands(Builder&, const Node& node, std::vector<Value>* out) {
  Value x;
  const auto pattern = with(match_any({"concat"}, bind(&x), rest()), attr_is("dim", 0),
                            [](const Node& n) { return n.operand_count() == 1; });
  if (match(node, pattern)) *out = {x};
  return {};  // it ends: each takes a concat away
}

constexpr tenon_rewrite_t kRewrites[] = {
    rewrite<either>("either", "abs"),
    rewrite<several_ops>("several-ops", ""),
    rewrite<optional_operand>("optional-operand", "layer_norm"),
    rewrite<predicate>("predicate", "tanh"),
    rewrite<attributes>("attributes", "softmax"),
    rewrite<further_operands>("further-operands", "concat")};
constexpr std::string_view kGraph = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  yield %x
}
)";
constexpr auto kPass = tenon::pass("patterned", "Drops what patterns find.")
                           .example(kGraph, kGraph)
                           .rewrites(kRewrites);

}  // namespace

constinit const tenon_pass_def_t kPatternedPass = kPass.def;
