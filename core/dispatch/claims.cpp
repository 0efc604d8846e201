#include "core/dispatch/claims.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/failure.h"
#include "core/base/intern.h"
#include "core/base/str.h"

namespace tenon::dispatch {
namespace {

struct Collector {
  Claims* claims;
  std::vector<bool> live;  // node stands in the graph; claims inside of regions tell passes what to keep whole
  Status bad;              // what the plugin did against the rules
};

tenon_code_t take_claim(void* self, const tenon_node_t* nodes, uint32_t count, double cost_ns) try {
  auto* c = static_cast<Collector*>(self);
  if (count == 0) return TENON_OK;
  if (!std::isfinite(cost_ns) || cost_ns < 0) {
    c->bad = error(TENON_INTERNAL, "T0512", "it claims nodes at a cost of {} ns", cost_ns);
    return to_abi(c->bad);
  }
  const double share = cost_ns / count;
  for (uint32_t i = 0; i < count; ++i) {
    if (nodes[i] >= c->live.size()) {
      c->bad = error(TENON_INTERNAL, "T0512", "it claims node {} of {}", nodes[i], c->live.size());
      return to_abi(c->bad);
    }
    if (!c->live[nodes[i]]) continue;
    double& cost = c->claims->cost_ns[nodes[i]];
    cost = std::min(cost, share);
    c->claims->refusals[nodes[i]] = {};
  }
  return TENON_OK;
} catch (const std::exception&) {
  return TENON_RESOURCE_EXHAUSTED;  // nothing passes through the plugin's frames
}

tenon_code_t take_refusal(void* self, tenon_node_t node, tenon_code_t code, tenon_str_t reason) try {
  auto* c = static_cast<Collector*>(self);
  if (node >= c->live.size() || !c->live[node] || c->claims->claimed(node)) return TENON_OK;
  c->claims->refusals[node] = {code, printable(from_abi_str(reason), 1024)};
  return TENON_OK;
} catch (const std::exception&) {
  return TENON_RESOURCE_EXHAUSTED;
}

bool offered(const std::vector<std::string>& globs, std::string_view op) {
  for (const std::string& glob : globs) {
    if (glob_match(glob, op)) return true;
  }
  return globs.empty();
}

}  // namespace

Claims collect_claims(std::shared_ptr<runtime::Device> device, const runtime::GraphRef& graph,
                      const std::vector<std::string>& offered_ops) {
  const runtime::GraphReader reader = graph.reader();
  const uint32_t limit = reader.whole().node_limit;
  Claims claims{device, std::vector<double>(limit, kNotClaimed), std::vector<Refusal>(limit)};
  Collector collector{&claims, std::vector<bool>(limit, false), {}};
  const tenon_region_view_t main = reader.main();
  for (tenon_node_t n = 0; n < limit; ++n) collector.live[n] = reader.node(n).parent != TENON_NONE;

  const tenon_compile_api_t* api = device->apis().compile;
  const tenon_claim_sink_t sink{&collector, take_claim, take_refusal};
  Status status;
  {
    auto guard = device->serialise();
    clear_failure();
    status = device->check(api->claim(api->self, device->target(), graph.get(), &sink), "claim");
  }
  if (!collector.bad.ok()) status = collector.bad;
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_t n = main.nodes[i];
    if (!offered(offered_ops, sym_text(reader.node(n).op))) {
      claims.cost_ns[n] = kNotClaimed;
      claims.refusals[n] = {TENON_UNIMPLEMENTED, fmt::format("not offered: the option {}.ops names {}", device->name(),
                                                             fmt::join(offered_ops, ","))};
    } else if (!status.ok()) {
      claims.cost_ns[n] = kNotClaimed;
      claims.refusals[n] = {status.code(), "claiming failed: " + status.text()};
    } else if (!claims.claimed(n) && claims.refusals[n].reason.empty()) {
      claims.refusals[n] = {TENON_UNIMPLEMENTED, fmt::format("no {} here, no reason given", sym_text(reader.node(n).op))};
    }
    if (!claims.claimed(n) && log_enabled("dispatch", LogLevel::kDetail)) {
      log_detail("dispatch", "{} refuses node {} ({}): {}", device->name(), n, sym_text(reader.node(n).op),
                 claims.refusals[n].reason);
    }
  }
  return claims;
}

}  // namespace tenon::dispatch
