#include "core/dispatch/claims.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/str.h"

namespace tenon::dispatch {
namespace {

struct Collector {
  Answers* claims;
  std::vector<bool> live;  // node is in the graph; claims inside regions tell passes what to keep
  Status bad;              // how the plugin broke the rules
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
  return TENON_RESOURCE_EXHAUSTED;  // no exception may pass through the plugin's frames
}

tenon_code_t take_refusal(void* self, tenon_node_t node, tenon_code_t code,
                          tenon_str_t reason) try {
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

// The answers of one compiler. live: by node index.
Answers ask(runtime::Device& device, const tenon_compile_api_t* api, const runtime::GraphRef& graph,
            const std::vector<bool>& live, const std::vector<std::string>& offered_ops) {
  const runtime::GraphReader reader = graph.reader();
  const tenon_region_view_t main = reader.main();
  Answers answers{std::vector<double>(live.size(), kNotClaimed), std::vector<Refusal>(live.size())};
  Collector collector{&answers, live, {}};
  const tenon_claim_sink_t sink{&collector, take_claim, take_refusal};
  Status status;
  {
    auto guard = device.serialise();
    clear_failure();
    status = device.check(api->claim(api->self, device.target(), graph.get(), &sink), "claim");
  }
  if (!collector.bad.ok()) status = collector.bad;
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_t n = main.nodes[i];
    if (!offered(offered_ops, sym_text(reader.node(n).op))) {
      answers.cost_ns[n] = kNotClaimed;
      answers.refusals[n] = {TENON_UNIMPLEMENTED,
                             fmt::format("not offered: the option {}.ops names {}", device.name(),
                                         fmt::join(offered_ops, ","))};
    } else if (!status.ok()) {
      answers.cost_ns[n] = kNotClaimed;
      answers.refusals[n] = {status.code(), "claiming failed: " + status.text()};
    } else if (!answers.claimed(n) && answers.refusals[n].reason.empty()) {
      answers.refusals[n] = {TENON_UNIMPLEMENTED, fmt::format("no {} here, no reason given",
                                                              sym_text(reader.node(n).op))};
    }
  }
  return answers;
}

// Merges a kernel set's answers into the device's, node by node.
void merge(const std::string& plugin, uint32_t by, const Answers& set,
           const tenon_region_view_t& main, Claims* claims) {
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_t n = main.nodes[i];
    if (!set.claimed(n)) {
      if (!claims->claimed(n))
        claims->refusals[n].reason +=
            fmt::format("; kernels of {}: {}", plugin, set.refusals[n].reason);
      continue;
    }
    const double cost = set.cost_ns[n] + kKernelSetNs;
    if (claims->claimed(n) && claims->cost_ns[n] <= cost) continue;
    claims->cost_ns[n] = cost;
    claims->refusals[n] = {};
    claims->by[n] = by;
  }
}

}  // namespace

Claims collect_claims(std::shared_ptr<runtime::Device> device, const runtime::GraphRef& graph,
                      const std::vector<std::string>& offered_ops) {
  const runtime::GraphReader reader = graph.reader();
  const tenon_region_view_t main = reader.main();
  std::vector<bool> live(reader.whole().node_limit, false);
  for (tenon_node_t n = 0; n < live.size(); ++n) live[n] = reader.node(n).parent != TENON_NONE;

  const runtime::DeviceApis& apis = device->apis();
  Claims claims{ask(*device, apis.compile, graph, live, offered_ops),
                device,
                std::vector<uint32_t>(live.size(), 0),
                {},
                {}};
  const std::vector<runtime::KernelSet> sets = apis.kernel_sets->all();
  for (uint32_t i = 0; i < sets.size(); ++i) {
    if (!sets[i].in_force) continue;
    if (claims.all.empty()) {
      claims.all.push_back(static_cast<const Answers&>(claims));
      claims.asked.push_back(0);
    }
    claims.all.push_back(ask(*device, sets[i].compile, graph, live, offered_ops));
    claims.asked.push_back(i + 1);
    merge(sets[i].plugin, i + 1, claims.all.back(), main, &claims);
  }
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_t n = main.nodes[i];
    if (claims.claimed(n) || !log_enabled("dispatch", LogLevel::kDetail)) continue;
    log_detail("dispatch", "{} refuses node {} ({}): {}", device->name(), n,
               sym_text(reader.node(n).op), claims.refusals[n].reason);
  }
  return claims;
}

}  // namespace tenon::dispatch
