// The pass `@NAME@`: replaces neg(neg(x)) by x, as an example of a pattern.
#include <tenon/cpp/match.hpp>
#include <tenon/cpp/pass.hpp>

namespace {

using tenon::bind;
using tenon::Builder;
using tenon::match_op;
using tenon::Node;
using tenon::Status;
using tenon::Value;

// It ends: every match removes one use of a neg and adds none.
Status drop_pairs(Builder&, const Node& node, std::vector<Value>* out) {
  Value x;
  if (match(node, match_op("neg", match_op("neg", bind(&x))))) *out = {x};
  return {};
}
constexpr tenon_rewrite_t kRewrites[] = {tenon::rewrite<drop_pairs>("drop-pairs", "neg")};

// What the pass does, executed as a test.
constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = neg(%x) : f32[2]
  %1 = neg(%0) : f32[2]
  %2 = exp(%1) : f32[2]
  yield %2
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = exp(%x) : f32[2]
  yield %0
}
)";

constexpr auto kPass = tenon::pass("@NAME@", "Removes pairs of neg.")
                           .describe("Replaces neg(neg(x)) by x.")
                           .example(kBefore, kAfter)
                           .rewrites(kRewrites);
constexpr const tenon_pass_def_t* kPasses[] = {&kPass.def};
constexpr tenon_passes_t kTable = {sizeof(tenon_passes_t), nullptr, kPasses, std::size(kPasses)};
constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_PASS_ID, kTable)};

}  // namespace

TENON_PLUGIN("@NAME@", "0.1.0", kInterfaces)
