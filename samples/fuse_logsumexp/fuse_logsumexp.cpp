// The pass `fuse_logsumexp`: log(reduce_sum(exp(x))) becomes logsumexp(x), one op instead of three,
// which does not overflow where exp does.
#include <tenon/cpp/match.hpp>
#include <tenon/cpp/pass.hpp>

namespace {

using tenon::bind;
using tenon::Builder;
using tenon::match_op;
using tenon::Node;
using tenon::one_use;
using tenon::Status;
using tenon::Value;

// Ends: every match removes a log and adds none. Not worse: values used elsewhere stay, so nothing
// is computed twice.
Status fuse(Builder& builder, const Node& node, std::vector<Value>* out) {
  Value x;
  Node sum;
  const auto inner = match_op(&sum, "reduce_sum", one_use(match_op("exp", bind(&x))));
  if (!match(node, match_op("log", one_use(inner)))) return {};
  // A sum in another type than that of x would be a different number.
  if (sum.result().dtype() != x.dtype() || !tenon::is_float(x.dtype())) return {};
  *out = {builder.build("logsumexp", {x}, {{"dims", sum.i64s("dims")}})};
  return {};
}
constexpr tenon_rewrite_t kRewrites[] = {tenon::rewrite<fuse>("log-sum-exp", "log")};
constexpr tenon_str_t kStatistics[] = {tenon::str("log-sum-exp")};

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2, 3]) -> (y: f32[2]) {
  %0 = exp(%x) : f32[2, 3]
  %1 = reduce_sum(%0) {dims = [1]} : f32[2]
  %2 = log(%1) : f32[2]
  yield %2
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2, 3]) -> (y: f32[2]) {
  %0 = logsumexp(%x) {dims = [1]} : f32[2]
  yield %0
}
)";

constexpr auto kPass =
    tenon::pass("fuse_logsumexp", "Recognises logsumexp where it was written out.")
        .describe("log(reduce_sum(exp(x))) becomes logsumexp(x) where nothing else uses the parts.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .rewrites(kRewrites);
constexpr const tenon_pass_def_t* kPasses[] = {&kPass.def};
constexpr tenon_passes_t kTable = {sizeof(tenon_passes_t), nullptr, kPasses, std::size(kPasses)};
constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_PASS_ID, kTable)};

}  // namespace

TENON_PLUGIN("fuse_logsumexp", "0.1.0", kInterfaces)
